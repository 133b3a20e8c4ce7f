//! Products of BERT-large by one tile after the other: what `choice.rs` of `cutlass` knows of them, is from here.

use super::{LIMIT, products};
use crate::check::Check;
use crate::parts::Scope;
use crate::parts::tiles::TILES;

/// Rows, N and K, as in `products.rs`.
const SIZES: [[usize; 3]; 11] = [
    [128, 1024, 1024],
    [128, 4096, 1024],
    [128, 1024, 4096],
    [512, 1024, 1024],
    [512, 4096, 1024],
    [512, 1024, 4096],
    [4096, 1024, 1024],
    [4096, 4096, 1024],
    [4096, 1024, 4096],
    [16_384, 4096, 1024],
    [16_384, 1024, 4096],
];

/// A tile is timed where it makes no fewer and no more blocks than these.
const FEWEST: usize = 16;
const MOST: usize = 4224;

pub(in crate::parts) fn checks(scope: &Scope) -> Vec<Check> {
    if scope.quick {
        return Vec::new();
    }
    let pairs = SIZES.iter().flat_map(|sizes| TILES.iter().map(move |tile| (*sizes, *tile)));
    let taken = pairs.filter(|(sizes, tile)| (FEWEST..=MOST).contains(&tile.blocks_of(*sizes)) && tile.suits(*sizes));
    taken.map(|(sizes, tile)| products::check(products::Timed::by(tile.name(), sizes)).within(LIMIT)).collect()
}

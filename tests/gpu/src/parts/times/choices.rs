//! Products of BERT-large by one tile after the other: what `choice.rs` of `cutlass` knows of them, is from here.

use super::{LIMIT, products};
use crate::check::Check;
use crate::parts::Scope;
use crate::parts::tiles::{TILES, Tile};

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

/// Up to so many rows all tiles are timed. For more, `mma`, blocks that share K and small tiles are known to be slow.
const FEW_ROWS: usize = 512;

pub(in crate::parts) fn checks(scope: &Scope) -> Vec<Check> {
    if scope.quick {
        return Vec::new();
    }
    let pairs = SIZES.iter().flat_map(|sizes| TILES.iter().map(move |tile| (*sizes, *tile)));
    let taken = pairs.filter(|(sizes, tile)| is_timed(*sizes, tile));
    taken.map(|(sizes, tile)| products::check(products::Timed::by(tile.name(), sizes)).within(LIMIT)).collect()
}

fn is_timed([m, n, _]: [usize; 3], tile: &Tile) -> bool {
    let blocks = m.div_ceil(tile.m) * n.div_ceil(tile.n) * tile.blocks;
    let is_large = tile.m * tile.n >= 128 * 128 || tile.by.ends_with("ping-pong");
    let suits = m <= FEW_ROWS || tile.is_wgmma() && tile.blocks == 1 && is_large;
    suits && (FEWEST..=MOST).contains(&blocks)
}

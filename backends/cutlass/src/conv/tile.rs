//! Chooses the tile of a convolution: the part of the implicit GEMM (N P Q rows, K columns) that a block computes.

use std::fmt;

use byoc_plugin_api::DType;

/// A configuration of CUTLASS's template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tile {
    /// Rows and columns of a block.
    pub(crate) block: [usize; 2],
    /// Rows and columns of a warp.
    pub(crate) warp: [usize; 2],
    /// Bytes along K.
    depth: usize,
    /// Pipeline stages.
    pub(crate) stages: usize,
}

/// A large tile reuses each loaded byte more often; with few tiles multiprocessors are idle. The larger ones come first.
const TILES: [Tile; 4] = [
    Tile { block: [256, 128], warp: [64, 64], depth: 64, stages: 3 },
    Tile { block: [128, 128], warp: [64, 64], depth: 64, stages: 4 },
    Tile { block: [128, 64], warp: [64, 32], depth: 64, stages: 4 },
    Tile { block: [64, 64], warp: [32, 32], depth: 128, stages: 4 },
];

/// Multiprocessors of an A100 (an H100 has 114 to 132). A tile is chosen if there are at least as many of it.
const MULTIPROCESSORS: usize = 108;

/// The assumed size of an unknown batch.
const BATCH: usize = 8;

impl Tile {
    /// The tile for an image of so many pixels in a batch, if its size is known, and so many columns.
    pub(crate) fn of(batch: Option<usize>, pixels: usize, columns: usize) -> Tile {
        let rows = batch.unwrap_or(BATCH).saturating_mul(pixels);
        let enough = |tile: &&Tile| {
            let [m, n] = tile.block;
            // At most half of a tile's columns are wasted.
            let wide = columns > n / 2 || n == TILES[3].block[1];
            wide && rows.div_ceil(m).saturating_mul(columns.div_ceil(n)) >= MULTIPROCESSORS
        };
        *TILES.iter().find(enough).unwrap_or(&TILES[3])
    }

    /// The tile for images of few channels, where a tile covers several pixels along K.
    pub(crate) fn of_few_channels() -> Tile {
        TILES[2]
    }

    /// Elements along K.
    pub(crate) fn depth(&self, dtype: DType) -> usize {
        self.depth / dtype.unpacked_bytes()
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.block[0], self.block[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_decide() {
        let block = |batch, pixels, columns| Tile::of(batch, pixels, columns).to_string();
        // Layers of ResNet-50, one image at a time and 64 of them.
        let layers = [(56 * 56, 64), (56 * 56, 256), (28 * 28, 128), (14 * 14, 1024), (7 * 7, 512)];
        let one: Vec<_> = layers.iter().map(|&(pixels, columns)| block(Some(1), pixels, columns)).collect();
        assert_eq!(one, ["64x64", "64x64", "64x64", "64x64", "64x64"]);
        let many: Vec<_> = layers.iter().map(|&(pixels, columns)| block(Some(64), pixels, columns)).collect();
        assert_eq!(many, ["128x64", "256x128", "256x128", "256x128", "128x64"]);
        assert_eq!(block(None, 56 * 56, 256), "256x128");
        assert_eq!(block(Some(1), 1, 8), "64x64");
    }
}

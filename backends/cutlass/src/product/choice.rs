//! Chooses the tile of a product.
//!
//! A block computes a tile of M x N elements and reads `(M + N) K` for it, so larger tiles read less; but all
//! multiprocessors wait for the last tile (wave quantisation), so a product needs several tiles for each. The cost of a tile
//! is its area over the share of the peak that its shape reaches. The shares are estimates from the reuse of a warp's
//! operands; `byoc tune` measures the rest.

use byoc_nvidia::compile::Arch;
use byoc_plugin_api::DType;
use serde::{Deserialize, Serialize};

use super::gemm::Gemm;
use super::hopper;

/// What a block computes: elements of y, and of K in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tile {
    /// The instruction.
    pub(crate) by: By,
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    /// What a warp computes.
    pub(crate) warp: (u32, u32),
    /// Pipeline stages: steps of K in shared memory at a time.
    pub(crate) stages: u32,
}

/// The instruction that multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// `mma.sync`, of sm_80 and newer.
    Mma,
    /// `wgmma`, of sm_90a alone.
    Wgmma,
}

const fn mma(m: u32, n: u32, k: u32, warp: (u32, u32), stages: u32) -> Tile {
    Tile { by: By::Mma, m, n, k, warp, stages }
}

const fn wgmma(m: u32, n: u32, stages: u32) -> Tile {
    Tile { by: By::Wgmma, m, n, k: 64, warp: (16, n), stages }
}

/// Tiles, and the share of the peak of their instruction in percent. K and stages are for 16 bits; in 32 bits K is half of
/// it. Shared memory is `2 (m + n) k stages` bytes: of at most 96 KiB for `mma`, since sm_80 has 163 KiB for a block, and
/// tiles up to 128 x 128 leave room for a second block; of 200 KiB for `wgmma`, since sm_90 has 227 KiB, and a block
/// that goes from tile to tile is the only one.
const TILES: [(Tile, usize); 15] = [
    (mma(256, 128, 32, (64, 64), 3), 100),
    (mma(128, 256, 32, (64, 64), 3), 100),
    (mma(128, 128, 32, (64, 64), 4), 94),
    (mma(128, 64, 32, (64, 32), 5), 78),
    (mma(64, 128, 32, (32, 64), 5), 78),
    (mma(64, 64, 64, (32, 32), 4), 62),
    (mma(32, 64, 64, (16, 32), 5), 40),
    (mma(16, 128, 64, (16, 32), 4), 30),
    (wgmma(128, 256, 4), 100),
    (wgmma(128, 192, 5), 93),
    (wgmma(128, 128, 6), 85),
    (wgmma(128, 64, 8), 68),
    (wgmma(64, 256, 5), 75),
    (wgmma(64, 128, 8), 58),
    (wgmma(64, 64, 12), 40),
];

/// The peak of `mma` on sm_90 in percent of that of `wgmma`.
const MMA_ON_HOPPER: usize = 62;

/// Assumed rows of a product if unknown: a few sequences of some hundred tokens.
const LIKELY_ROWS: usize = 1024;
/// Assumed size of an unknown batch.
const LIKELY_BATCH: usize = 8;

impl Tile {
    /// Its name: sizes, stages and instruction.
    pub(crate) fn name(self) -> String {
        let Tile { by, m, n, k, stages, .. } = self;
        let by = if by == By::Wgmma { "wgmma" } else { "mma" };
        format!("{m}x{n}x{k}_{stages} {by}")
    }

    /// Threads of a block.
    pub(crate) fn threads(self) -> u32 {
        match self.by {
            By::Mma => 32 * (self.m / self.warp.0) * (self.n / self.warp.1),
            // A consumer warpgroup for 64 rows, and a producer warpgroup.
            By::Wgmma => 128 * (self.m / 64 + 1),
        }
    }
}

/// All tiles.
pub(crate) fn all() -> impl Iterator<Item = Tile> {
    TILES.into_iter().map(|(tile, _)| tile)
}

/// The multiprocessors of the GPU that an architecture represents: the A100 or the H100.
pub(crate) fn multiprocessors(arch: Arch) -> usize {
    if arch.number() >= 90 { 132 } else { 108 }
}

/// The tiles for a product, the fastest by estimate first.
pub(crate) fn candidates(gemm: &Gemm, arch: Arch) -> Vec<Tile> {
    let narrow = gemm.dtype == DType::F32;
    // cp.async copies at least 4 bytes. Elements of less alignment are copied through registers, in two stages.
    let slow = gemm.alignment().iter().take(2).any(|&width| width as usize * gemm.dtype.unpacked_bytes() < 4);
    let takes_wgmma = arch.number() == 90 && arch.is_own() && hopper::takes(gemm);
    let of = |&(tile, share): &(Tile, usize)| match tile.by {
        By::Wgmma => takes_wgmma.then_some((tile, share)),
        By::Mma => {
            let k = if narrow { tile.k / 2 } else { tile.k };
            let share = if arch.number() >= 90 { share * MMA_ON_HOPPER / 100 } else { share };
            Some((Tile { k, stages: if slow { 2 } else { tile.stages }, ..tile }, share))
        }
    };
    let mut all: Vec<_> = TILES.iter().filter_map(of).collect();
    all.sort_by_key(|&(tile, share)| cost(gemm, arch, tile, share));
    all.into_iter().map(|(tile, _)| tile).collect()
}

/// The estimated time until the last multiprocessor is done, in arbitrary units.
fn cost(gemm: &Gemm, arch: Arch, tile: Tile, share: usize) -> usize {
    let m = gemm.m.fixed().unwrap_or(LIKELY_ROWS);
    let batch: usize = gemm.batch.iter().map(|batch| batch.count.fixed().unwrap_or(LIKELY_BATCH)).product();
    let tiles = m.div_ceil(tile.m as usize) * gemm.n.div_ceil(tile.n as usize) * batch;
    tiles.div_ceil(multiprocessors(arch)) * (tile.m * tile.n) as usize * 100 / share
}

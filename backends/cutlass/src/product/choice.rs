//! Chooses the tile of a product.
//!
//! A block computes a tile of M x N elements and reads `(M + N) K` for it, so larger tiles read less; but all
//! multiprocessors wait for the last tile (wave quantisation), so a product needs several tiles for each. The cost of a tile
//! is what a GPU measured, on sm_90, or its area over an estimated share of the peak; `byoc tune` measures the rest.

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
    /// Who computes it. Recipes of before there were several have none.
    #[serde(default)]
    pub(crate) schedule: Schedule,
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

/// Who computes a tile by `wgmma`: `kernels/hopper.cuh` describes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Schedule {
    /// All warpgroups of a block.
    #[default]
    Cooperative,
    /// One of two warpgroups, in turn.
    PingPong,
    /// As many blocks, each for a part of K.
    SplitK(u32),
}

pub(super) const fn mma(m: u32, n: u32, k: u32, warp: (u32, u32), stages: u32) -> Tile {
    Tile { by: By::Mma, m, n, k, warp, stages, schedule: Schedule::Cooperative }
}

const fn wgmma(m: u32, n: u32, stages: u32) -> Tile {
    Tile { by: By::Wgmma, m, n, k: 64, warp: (16, n), stages, schedule: Schedule::Cooperative }
}

const fn ping_pong(m: u32, n: u32, stages: u32) -> Tile {
    Tile { schedule: Schedule::PingPong, ..wgmma(m, n, stages) }
}

const fn split(m: u32, n: u32, stages: u32, blocks: u32) -> Tile {
    Tile { schedule: Schedule::SplitK(blocks), ..wgmma(m, n, stages) }
}

/// A tile, and what is known of its speed.
struct Known {
    tile: Tile,
    /// The share of the peak of `mma` that it reaches, in percent: an estimate from the reuse of a warp's operands. Tiles of
    /// `wgmma`, which are measured, have none.
    share: usize,
    /// Clocks of an H100 for 64 elements of K, and for all else: the first copies, the epilogue, and with split-K the exchange.
    step: usize,
    besides: usize,
}

const fn known(tile: Tile, share: usize, step: usize, besides: usize) -> Known {
    Known { tile, share, step, besides }
}

/// All tiles. K and stages are for 16 bits; in 32 bits K is half of it. Shared memory is `2 (m + n) k stages` bytes: of at most
/// 96 KiB for `mma`, since sm_80 has 163 KiB for a block, and tiles up to 128 x 128 leave room for a second block; of 200 KiB
/// for `wgmma`, since sm_90 has 227 KiB, and a block that goes from tile to tile is the only one.
///
/// Clocks are fitted to what `byoc-gpu-suite --only choices` measured of products of BERT-large in f16 (`docs/benchmarks.md`), at
/// 1.755 GHz; the order of tiles for TF32 is taken to be the same.
const TILES: [Known; 20] = [
    known(mma(256, 128, 32, (64, 64), 3), 100, 1720, 9300),
    known(mma(128, 256, 32, (64, 64), 3), 100, 1700, 9000),
    known(mma(128, 128, 32, (64, 64), 4), 94, 990, 5900),
    known(mma(128, 64, 32, (64, 32), 5), 78, 710, 4200),
    known(mma(64, 128, 32, (32, 64), 5), 78, 710, 4200),
    known(mma(64, 64, 64, (32, 32), 4), 62, 475, 1900),
    known(mma(32, 64, 64, (16, 32), 5), 40, 330, 4200),
    known(mma(16, 128, 64, (16, 32), 4), 30, 345, 3100),
    known(wgmma(128, 256, 4), 0, 1190, 6000),
    known(wgmma(128, 192, 5), 0, 1100, 3100),
    known(wgmma(128, 128, 6), 0, 720, 4100),
    known(wgmma(128, 64, 8), 0, 270, 7200),
    known(wgmma(64, 256, 5), 0, 735, 4000),
    known(wgmma(64, 128, 8), 0, 290, 5900),
    known(wgmma(64, 64, 12), 0, 240, 4700),
    known(ping_pong(128, 128, 6), 0, 690, 2900),
    known(ping_pong(64, 128, 8), 0, 390, 1900),
    known(split(64, 64, 8, 2), 0, 285, 5600),
    known(split(64, 128, 6, 4), 0, 365, 6900),
    known(split(128, 64, 6, 4), 0, 420, 6600),
];

/// Clocks until the first tile of a block with ping-pong is done, beside those of all tiles: nothing is hidden by then.
const FIRST_OF_PING_PONG: usize = 4500;

/// Ranges of rows that only a run tells: each to so many, with the rows that its tile is chosen for. By the clocks above,
/// products of the sizes of BERT and GPT-2 with up to 16384 rows take 1.10 of the time of their best tile by these (geometric
/// mean; 1.85 at most), and 1.46 (4.1) by the tile for 1024.
const RANGES: [(u64, usize); 3] = [(256, 128), (2048, 1024), (u64::MAX, 8192)];
/// Assumed rows where one tile is asked for, if unknown: a few sequences of some hundred tokens.
const LIKELY_ROWS: usize = 1024;
/// Assumed size of an unknown batch.
const LIKELY_BATCH: usize = 8;

impl Tile {
    /// Its name: sizes, stages and instruction.
    pub(crate) fn name(self) -> String {
        let Tile { by, m, n, k, stages, .. } = self;
        let by = if by == By::Wgmma { "wgmma" } else { "mma" };
        let schedule = match self.schedule {
            Schedule::Cooperative => String::new(),
            Schedule::PingPong => " ping-pong".into(),
            Schedule::SplitK(blocks) => format!(" split-{blocks}"),
        };
        format!("{m}x{n}x{k}_{stages} {by}{schedule}")
    }

    /// The warpgroups of a block that multiply.
    pub(crate) fn groups(self) -> u32 {
        if self.schedule == Schedule::PingPong { 2 } else { self.m / 64 }
    }

    /// The blocks that share it, a cluster.
    pub(crate) fn blocks(self) -> u32 {
        if let Schedule::SplitK(blocks) = self.schedule { blocks } else { 1 }
    }

    /// Threads of a block.
    pub(crate) fn threads(self) -> u32 {
        match self.by {
            By::Mma => 32 * (self.m / self.warp.0) * (self.n / self.warp.1),
            // The consumer warpgroups, and a producer warpgroup.
            By::Wgmma => 128 * (self.groups() + 1),
        }
    }
}

/// All tiles.
pub(crate) fn all() -> impl Iterator<Item = Tile> {
    TILES.iter().map(|known| known.tile)
}

/// The multiprocessors of the GPU that an architecture represents: the A100 or the H100.
pub(crate) fn multiprocessors(arch: Arch) -> usize {
    if arch.number() >= 90 { 132 } else { 108 }
}

/// Rows for which a tile is chosen, of a product with more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rows {
    /// The least of the range.
    pub(crate) least: u64,
    /// The greatest.
    pub(crate) most: u64,
    /// Those that its time is estimated for.
    pub(crate) likely: usize,
}

/// The tiles of a product: one, or one for each range of rows that only a run tells. Ranges cover all rows, and neighbours
/// have different tiles.
pub(crate) fn by_rows(gemm: &Gemm, arch: Arch) -> Vec<(Option<Rows>, Tile)> {
    let mut all: Vec<(Rows, Tile)> = Vec::new();
    for (most, likely) in RANGES {
        let Some(&tile) = candidates_for(gemm, arch, likely).first() else { continue };
        match all.last_mut() {
            Some((rows, last)) if *last == tile => (rows.most, rows.likely) = (most, likely),
            last => {
                let least = last.map_or(0, |(rows, _)| rows.most + 1);
                all.push((Rows { least, most, likely }, tile));
            }
        }
    }
    match &all[..] {
        [_, _, ..] if gemm.m.fixed().is_none() => all.into_iter().map(|(rows, tile)| (Some(rows), tile)).collect(),
        _ => candidates(gemm, arch).into_iter().take(1).map(|tile| (None, tile)).collect(),
    }
}

/// The tiles for a product, the fastest by estimate first.
pub(crate) fn candidates(gemm: &Gemm, arch: Arch) -> Vec<Tile> {
    candidates_for(gemm, arch, gemm.m.fixed().unwrap_or(LIKELY_ROWS))
}

/// The same, for so many rows.
pub(crate) fn candidates_for(gemm: &Gemm, arch: Arch, rows: usize) -> Vec<Tile> {
    let narrow = gemm.dtype == DType::F32;
    // cp.async copies at least 4 bytes. Elements of less alignment are copied through registers, in two stages.
    let slow = gemm.alignment().iter().take(2).any(|&width| width as usize * gemm.dtype.unpacked_bytes() < 4);
    let takes_wgmma = arch.number() == 90 && arch.is_own() && hopper::takes(gemm);
    let takes = |tile: Tile| match tile.by {
        // Each block of a cluster has two steps of K or more.
        By::Wgmma => takes_wgmma && (tile.blocks() == 1 || gemm.k >= 2 * (tile.k * tile.blocks()) as usize),
        By::Mma => true,
    };
    let mut all: Vec<_> = TILES.iter().filter(|known| takes(known.tile)).collect();
    all.sort_by_key(|known| cost(gemm, rows, arch, known));
    let sized = |known: &Known| match known.tile {
        tile @ Tile { by: By::Mma, k, stages, .. } => {
            Tile { k: if narrow { k / 2 } else { k }, stages: if slow { 2 } else { stages }, ..tile }
        }
        tile => tile,
    };
    all.into_iter().map(sized).collect()
}

/// The estimated time of a tile that is one of the list.
#[cfg(test)]
pub(super) fn cost_of(gemm: &Gemm, rows: usize, arch: Arch, tile: Tile) -> usize {
    let known = TILES.iter().find(|known| known.tile == tile).expect("it is one of them");
    cost(gemm, rows, arch, known)
}

/// The estimated time until the last multiprocessor is done, in arbitrary units.
fn cost(gemm: &Gemm, m: usize, arch: Arch, known: &Known) -> usize {
    let &Known { tile, share, step, besides } = known;
    // Sizes of a recipe may be any.
    let batch = gemm.batch.iter().map(|batch| batch.count.fixed().unwrap_or(LIKELY_BATCH));
    let tiles = m.div_ceil(tile.m as usize).saturating_mul(gemm.n.div_ceil(tile.n as usize));
    let tiles = batch.fold(tiles, usize::saturating_mul);
    let waves = tiles.div_ceil(at_once(tile, arch));
    if arch.number() != 90 {
        return waves.saturating_mul((tile.m * tile.n) as usize * 100) / share.max(1);
    }
    let first = if tile.schedule == Schedule::PingPong { FIRST_OF_PING_PONG } else { 0 };
    let steps = gemm.k.div_ceil(64).div_ceil(tile.blocks() as usize);
    waves.saturating_mul(steps.saturating_mul(step).saturating_add(besides)).saturating_add(first)
}

/// How many tiles a GPU computes at a time. All blocks of a cluster are in one of its partitions, of 16 or 18 multiprocessors:
/// as many clusters were measured.
fn at_once(tile: Tile, arch: Arch) -> usize {
    match tile.blocks() {
        1 => multiprocessors(arch),
        2 => 62,
        _ => 28,
    }
}

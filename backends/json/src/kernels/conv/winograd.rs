//! 3x3 convolution of stride 1 from NCHW16c to NCHW16c by fewer multiplications: F(4x4, 3x3) of S. Winograd, "Arithmetic Complexity of
//! Computations" (1980), as A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), nest it.
//!
//! 4x4 output pixels and the 6x6 input pixels under them are a tile. Tiles and filters become 36 numbers each ([`transform`]), which are
//! multiplied one by one and summed over the channels: 36 matrix products of tiles by filters, with a quarter of the multiplications.
//! The filters are transformed at every run, as transformed ones would be four times as many bytes.

mod transform;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::narrow::{self, BEHIND};
use super::pack::{Filters as Packed, group_blocks};
use super::{ConvKind, ConvParams, Operands, blocked};
use crate::kernels::bf16::Unit;
use crate::kernels::gemm::tile::{Tile, TileFn, one_block, tiles};
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::precision::Math;
use crate::kernels::simd::V16;
use crate::kernels::sizes::product;
use crate::kernels::weights::PackedWeights;
use transform::{Filters, Input, Output};

/// Output pixels along a side of a tile.
const SIDE: usize = 4;
/// Numbers of a transformed tile, and of a transformed filter.
const POINTS: usize = 36;
/// Bytes of transformed tiles that are multiplied by all filters before the next ones are transformed: they stay in the third-level
/// cache.
const BAND: usize = 4 * 1024 * 1024;
/// Most tiles of a band, whose sums stay in the second-level cache.
const MOST_TILES: usize = 224;
/// Input blocks whose filters are transformed together: those of two output blocks are 504 KiB.
const DEPTH: usize = 7;
/// Values between the ends of the numbers of one point and those of the next, so that they do not fall into the same sets of a cache.
const GAP: usize = BLOCK;
/// The most output blocks of a register tile.
const MOST_AT_ONCE: usize = 2;

/// Whether the kernel computes these parameters at all.
pub(super) fn supports(p: &ConvParams) -> bool {
    [p.kh, p.kw] == [3, 3] && p.stride == [1, 1] && p.dilation == [1, 1] && p.group == 1
}

/// Whether it is computed in bf16, by direct sums: six products of pieces take longer where this kernel pays.
pub(super) fn is_on_units(p: &ConvParams, threads: &Threads) -> bool {
    let is_faster = match (threads.unit(p.math), p.math) {
        (Some(Unit::Tiles), Math::Bf16x3 | Math::Bf16) => true,
        // With positions that no output has, direct sums take more than half of the time that they would in f32.
        (Some(Unit::Dots), _) => !pays(p, 1.6),
        _ => !pays(p, 1.0),
    };
    is_faster && ConvKind::Blocked.is_on_units(p, threads)
}

/// Whether it takes less time than direct sums: operations on vectors are counted, for tiles, filters and products. The numbers were
/// measured on Zen 4. Direct sums are computed at `rate` times that of f32.
fn pays(p: &ConvParams, rate: f64) -> bool {
    const TILE: f64 = 200.0;
    const FILTER: f64 = 250.0;
    let [(ic, in_blocks), (oc, out_blocks)] =
        [p.ic, p.oc].map(|channels| (channels as f64, channels.div_ceil(BLOCK) as f64));
    let products = ic * oc / BLOCK as f64;
    let count = tile_count(p).map_or(0.0, |count| count as f64);
    let own = count * (products * POINTS as f64 + TILE * (in_blocks + out_blocks)) + FILTER * products;
    let direct = [p.n, p.oh, p.ow].map(|size| size as f64).iter().product::<f64>() * 9.0 * products;
    own < 0.9 * direct / rate
}

fn tile_count(p: &ConvParams) -> Option<usize> {
    product(&[p.n, p.oh.div_ceil(SIDE), p.ow.div_ceil(SIDE)])
}

/// Tiles for each thread from which on threads take bands of their own, and transform all filters for them: fewer are shared, and each
/// thread takes some filters.
const MANY_TILES: usize = 48;

/// How tiles and channels are cut, and how many f32 values that takes.
#[derive(Clone, Copy)]
struct Plan {
    tiles: usize,
    /// Tiles of a band.
    band: usize,
    in_blocks: usize,
    out_blocks: usize,
    /// Whether all threads work on one band.
    shares: bool,
    /// Of the transformed tiles of a band, as if each were a panel.
    inputs: usize,
    /// Of the filters that are transformed together.
    filters: usize,
    /// Of the sums of a band.
    sums: usize,
    /// Of filters of one input and one output block, where those of 16 bits are widened.
    widened: usize,
    /// Of all that each thread has of its own: filters, sums, widened filters and, where bands are not shared, inputs.
    own: usize,
}

impl Plan {
    /// `None` where direct sums take less time, or the values cannot be counted.
    fn new(p: &ConvParams, threads: usize) -> Option<Plan> {
        if !pays(p, 1.0) {
            return None;
        }
        let (in_blocks, out_blocks, _) = group_blocks(p);
        let bytes_each = product(&[POINTS, in_blocks.max(1), BLOCK, size_of::<f32>()])?;
        let most = (BAND / bytes_each).clamp(BLOCK, MOST_TILES);
        let tiles = tile_count(p)?;
        let shares = threads > 1 && tiles / threads < MANY_TILES;
        let bands = tiles.div_ceil(most).max(1);
        let bands = if shares { bands } else { bands.checked_next_multiple_of(threads)? };
        let band = tiles.div_ceil(bands);
        let inputs = product(&[band, POINTS])?.checked_mul(product(&[in_blocks, BLOCK])?.checked_add(GAP)?)?;
        let filters = POINTS * (MOST_AT_ONCE * in_blocks.min(DEPTH) * BLOCK * BLOCK + GAP);
        let sums = product(&[POINTS, band])?.checked_mul(MOST_AT_ONCE * BLOCK)?.checked_add(POINTS * GAP)?;
        let widened = if p.narrow { 9 * BLOCK * 2 * BLOCK + BEHIND } else { 0 };
        let own = filters.checked_add(sums)?.checked_add(widened)?.checked_add(if shares { 0 } else { inputs })?;
        Some(Plan { tiles, band, in_blocks, out_blocks, shares, inputs, filters, sums, widened, own })
    }

    /// f32 values that all threads share.
    fn shared(&self) -> usize {
        if self.shares { self.inputs } else { 0 }
    }
}

/// f32 values of scratch on so many threads; `None` if they cannot be counted.
pub(super) fn scratch_len(p: &ConvParams, threads: usize) -> Option<usize> {
    let direct = blocked::scratch_len(p, threads)?;
    let Some(plan) = Plan::new(p, threads) else { return Some(direct) };
    Some(plan.shared().checked_add(plan.own.checked_mul(threads)?)?.max(direct))
}

pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32], scratch: &mut [f32]) {
    let plan = if is_on_units(p, threads) { None } else { Plan::new(p, threads.count()) };
    let Some(plan) = plan else { return blocked::run(threads, p, o, y, scratch) };
    let (shared, own) = scratch.split_at_mut(plan.shared());
    let is_finite = AtomicBool::new(true);
    let (table, at_once) = tiles(threads.isa(), BLOCK);
    assert!(at_once <= MOST_AT_ONCE);
    let job = Job { p, plan, o, y: SharedMut::new(y), isa: threads.isa(), table, at_once, is_finite: &is_finite };
    if plan.shares {
        (0..plan.tiles).step_by(plan.band).for_each(|start| job.band(start).run_shared(threads, shared, own));
    } else {
        let bands = plan.tiles.div_ceil(plan.band);
        let tasks = threads.count().min(bands);
        let own = SharedMut::new(own);
        threads.parallel_for(tasks, |task| {
            // SAFETY: one part of the scratch for each task.
            let own = unsafe { own.slice(task * plan.own, plan.own) };
            part(bands, tasks, task).for_each(|band| job.band(band * plan.band).run(own));
        });
    }
    // Where a number is not finite, the sums of its whole tile are not: which of them should be, direct sums tell.
    if !is_finite.into_inner() {
        blocked::run(threads, &ConvParams { math: Math::F32, ..p.clone() }, o, y, scratch);
    }
}

/// What a thread has of its own beside transformed tiles.
struct Own<'a> {
    /// Transformed filters.
    filters: &'a mut [f32],
    sums: &'a mut [f32],
    /// Filters that were of 16 bits.
    widened: &'a mut [f32],
}

impl<'a> Own<'a> {
    /// It, and what is left.
    fn new(plan: &Plan, values: &'a mut [f32]) -> (Own<'a>, &'a mut [f32]) {
        let (filters, rest) = values.split_at_mut(plan.filters);
        let (sums, rest) = rest.split_at_mut(plan.sums);
        let (widened, rest) = rest.split_at_mut(plan.widened);
        (Own { filters, sums, widened }, rest)
    }
}

/// What does not change from band to band.
struct Job<'a> {
    p: &'a ConvParams,
    plan: Plan,
    o: Operands<'a>,
    y: SharedMut<'a, f32>,
    isa: Isa,
    /// The register tiles: some input tiles by `at_once` output blocks.
    table: &'static [TileFn],
    at_once: usize,
    is_finite: &'a AtomicBool,
}

/// Asks for lines of the cache.
struct Fetch {
    bytes: Range<*const u8>,
}

impl Kernel for Fetch {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Range { start, end } = self.bytes;
        let lines = (end as usize - start as usize) / 64;
        for line in 0..lines {
            V::prefetch(start.wrapping_add(line * 64).cast());
        }
    }
}

/// Some tiles, which are multiplied by all filters.
struct Band<'a> {
    job: &'a Job<'a>,
    tiles: Range<usize>,
    panels: usize,
}

/// Tiles side by side, as many as the rows of a register tile.
struct Panel {
    /// Counted from the start of the band.
    tiles: Range<usize>,
    /// Where its numbers start in those of the band: [point][input block][tile][16].
    start: usize,
    /// From one point to the next.
    point: usize,
}

/// Where the filters of some input and output blocks are: [point][output block][input channel][16].
struct Step {
    outs: Range<usize>,
    ins: Range<usize>,
    /// From one point to the next.
    point: usize,
}

impl Job<'_> {
    /// The tiles from `start` on.
    fn band(&self, start: usize) -> Band<'_> {
        let tiles = start..(start + self.plan.band).min(self.plan.tiles);
        Band { job: self, panels: tiles.len().div_ceil(self.table.len()), tiles }
    }
}

impl Band<'_> {
    fn panel(&self, index: usize) -> Panel {
        let tiles = part(self.tiles.len(), self.panels, index);
        let channels = self.job.plan.in_blocks * BLOCK;
        let start = POINTS * (tiles.start * channels + index * GAP);
        Panel { start, point: tiles.len() * channels + GAP, tiles }
    }

    /// On this thread.
    fn run(&self, own: &mut [f32]) {
        let plan = &self.job.plan;
        let (own, inputs) = Own::new(plan, own);
        let shared = SharedMut::new(inputs);
        for at in 0..self.panels * plan.in_blocks {
            self.transform(&self.panel(at / plan.in_blocks), at % plan.in_blocks, shared);
        }
        self.multiply_all(inputs, 0..plan.out_blocks, own);
    }

    /// Shares out the tiles to be transformed, then the output blocks.
    fn run_shared(&self, threads: &Threads, inputs: &mut [f32], own: &mut [f32]) {
        let plan = &self.job.plan;
        let total = self.panels * plan.in_blocks;
        let parts = threads.count().min(total);
        let shared = SharedMut::new(inputs);
        threads.parallel_for(parts, |i| {
            for at in part(total, parts, i) {
                self.transform(&self.panel(at / plan.in_blocks), at % plan.in_blocks, shared);
            }
        });
        let inputs: &[f32] = inputs;
        let tasks = threads.count().min(plan.out_blocks);
        let own = SharedMut::new(own);
        threads.parallel_for(tasks, |task| {
            // SAFETY: one part of the scratch for each task.
            let (own, _) = Own::new(plan, unsafe { own.slice(task * plan.own, plan.own) });
            self.multiply_all(inputs, part(plan.out_blocks, tasks, task), own);
        });
    }

    /// The numbers of one input block of the tiles of a panel.
    fn transform(&self, panel: &Panel, block: usize, inputs: SharedMut<'_, f32>) {
        let (p, count) = (self.job.p, panel.tiles.len());
        let grid = Grid::new(p);
        for (row, tile) in panel.tiles.clone().enumerate() {
            let (image, top, left) = grid.place(self.tiles.start + tile);
            let plane = (image * self.job.plan.in_blocks + block) * p.ih * p.iw * BLOCK;
            let start = panel.start + (block * count + row) * BLOCK;
            // Among the numbers of the band, of which there are `Plan::inputs`.
            let to = inputs.as_ptr().wrapping_add(start);
            let from = &self.job.o.x[plane..][..p.ih * p.iw * BLOCK];
            let corner = [top as isize - p.pad[0] as isize, left as isize - p.pad[1] as isize];
            dispatch(self.job.isa, Input { x: from, size: [p.ih, p.iw], corner, to, point: panel.point });
        }
    }

    /// All tiles by some output blocks, as many at once as a register tile takes.
    fn multiply_all(&self, inputs: &[f32], outs: Range<usize>, mut own: Own<'_>) {
        for first in outs.clone().step_by(self.job.at_once) {
            self.multiply(inputs, first..(first + self.job.at_once).min(outs.end), &mut own);
        }
    }

    /// All tiles by the output blocks of a register tile, from transformed tiles to output pixels.
    fn multiply(&self, inputs: &[f32], outs: Range<usize>, own: &mut Own<'_>) {
        let Own { filters, sums, widened } = own;
        let plan = &self.job.plan;
        let steps = plan.in_blocks.div_ceil(DEPTH);
        let row = outs.len() * BLOCK;
        let sums_point = self.tiles.len() * row + GAP;
        for index in 0..steps {
            let ins = part(plan.in_blocks, steps, index);
            let step = Step { outs: outs.clone(), point: outs.len() * ins.len() * BLOCK * BLOCK + GAP, ins };
            self.filters(&step, filters, widened);
            let next = if index + 1 < steps {
                (outs.clone(), part(plan.in_blocks, steps, index + 1))
            } else {
                (outs.end..(outs.end + outs.len()).min(plan.out_blocks), part(plan.in_blocks, steps, 0))
            };
            for point in 0..POINTS {
                self.fetch(&next, point);
                for index in 0..self.panels {
                    let panel = self.panel(index);
                    let sums = &mut sums[point * sums_point + panel.tiles.start * row..][..panel.tiles.len() * row];
                    self.point(&step, &panel, [point, index], inputs, filters, sums);
                }
            }
        }
        self.store(&outs, sums, sums_point);
    }

    /// Asks for a part of the filters that are transformed next, one of as many as there are points: transforms read them faster than
    /// memory gives them.
    fn fetch(&self, (outs, ins): &(Range<usize>, Range<usize>), point: usize) {
        let (from, all) = (Packed::new(self.job.p), self.job.o.filters.packed);
        let row = from.row(outs.start);
        let len = ins.clone().map(|block| 9 * from.rows(block)).sum::<usize>() * row;
        let panels = if outs.start < from.shared() { outs.len() } else { 1 };
        for out in outs.clone().take(panels) {
            let start = from.start(0, out, ins.start, 0);
            let part = part(len, POINTS, point);
            let bytes = all.address(start + part.start)..all.address(start + part.end);
            dispatch(self.job.isa, Fetch { bytes });
        }
    }

    /// Transforms filters.
    fn filters(&self, step: &Step, filters: &mut [f32], widened: &mut [f32]) {
        let from = Packed::new(self.job.p);
        for (index, out) in step.outs.clone().enumerate() {
            for (depth, block) in step.ins.clone().enumerate() {
                let (start, row, channels) = (from.start(0, out, block, 0), from.row(out), from.rows(block));
                let w = match self.job.o.filters.packed {
                    PackedWeights::F32(w) => &w[start..],
                    _ => {
                        let (count, channel) = (9 * channels, from.channel(0, out));
                        let rows = narrow::Rows { start, count, row, blocks: 1, channel };
                        narrow::widen(self.job.isa, &self.job.o.filters, rows, widened)
                    }
                };
                let to = &mut filters[(index * step.ins.len() + depth) * BLOCK * BLOCK..];
                dispatch(self.job.isa, Filters { w, row, channels, to, point: step.point });
            }
        }
    }

    /// The products of one point for the panel of that index.
    fn point(
        &self,
        step: &Step,
        panel: &Panel,
        [point, index]: [usize; 2],
        inputs: &[f32],
        filters: &[f32],
        sums: &mut [f32],
    ) {
        let (rows, blocks) = (panel.tiles.len(), step.outs.len());
        let a = &inputs[panel.start + point * panel.point + step.ins.start * rows * BLOCK..];
        let b = &filters[point * step.point..];
        let b_panel = step.ins.len() * BLOCK * BLOCK;
        let k = (self.job.p.ic - step.ins.start * BLOCK).min(step.ins.len() * BLOCK);
        assert!(a.len() >= step.ins.len() * rows * BLOCK && b.len() >= blocks * b_panel);
        let table = if blocks == self.job.at_once { self.job.table } else { one_block(self.job.isa) };
        // The first panels fetch the filters of the next point.
        let ahead = if index < blocks { step.point + index * b_panel } else { 0 };
        let tile = Tile::new(a.as_ptr(), b.as_ptr(), b_panel, k, ahead);
        let tile = Tile { out: sums.as_mut_ptr(), out_row: blocks * BLOCK, add: step.ins.start > 0, ..tile };
        assert!(sums.len() >= rows * blocks * BLOCK);
        // SAFETY: the table matches the CPU; the assertions cover `k` values of each row of A, of each panel of B, and the rows of
        // the sums.
        unsafe { table[rows - 1](&tile) };
    }

    /// Transforms sums into output pixels.
    fn store(&self, outs: &Range<usize>, sums: &[f32], point: usize) {
        let (job, p) = (self.job, self.job.p);
        let grid = Grid::new(p);
        let plane = p.oh * p.ow * BLOCK;
        let mut is_finite = true;
        for (row, tile) in self.tiles.clone().enumerate() {
            let (image, top, left) = grid.place(tile);
            for (index, out) in outs.clone().enumerate() {
                let start = (image * job.plan.out_blocks + out) * plane;
                let size = [SIDE.min(p.oh - top), SIDE.min(p.ow - left)];
                let y = job.y.as_ptr().wrapping_add(start);
                let output = Output {
                    sums: &sums[(row * outs.len() + index) * BLOCK..],
                    point,
                    bias: job.o.bias.map(|bias| &bias[out * BLOCK..]),
                    residual: job.o.residual.map(|residual| &residual[start..][..plane]),
                    clamp: p.act.as_clamp().unwrap_or((f32::NEG_INFINITY, f32::INFINITY)),
                    y,
                    width: p.ow,
                    corner: [top, left],
                    size,
                };
                is_finite &= dispatch(job.isa, output);
            }
        }
        if p.act.as_clamp().is_none() {
            self.activate(outs);
        }
        if !is_finite {
            job.is_finite.store(false, Ordering::Relaxed);
        }
    }

    /// The activations that do not fit in registers, for the rows of pixels of tiles side by side.
    fn activate(&self, outs: &Range<usize>) {
        let (job, p, grid) = (self.job, self.job.p, Grid::new(self.job.p));
        let mut tile = self.tiles.start;
        while tile < self.tiles.end {
            let (image, top, left) = grid.place(tile);
            let next = ((tile / grid.columns + 1) * grid.columns).min(self.tiles.end);
            let width = ((next - tile) * SIDE).min(p.ow - left);
            for out in outs.clone() {
                let plane = (image * job.plan.out_blocks + out) * p.oh * p.ow;
                for row in top..(top + SIDE).min(p.oh) {
                    // SAFETY: the pixels of a tile's output block are written by one task.
                    let pixels = unsafe { job.y.slice((plane + row * p.ow + left) * BLOCK, width * BLOCK) };
                    p.act.apply(job.isa, pixels);
                }
            }
            tile = next;
        }
    }
}

/// The tiles of all images.
struct Grid {
    rows: usize,
    columns: usize,
}

impl Grid {
    fn new(p: &ConvParams) -> Grid {
        Grid { rows: p.oh.div_ceil(SIDE), columns: p.ow.div_ceil(SIDE) }
    }

    /// The image of a tile, and the row and column of its first output pixel.
    fn place(&self, tile: usize) -> (usize, usize, usize) {
        let image = tile / (self.rows * self.columns);
        (image, tile / self.columns % self.rows * SIDE, tile % self.columns * SIDE)
    }
}

//! Direct convolution from NCHW16c to NCHW16c: cache blocking and the split over threads.

#[cfg(target_arch = "x86_64")]
use super::bf16;
use super::narrow::{self, BEHIND};
use super::pack::{Filters, group_blocks};
use super::taps::taps_inside;
use super::tile::{Tile, TileFn, out_blocks, tiles};
use super::{ConvParams, Operands};
use crate::kernels::cuts::Cuts;
use crate::kernels::isa::Isa;
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, grid, part};
use crate::kernels::sizes::product;
use crate::kernels::weights::PackedWeights;
use std::ops::Range;

/// Bytes of weights and of input that should stay in the second-level cache together.
const WEIGHT_BUDGET: usize = 192 * 1024;
const INPUT_BUDGET: usize = 256 * 1024;
/// Bytes of weights that should stay in the first-level cache with AVX2: for its tiles of 6 pixels in one block, weights from the
/// second-level one come too slowly.
const NEAR_WEIGHT_BUDGET: usize = 18 * 1024;

/// Whether one input pixel makes one output pixel.
fn pointwise(p: &ConvParams) -> bool {
    p.kh == 1 && p.kw == 1 && p.pad == [0, 0]
}

/// Whether the input is thinned out to the pixels that count before the convolution.
fn thins(p: &ConvParams) -> bool {
    let reaches = (p.oh.max(1) - 1) * p.stride[0] < p.ih && (p.ow.max(1) - 1) * p.stride[1] < p.iw;
    pointwise(p) && p.stride != [1, 1] && reaches
}

/// f32 values of scratch: the thinned input and filters that were of 16 bits, or what products of bf16 need.
pub(super) fn scratch_len(p: &ConvParams, threads: usize) -> Option<usize> {
    let direct = thinned_len(p)?.checked_add(widened_len(p)?.checked_mul(threads)?)?;
    #[cfg(target_arch = "x86_64")]
    let direct = direct.max(bf16::scratch_len(p, threads)?);
    Some(direct)
}

/// f32 values of the filters that a thread widens together, whatever the processor: [`Plan::new`] keeps within the budget but for one
/// input block, and a register tile has four output blocks at most; one that has one may read two, in a panel that they share.
fn widened_len(p: &ConvParams) -> Option<usize> {
    if !p.narrow {
        return Some(0);
    }
    let (in_blocks, ..) = group_blocks(p);
    let blocks = product(&[4, p.kh, p.kw, BLOCK, BLOCK])?;
    let most = blocks.max(2 * WEIGHT_BUDGET / size_of::<f32>()).min(blocks.checked_mul(in_blocks)?);
    most.checked_add(BEHIND)
}

fn thinned_len(p: &ConvParams) -> Option<usize> {
    if thins(p) { product(&[p.n, p.ic.div_ceil(BLOCK), p.oh, p.ow, BLOCK]) } else { Some(0) }
}

/// The same convolution of the thinned input, if it is thinned.
fn thinned(p: &ConvParams) -> ConvParams {
    if thins(p) { ConvParams { ih: p.oh, iw: p.ow, stride: [1, 1], ..p.clone() } } else { p.clone() }
}

/// Output rows as the kernel walks them. A 1x1 convolution of stride 1 sees the image as rows of its own choice,
/// so that tiles are full whatever the image's width; then only the last row is shorter.
#[derive(Clone, Copy)]
struct Rows {
    count: usize,
    width: usize,
    last_width: usize,
    in_width: usize,
    /// Input rows of that width: not the image's where rows are of the kernel's own choice.
    in_height: usize,
}

impl Rows {
    fn new(p: &ConvParams, threads: usize) -> Rows {
        if pointwise(p) && p.stride == [1, 1] && p.ih == p.oh && p.iw == p.ow {
            // About 84 pixels, which the tile widths 14, 6 and 4 divide, and the same number of rows for each thread.
            let pixels = p.oh * p.ow;
            let each = (pixels + 42 * threads) / (84 * threads);
            let width = pixels.div_ceil(threads * each.max(1)).max(1);
            let count = pixels.div_ceil(width);
            let last_width = pixels - (count - 1) * width;
            Rows { count, width, last_width, in_width: width, in_height: count }
        } else {
            Rows { count: p.oh, width: p.ow, last_width: p.ow, in_width: p.iw, in_height: p.ih }
        }
    }
}

/// How the work is cut: images x groups x parts of the output blocks x parts of the rows.
struct Plan {
    rows: Rows,
    filters: Filters,
    in_blocks: usize,
    out_blocks: usize,
    groups: usize,
    /// Output blocks of one register tile.
    at_once: usize,
    /// Groups of so many output blocks whose filters have rows of one length: only the last ones of a length may be fewer.
    units: usize,
    out_parts: usize,
    row_parts: usize,
    /// Rows whose input stays in cache while the output blocks pass over it.
    band: usize,
    /// Input blocks summed before the next output blocks are taken up.
    depth: usize,
}

impl Plan {
    fn new(p: &ConvParams, isa: Isa, threads: usize) -> Plan {
        let (in_blocks, out_count, groups) = group_blocks(p);
        let rows = Rows::new(p, threads);
        let at_once = out_blocks(isa, out_count, rows.width, p.stride[1]);
        let block_bytes = p.kh * p.kw * BLOCK * BLOCK * size_of::<f32>();
        // A long stride passes over more rows than the image has, so these two may be larger than any memory.
        let row_bytes = (rows.in_width * BLOCK * in_blocks * size_of::<f32>()).saturating_mul(p.stride[0]);
        let out_bytes = rows.width * rows.count * BLOCK * out_count * size_of::<f32>();
        // Cut by rows, each thread reads all filters; cut by channels, it reads what others have written, and the next step does.
        let image_bytes = row_bytes.saturating_mul(rows.count).saturating_add(out_bytes);
        let weights_dominate = out_count * in_blocks * block_bytes > image_bytes;
        let filters = Filters::new(p);
        let shared = filters.shared();
        let units = shared.div_ceil(at_once) + (out_count - shared).div_ceil(at_once);
        let weight_budget = if isa == Isa::Avx2 { NEAR_WEIGHT_BUDGET } else { WEIGHT_BUDGET };
        let (out_parts, row_parts) = grid(threads, p.n * groups, units, rows.count, weights_dominate);
        let depth = (weight_budget / (block_bytes * at_once)).clamp(1, in_blocks.max(1));
        // Of the input blocks that are summed together.
        let live_bytes = row_bytes / in_blocks.max(1) * depth;
        Plan {
            rows,
            filters,
            units,
            in_blocks,
            out_blocks: out_count,
            groups,
            at_once,
            out_parts,
            row_parts,
            band: (INPUT_BUDGET / live_bytes.max(1)).max(4),
            depth,
        }
    }

    /// The first output block of a unit.
    fn first_block(&self, unit: usize) -> usize {
        let shared = self.filters.shared();
        let before = shared.div_ceil(self.at_once);
        let behind = unit.saturating_sub(before);
        ((unit - behind) * self.at_once).min(shared) + (behind * self.at_once).min(self.out_blocks - shared)
    }
}

/// Everything a task needs.
struct Job<'a> {
    p: &'a ConvParams,
    plan: Plan,
    o: Operands<'a>,
    y: SharedMut<'a, f32>,
    isa: Isa,
    clamp: Option<(f32, f32)>,
}

pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32], scratch: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if bf16::run(threads, p, o, y, scratch) {
        return;
    }
    if thins(p) {
        let Some(len) = thinned_len(p) else { panic!("`conv` takes no such parameters") };
        let (thin, rest) = scratch.split_at_mut(len);
        gather(threads, p, o.x, thin);
        return run_dense(threads, &thinned(p), Operands { x: thin, ..o }, y, rest);
    }
    run_dense(threads, p, o, y, scratch);
}

/// Every stride-th pixel of every stride-th row.
fn gather(threads: &Threads, p: &ConvParams, x: &[f32], out: &mut [f32]) {
    let planes = p.n * p.ic.div_ceil(BLOCK);
    let (plane, thin_plane) = (p.ih * p.iw * BLOCK, p.oh * p.ow * BLOCK);
    let parts = threads.count().min(planes);
    let out = SharedMut::new(out);
    threads.parallel_for(parts, |i| {
        for at in part(planes, parts, i) {
            // SAFETY: planes are disjoint.
            let to = unsafe { out.slice(at * thin_plane, thin_plane) };
            let from = &x[at * plane..][..plane];
            for (row, to) in to.chunks_exact_mut(p.ow * BLOCK).enumerate() {
                let from = from[row * p.stride[0] * p.iw * BLOCK..].chunks(BLOCK).step_by(p.stride[1]);
                to.chunks_exact_mut(BLOCK).zip(from).for_each(|(to, from)| to.copy_from_slice(from));
            }
        }
    });
}

fn run_dense(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32], scratch: &mut [f32]) {
    let isa = threads.isa();
    let plan = Plan::new(p, isa, threads.count());
    let tasks = p.n * plan.groups * plan.row_parts * plan.out_parts;
    let job = Job { p, plan, o, y: SharedMut::new(y), isa, clamp: p.act.as_clamp() };
    let Some(each) = widened_len(p) else { panic!("`conv` takes no such parameters") };
    let scratch = SharedMut::new(scratch);
    threads.parallel_for_each(tasks, |thread, task| {
        // SAFETY: one part of the scratch for each thread.
        job.task(task, unsafe { scratch.slice(thread * each, each) });
    });
}

/// The filters of some output blocks as tiles read them, addressed as all are.
#[derive(Clone, Copy)]
struct Panels {
    /// Where the first of all would be.
    w: *const f32,
    /// From one output block to the next.
    next: usize,
}

/// The filters of some output blocks, from an input block on; of none, if there are no others.
#[derive(Clone, Copy)]
struct Next {
    out: usize,
    count: usize,
    input: usize,
}

/// The coordinates of a row of tiles.
struct At {
    /// Image and group, as one index.
    outer: usize,
    group: usize,
    row: usize,
    /// First output block and number of blocks.
    out: usize,
    count: usize,
    /// The filters that are multiplied after these.
    next: Next,
    /// Rows of the band before this one.
    before: usize,
    /// Input blocks to sum.
    ins: Range<usize>,
    panels: Panels,
}

impl Job<'_> {
    fn task(&self, task: usize, scratch: &mut [f32]) {
        let plan = &self.plan;
        let (row_part, rest) = (task % plan.row_parts, task / plan.row_parts);
        let (out_part, outer) = (rest % plan.out_parts, rest / plan.out_parts);
        let rows = part(plan.rows.count, plan.row_parts, row_part);
        let units = part(plan.units, plan.out_parts, out_part);
        let outs = plan.first_block(units.start)..plan.first_block(units.end);
        let bands = rows.len().div_ceil(plan.band).max(1);
        for band in 0..bands {
            let cut = part(rows.len(), bands, band);
            let band = rows.start + cut.start..rows.start + cut.end;
            for first in (0..plan.in_blocks).step_by(plan.depth) {
                let ins = first..(first + plan.depth).min(plan.in_blocks);
                self.band(outer, &band, &outs, &ins, scratch);
            }
        }
    }

    /// Some output rows for the output blocks `outs`, summed over the input blocks `ins`.
    fn band(&self, outer: usize, rows: &Range<usize>, outs: &Range<usize>, ins: &Range<usize>, scratch: &mut [f32]) {
        let (plan, stride) = (&self.plan, self.p.stride[1]);
        let mut out = outs.start;
        while out < outs.end {
            // The rows of filters that a tile reads are of one length.
            let shared = plan.filters.shared();
            let alike = if out < shared { shared.min(outs.end) } else { outs.end };
            let count = out_blocks(self.isa, alike - out, plan.rows.width, stride).min(plan.at_once);
            let table = tiles(self.isa, count, stride);
            let group = outer % plan.groups;
            let next = self.next(outs, out + count, ins);
            let panels = self.panels(group, out..out + count, ins, scratch);
            for (before, row) in rows.clone().enumerate() {
                self.row(table, &At { outer, group, row, out, count, next, before, ins: ins.clone(), panels });
            }
            out += count;
        }
    }

    /// Those of the output blocks from `out` on, or of the first ones and the next input blocks.
    fn next(&self, outs: &Range<usize>, out: usize, ins: &Range<usize>) -> Next {
        let at_once = self.plan.at_once;
        if out < outs.end {
            return Next { out, count: at_once.min(outs.end - out), input: ins.start };
        }
        let count = if ins.end < self.plan.in_blocks { at_once.min(outs.len()) } else { 0 };
        Next { out: outs.start, count, input: ins.end }
    }

    /// The filters of some output blocks of a group: of 16 bits those that are multiplied next, widened.
    fn panels(&self, group: usize, outs: Range<usize>, ins: &Range<usize>, scratch: &mut [f32]) -> Panels {
        let (filters, taps) = (&self.plan.filters, self.p.kh * self.p.kw);
        if let PackedWeights::F32(w) = self.o.filters.packed {
            let start = |out| filters.start(group, out, 0, 0);
            return Panels { w: w.as_ptr(), next: start(outs.start + 1) - start(outs.start) };
        }
        let (shared, row) = (filters.shared(), filters.row(outs.start));
        let own = outs.start < shared;
        let panels = if own { outs } else { shared..shared + 1 };
        let rows = ins.clone().map(|block| filters.rows(block) * taps).sum::<usize>();
        let first = filters.start(group, panels.start, ins.start, 0);
        for (index, panel) in panels.enumerate().filter(|_| rows > 0) {
            let start = filters.start(group, panel, ins.start, 0);
            let (blocks, channel) = (row.div_ceil(BLOCK), filters.channel(group, panel));
            let of_panel = narrow::Rows { start, count: rows, row, blocks, channel };
            narrow::widen(self.isa, &self.o.filters, of_panel, &mut scratch[index * rows * row..]);
        }
        Panels { w: scratch.as_ptr().wrapping_sub(first), next: if own { rows * row } else { BLOCK } }
    }

    /// The tile at the start of a row: all that does not change along it. `x` is where input column 0 would be.
    fn first_tile(&self, at: &At) -> Tile {
        let (p, plan, rows) = (self.p, &self.plan, self.plan.rows);
        let (taps, in_plane) = (p.kh * p.kw, p.ih * p.iw * BLOCK);
        let top = (at.row * p.stride[0]) as isize - p.pad[0] as isize;
        let kh = taps_inside(top, p.dilation[0], rows.in_height, p.kh);
        let in_row = top + (kh.start * p.dilation[0]) as isize;
        let in_block = at.outer * plan.in_blocks + at.ins.start;
        let x = self.o.x.as_ptr().wrapping_add(in_block * in_plane);
        let out_block = at.group * plan.out_blocks + at.out;
        let filters = &plan.filters;
        let w = |block| at.panels.w.wrapping_add(filters.start(at.group, at.out, block, kh.start * p.kw));
        let (last, last_block) = (at.ins.end == plan.in_blocks, at.ins.end.saturating_sub(1));
        let row = filters.row(at.out);
        Tile {
            x: x.wrapping_offset(in_row * (rows.in_width * BLOCK) as isize),
            x_block: in_plane,
            x_row: p.dilation[0] * rows.in_width * BLOCK,
            x_column: p.dilation[1] * BLOCK,
            x_pixel: p.stride[1] * BLOCK,
            blocks: at.ins.len(),
            last_channels: filters.rows(last_block),
            kh: kh.len(),
            kw: p.kw,
            w: w(at.ins.start),
            w_last: w(last_block),
            w_out_block: at.panels.next,
            w_block: taps * BLOCK * row,
            w_row: row,
            ahead: 0,
            inside: false,
            column: 0,
            column_step: p.stride[1],
            tap_step: p.dilation[1],
            width: rows.in_width,
            count: 1,
            y: self.y.as_ptr(),
            y_block: p.oh * p.ow * BLOCK,
            accumulate: at.ins.start > 0,
            bias: self.o.bias.map_or(std::ptr::null(), |b| b.as_ptr().wrapping_add(out_block * BLOCK)),
            bias_left: p.oc.saturating_sub(out_block * BLOCK),
            residual: std::ptr::null(),
            clamp: self.clamp.filter(|_| last).unwrap_or((f32::NEG_INFINITY, f32::INFINITY)),
        }
    }

    /// From the filters that are multiplied to those of the next ones' output block `index`, in bytes by four; of 16 bits more of those
    /// are fetched than a tile has, which are needed later.
    fn ahead(&self, at: &At, index: usize) -> usize {
        let start = |out, block| self.plan.filters.start(at.group, out, block, 0);
        let to = self.o.filters.packed.address(start(at.next.out + index, at.next.input)) as usize;
        let from = at.panels.w.wrapping_add(start(at.out, at.ins.start)) as usize;
        (to.wrapping_sub(from).cast_signed() / size_of::<f32>().cast_signed()).cast_unsigned()
    }

    /// One output row for some output blocks, summed over some input blocks.
    fn row(&self, table: &[TileFn], at: &At) {
        let (p, plan, rows) = (self.p, &self.plan, self.plan.rows);
        let width = if at.row + 1 == rows.count { rows.last_width } else { rows.width };
        let last = at.ins.end == plan.in_blocks;
        let mut tile = self.first_tile(at);
        let x = tile.x;
        let y_row = (at.outer * plan.out_blocks + at.out) * tile.y_block + at.row * rows.width * BLOCK;
        let cuts = Cuts::new(width, table.len());
        let before = at.before * cuts.count;
        let mut index = 0;
        while index < cuts.count {
            let (start, pixels) = cuts.at(index);
            tile.place(start, pixels, x, p.pad[1]);
            let together = self.isa == Isa::Avx2 && tile.inside;
            tile.count = if together { tile.inside_with(pixels, cuts.alike(index)) } else { 1 };
            // The first tiles fetch the weights of the next output blocks, one each.
            let next = before + index;
            tile.ahead = if next < at.next.count { self.ahead(at, next) } else { 0 };
            let y = y_row + start * BLOCK;
            tile.y = self.y.as_ptr().wrapping_add(y);
            if let Some(r) = self.o.residual.filter(|_| last) {
                tile.residual = r.as_ptr().wrapping_add(y);
            }
            // SAFETY: the table matches the CPU; the tile's rows are clipped to x by `taps_inside`, its columns by
            // `Tile::outside`, and those behind it are inside; blocks and taps are those that the lengths of x, w and y hold,
            // which `conv` checked in arithmetic that does not wrap, as it did that no coordinate here does; tasks write disjoint
            // rows and blocks of y.
            unsafe { table[pixels - 1](&tile) };
            index += tile.count;
        }
        if last && self.clamp.is_none() {
            for o in 0..at.count {
                // SAFETY: this task's own pixels, in bounds of y.
                let done = unsafe { self.y.slice(y_row + o * tile.y_block, width * BLOCK) };
                p.act.apply(self.isa, done);
            }
        }
    }
}

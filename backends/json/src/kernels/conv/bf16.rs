//! Convolution from NCHW16c to NCHW16c of numbers of bf16, which f32 is a sum of: products are added up in f32, by matrix units or dot
//! products.
//!
//! Some rows of the image with the zeros around them go into lines of 64 bytes, a line for each position and 32 channels. A tile is 16
//! positions that follow each other, whichever rows they are in, and the input of a tap of the window is the same tile some lines
//! further: nothing is unrolled. With a stride of s, every s-th row and column is a plane of its own, within which that holds.
//! Positions that no output has are computed too, and dropped.

mod plan;

use std::arch::x86_64::*;
use std::ops::Range;

use super::narrow::{self, BEHIND};
use super::pack::Filters;
use super::{ConvParams, Operands};
use crate::kernels::bf16::terms::{
    Between, Multiplier, Operand, Rows, SIDE, STEP, SUMS, Step, Terms, from_line, sum_of,
};
use crate::kernels::bf16::{self, TILE, TILE_BYTES, Unit};
use crate::kernels::gemm::finish::Finish;
use crate::kernels::isa::{Isa, Kernel};
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, grid, part};
use crate::kernels::simd::{Avx512x16, V16};
use crate::kernels::weights::PackedWeights;
use plan::{LINE, Plan};

/// Fewer input blocks leave most of a line empty, which takes matrix units as long as a whole one.
const LEAST_BLOCKS: usize = 2;
/// Values of the filters of a tap that were of 16 bits: 16 input channels by up to two output blocks.
const WIDENED: usize = BLOCK * 2 * BLOCK + BEHIND;
/// f32 values of scratch on so many threads; 0 where the vector units compute it, `None` if they cannot be counted.
pub(super) fn scratch_len(p: &ConvParams, threads: usize) -> Option<usize> {
    Plan::new(p).map_or(Some(0), |plan| plan.each.checked_mul(threads))
}

/// Whether it is computed here.
pub(super) fn takes(threads: &Threads, p: &ConvParams) -> bool {
    plan(threads, p).is_some()
}

/// How it is computed here, and by what.
fn plan(threads: &Threads, p: &ConvParams) -> Option<(Plan, Unit)> {
    let (plan, unit) = (Plan::new(p)?, threads.unit(p.math)?);
    (unit == Unit::Dots || plan.in_blocks >= LEAST_BLOCKS).then_some((plan, unit))
}

/// Computes it and says so, if it is to be computed here.
pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32], scratch: &mut [f32]) -> bool {
    let Some((plan, unit)) = plan(threads, p) else { return false };
    let units = plan.out_blocks.div_ceil(2);
    let weights_dominate = p.oc * p.kh * p.kw > p.oh * p.ow;
    let (out_parts, row_parts) = grid(threads.count(), p.n * plan.groups, units, p.oh, weights_dominate);
    let total = p.n * plan.groups * out_parts * row_parts;
    let tasks = threads.count().min(total);
    let (out, scratch) = (SharedMut::new(y), SharedMut::new(scratch));
    threads.parallel_for_each(tasks, |thread, task| {
        // SAFETY: one part of the scratch for each thread.
        let scratch = unsafe { scratch.slice(thread * plan.each, plan.each) };
        for at in part(total, tasks, task) {
            let (row_part, rest) = (at % row_parts, at / row_parts);
            let (out_part, outer) = (rest % out_parts, rest / out_parts);
            let outs = part(units, out_parts, out_part);
            let job = Job {
                p,
                plan,
                o,
                y: out,
                outer,
                rows: part(p.oh, row_parts, row_part),
                outs: outs.start * 2..(outs.end * 2).min(plan.out_blocks),
            };
            // SAFETY: there is that unit; `conv` checked that the lengths are those of the parameters.
            unsafe { bf16::run(unit, p.math, OfTask { job: &job, scratch: &mut *scratch }) };
        }
    });
    true
}

/// Output rows and columns that are computed together.
struct Band {
    rows: Range<usize>,
    columns: Range<usize>,
}

/// Filters that are asked for while those before them are used.
struct Next {
    /// What was not asked for yet.
    lines: Range<*const u8>,
    /// Lines of cache for each step.
    each: usize,
}

impl Between for Next {
    #[inline(always)]
    unsafe fn advance(&mut self, _: usize) {}

    #[inline(always)]
    fn fetch(&mut self) {
        for _ in 0..self.each {
            if self.lines.start >= self.lines.end {
                return;
            }
            // SAFETY: AVX-512 has it, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(self.lines.start.cast()) };
            self.lines.start = self.lines.start.wrapping_add(LINE);
        }
    }
}

/// The part of one task: of an image and group some rows and output blocks.
struct Job<'a> {
    p: &'a ConvParams,
    plan: Plan,
    o: Operands<'a>,
    y: SharedMut<'a, f32>,
    /// Image and group, as one index.
    outer: usize,
    rows: Range<usize>,
    outs: Range<usize>,
}

/// It, and the scratch of its thread.
struct OfTask<'a> {
    job: &'a Job<'a>,
    scratch: &'a mut [f32],
}

impl bf16::Job for OfTask<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<T: Terms, M: Multiplier>(self) {
        // SAFETY: the caller vouches for the unit, the maker for the scratch.
        unsafe { self.job.run::<T, M>(self.scratch) };
    }
}

impl Job<'_> {
    /// # Safety
    /// There is the unit; `scratch` has as many values as the plan says.
    #[inline(always)]
    unsafe fn run<T: Terms, M: Multiplier>(&self, scratch: &mut [f32]) {
        let Some((sums, rest)) = from_line(scratch).split_first_chunk_mut() else { panic!("the scratch is too short") };
        let (filters, lines) = rest.split_at_mut(self.plan.filters);
        // SAFETY: the caller vouches for the unit; nothing else here starts it.
        let unit = unsafe { M::start() };
        let starts = self.rows.clone().step_by(self.plan.band);
        for (row, column) in starts.flat_map(|row| (0..self.p.ow).step_by(self.plan.columns).map(move |at| (row, at))) {
            let band = Band {
                rows: row..(row + self.plan.band).min(self.rows.end),
                columns: column..(column + self.plan.columns).min(self.p.ow),
            };
            // SAFETY: the caller vouches for AVX-512 and the lengths.
            unsafe {
                self.put_lines::<T, M>(&band, lines);
                for out in self.outs.clone().step_by(2) {
                    let outs = out..(out + 2).min(self.outs.end);
                    self.put_filters::<T, M>(&outs, filters);
                    let mut next = self.filters_after(&outs, &band);
                    self.band::<T, M>(&unit, (&band, &outs), (lines, filters), &mut next, sums);
                }
            }
        }
    }

    /// The filters that are put into tiles after these.
    fn filters_after(&self, outs: &Range<usize>, band: &Band) -> Next {
        let plan = &self.plan;
        let next = outs.end..(outs.end + 2).min(self.outs.end);
        let steps = plan.pairs * self.p.kh * self.p.kw * (band.rows.len() * plan.width).div_ceil(SIDE);
        let filters = self.o.filters.packed;
        let from = |out| Filters::new(self.p).start(self.group(), out, 0, 0).min(filters.len());
        let lines = filters.address(from(next.start))..filters.address(from(next.end));
        let bytes = lines.end as usize - lines.start as usize;
        Next { lines, each: bytes.div_ceil(LINE * steps.max(1)) }
    }

    /// The group whose filters these are.
    fn group(&self) -> usize {
        self.outer % self.plan.groups
    }

    /// Puts the input under some output rows into lines, zero beside the image.
    ///
    /// # Safety
    /// As [`Job::run`].
    #[inline(always)]
    unsafe fn put_lines<T: Terms, M: Multiplier>(&self, band: &Band, lines: &mut [f32]) {
        let (p, plan) = (self.p, &self.plan);
        let (piece, planes) = (plan.piece(), plan.planes[0] * plan.planes[1]);
        let in_plane = p.ih * p.iw * BLOCK;
        let channels = p.ic / plan.groups;
        let used = (band.rows.len() * plan.width).next_multiple_of(SIDE) + plan.reach;
        for (pair, plane) in (0..plan.pairs).flat_map(|pair| (0..planes).map(move |plane| (pair, plane))) {
            let [top, left] = [plane / plan.planes[1], plane % plan.planes[1]];
            let to = lines.as_mut_ptr().cast::<u8>().wrapping_add(pair * T::A * piece + plane * plan.lines * LINE);
            let x = &self.o.x[(self.outer * plan.in_blocks + 2 * pair) * in_plane..];
            // Lanes past the last channel may be anything.
            let masks: [__mmask16; 2] = std::array::from_fn(|half| {
                let left = channels.saturating_sub((2 * pair + half) * BLOCK);
                if left >= BLOCK { !0 } else { (1 << left) - 1 }
            });
            // No load behind the image, though nothing of it counts: one from where there is no memory takes hundreds of cycles.
            let second = if masks[1] == 0 { 0 } else { in_plane };
            for (down, start) in (0..used).step_by(plan.width).enumerate() {
                let row = ((band.rows.start + down).wrapping_mul(p.stride[0]) + top).wrapping_sub(p.pad[0]);
                for position in start..(start + plan.width).min(used) {
                    let column = band.columns.start + position - start;
                    let column = (column.wrapping_mul(p.stride[1]) + left).wrapping_sub(p.pad[1]);
                    let inside = row < p.ih && column < p.iw;
                    let at = if inside { (row * p.iw + column) * BLOCK } else { 0 };
                    let masks = if inside { masks } else { [0; 2] };
                    // SAFETY: the caller vouches for AVX-512; masks have no lane of what is not there; the plan counts the lines.
                    unsafe {
                        let low = _mm512_maskz_loadu_ps(masks[0], x.as_ptr().wrapping_add(at));
                        let high = _mm512_maskz_loadu_ps(masks[1], x.as_ptr().wrapping_add(second + at));
                        M::put_a::<T>(to.add(position * LINE), piece, [low, high]);
                    }
                }
            }
        }
    }

    /// Puts the filters of one or two output blocks into tiles, in the order of pairs and taps.
    ///
    /// # Safety
    /// As [`Job::run`].
    #[inline(always)]
    unsafe fn put_filters<T: Terms, M: Multiplier>(&self, outs: &Range<usize>, filters: &mut [f32]) {
        let (plan, taps) = (&self.plan, self.p.kh * self.p.kw);
        let from = Filters::new(self.p);
        let mut widened = [[0.0; WIDENED]; 2];
        let [low_widened, high_widened] = &mut widened;
        for step in 0..plan.pairs * taps {
            let (pair, tap) = (step / taps, step % taps);
            for (index, out) in outs.clone().enumerate() {
                let low = self.rows(&from, [out, 2 * pair, tap], low_widened);
                let is_there = 2 * pair + 1 < plan.in_blocks;
                let high = is_there.then(|| self.rows(&from, [out, 2 * pair + 1, tap], &mut *high_widened));
                let rows = RowsOfFilter { low, high, step: from.row(out) };
                for row in 0..TILE {
                    let place = step * T::B * 2 * TILE_BYTES + index * TILE_BYTES + row * LINE;
                    // SAFETY: the caller vouches for the unit and the plan counts the tiles.
                    unsafe {
                        M::put_b::<T>(filters.as_mut_ptr().cast::<u8>().add(place), 2 * TILE_BYTES, &rows, row);
                    }
                }
            }
        }
    }

    /// The filters of a tap from an input block to an output block.
    #[inline(always)]
    fn rows<'s>(&'s self, from: &Filters, [out, block, tap]: [usize; 3], widened: &'s mut [f32; WIDENED]) -> &'s [f32] {
        let (start, count, row) = (from.start(self.group(), out, block, tap), from.rows(block), from.row(out));
        match self.o.filters.packed {
            PackedWeights::F32(w) => &w[start..][..(count - 1) * row + BLOCK],
            _ => {
                let rows = narrow::Rows { start, count, row, blocks: 1, channel: from.channel(self.group(), out) };
                narrow::widen(Isa::Avx512, &self.o.filters, rows, widened)
            }
        }
    }

    /// Some output rows of one or two output blocks.
    ///
    /// # Safety
    /// As [`Job::run`]; lines and filters are theirs.
    #[inline(always)]
    unsafe fn band<T: Terms, M: Multiplier>(
        &self,
        unit: &M,
        (band, outs): (&Band, &Range<usize>),
        (lines, filters): (&[f32], &[f32]),
        next: &mut Next,
        sums: &mut [f32; SUMS],
    ) {
        let (p, plan) = (self.p, &self.plan);
        let (end, channels) = (band.rows.len() * plan.width, p.ic / plan.groups);
        let piece = plan.piece();
        let taps = plan.taps(p);
        let taps = &taps[..p.kh * p.kw];
        for first in (0..end).step_by(SIDE) {
            let positions = first..(first + SIDE).min(end);
            let all = (0..plan.pairs).flat_map(|pair| {
                let lines = lines.as_ptr().cast::<u8>().wrapping_add(pair * T::A * piece + first * LINE);
                taps.iter().map(move |tap| (lines.wrapping_add(tap * LINE), channels - pair * STEP))
            });
            let steps = all.enumerate().map(|(step, (lines, elements))| {
                let b = filters.as_ptr().cast::<u8>().wrapping_add(step * T::B * 2 * TILE_BYTES);
                let (a, b) = (Operand { tiles: lines, piece }, Operand { tiles: b, piece: 2 * TILE_BYTES });
                Step { a, b, elements }
            });
            // SAFETY: the caller vouches for the unit and AVX-512; the plan counts the lines and the tiles.
            unsafe {
                if !unit.sums::<T>([positions.len(), outs.len() * TILE], steps, next, sums) {
                    self.plain(band, &positions, outs, sums);
                }
                self.finish(band, &positions, outs, sums);
            }
        }
    }

    /// The same sums by the vector units, as what is not finite is no sum of pieces.
    ///
    /// # Safety
    /// As [`Job::run`].
    #[cold]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
    unsafe fn plain(&self, band: &Band, positions: &Range<usize>, outs: &Range<usize>, sums: &mut [f32; SUMS]) {
        let (p, plan) = (self.p, &self.plan);
        let (channels, taps, from) = (p.ic / plan.groups, p.kh * p.kw, Filters::new(p));
        for (index, position) in positions.clone().enumerate() {
            let row = band.rows.start + position / plan.width;
            let column = band.columns.start + position % plan.width;
            for (half, out) in outs.clone().enumerate() {
                // SAFETY: the caller vouches for AVX-512; a filter has 16 rows of 16, the sums of a position too.
                unsafe {
                    let (mut sum, mut widened) = (Avx512x16::splat(0.0), [0.0; WIDENED]);
                    for channel in 0..channels {
                        let (block, lane) = (channel / BLOCK, channel % BLOCK);
                        for tap in 0..taps {
                            let row =
                                (row.wrapping_mul(p.stride[0]) + tap / p.kw * p.dilation[0]).wrapping_sub(p.pad[0]);
                            let column =
                                (column.wrapping_mul(p.stride[1]) + tap % p.kw * p.dilation[1]).wrapping_sub(p.pad[1]);
                            if row < p.ih && column < p.iw {
                                let plane = (self.outer * plan.in_blocks + block) * p.ih;
                                let x = self.o.x[((plane + row) * p.iw + column) * BLOCK + lane];
                                let rows = self.rows(&from, [out, block, tap], &mut widened);
                                let w = &rows[lane * from.row(out)..][..BLOCK];
                                sum = Avx512x16::load(w.as_ptr()).fma(Avx512x16::splat(x), sum);
                            }
                        }
                    }
                    sum.store(sums[sum_of(index, half)..][..BLOCK].as_mut_ptr());
                }
            }
        }
    }

    /// Brings the sums into y, without those of positions that no output has, with everything else that happens to it.
    ///
    /// # Safety
    /// The processor has AVX-512; no other task has these pixels.
    #[inline(always)]
    unsafe fn finish(&self, band: &Band, positions: &Range<usize>, outs: &Range<usize>, sums: &[f32; SUMS]) {
        let (p, plan) = (self.p, &self.plan);
        let mut first = positions.start;
        while first < positions.end {
            let (row, column) = (band.rows.start + first / plan.width, first % plan.width);
            // The rest of the row and of the tile.
            let end = (first - column + plan.width).min((first / TILE + 1) * TILE).min(positions.end);
            let count = (end - first).min(band.columns.len().saturating_sub(column));
            let column = band.columns.start + column;
            for (half, out) in outs.clone().enumerate().filter(|_| count > 0) {
                let at = (((self.outer * plan.out_blocks + out) * p.oh + row) * p.ow + column) * BLOCK;
                // SAFETY: the caller vouches for the pixels.
                let pixels = unsafe { self.y.slice(at, count * BLOCK) };
                let sums = &sums[sum_of(first - positions.start, half)..][..count * BLOCK];
                // SAFETY: the caller vouches for AVX-512.
                unsafe { self.finish_run(out, at, sums, pixels) };
            }
            first = end;
        }
    }

    /// Pixels of one output block that follow each other, from element `at` of y on.
    ///
    /// # Safety
    /// The processor has AVX-512.
    #[inline(always)]
    unsafe fn finish_run(&self, out: usize, at: usize, sums: &[f32], pixels: &mut [f32]) {
        let act = self.p.act;
        let channel = (self.group() * self.plan.out_blocks + out) * BLOCK;
        // The last block may have fewer channels.
        let mut bias = [0.0; BLOCK];
        if let Some(all) = self.o.bias {
            let of_block = &all[channel.min(all.len())..(channel + BLOCK).min(all.len())];
            bias[..of_block.len()].copy_from_slice(of_block);
        }
        let finish = Finish {
            sums: sums.as_ptr(),
            sums_row: BLOCK,
            c: pixels.as_mut_ptr(),
            c_row: BLOCK,
            rows: sums.len().min(pixels.len()) / BLOCK,
            columns: BLOCK,
            beta: 0.0,
            bias_row: std::ptr::null(),
            bias_column: bias.as_ptr(),
            residual: self.o.residual.map_or(std::ptr::null(), |residual| residual[at..][..pixels.len()].as_ptr()),
            clamp: act.as_clamp().unwrap_or((f32::NEG_INFINITY, f32::INFINITY)),
        };
        // SAFETY: the caller vouches for AVX-512; as many rows of 16 values as the slices have.
        unsafe { finish.run::<Avx512x16>() };
        if act.as_clamp().is_none() {
            act.apply(Isa::Avx512, pixels);
        }
    }
}

/// The filters of two input blocks, of which the second may be missing: rows of 16, as many as channels.
struct RowsOfFilter<'a> {
    low: &'a [f32],
    high: Option<&'a [f32]>,
    /// Values from one row to the next.
    step: usize,
}

impl Rows for RowsOfFilter<'_> {
    #[inline(always)]
    unsafe fn row(&self, index: usize) -> __m512 {
        let of = if index < BLOCK { Some(self.low) } else { self.high };
        let row = of.and_then(|of| of.get(index % BLOCK * self.step..)?.first_chunk::<BLOCK>());
        // SAFETY: the caller vouches for AVX-512.
        unsafe {
            match row {
                Some(row) => _mm512_loadu_ps(row.as_ptr()),
                None => _mm512_setzero_ps(),
            }
        }
    }
}

const _: () =
    assert!(STEP == 2 * BLOCK && TILE == BLOCK, "a line has two blocks of channels, a tile the filters of one");

//! Convolution of stride 1 from NCHW16c to NCHW16c on matrix units: f32 as sums of numbers of bf16, whose products are added up in f32.
//!
//! Some rows of the image with the zeros around them go into lines of 64 bytes, a line for each position and 32 channels. A tile is 16
//! positions that follow each other, whichever rows they are in, and the input of a tap of the window is the same tile some lines
//! further: nothing is unrolled. Positions that no output has are computed too, and dropped.

use std::arch::x86_64::*;
use std::ops::Range;

use super::finish::finish;
use super::pack::group_blocks;
use super::{ConvParams, Operands};
use crate::kernels::amx::terms::{
    MOST, One, Operand, SIDE, STEP, SUMS, Six, Terms, Three, all_finite, from_line, products, put_row,
};
use crate::kernels::amx::{TILE, TILE_BYTES, Tiles};
use crate::kernels::isa::Isa;
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, grid, part};
use crate::kernels::precision::Math;
use crate::kernels::simd::{Avx512x16, V16};
use crate::kernels::sizes::product;

/// Bytes of lines that stay in the second-level cache while the filters pass by.
const BUDGET: usize = 768 * 1024;
/// Most bytes of lines, and of filters: one row more than fits is taken, more are left to the vector units.
const MOST_BYTES: usize = 3 * BUDGET / 2;
/// Positions for which it pays to put filters into tiles, if the image has more rows.
const LEAST_POSITIONS: usize = 96;
/// Bytes of a line.
const LINE: usize = 64;
/// Fewer input blocks leave most of a line empty.
const LEAST_BLOCKS: usize = 2;

/// How the work is cut, and how many lines that takes.
#[derive(Clone, Copy)]
struct Plan {
    in_blocks: usize,
    out_blocks: usize,
    groups: usize,
    /// Pairs of input blocks: what a line has.
    pairs: usize,
    /// Positions of a row, with those of the zeros beside it.
    width: usize,
    /// Output rows that are computed together.
    band: usize,
    /// Lines from the first row of a window to its last tap.
    reach: usize,
    /// Lines of a band, for each pair and piece.
    lines: usize,
    /// f32 values of the tiles of the filters of two output blocks.
    filters: usize,
    /// f32 values of scratch of one thread.
    each: usize,
}

impl Plan {
    /// `None` where the vector units are to compute it.
    fn new(p: &ConvParams) -> Option<Plan> {
        if p.math == Math::F32 || p.stride != [1, 1] || p.oh == 0 || p.ow == 0 {
            return None;
        }
        let (in_blocks, out_blocks, groups) = group_blocks(p);
        if in_blocks < LEAST_BLOCKS {
            return None;
        }
        let pairs = in_blocks.div_ceil(2);
        let width = p.ow.checked_add(product(&[p.kw - 1, p.dilation[1]])?)?;
        let reach = product(&[p.kh - 1, p.dilation[0], width])?.checked_add((p.kw - 1) * p.dilation[1])?;
        let pieces = match p.math {
            Math::F32 | Math::Bf16 => 1,
            Math::Bf16x3 => 2,
            Math::Bf16x6 => MOST,
        };
        let row = product(&[width, pairs, pieces, LINE])?;
        let band = (BUDGET / row).saturating_sub((p.kh - 1).saturating_mul(p.dilation[0])).clamp(1, p.oh);
        let lines = product(&[band, width])?.checked_next_multiple_of(SIDE)?.checked_add(reach)?;
        let (filter_bytes, line_bytes) =
            (product(&[pairs, p.kh, p.kw, pieces, 2 * TILE_BYTES])?, product(&[lines, pairs, pieces, LINE])?);
        let many = band == p.oh || band * width >= LEAST_POSITIONS;
        if filter_bytes > MOST_BYTES || line_bytes > MOST_BYTES || !many {
            return None;
        }
        let filters = filter_bytes / size_of::<f32>();
        let each = line_bytes / size_of::<f32>() + filters + SUMS + 2 * TILE;
        Some(Plan {
            in_blocks,
            out_blocks,
            groups,
            pairs,
            width,
            band,
            reach,
            lines,
            filters,
            each: each.next_multiple_of(TILE),
        })
    }
}

/// f32 values of scratch on so many threads; 0 where the vector units compute it, `None` if they cannot be counted.
pub(super) fn scratch_len(p: &ConvParams, threads: usize) -> Option<usize> {
    Plan::new(p).map_or(Some(0), |plan| plan.each.checked_mul(threads))
}

/// Whether it is computed here.
pub(super) fn takes(threads: &Threads, p: &ConvParams) -> bool {
    Plan::new(p).is_some() && threads.has_amx()
}

/// Computes it and says so, if it is to be computed here.
pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32], scratch: &mut [f32]) -> bool {
    let Some(plan) = Plan::new(p) else { return false };
    if !threads.has_amx() {
        return false;
    }
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
            // SAFETY: there are matrix units; `conv` checked that the lengths are those of the parameters.
            unsafe {
                match p.math {
                    Math::Bf16x6 => job.run::<Six>(scratch),
                    Math::Bf16x3 => job.run::<Three>(scratch),
                    Math::Bf16 | Math::F32 => job.run::<One>(scratch),
                }
            }
        }
    });
    true
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

impl Job<'_> {
    /// # Safety
    /// There are matrix units; `scratch` has as many values as the plan says.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
    unsafe fn run<T: Terms>(&self, scratch: &mut [f32]) {
        let Some((sums, rest)) = from_line(scratch).split_first_chunk_mut() else { panic!("the scratch is too short") };
        let (filters, lines) = rest.split_at_mut(self.plan.filters);
        // SAFETY: the caller vouches for matrix units; nothing else here configures them.
        let tiles = unsafe { Tiles::configure() };
        for start in self.rows.clone().step_by(self.plan.band) {
            let band = start..(start + self.plan.band).min(self.rows.end);
            // SAFETY: the caller vouches for AVX-512 and the lengths.
            unsafe {
                self.put_lines::<T>(&band, lines);
                for out in self.outs.clone().step_by(2) {
                    let outs = out..(out + 2).min(self.outs.end);
                    self.put_filters::<T>(&outs, filters);
                    self.band::<T>(&tiles, &band, &outs, (lines, filters), sums);
                }
            }
        }
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
    unsafe fn put_lines<T: Terms>(&self, band: &Range<usize>, lines: &mut [f32]) {
        let (p, plan) = (self.p, &self.plan);
        let piece = plan.lines * LINE;
        let in_plane = p.ih * p.iw * BLOCK;
        let channels = p.ic / plan.groups;
        let used = (band.len() * plan.width).next_multiple_of(SIDE) + plan.reach;
        for pair in 0..plan.pairs {
            let to = lines.as_mut_ptr().cast::<u8>().wrapping_add(pair * T::A * piece);
            let x = &self.o.x[(self.outer * plan.in_blocks + 2 * pair) * in_plane..];
            // Lanes past the last channel may be anything.
            let masks: [__mmask16; 2] = std::array::from_fn(|half| {
                let left = channels.saturating_sub((2 * pair + half) * BLOCK);
                if left >= BLOCK { !0 } else { (1 << left) - 1 }
            });
            for (down, start) in (0..used).step_by(plan.width).enumerate() {
                let row = (band.start + down).wrapping_sub(p.pad[0]);
                for position in start..(start + plan.width).min(used) {
                    let column = (position - start).wrapping_sub(p.pad[1]);
                    let inside = row < p.ih && column < p.iw;
                    let at = if inside { (row * p.iw + column) * BLOCK } else { 0 };
                    let masks = if inside { masks } else { [0; 2] };
                    // SAFETY: the caller vouches for AVX-512; masks have no lane of what is not there; the plan counts the lines.
                    unsafe {
                        let low = _mm512_maskz_loadu_ps(masks[0], x.as_ptr().wrapping_add(at));
                        let high = _mm512_maskz_loadu_ps(masks[1], x.as_ptr().wrapping_add(in_plane + at));
                        put_row(T::A, to.add(position * LINE), piece, [low, high]);
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
    unsafe fn put_filters<T: Terms>(&self, outs: &Range<usize>, filters: &mut [f32]) {
        let (plan, taps) = (&self.plan, self.p.kh * self.p.kw);
        let filter = BLOCK * BLOCK;
        for step in 0..plan.pairs * taps {
            let (pair, tap) = (step / taps, step % taps);
            for (index, out) in outs.clone().enumerate() {
                let in_block = 2 * pair;
                let at = ((self.group() * plan.out_blocks + out) * plan.in_blocks + in_block) * taps + tap;
                let low = &self.o.w[at * filter..][..filter];
                let high = (in_block + 1 < plan.in_blocks).then(|| &self.o.w[(at + taps) * filter..][..filter]);
                for row in 0..TILE {
                    let place = step * T::B * 2 * TILE_BYTES + index * TILE_BYTES + row * LINE;
                    // SAFETY: the caller vouches for AVX-512 and the plan counts the tiles; a filter has 16 rows of 16.
                    unsafe {
                        let low = Avx512x16::load(low.as_ptr().add(row * BLOCK)).lanes();
                        let high = match high {
                            Some(high) => Avx512x16::load(high.as_ptr().add(row * BLOCK)).lanes(),
                            None => _mm512_setzero_ps(),
                        };
                        put_row(T::B, filters.as_mut_ptr().cast::<u8>().add(place), 2 * TILE_BYTES, [low, high]);
                    }
                }
            }
        }
    }

    /// Some output rows of one or two output blocks.
    ///
    /// # Safety
    /// As [`Job::run`]; lines and filters are theirs.
    #[inline(always)]
    unsafe fn band<T: Terms>(
        &self,
        tiles: &Tiles,
        band: &Range<usize>,
        outs: &Range<usize>,
        (lines, filters): (&[f32], &[f32]),
        sums: &mut [f32; SUMS],
    ) {
        let (p, plan) = (self.p, &self.plan);
        let end = band.len() * plan.width;
        let piece = plan.lines * LINE;
        for first in (0..end).step_by(SIDE) {
            tiles.clear_sums();
            let mut b = Operand { tiles: filters.as_ptr().cast(), piece: 2 * TILE_BYTES };
            for pair in 0..plan.pairs {
                for tap in 0..p.kh * p.kw {
                    let (down, right) = (tap / p.kw * p.dilation[0], tap % p.kw * p.dilation[1]);
                    let line = first + down * plan.width + right;
                    let from = lines.as_ptr().cast::<u8>().wrapping_add(pair * T::A * piece + line * LINE);
                    let a = Operand { tiles: from, piece };
                    // SAFETY: the plan counts the lines and the tiles.
                    unsafe {
                        match (end - first > TILE, outs.len() > 1) {
                            (true, true) => products::<T, true, true>(tiles, a, b),
                            (true, false) => products::<T, true, false>(tiles, a, b),
                            (false, true) => products::<T, false, true>(tiles, a, b),
                            (false, false) => products::<T, false, false>(tiles, a, b),
                        }
                        b.tiles = b.tiles.add(T::B * 2 * TILE_BYTES);
                    }
                }
            }
            tiles.store_sums(sums);
            let positions = first..(first + SIDE).min(end);
            // SAFETY: the caller vouches for AVX-512.
            unsafe {
                if !all_finite(sums) {
                    self.plain(band.start, &positions, outs, sums);
                }
                self.finish(band.start, &positions, outs, sums);
            }
        }
    }

    /// The same sums by the vector units, as what is not finite is no sum of pieces.
    ///
    /// # Safety
    /// As [`Job::run`].
    #[cold]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
    unsafe fn plain(&self, top: usize, positions: &Range<usize>, outs: &Range<usize>, sums: &mut [f32; SUMS]) {
        let (p, plan) = (self.p, &self.plan);
        let (channels, taps) = (p.ic / plan.groups, p.kh * p.kw);
        for (index, position) in positions.clone().enumerate() {
            let (row, column) = (top + position / plan.width, position % plan.width);
            for (half, out) in outs.clone().enumerate() {
                // SAFETY: the caller vouches for AVX-512; a filter has 16 rows of 16, the sums of a position too.
                unsafe {
                    let mut sum = Avx512x16::splat(0.0);
                    for channel in 0..channels {
                        let (block, lane) = (channel / BLOCK, channel % BLOCK);
                        let filter = (self.group() * plan.out_blocks + out) * plan.in_blocks + block;
                        for tap in 0..taps {
                            let row = (row + tap / p.kw * p.dilation[0]).wrapping_sub(p.pad[0]);
                            let column = (column + tap % p.kw * p.dilation[1]).wrapping_sub(p.pad[1]);
                            if row < p.ih && column < p.iw {
                                let plane = (self.outer * plan.in_blocks + block) * p.ih;
                                let x = self.o.x[((plane + row) * p.iw + column) * BLOCK + lane];
                                let w = &self.o.w[((filter * taps + tap) * BLOCK + lane) * BLOCK..][..BLOCK];
                                sum = Avx512x16::load(w.as_ptr()).fma(Avx512x16::splat(x), sum);
                            }
                        }
                    }
                    sum.store(sums[sum_of(index, half)..][..BLOCK].as_mut_ptr());
                }
            }
        }
    }

    /// Brings the sums into y, without those of positions that no output has, and finishes what came there.
    ///
    /// # Safety
    /// No other task has these pixels.
    #[inline(always)]
    unsafe fn finish(&self, top: usize, positions: &Range<usize>, outs: &Range<usize>, sums: &[f32; SUMS]) {
        let (p, plan) = (self.p, &self.plan);
        let mut first = positions.start;
        while first < positions.end {
            let (row, column) = (top + first / plan.width, first % plan.width);
            let end = (first - column + plan.width).min(positions.end);
            let count = (end - first).min(p.ow.saturating_sub(column));
            for (half, out) in outs.clone().enumerate().filter(|_| count > 0) {
                let block = self.outer * plan.out_blocks + out;
                let at = (block * p.oh + row) * p.ow + column;
                // SAFETY: the caller vouches for them.
                let pixels = unsafe { self.y.slice(at * BLOCK, count * BLOCK) };
                for (index, pixel) in pixels.chunks_exact_mut(BLOCK).enumerate() {
                    pixel.copy_from_slice(&sums[sum_of(first - positions.start + index, half)..][..BLOCK]);
                }
                let channel = (self.group() * plan.out_blocks + out) * BLOCK;
                let bias = self.o.bias.map(|bias| &bias[channel.min(bias.len())..]);
                let residual = self.o.residual.map(|residual| &residual[at * BLOCK..][..count * BLOCK]);
                finish(Isa::Avx512, p.act, bias, residual, pixels);
            }
            first = end;
        }
    }
}

/// Where the 16 sums of a position are, of the first or the second output block.
fn sum_of(position: usize, half: usize) -> usize {
    ((position / TILE * 2 + half) * TILE + position % TILE) * BLOCK
}

const _: () =
    assert!(STEP == 2 * BLOCK && TILE == BLOCK, "a line has two blocks of channels, a tile the filters of one");

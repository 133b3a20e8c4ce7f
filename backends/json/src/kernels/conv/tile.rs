//! The register tile of the blocked convolution: P pixels of one output row times OB blocks of 16 channels.

use super::taps::Taps;
use crate::kernels::isa::Isa;
use crate::kernels::layout::BLOCK;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::{Avx2x16, Avx512x16};
use crate::kernels::simd::{Portable16, V16};
use crate::kernels::unrolled::{FEW, MOST, unrolled};
use std::ops::Range;

/// One tile's work. Strides count f32 values.
#[derive(Clone)]
pub(super) struct Tile {
    /// Input under pixel 0, tap (first valid row, column 0), block 0; may point outside where `columns` says so.
    pub(super) x: *const f32,
    pub(super) x_block: usize,
    pub(super) x_row: usize,
    pub(super) x_column: usize,
    pub(super) x_pixel: usize,
    /// Input blocks to sum over, and channels of the last one.
    pub(super) blocks: usize,
    pub(super) last_channels: usize,
    /// Taps: valid rows, all columns.
    pub(super) kh: usize,
    pub(super) kw: usize,
    /// Weights at the first valid row of the first block, and of the last one (read only if that has fewer than 16 channels).
    pub(super) w: *const f32,
    pub(super) w_last: *const f32,
    pub(super) w_out_block: usize,
    pub(super) w_block: usize,
    /// From those of an input channel to those of the next.
    pub(super) w_row: usize,
    /// From the weights that are multiplied to those that are fetched meanwhile, as they will be needed soon. With AVX2, whose tiles are
    /// small, the hardware does that as well.
    pub(super) ahead: usize,
    /// Input column under pixel 0 at tap column 0, column step of a pixel and of a tap, input width: the test which
    /// pixels are outside; unused if `inside`.
    pub(super) inside: bool,
    pub(super) column: isize,
    pub(super) column_step: usize,
    pub(super) tap_step: usize,
    pub(super) width: usize,
    /// Tiles to compute, one at least: this one and those behind it in its row, of as many pixels. More than one only with AVX2, where
    /// they are small: all of them are `inside`.
    pub(super) count: usize,
    pub(super) y: *mut f32,
    pub(super) y_block: usize,
    /// Add to what `y` holds (a previous group of input blocks) instead of starting from the bias.
    pub(super) accumulate: bool,
    /// Bias at the first output block, with the number of values left there; null: none.
    pub(super) bias: *const f32,
    pub(super) bias_left: usize,
    /// Added at the end, laid out as `y`; null: none.
    pub(super) residual: *const f32,
    pub(super) clamp: (f32, f32),
}

/// A compiled tile.
pub(super) type TileFn = unsafe fn(&Tile);

impl Tile {
    /// How many pixels at the left and at the right of a tile of `pixels` fall outside for tap column `kw`.
    #[inline(always)]
    pub(super) fn outside<const S: usize>(&self, kw: usize, pixels: usize) -> (usize, usize) {
        // A division by a constant takes no time.
        let step = if S == 0 { self.column_step } else { S };
        let first = self.column + (kw * self.tap_step) as isize;
        let left = if first >= 0 { 0 } else { first.unsigned_abs().div_ceil(step) };
        let last = first + ((pixels - 1) * step) as isize;
        let over = last - (self.width as isize - 1);
        let right = if over <= 0 { 0 } else { over.unsigned_abs().div_ceil(step) };
        (left.min(pixels), right.min(pixels))
    }

    /// Moves to the `pixels` pixels from `start` on of a row whose input begins at `row`, `pad` zeros before it.
    pub(super) fn place(&mut self, start: usize, pixels: usize, row: *const f32, pad: usize) {
        self.column = (start * self.column_step) as isize - pad as isize;
        let reach = self.column + ((pixels - 1) * self.column_step + (self.kw - 1) * self.tap_step) as isize;
        self.inside = self.column >= 0 && reach < self.width as isize;
        self.x = row.wrapping_offset(self.column * BLOCK as isize);
    }

    /// How many tiles of `pixels` pixels are inside as this one is, of `most` from it on.
    pub(super) fn inside_with(&self, pixels: usize, most: usize) -> usize {
        // A division takes as long as a few steps.
        if most == 1 {
            return 1;
        }
        let last = self.column + ((pixels - 1) * self.column_step + (self.kw - 1) * self.tap_step) as isize;
        let room = (self.width as isize - 1 - last).unsigned_abs();
        most.min(1 + room / (pixels * self.column_step))
    }

    /// Moves to the tile behind this one, of as many pixels.
    #[inline(always)]
    pub(super) fn advance<const S: usize>(&mut self, pixels: usize) {
        self.x = self.x.wrapping_add(pixels * pixel_step::<S>(self));
        self.y = self.y.wrapping_add(pixels * BLOCK);
        if !self.residual.is_null() {
            self.residual = self.residual.wrapping_add(pixels * BLOCK);
        }
    }
}

/// The distance between pixels: S blocks, or (S = 0) what the tile says.
#[inline(always)]
pub(super) fn pixel_step<const S: usize>(t: &Tile) -> usize {
    if S == 0 { t.x_pixel } else { S * BLOCK }
}

/// Input channel `i` of one kernel tap, whose weights are at `w`: acc[p][o] += x[p][i] * w[o], for the pixels L..P - R.
///
/// # Safety
/// As [`tile`]; `x` is readable for those pixels.
#[inline(always)]
unsafe fn channel<V: V16, const P: usize, const OB: usize, const S: usize, const L: usize, const R: usize>(
    t: &Tile,
    (x, w): (*const f32, *const f32),
    i: usize,
    acc: &mut [[V; OB]; P],
) {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        if const { V::REGISTERS == 1 } {
            V::prefetch(w.wrapping_add(t.ahead));
        }
        let mut wv = [V::splat(0.0); OB];
        unrolled!(o in 0..OB of FEW {
            wv[o] = V::load(w.add(o * t.w_out_block));
        });
        unrolled!(p in 0..P {
            if p >= L && p + R < P {
                let xv = V::splat(*x.wrapping_add(p * pixel_step::<S>(t) + i));
                unrolled!(o in 0..OB of FEW {
                    acc[p][o] = xv.fma(wv[o], acc[p][o]);
                });
            }
        });
    }
}

/// One tap over up to 16 input channels, as [`channel`], for any number of pixels outside.
///
/// # Safety
/// As [`channel`].
#[inline(always)]
unsafe fn tap_any<V: V16, const P: usize, const OB: usize, const S: usize>(
    t: &Tile,
    x: *const f32,
    w: *const f32,
    (left, right): (usize, usize),
    channels: usize,
    acc: &mut [[V; OB]; P],
) {
    unrolled!(p in 0..P {
        if p >= left && p + right < P {
            for i in 0..channels {
                // SAFETY: the caller vouches for the pointers; i < 16.
                unsafe {
                    let xv = V::splat(*x.wrapping_add(p * pixel_step::<S>(t) + i));
                    unrolled!(o in 0..OB of FEW {
                        acc[p][o] = xv.fma(V::load(w.add(o * t.w_out_block + i * t.w_row)), acc[p][o]);
                    });
                }
            }
        }
    });
}

/// All channels of all taps in the columns `kws`.
///
/// # Safety
/// As [`tile`]; no pixels are outside there but the first L and the last R.
#[inline(always)]
unsafe fn taps<V: V16, const P: usize, const OB: usize, const S: usize, const L: usize, const R: usize>(
    t: &Tile,
    kws: Range<usize>,
    acc: &mut [[V; OB]; P],
) {
    let mut at = Taps::new(t, kws);
    // SAFETY: the caller vouches for the pointers; i < 16.
    unsafe {
        if const { V::REGISTERS == 2 } {
            // Written out, as steps of products are (`gemm/tile.rs`).
            let others = match (t.w_row, t.last_channels) {
                (BLOCK, BLOCK) => 0,
                (BLOCK, _) => at.in_block,
                _ => at.left,
            };
            while at.left > others {
                unrolled!(i in 0..BLOCK {
                    channel::<V, P, OB, S, L, R>(t, (at.x, at.w.wrapping_add(i * BLOCK)), i, acc);
                });
                at.next(t);
            }
        }
        while at.left > 0 {
            let channels = if at.last() { t.last_channels } else { BLOCK };
            let mut w = at.w;
            for i in 0..channels {
                channel::<V, P, OB, S, L, R>(t, (at.x, w), i, acc);
                w = w.wrapping_add(t.w_row);
            }
            at.next(t);
        }
    }
}

/// # Safety
/// The CPU has the features of `V`; the pointers of `t` are valid for a tile of `P` x `OB`.
#[inline(always)]
unsafe fn tile<V: V16, const P: usize, const OB: usize, const S: usize>(t: &Tile) {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        // Each way has sums of its own, so that one does not cost the other registers.
        if t.inside && const { V::REGISTERS == 2 } {
            let bias = bias(t);
            let mut t = t.clone();
            for _ in 0..t.count {
                fetch::<V, P, OB>(&t);
                let mut acc = [[V::splat(0.0); OB]; P];
                taps::<V, P, OB, S, 0, 0>(&t, 0..t.kw, &mut acc);
                finish(&t, &bias, &acc);
                t.advance::<S>(P);
            }
            return;
        }
        fetch::<V, P, OB>(t);
        if t.inside && const { V::REGISTERS != 2 } {
            let mut acc = [[V::splat(0.0); OB]; P];
            taps::<V, P, OB, S, 0, 0>(t, 0..t.kw, &mut acc);
            finish(t, &bias(t), &acc);
        } else {
            clipped::<V, P, OB, S>(t);
        }
    }
}

/// [`taps`] for the columns from `kw` on in which the first L pixels and the last R are outside; gives the first column in which
/// others are.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn columns<V: V16, const P: usize, const OB: usize, const S: usize, const L: usize, const R: usize>(
    t: &Tile,
    mut kw: usize,
    acc: &mut [[V; OB]; P],
) -> usize {
    while kw < t.kw && t.outside::<S>(kw, P) == (L, R) {
        // SAFETY: the caller vouches for features and pointers.
        unsafe { taps::<V, P, OB, S, L, R>(t, kw..kw + 1, acc) };
        kw += 1;
    }
    kw
}

/// [`tile`] where pixels may be outside, by one column of taps after the other.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn clipped<V: V16, const P: usize, const OB: usize, const S: usize>(t: &Tile) {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        let mut acc = [[V::splat(0.0); OB]; P];
        let mut kw = 0;
        // One after the other, from the left border to the right one: with a choice of them for each column the compiler stores and
        // loads all sums in each step of AVX2 (convolutions with a stride took half as long again), and without it in those of AVX-512.
        let in_order = V::REGISTERS == 2 && S != 0;
        if in_order {
            kw = columns::<V, P, OB, S, 1, 0>(t, kw, &mut acc);
            kw = columns::<V, P, OB, S, 0, 0>(t, kw, &mut acc);
            kw = columns::<V, P, OB, S, 0, 1>(t, kw, &mut acc);
        }
        for kw in kw..t.kw {
            match t.outside::<S>(kw, P) {
                (0, 0) if !in_order => taps::<V, P, OB, S, 0, 0>(t, kw..kw + 1, &mut acc),
                (1, 0) if !in_order && S != 0 => taps::<V, P, OB, S, 1, 0>(t, kw..kw + 1, &mut acc),
                (0, 1) if !in_order && S != 0 => taps::<V, P, OB, S, 0, 1>(t, kw..kw + 1, &mut acc),
                out => {
                    let mut at = Taps::new(t, kw..kw + 1);
                    while at.left > 0 {
                        let channels = if at.last() { t.last_channels } else { BLOCK };
                        tap_any::<V, P, OB, S>(t, at.x, at.w, out, channels, &mut acc);
                        at.next(t);
                    }
                }
            }
        }
        finish(t, &bias(t), &acc);
    }
}

/// Asks for the pixels that the end reads and writes.
#[inline(always)]
fn fetch<V: V16, const P: usize, const OB: usize>(t: &Tile) {
    for o in 0..OB {
        for p in 0..P {
            let at = o * t.y_block + p * BLOCK;
            V::prefetch_to_write(t.y.wrapping_add(at));
            if !t.residual.is_null() {
                V::prefetch(t.residual.wrapping_add(at));
            }
        }
    }
}

/// The bias of each output block; zeros where there is none, or `y` holds it.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
pub(super) unsafe fn bias<V: V16, const OB: usize>(t: &Tile) -> [V; OB] {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        let mut bias = [V::splat(0.0); OB];
        if !t.bias.is_null() && !t.accumulate {
            unrolled!(o in 0..OB of FEW {
                bias[o] = V::load_part(t.bias.wrapping_add(o * BLOCK), t.bias_left.saturating_sub(o * BLOCK), 0.0);
            });
        }
        bias
    }
}

/// [`bias`], or what `y` holds, residual and clamp, then the store.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
pub(super) unsafe fn finish<V: V16, const P: usize, const OB: usize>(t: &Tile, bias: &[V; OB], acc: &[[V; OB]; P]) {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        let (lo, hi) = (V::splat(t.clamp.0), V::splat(t.clamp.1));
        unrolled!(o in 0..OB of FEW {
            unrolled!(p in 0..P {
                let at = o * t.y_block + p * BLOCK;
                let mut v = acc[p][o].add(bias[o]);
                if t.accumulate {
                    v = v.add(V::load(t.y.add(at)));
                }
                if !t.residual.is_null() {
                    v = v.add(V::load(t.residual.add(at)));
                }
                hi.min(lo.max(v)).store(t.y.add(at));
            });
        });
    }
}

unsafe fn portable<const P: usize, const OB: usize, const S: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers; the portable vector needs no feature.
    unsafe { tile::<Portable16, P, OB, S>(t) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<const P: usize, const OB: usize, const S: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers and for AVX2.
    unsafe { tile::<Avx2x16, P, OB, S>(t) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
unsafe fn avx512<const P: usize, const OB: usize, const S: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers and for AVX-512.
    unsafe { tile::<Avx512x16, P, OB, S>(t) }
}

/// The tiles of 1 to `max` pixels for one OB and S.
macro_rules! tiles {
    ($f:ident, $ob:literal, $s:literal, [$($p:literal)*]) => {{
        const TILES: &[TileFn] = &[$($f::<$p, $ob, $s>),*];
        const { assert!(TILES.len() <= MOST && $ob <= FEW, "no loop is unrolled further") };
        TILES
    }};
}

/// The tiles for an instruction set, a number of output blocks and a horizontal stride: entry P - 1 computes P pixels.
/// Sizes leave registers for the weights and one input: 32 of 16 lanes with AVX-512, 16 of 8 lanes with AVX2.
pub(super) fn tiles(isa: Isa, out_blocks: usize, stride: usize) -> &'static [TileFn] {
    match (isa, out_blocks, stride) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 4, 1) => tiles!(avx512, 4, 1, [1 2 3 4 5 6 7]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 4, 2) => tiles!(avx512, 4, 2, [1 2 3 4 5 6 7]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 2, 1) => tiles!(avx512, 2, 1, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 2, 2) => tiles!(avx512, 2, 2, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 2, _) => tiles!(avx512, 2, 0, [1 2 3 4 5 6 7]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, _, 1) => tiles!(avx512, 1, 1, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, _, _) => tiles!(avx512, 1, 0, [1 2 3 4 5 6 7 8]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, 4, _) => tiles!(avx2, 4, 0, [1]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, _, 1) => tiles!(avx2, 1, 1, [1 2 3 4 5 6]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, _, 2) => tiles!(avx2, 1, 2, [1 2 3 4 5 6]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, _, _) => tiles!(avx2, 1, 0, [1 2 3 4 5 6]),
        (_, _, 1) => tiles!(portable, 1, 1, [1 2 3 4]),
        _ => tiles!(portable, 1, 0, [1 2 3 4]),
    }
}

/// How many output blocks at once suit rows of `width` pixels when `blocks` of them remain.
pub(super) fn out_blocks(isa: Isa, blocks: usize, width: usize, stride: usize) -> usize {
    match isa {
        Isa::Avx512 if width <= 7 && blocks >= 4 && stride <= 2 => 4,
        Isa::Avx512 if blocks >= 2 => 2,
        // One pixel of one block is two sums, which wait for each other.
        Isa::Avx2 if width == 1 && blocks >= 4 => 4,
        _ => 1,
    }
}

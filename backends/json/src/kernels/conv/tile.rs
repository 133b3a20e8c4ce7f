//! The register tile of the blocked convolution: P pixels of one output row times OB blocks of 16 channels.

use crate::kernels::isa::Isa;
use crate::kernels::layout::BLOCK;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::{Avx2x16, Avx512x16};
use crate::kernels::simd::{Portable16, V16};
use crate::kernels::unrolled::{MOST, unrolled};

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
    /// Weights at the first valid row of the first block.
    pub(super) w: *const f32,
    pub(super) w_out_block: usize,
    pub(super) w_block: usize,
    /// From the weights that are multiplied to those that are fetched meanwhile, as they will be needed soon.
    pub(super) ahead: usize,
    /// Input column under pixel 0 at tap column 0, column step of a pixel and of a tap, input width: the test which
    /// pixels are outside; unused if `inside`.
    pub(super) inside: bool,
    pub(super) column: isize,
    pub(super) column_step: usize,
    pub(super) tap_step: usize,
    pub(super) width: usize,
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
    fn outside(&self, kw: usize, pixels: usize) -> (usize, usize) {
        let first = self.column + (kw * self.tap_step) as isize;
        let left = if first >= 0 { 0 } else { first.unsigned_abs().div_ceil(self.column_step) };
        let last = first + ((pixels - 1) * self.column_step) as isize;
        let over = last - (self.width as isize - 1);
        let right = if over <= 0 { 0 } else { over.unsigned_abs().div_ceil(self.column_step) };
        (left.min(pixels), right.min(pixels))
    }
}

/// The distance between pixels: S blocks, or (S = 0) what the tile says.
#[inline(always)]
fn pixel_step<const S: usize>(t: &Tile) -> usize {
    if S == 0 { t.x_pixel } else { S * BLOCK }
}

/// One kernel tap over up to 16 input channels: acc[p][o] += x[p][i] * w[i][o], for the pixels L..P - R.
///
/// # Safety
/// As [`tile`]; `x` is readable for those pixels.
#[inline(always)]
unsafe fn tap<V: V16, const P: usize, const OB: usize, const S: usize, const L: usize, const R: usize>(
    t: &Tile,
    x: *const f32,
    w: *const f32,
    channels: usize,
    acc: &mut [[V; OB]; P],
) {
    for i in 0..channels {
        // SAFETY: the caller vouches for the pointers; i < 16.
        unsafe {
            V::prefetch(w.wrapping_add(t.ahead + i * BLOCK));
            let mut wv = [V::splat(0.0); OB];
            unrolled!(o in 0..OB {
                wv[o] = V::load(w.add(o * t.w_out_block + i * BLOCK));
            });
            unrolled!(p in 0..P {
                if p >= L && p + R < P {
                    let xv = V::splat(*x.wrapping_add(p * pixel_step::<S>(t) + i));
                    unrolled!(o in 0..OB {
                        acc[p][o] = xv.fma(wv[o], acc[p][o]);
                    });
                }
            });
        }
    }
}

/// [`tap`] for any number of pixels outside.
///
/// # Safety
/// As [`tap`].
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
                    unrolled!(o in 0..OB {
                        acc[p][o] = xv.fma(V::load(w.add(o * t.w_out_block + i * BLOCK)), acc[p][o]);
                    });
                }
            }
        }
    });
}

/// # Safety
/// The CPU has the features of `V`; the pointers of `t` are valid for a tile of `P` x `OB`.
#[inline(always)]
unsafe fn tile<V: V16, const P: usize, const OB: usize, const S: usize>(t: &Tile) {
    fetch::<V, P, OB>(t);
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        // Two loops, as the one that need not look for pixels outside keeps its sums in registers throughout.
        if t.inside { sum::<V, P, OB, S, true>(t) } else { sum::<V, P, OB, S, false>(t) }
    }
}

/// # Safety
/// As [`tile`]; `INSIDE` only if no pixel is outside.
#[inline(always)]
unsafe fn sum<V: V16, const P: usize, const OB: usize, const S: usize, const INSIDE: bool>(t: &Tile) {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        let mut acc = [[V::splat(0.0); OB]; P];
        for block in 0..t.blocks {
            let channels = if block + 1 == t.blocks { t.last_channels } else { BLOCK };
            let (xb, wb) = (t.x.wrapping_add(block * t.x_block), t.w.add(block * t.w_block));
            for kh in 0..t.kh {
                for kw in 0..t.kw {
                    let x = xb.wrapping_add(kh * t.x_row + kw * t.x_column);
                    let w = wb.add((kh * t.kw + kw) * BLOCK * BLOCK);
                    match if INSIDE { (0, 0) } else { t.outside(kw, P) } {
                        (0, 0) => tap::<V, P, OB, S, 0, 0>(t, x, w, channels, &mut acc),
                        (1, 0) if S != 0 => tap::<V, P, OB, S, 1, 0>(t, x, w, channels, &mut acc),
                        (0, 1) if S != 0 => tap::<V, P, OB, S, 0, 1>(t, x, w, channels, &mut acc),
                        out => tap_any::<V, P, OB, S>(t, x, w, out, channels, &mut acc),
                    }
                }
            }
        }
        finish(t, &acc);
    }
}

/// Asks for the pixels that the end reads and writes.
#[inline(always)]
fn fetch<V: V16, const P: usize, const OB: usize>(t: &Tile) {
    for o in 0..OB {
        for p in 0..P {
            let at = o * t.y_block + p * BLOCK;
            V::prefetch(t.y.wrapping_add(at));
            if !t.residual.is_null() {
                V::prefetch(t.residual.wrapping_add(at));
            }
        }
    }
}

/// Bias (or what `y` holds), residual and clamp, then the store.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn finish<V: V16, const P: usize, const OB: usize>(t: &Tile, acc: &[[V; OB]; P]) {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        let (lo, hi) = (V::splat(t.clamp.0), V::splat(t.clamp.1));
        unrolled!(o in 0..OB {
            let bias = if t.bias.is_null() || t.accumulate {
                V::splat(0.0)
            } else {
                V::load_part(t.bias.wrapping_add(o * BLOCK), t.bias_left.saturating_sub(o * BLOCK), 0.0)
            };
            unrolled!(p in 0..P {
                let at = o * t.y_block + p * BLOCK;
                let mut v = acc[p][o].add(bias);
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
        const { assert!(TILES.len() <= MOST, "no loop over pixels or rows is unrolled further") };
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
        _ => 1,
    }
}

/// Cuts `len` pixels into the fewest nearly equal tiles of at most `max`: start and pixels of each.
#[inline(always)]
pub(super) fn cuts(len: usize, max: usize) -> impl Iterator<Item = (usize, usize)> {
    let parts = len.div_ceil(max);
    (0..parts).map(move |i| (len * i / parts, len * (i + 1) / parts - len * i / parts))
}

/// The taps `k` in `0..taps` for which `first + k * step` is in `0..size`.
pub(super) fn taps_inside(first: isize, step: usize, size: usize, taps: usize) -> std::ops::Range<usize> {
    let start = if first >= 0 { 0 } else { first.unsigned_abs().div_ceil(step) };
    let left = size as isize - first;
    // Most often all of them are, and a division takes as long as a tap.
    if start == 0 && left > ((taps - 1) * step) as isize {
        return 0..taps;
    }
    let end = if left <= 0 { 0 } else { left.unsigned_abs().div_ceil(step).min(taps) };
    start.min(end)..end
}

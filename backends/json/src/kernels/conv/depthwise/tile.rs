//! The register tile of the depthwise convolution: P pixels of one output row in one block of channels.

use super::super::tile::{Tile, TileFn, bias, finish, pixel_step};
use crate::kernels::isa::Isa;
use crate::kernels::layout::BLOCK;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::{Avx2x16, Avx512x16};
use crate::kernels::simd::{Portable16, V16};
use crate::kernels::unrolled::{MOST, unrolled};

/// The taps of column `kw`: acc[p] += x[p] * w, for the pixels L..P - R.
///
/// # Safety
/// As [`tile`]; those pixels are on the image there.
#[inline(always)]
unsafe fn column<V: V16, const P: usize, const S: usize, const L: usize, const R: usize>(
    t: &Tile,
    kw: usize,
    acc: &mut [[V; 1]; P],
) {
    let (mut x, mut w) = (t.x.wrapping_add(kw * t.x_column), t.w.wrapping_add(kw * BLOCK));
    for _ in 0..t.kh {
        // SAFETY: the caller vouches for features and pointers.
        unsafe {
            let wv = V::load(w);
            unrolled!(p in 0..P {
                if p >= L && p + R < P {
                    acc[p][0] = V::load(x.wrapping_add(p * pixel_step::<S>(t))).fma(wv, acc[p][0]);
                }
            });
        }
        (x, w) = (x.wrapping_add(t.x_row), w.wrapping_add(t.kw * BLOCK));
    }
}

/// [`column`] for those from `kw` on in which the first L pixels and the last R are outside; gives the first in which others are.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn columns<V: V16, const P: usize, const S: usize, const L: usize, const R: usize>(
    t: &Tile,
    mut kw: usize,
    acc: &mut [[V; 1]; P],
) -> usize {
    while kw < t.kw && t.outside::<S>(kw, P) == (L, R) {
        // SAFETY: the caller vouches for features and pointers.
        unsafe { column::<V, P, S, L, R>(t, kw, acc) };
        kw += 1;
    }
    kw
}

/// [`column`] for any number of pixels outside.
///
/// # Safety
/// As [`column`].
#[inline(always)]
unsafe fn column_any<V: V16, const P: usize, const S: usize>(
    t: &Tile,
    kw: usize,
    (left, right): (usize, usize),
    acc: &mut [[V; 1]; P],
) {
    for kh in 0..t.kh {
        let x = t.x.wrapping_add(kh * t.x_row + kw * t.x_column);
        // SAFETY: the caller vouches for features and pointers.
        unsafe {
            let wv = V::load(t.w.wrapping_add((kh * t.kw + kw) * BLOCK));
            unrolled!(p in 0..P {
                if p >= left && p + right < P {
                    acc[p][0] = V::load(x.wrapping_add(p * pixel_step::<S>(t))).fma(wv, acc[p][0]);
                }
            });
        }
    }
}

/// # Safety
/// The CPU has the features of `V`; the pointers of `t` are valid for a tile of `P` pixels of one block.
#[inline(always)]
unsafe fn tile<V: V16, const P: usize, const S: usize>(t: &Tile) {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        // From the left border to the right one: as in convolutions over all channels, a choice for each column would make the compiler
        // put the sums of AVX2 into memory, and its absence those of AVX-512.
        let in_order = V::REGISTERS == 2 && S != 0;
        if in_order && t.inside {
            let bias = bias(t);
            let mut t = t.clone();
            for _ in 0..t.count {
                let mut acc = [[V::splat(0.0); 1]; P];
                for kw in 0..t.kw {
                    column::<V, P, S, 0, 0>(&t, kw, &mut acc);
                }
                finish(&t, &bias, &acc);
                t.advance::<S>(P);
            }
            return;
        }
        let mut acc = [[V::splat(0.0); 1]; P];
        let mut kw = 0;
        if in_order {
            kw = columns::<V, P, S, 2, 0>(t, kw, &mut acc);
            kw = columns::<V, P, S, 1, 0>(t, kw, &mut acc);
            kw = columns::<V, P, S, 0, 0>(t, kw, &mut acc);
            kw = columns::<V, P, S, 0, 1>(t, kw, &mut acc);
            kw = columns::<V, P, S, 0, 2>(t, kw, &mut acc);
        }
        for kw in kw..t.kw {
            match if t.inside { (0, 0) } else { t.outside::<S>(kw, P) } {
                (0, 0) if !in_order => column::<V, P, S, 0, 0>(t, kw, &mut acc),
                (1, 0) if !in_order && S != 0 => column::<V, P, S, 1, 0>(t, kw, &mut acc),
                (2, 0) if !in_order && S != 0 => column::<V, P, S, 2, 0>(t, kw, &mut acc),
                (0, 1) if !in_order && S != 0 => column::<V, P, S, 0, 1>(t, kw, &mut acc),
                (0, 2) if !in_order && S != 0 => column::<V, P, S, 0, 2>(t, kw, &mut acc),
                out => column_any::<V, P, S>(t, kw, out, &mut acc),
            }
        }
        finish(t, &bias(t), &acc);
    }
}

unsafe fn portable<const P: usize, const S: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers; the portable vector needs no feature.
    unsafe { tile::<Portable16, P, S>(t) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<const P: usize, const S: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers and for AVX2.
    unsafe { tile::<Avx2x16, P, S>(t) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
unsafe fn avx512<const P: usize, const S: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers and for AVX-512.
    unsafe { tile::<Avx512x16, P, S>(t) }
}

/// The tiles of 1 to `max` pixels for one S.
macro_rules! tiles {
    ($f:ident, $s:literal, [$($p:literal)*]) => {{
        const TILES: &[TileFn] = &[$($f::<$p, $s>),*];
        const { assert!(TILES.len() <= MOST, "no loop over pixels or rows is unrolled further") };
        TILES
    }};
}

/// The tiles for an instruction set and a horizontal stride: entry P - 1 computes P pixels.
pub(super) fn tiles(isa: Isa, stride: usize) -> &'static [TileFn] {
    match (isa, stride) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 1) => tiles!(avx512, 1, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 2) => tiles!(avx512, 2, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, _) => tiles!(avx512, 0, [1 2 3 4]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, 1) => tiles!(avx2, 1, [1 2 3 4 5 6]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, 2) => tiles!(avx2, 2, [1 2 3 4 5 6]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, _) => tiles!(avx2, 0, [1 2 3 4]),
        _ => tiles!(portable, 0, [1 2 3 4]),
    }
}

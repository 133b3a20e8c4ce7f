//! Rows become columns, 16 by 16 values, by the instructions of each vector.

use std::arch::x86_64::*;

use super::{Avx2x16, Avx512x16};

/// Each step exchanges squares in squares of twice their side.
#[inline(always)]
pub(super) fn avx512(rows: [Avx512x16; 16]) -> [Avx512x16; 16] {
    // SAFETY: a value of this type exists only where AVX-512 is enabled.
    unsafe {
        let mut pairs = rows;
        for i in (0..16).step_by(2) {
            pairs[i] = Avx512x16(_mm512_unpacklo_ps(rows[i].0, rows[i + 1].0));
            pairs[i + 1] = Avx512x16(_mm512_unpackhi_ps(rows[i].0, rows[i + 1].0));
        }
        // Vector 4 i + j has values j, j + 4, j + 8 and j + 12 of rows 4 i to 4 i + 3.
        let mut fours = rows;
        for i in (0..16).step_by(4) {
            let (a, b, c, d) = (pairs[i].0, pairs[i + 1].0, pairs[i + 2].0, pairs[i + 3].0);
            fours[i] = Avx512x16(_mm512_shuffle_ps::<0x44>(a, c));
            fours[i + 1] = Avx512x16(_mm512_shuffle_ps::<0xee>(a, c));
            fours[i + 2] = Avx512x16(_mm512_shuffle_ps::<0x44>(b, d));
            fours[i + 3] = Avx512x16(_mm512_shuffle_ps::<0xee>(b, d));
        }
        let mut columns = rows;
        for j in 0..4 {
            let (a, b, c, d) = (fours[j].0, fours[j + 4].0, fours[j + 8].0, fours[j + 12].0);
            let (low_even, low_odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
            let (high_even, high_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
            columns[j] = Avx512x16(_mm512_shuffle_f32x4::<0x88>(low_even, high_even));
            columns[j + 8] = Avx512x16(_mm512_shuffle_f32x4::<0xdd>(low_even, high_even));
            columns[j + 4] = Avx512x16(_mm512_shuffle_f32x4::<0x88>(low_odd, high_odd));
            columns[j + 12] = Avx512x16(_mm512_shuffle_f32x4::<0xdd>(low_odd, high_odd));
        }
        columns
    }
}

/// Four squares of 8 by 8, two of which change places.
#[inline(always)]
pub(super) fn avx2(rows: [Avx2x16; 16]) -> [Avx2x16; 16] {
    let mut columns = rows;
    for (at, from, upper) in [(0, 0, false), (0, 8, false), (8, 0, true), (8, 8, true)] {
        let mut square = [rows[0].0; 8];
        for (i, value) in square.iter_mut().enumerate() {
            *value = if upper { rows[from + i].1 } else { rows[from + i].0 };
        }
        // SAFETY: a value of this type exists only where AVX2 is enabled.
        let square = unsafe { eight(square) };
        for (i, value) in square.into_iter().enumerate() {
            *(if from == 0 { &mut columns[at + i].0 } else { &mut columns[at + i].1 }) = value;
        }
    }
    columns
}

/// Rows become columns, 8 by 8.
///
/// # Safety
/// The CPU has AVX.
#[inline(always)]
unsafe fn eight(rows: [__m256; 8]) -> [__m256; 8] {
    // SAFETY: the caller vouches for AVX.
    unsafe {
        let mut fours = rows;
        for i in [0, 4] {
            let (low, high) = (_mm256_unpacklo_ps(rows[i], rows[i + 1]), _mm256_unpackhi_ps(rows[i], rows[i + 1]));
            let (low_next, high_next) =
                (_mm256_unpacklo_ps(rows[i + 2], rows[i + 3]), _mm256_unpackhi_ps(rows[i + 2], rows[i + 3]));
            fours[i] = _mm256_shuffle_ps::<0x44>(low, low_next);
            fours[i + 1] = _mm256_shuffle_ps::<0xee>(low, low_next);
            fours[i + 2] = _mm256_shuffle_ps::<0x44>(high, high_next);
            fours[i + 3] = _mm256_shuffle_ps::<0xee>(high, high_next);
        }
        let mut columns = rows;
        for i in 0..4 {
            columns[i] = _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]);
            columns[i + 4] = _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]);
        }
        columns
    }
}

//! Products of 16 bits on AVX2: exact for all rows and panels.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_hadd_epi32, _mm256_madd_epi16,
    _mm256_permute4x64_epi64, _mm256_set1_epi64x, _mm256_setzero_si256,
};

use super::avx2::Panel;
use super::pack::{DEPTH, PANEL};
use super::tile::{Tiles, each_tile};

/// # Safety
/// As [`multiply`](super::multiply::multiply); the CPU has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn run(tiles: &Tiles<'_>) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        let panel = Panel::new(&tiles.finish, [0; PANEL]);
        each_tile!(0..tiles.finish.rows, tile, tiles, &panel);
    }
}

/// Rows `row` to `row + P`.
///
/// # Safety
/// As [`run`], for rows that there are.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn tile<const P: usize>(tiles: &Tiles<'_>, panel: &Panel<'_>, row: usize) {
    // SAFETY: the caller vouches for the rows.
    unsafe { panel.write(row, sums::<P>(tiles, row)) };
}

/// The sums of rows `row` to `row + P`. Sums of two products of `i16` are exact in `i32`: the elements of A are at most 255, those of B 128.
///
/// # Safety
/// There are these rows in `tiles.wide`; the CPU has AVX2.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
pub(super) unsafe fn sums<const P: usize>(tiles: &Tiles<'_>, row: usize) -> [__m256i; P] {
    let depth = tiles.depth;
    // SAFETY: the caller vouches for the rows; 32 bytes of a panel for each step, and four elements of each row.
    unsafe {
        let (a, mut b) = (tiles.wide.as_ptr().add(row * depth), tiles.b.as_ptr());
        let mut sums = [[_mm256_setzero_si256(); 2]; P];
        for step in (0..depth).step_by(DEPTH) {
            // Four columns of four rows each.
            let left = _mm256_cvtepi8_epi16(_mm_loadu_si128(b.cast::<__m128i>()));
            let right = _mm256_cvtepi8_epi16(_mm_loadu_si128(b.add(16).cast::<__m128i>()));
            b = b.add(DEPTH * PANEL);
            for p in 0..P {
                let row = _mm256_set1_epi64x(a.add(p * depth + step).cast::<i64>().read_unaligned());
                sums[p][0] = _mm256_add_epi32(sums[p][0], _mm256_madd_epi16(row, left));
                sums[p][1] = _mm256_add_epi32(sums[p][1], _mm256_madd_epi16(row, right));
            }
        }
        let mut joined = [_mm256_setzero_si256(); P];
        for p in 0..P {
            // Both halves of a column's sum are neighbours; then columns are in the order 0 1 4 5 2 3 6 7.
            let two = _mm256_hadd_epi32(sums[p][0], sums[p][1]);
            joined[p] = _mm256_permute4x64_epi64::<0b11_01_10_00>(two);
        }
        joined
    }
}

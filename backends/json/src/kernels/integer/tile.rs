//! The register tile: up to six rows of A times a panel of eight columns of B, exact in `i32`.

use super::pack::{DEPTH, PANEL};
use crate::kernels::isa::Isa;

/// Most rows of a tile.
pub(super) const MOST_ROWS: usize = 6;

/// One tile's work.
pub(super) struct Tile<'a> {
    /// Rows of `depth` elements.
    pub(super) a: &'a [i16],
    /// A panel of B.
    pub(super) b: &'a [i8],
    /// Elements of a row: a multiple of [`DEPTH`].
    pub(super) depth: usize,
}

/// Writes rows of eight sums.
pub(super) fn tile(isa: Isa, tile: &Tile<'_>, out: &mut [i32; MOST_ROWS * PANEL]) {
    let rows = tile.a.len().checked_div(tile.depth).unwrap_or(0);
    assert!(rows <= MOST_ROWS && tile.a.len() == rows * tile.depth && tile.b.len() == tile.depth * PANEL);
    assert!(tile.depth.is_multiple_of(DEPTH));
    match isa {
        // SAFETY: an `Isa` that reaches the kernels was checked against the CPU; the lengths were checked above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => unsafe {
            match rows {
                0 => {}
                1 => x86::avx2::<1>(tile, out),
                2 => x86::avx2::<2>(tile, out),
                3 => x86::avx2::<3>(tile, out),
                4 => x86::avx2::<4>(tile, out),
                5 => x86::avx2::<5>(tile, out),
                _ => x86::avx2::<6>(tile, out),
            }
        },
        _ => portable(tile, out),
    }
}

fn portable(tile: &Tile<'_>, out: &mut [i32; MOST_ROWS * PANEL]) {
    for (row, out) in tile.a.chunks_exact(tile.depth.max(1)).zip(out.chunks_exact_mut(PANEL)) {
        for (a, b) in row.chunks_exact(DEPTH).zip(tile.b.chunks_exact(DEPTH * PANEL)) {
            for (sum, b) in out.iter_mut().zip(b.chunks_exact(DEPTH)) {
                for (&a, &b) in a.iter().zip(b) {
                    *sum = sum.wrapping_add(i32::from(a) * i32::from(b));
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_hadd_epi32,
        _mm256_madd_epi16, _mm256_permute4x64_epi64, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_storeu_si256,
    };

    use super::{DEPTH, MOST_ROWS, PANEL, Tile};

    /// Sums of two products of `i16` are exact in `i32`: the elements of A are at most 255, those of B 128.
    ///
    /// # Safety
    /// The CPU has AVX2; `tile` has P rows, and a panel of as much depth.
    #[target_feature(enable = "avx2")]
    #[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
    pub(super) unsafe fn avx2<const P: usize>(tile: &Tile<'_>, out: &mut [i32; MOST_ROWS * PANEL]) {
        let (a, depth) = (tile.a.as_ptr(), tile.depth);
        let mut b = tile.b.as_ptr();
        let mut sums = [[_mm256_setzero_si256(); 2]; P];
        for step in (0..depth).step_by(DEPTH) {
            // SAFETY: 32 bytes of a panel for each step, and four elements of each row.
            unsafe {
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
        }
        for p in 0..P {
            // Both halves of a column's sum are neighbours. The order of columns is then 0 1 4 5, 2 3 6 7.
            let joined = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(sums[p][0], sums[p][1]));
            // SAFETY: `out` has room for six rows.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(p * PANEL).cast::<__m256i>(), joined) };
        }
    }
}

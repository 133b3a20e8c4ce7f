//! Products of one row of bytes: panels one after another, as they lie in memory, which is read fastest so.

use std::arch::x86_64::{
    __m256i, __m512i, _mm_loadu_si128, _mm256_add_epi32, _mm256_dpbusd_epi32, _mm256_loadu_si256, _mm256_mullo_epi32,
    _mm256_set1_epi8, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_sub_epi32, _mm512_add_epi32,
    _mm512_castsi128_si512, _mm512_castsi512_si256, _mm512_dpbusd_epi32, _mm512_extracti64x4_epi64, _mm512_loadu_si512,
    _mm512_permutexvar_epi32, _mm512_set1_epi8, _mm512_setr_epi32, _mm512_setzero_si512,
};

use super::pack::{DEPTH, PANEL};
use super::tile::Tiles;
use super::vnni::panel;

/// Elements of the row that two vectors of a panel are multiplied with.
const TOGETHER: usize = 4 * DEPTH;

/// Multiplies the row with each panel.
///
/// # Safety
/// As [`multiply`](super::multiply::multiply), for one row; the CPU has AVX512-VNNI.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
pub(super) unsafe fn run(tiles: &Tiles<'_>) {
    for index in 0..tiles.stats.len() {
        let b = &tiles.b[index * tiles.depth * PANEL..][..tiles.depth * PANEL];
        // SAFETY: the caller vouches for the row and for C.
        unsafe {
            let sums = if tiles.finds { sums::<true>(tiles, b) } else { sums::<false>(tiles, b) };
            panel(tiles, index).write(0, [sums]);
        }
    }
}

/// What both halves of a vector add up to.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn halves(sums: __m512i) -> __m256i {
    // SAFETY: the caller vouches for the CPU.
    unsafe { _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums)) }
}

/// The sums of a panel; with `FIND` what the zero point of the row adds to the products is taken off.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn sums<const FIND: bool>(tiles: &Tiles<'_>, b: &[i8]) -> __m256i {
    let (row, depth) = (tiles.bytes.as_ptr(), tiles.depth);
    // SAFETY: the caller vouches for the CPU and `depth` elements of the row; as many steps of the panel, of 32 bytes each.
    unsafe {
        let low = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
        let high = _mm512_setr_epi32(2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
        let ones = _mm512_set1_epi8(1);
        let (mut first, mut second) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        let (mut of_first, mut of_second) = (first, first);
        let mut at = 0;
        while at + TOGETHER <= depth {
            let a = _mm512_castsi128_si512(_mm_loadu_si128(row.add(at).cast()));
            let weights = b.as_ptr().add(at * PANEL);
            let (above, below) = (_mm512_loadu_si512(weights.cast()), _mm512_loadu_si512(weights.add(64).cast()));
            first = _mm512_dpbusd_epi32(first, _mm512_permutexvar_epi32(low, a), above);
            second = _mm512_dpbusd_epi32(second, _mm512_permutexvar_epi32(high, a), below);
            if FIND {
                of_first = _mm512_dpbusd_epi32(of_first, ones, above);
                of_second = _mm512_dpbusd_epi32(of_second, ones, below);
            }
            at += TOGETHER;
        }
        let mut sums = halves(_mm512_add_epi32(first, second));
        let mut of_columns = if FIND { halves(_mm512_add_epi32(of_first, of_second)) } else { _mm256_setzero_si256() };
        while at < depth {
            let weights = _mm256_loadu_si256(b.as_ptr().add(at * PANEL).cast());
            let four = _mm256_set1_epi32(row.add(at).cast::<i32>().read_unaligned());
            sums = _mm256_dpbusd_epi32(sums, four, weights);
            if FIND {
                of_columns = _mm256_dpbusd_epi32(of_columns, _mm256_set1_epi8(1), weights);
            }
            at += DEPTH;
        }
        match FIND {
            true => {
                let zero = _mm256_set1_epi32(i32::from(tiles.zero));
                _mm256_sub_epi32(sums, _mm256_mullo_epi32(of_columns, zero))
            }
            false => sums,
        }
    }
}

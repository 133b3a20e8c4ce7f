//! The products of [`bytes`](super::bytes) by instructions that add up four products of bytes: 128 weights of a column at a time,
//! which lie in one line of the cache.

use std::arch::x86_64::{
    __m128, __m512, _MM_HINT_T0, _mm_loadu_ps, _mm_mul_ps, _mm_prefetch, _mm_set_ps, _mm512_and_si512,
    _mm512_castps128_ps512, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_si512,
    _mm512_permutex2var_epi64, _mm512_permutexvar_ps, _mm512_reduce_add_ps, _mm512_set1_epi8, _mm512_setr_epi32,
    _mm512_setr_epi64, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_srli_epi16,
};

use super::bytes::{COLUMNS, Row, sum};
use super::{CHUNK, NBits};

/// Chunks of a vector.
const CHUNKS: usize = 4;

/// How far ahead weights are fetched, in bytes: the processor itself does not look beyond a page, and a file's pages are small.
const AHEAD: usize = 2048;

/// Products of the weights of four columns with a row. `ONE`: a block is a chunk.
///
/// # Safety
/// The CPU has AVX-512 F and VNNI; the weights and scales are those of four columns, and the row has as many elements and scales.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
pub(super) unsafe fn products<const ONE: bool>(
    p: &NBits,
    packed: &[u8],
    scales: &[f32],
    a: &Row<'_>,
    c: &mut [f32; COLUMNS],
) {
    let (blocks, each) = (p.blocks(), if ONE { 1 } else { p.block / CHUNK });
    let (count, of_column) = (blocks * each, blocks * each * CHUNK / 2);
    let whole = count / CHUNKS * CHUNKS;
    // Of a row, each chunk has its elements with even numbers first.
    let (even, odd) = (_mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13), _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15));
    let low = _mm512_set1_epi8(15);
    for (column, c) in c.iter_mut().enumerate() {
        let mut total = _mm512_setzero_ps();
        for chunk in (0..whole).step_by(CHUNKS) {
            // SAFETY: the caller vouches for four chunks of the row, and of each column.
            unsafe {
                let row = a.elements.as_ptr().add(chunk * CHUNK);
                let (front, back) = (_mm512_loadu_si512(row.cast()), _mm512_loadu_si512(row.add(2 * CHUNK).cast()));
                let evens = _mm512_permutex2var_epi64(front, even, back);
                let odds = _mm512_permutex2var_epi64(front, odd, back);
                let weights = packed.as_ptr().add(column * of_column + chunk * CHUNK / 2);
                _mm_prefetch::<_MM_HINT_T0>(weights.wrapping_add(AHEAD).cast::<i8>());
                let bytes = _mm512_loadu_si512(weights.cast());
                let sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_and_si512(bytes, low), evens);
                let high = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low);
                let sums = _mm512_dpbusd_epi32(sums, high, odds);
                let units = units::<ONE>(&scales[column * blocks..], a, (chunk, each));
                total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), units, total);
            }
        }
        *c = _mm512_reduce_add_ps(total);
        for chunk in whole..count {
            let bytes = &packed[column * of_column + chunk * CHUNK / 2..][..CHUNK / 2];
            let products = sum(bytes, &a.elements[chunk * CHUNK..][..CHUNK]) as f32;
            *c += products * (scales[column * blocks + chunk / each] * a.scales[chunk / each]);
        }
    }
}

/// What a unit of the products of four chunks is, from a chunk on, for the four sums of each. A block has `each` chunks.
///
/// # Safety
/// The CPU has AVX-512 F; there is a scale for each of these chunks on both sides.
#[inline(always)]
unsafe fn units<const ONE: bool>(scales: &[f32], a: &Row<'_>, (chunk, each): (usize, usize)) -> __m512 {
    // SAFETY: the caller vouches for the CPU and the scales.
    unsafe {
        let of = |at: usize| {
            let block = (chunk + at) / each;
            scales.get_unchecked(block) * a.scales.get_unchecked(block)
        };
        let four: __m128 = match ONE {
            true => _mm_mul_ps(_mm_loadu_ps(scales.as_ptr().add(chunk)), _mm_loadu_ps(a.scales.as_ptr().add(chunk))),
            false => _mm_set_ps(of(3), of(2), of(1), of(0)),
        };
        let spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        _mm512_permutexvar_ps(spread, _mm512_castps128_ps512(four))
    }
}

//! Lanes as integers of 8 bits.

use super::{Avx2x16, Avx512x16};
use std::arch::x86_64::*;

/// The nearest integer of each lane, the even one of two; of lanes beyond the type anything.
#[inline(always)]
pub(super) fn avx512(x: Avx512x16) -> [i8; 16] {
    let mut bytes = [0; 16];
    // SAFETY: a value exists only where AVX-512 is; 16 bytes may be written.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.0))) };
    bytes
}

/// As [`avx512`].
#[inline(always)]
pub(super) fn avx2(x: Avx2x16) -> [i8; 16] {
    let mut bytes = [0; 16];
    // SAFETY: a value exists only where AVX2 is; 16 bytes may be written.
    unsafe {
        // Quarters of both halves in turn, then in order.
        let words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.0), _mm256_cvtps_epi32(x.1));
        let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
        let low = _mm256_castsi256_si128(words);
        let packed = _mm_packs_epi16(low, _mm256_extracti128_si256::<1>(words));
        _mm_storeu_si128(bytes.as_mut_ptr().cast(), packed);
    }
    bytes
}

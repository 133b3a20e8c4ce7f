//! The upper half of what is left of a vector, for trees over its lanes.

use super::{Avx2x16, Avx512x16};
use std::arch::x86_64::*;

/// Lane i is what lane i + `HALF` was, for the lanes below `HALF`.
#[inline(always)]
pub(super) fn avx512<const HALF: usize>(x: Avx512x16) -> Avx512x16 {
    // SAFETY: a value exists only where AVX-512 is.
    unsafe {
        let bits = _mm512_castps_si512(x.0);
        let bits = match HALF {
            8 => _mm512_alignr_epi32::<8>(bits, bits),
            4 => _mm512_alignr_epi32::<4>(bits, bits),
            2 => _mm512_shuffle_epi32::<0b11_10>(bits),
            _ => _mm512_shuffle_epi32::<0b01>(bits),
        };
        Avx512x16(_mm512_castsi512_ps(bits))
    }
}

/// As [`avx512`].
#[inline(always)]
pub(super) fn avx2<const HALF: usize>(x: Avx2x16) -> Avx2x16 {
    // SAFETY: a value exists only where AVX2 is.
    unsafe {
        let low = match HALF {
            8 => x.1,
            4 => _mm256_permute2f128_ps::<0x11>(x.0, x.0),
            2 => _mm256_permute_ps::<0b11_10>(x.0),
            _ => _mm256_permute_ps::<0b01>(x.0),
        };
        Avx2x16(low, x.1)
    }
}

//! What follows sums that are in registers of AVX-512, where bytes come of them: the same as
//! [`Finish::row`](super::finish::Finish::row), for 64 sums at a time.
//!
//! As in [`avx2`](super::avx2), all of it is inlined into kernels that are compiled for AVX-512, and no intrinsic is in a closure.

use std::arch::x86_64::{
    __m512, __m512i, _mm_loadu_si128, _mm512_add_ps, _mm512_adds_epi16, _mm512_castsi128_si512, _mm512_castsi512_ps,
    _mm512_cvtepi32_ps, _mm512_cvtps_epi32, _mm512_inserti32x4, _mm512_max_epi8, _mm512_max_epu8, _mm512_min_ps,
    _mm512_mul_ps, _mm512_packs_epi16, _mm512_packs_epi32, _mm512_packus_epi16, _mm512_set1_epi8, _mm512_set1_epi16,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512,
};

use super::finish::Epilogue;
use super::linear::{Byte, Levels};

/// Sums in a vector.
pub(super) const LANES: usize = 16;

/// Vectors of sums that become one vector of bytes.
pub(super) const VECTORS: usize = 4;

/// Numbers of four bytes by column, in vectors: of each quarter, four of the columns that [`Narrow::bytes`] puts there.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
pub(super) unsafe fn quarters<T: Copy>(columns: &[T; VECTORS * LANES]) -> [__m512i; VECTORS] {
    const { assert!(size_of::<T>() == 4) };
    // SAFETY: four elements each, of 64; the caller vouches for the CPU.
    unsafe {
        let mut vectors = [_mm512_setzero_si512(); VECTORS];
        for (index, vector) in vectors.iter_mut().enumerate() {
            let at = columns.as_ptr().add(4 * index);
            let lowest = _mm512_castsi128_si512(_mm_loadu_si128(at.cast()));
            let low = _mm512_inserti32x4::<1>(lowest, _mm_loadu_si128(at.add(LANES).cast()));
            let high = _mm512_inserti32x4::<2>(low, _mm_loadu_si128(at.add(2 * LANES).cast()));
            *vector = _mm512_inserti32x4::<3>(high, _mm_loadu_si128(at.add(3 * LANES).cast()));
        }
        vectors
    }
}

/// How sums become bytes.
pub(super) struct Narrow {
    factors: [__m512; VECTORS],
    /// Absent where they are all 0.
    offsets: Option<[__m512; VECTORS]>,
    hi: __m512,
    /// The lower end, as bytes.
    least: __m512i,
    zeros: __m512i,
    byte: Byte,
}

impl Narrow {
    /// `factors` and `offsets` are those of `e` for the sums of each vector.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and BW.
    #[inline(always)]
    pub(super) unsafe fn new(
        e: &Epilogue<'_>,
        (byte, zero): (Byte, i32),
        factors: [__m512i; VECTORS],
        offsets: [__m512i; VECTORS],
    ) -> Narrow {
        let (lo, hi) = Levels::new(byte, zero).clamp(e.clamp);
        // Rounding keeps the order, so the lower end may be that of bytes. Of ends in the wrong order the upper one counts.
        let least = lo.min(hi).round_ties_even() as i32 + zero;
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            let mut narrow = Narrow {
                factors: [_mm512_setzero_ps(); VECTORS],
                offsets: None,
                hi: _mm512_set1_ps(hi),
                least: _mm512_set1_epi8(least as i8),
                zeros: _mm512_set1_epi16(zero as i16),
                byte,
            };
            let mut moves = [_mm512_setzero_ps(); VECTORS];
            for index in 0..VECTORS {
                narrow.factors[index] = _mm512_castsi512_ps(factors[index]);
                moves[index] = _mm512_castsi512_ps(offsets[index]);
            }
            if !e.offsets.is_empty() {
                narrow.offsets = Some(moves);
            }
            narrow
        }
    }

    /// What is nearest to the scaled, moved and clamped sums, the even one of two. What is not a number, or far below, is the least
    /// integer.
    ///
    /// # Safety
    /// The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn level(&self, sums: __m512i, index: usize) -> __m512i {
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            let mut real = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), self.factors[index]);
            if let Some(offsets) = &self.offsets {
                real = _mm512_add_ps(real, offsets[index]);
            }
            // The second operand is taken where it is not a number.
            _mm512_cvtps_epi32(_mm512_min_ps(self.hi, real))
        }
    }

    /// The bytes of 64 sums. Each quarter of the result has those of the same quarter of the four vectors, one behind another.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and BW.
    #[inline(always)]
    pub(super) unsafe fn bytes(&self, [a, b, c, d]: [__m512i; VECTORS]) -> __m512i {
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            let left = _mm512_packs_epi32(self.level(a, 0), self.level(b, 1));
            let right = _mm512_packs_epi32(self.level(c, 2), self.level(d, 3));
            let (left, right) = (_mm512_adds_epi16(left, self.zeros), _mm512_adds_epi16(right, self.zeros));
            match self.byte {
                Byte::U8 => _mm512_max_epu8(_mm512_packus_epi16(left, right), self.least),
                Byte::I8 => _mm512_max_epi8(_mm512_packs_epi16(left, right), self.least),
            }
        }
    }
}

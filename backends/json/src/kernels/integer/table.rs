//! Functions of one byte, by a table.

use super::linear::in_parts;
#[cfg(target_arch = "x86_64")]
use crate::kernels::isa::Isa;
use crate::kernels::parallel::Threads;

/// `y = table[x]`.
///
/// # Panics
/// If the lengths differ.
pub fn lookup(threads: &Threads, table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    assert_eq!(x.len(), y.len());
    #[cfg(target_arch = "x86_64")]
    if threads.isa().has_vbmi() {
        // SAFETY: the CPU has it.
        in_parts(threads, y, |range, y| unsafe { x86::permute(table, &x[range], y) });
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if threads.isa() != Isa::Portable {
        // SAFETY: an `Isa` that reaches the kernels was checked against the CPU.
        in_parts(threads, y, |range, y| unsafe { x86::shuffle(table, &x[range], y) });
        return;
    }
    in_parts(threads, y, |range, y| one_by_one(table, &x[range], y));
}

fn one_by_one(table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = table[usize::from(x)]);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_blendv_epi8, _mm256_broadcastsi128_si256,
        _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_storeu_si256,
        _mm512_loadu_si512, _mm512_mask_blend_epi8, _mm512_movepi8_mask, _mm512_permutex2var_epi8, _mm512_storeu_si512,
    };

    use super::one_by_one;

    /// 64 bytes at a time: each half of the table is two vectors.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, BW and VBMI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) unsafe fn permute(table: &[u8; 256], x: &[u8], y: &mut [u8]) {
        const LANES: usize = 64;
        let (from, x_rest) = x.as_chunks::<LANES>();
        let (to, y_rest) = y.as_chunks_mut::<LANES>();
        let at = table.as_ptr();
        // SAFETY: four vectors of the table, and one of each chunk.
        unsafe {
            let low = [_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(LANES).cast())];
            let high = [_mm512_loadu_si512(at.add(2 * LANES).cast()), _mm512_loadu_si512(at.add(3 * LANES).cast())];
            for (from, to) in from.iter().zip(to) {
                let x = _mm512_loadu_si512(from.as_ptr().cast());
                let of_low = _mm512_permutex2var_epi8(low[0], x, low[1]);
                let of_high = _mm512_permutex2var_epi8(high[0], x, high[1]);
                let y = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), of_low, of_high);
                _mm512_storeu_si512(to.as_mut_ptr().cast(), y);
            }
        }
        one_by_one(table, x_rest, y_rest);
    }

    /// A byte as an index of 16, and each higher bit as the highest one.
    struct Bits {
        index: __m256i,
        fourth: __m256i,
        fifth: __m256i,
        sixth: __m256i,
        seventh: __m256i,
    }

    /// A table in sixteen parts, each in both halves of a vector.
    struct Parts([__m256i; 16]);

    impl Parts {
        /// What is in two parts from `first` on, by the fourth bit.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn two(&self, first: usize, bits: &Bits) -> __m256i {
            let (low, high) = (self.0[first], self.0[first + 1]);
            let (low, high) = (_mm256_shuffle_epi8(low, bits.index), _mm256_shuffle_epi8(high, bits.index));
            _mm256_blendv_epi8(low, high, bits.fourth)
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn four(&self, first: usize, bits: &Bits) -> __m256i {
            _mm256_blendv_epi8(self.two(first, bits), self.two(first + 2, bits), bits.fifth)
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn eight(&self, first: usize, bits: &Bits) -> __m256i {
            _mm256_blendv_epi8(self.four(first, bits), self.four(first + 4, bits), bits.sixth)
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn all(&self, x: __m256i) -> __m256i {
            let sixth = _mm256_add_epi8(x, x);
            let fifth = _mm256_add_epi8(sixth, sixth);
            let fourth = _mm256_add_epi8(fifth, fifth);
            let bits = Bits { index: _mm256_and_si256(x, _mm256_set1_epi8(15)), fourth, fifth, sixth, seventh: x };
            _mm256_blendv_epi8(self.eight(0, &bits), self.eight(8, &bits), bits.seventh)
        }
    }

    /// 32 bytes at a time: the parts of the table that a byte may be in, by its lower bits, and one of them by its higher ones.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn shuffle(table: &[u8; 256], x: &[u8], y: &mut [u8]) {
        const LANES: usize = 32;
        let (from, x_rest) = x.as_chunks::<LANES>();
        let (to, y_rest) = y.as_chunks_mut::<LANES>();
        // SAFETY: 16 bytes of each part of the table, and a vector of each chunk.
        unsafe {
            let mut parts = Parts([_mm256_setzero_si256(); 16]);
            for (part, table) in parts.0.iter_mut().zip(table.as_chunks::<16>().0) {
                *part = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            }
            for (from, to) in from.iter().zip(to) {
                let y = parts.all(_mm256_loadu_si256(from.as_ptr().cast()));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), y);
            }
        }
        one_by_one(table, x_rest, y_rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;

    #[test]
    fn every_byte_has_its_own() {
        let table: [u8; 256] = std::array::from_fn(|at| (at * 7 + 3) as u8);
        for len in [0, 1, 63, 64, 65, 256, 40_000] {
            let x: Vec<u8> = (0..len).map(|at: usize| (at + at / 256) as u8).collect();
            let want: Vec<u8> = x.iter().map(|&x| table[usize::from(x)]).collect();
            for &isa in Isa::available() {
                let mut y = vec![0; len];
                lookup(&Threads::with_isa(2, isa), &table, &x, &mut y);
                assert_eq!(y, want, "{isa:?} {len}");
            }
        }
    }
}

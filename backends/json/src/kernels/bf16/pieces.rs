//! A number of f32 as a sum of numbers of bf16: the first is the number rounded to bf16, each further one what is left, rounded in turn.
//! Three are the number exactly, as long as none of them is below what bf16 has (numbers above about 1e-31).

use std::arch::x86_64::*;

/// Lanes k and k + 16 of two neighbouring vectors as pairs: for each piece one vector of pairs, `low` in the lower halves. Not-a-number
/// has such a piece, and an infinite number or one that rounds to it has an infinite one, so that sums of their products are not finite.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
pub(crate) unsafe fn pieces<const PIECES: usize>(low: __m512, high: __m512) -> [__m512i; PIECES] {
    // SAFETY: the caller vouches for AVX-512.
    unsafe {
        let mut pairs = [_mm512_setzero_si512(); PIECES];
        let (mut low, mut high) = (low, high);
        for (index, pair) in pairs.iter_mut().enumerate() {
            let last = index + 1 == PIECES;
            let (l, h) = (piece::<PIECES>(low, last), piece::<PIECES>(high, last));
            // Bits of the mask from `h`, the others from the shifted `l`.
            let mask = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            *pair = _mm512_ternarylogic_epi32::<0b1101_1000>(_mm512_srli_epi32::<16>(l), h, mask);
            low = _mm512_sub_ps(low, _mm512_castsi512_ps(_mm512_and_si512(l, mask)));
            high = _mm512_sub_ps(high, _mm512_castsi512_ps(_mm512_and_si512(h, mask)));
        }
        pairs
    }
}

/// The next piece in the upper half of each lane; what is in the lower half is of no meaning.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn piece<const PIECES: usize>(x: __m512, last: bool) -> __m512i {
    // SAFETY: the caller vouches for AVX-512.
    unsafe {
        let bits = _mm512_castps_si512(x);
        // The third has no more bits than bf16.
        if last && PIECES == 3 {
            return bits;
        }
        let rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x8000));
        if !last {
            // A not-a-number that becomes zero here is one still in what is left.
            return rounded;
        }
        _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x), _mm512_set1_epi32(0x7fc0_0000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Isa;
    use crate::tests::harness::noise;

    #[target_feature(enable = "avx512f")]
    unsafe fn of<const PIECES: usize>(low: &[f32; 16], high: &[f32; 16]) -> [[u32; 16]; PIECES] {
        // SAFETY: the caller vouches for AVX-512; arrays of 16.
        unsafe {
            pieces::<PIECES>(_mm512_loadu_ps(low.as_ptr()), _mm512_loadu_ps(high.as_ptr())).map(|pairs| {
                let mut out = [0; 16];
                _mm512_storeu_si512(out.as_mut_ptr().cast(), pairs);
                out
            })
        }
    }

    fn sum<const PIECES: usize>(pieces: &[[u32; 16]; PIECES], lane: usize) -> [f64; 2] {
        let each = |bits: u32| f64::from(f32::from_bits(bits));
        let add = |[l, h]: [f64; 2], pair: &[u32; 16]| [l + each(pair[lane] << 16), h + each(pair[lane] & 0xffff_0000)];
        pieces.iter().fold([0.0; 2], add)
    }

    #[test]
    fn three_pieces_are_the_number_and_fewer_are_near_it() {
        if !Isa::Avx512.is_available() {
            return;
        }
        let values = noise(32, 1);
        for scale in [1e-30, 1e-6, 1.0, 3.7e17, 3e38] {
            let at = |start: usize| std::array::from_fn::<f32, 16, _>(|lane| values[start + lane] * scale);
            let (low, high) = (at(0), at(16));
            // SAFETY: there is AVX-512.
            let (three, two, one) = unsafe { (of::<3>(&low, &high), of::<2>(&low, &high), of::<1>(&low, &high)) };
            for lane in 0..16 {
                let exact = [f64::from(low[lane]), f64::from(high[lane])];
                assert_eq!(sum(&three, lane), exact);
                for (near, bits) in [(sum(&two, lane), 17), (sum(&one, lane), 8)] {
                    for (near, exact) in near.iter().zip(exact) {
                        assert!((near - exact).abs() <= exact.abs() / f64::from(1 << bits), "{near} for {exact}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        if !Isa::Avx512.is_available() {
            return;
        }
        for bits in
            [0x7f80_0000_u32, 0xff80_0000, 0x7fc0_0000, 0x7f80_0001, 0x7fff_ffff, 0xffff_ffff, 0x7fff_8000, 0xff80_0001]
        {
            let x = [f32::from_bits(bits); 16];
            // SAFETY: there is AVX-512.
            let sums = unsafe { [sum(&of::<3>(&x, &x), 0), sum(&of::<2>(&x, &x), 3), sum(&of::<1>(&x, &x), 15)] };
            assert!(sums.iter().flatten().all(|sum| !sum.is_finite()), "{bits:#x}: {sums:?}");
        }
    }
}

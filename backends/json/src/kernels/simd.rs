//! A vector of 16 f32 on every instruction set, so that each kernel is written once.
//!
//! The vectors are explicit because the convolution tiles must stay in registers: left to itself LLVM spills them.
//!
//! Code on vectors must be `#[inline(always)]` down from `Kernel::run`, so no closures: a closure that is not inlined has
//! no vector features, every instruction in it becomes a call, and it is 30 times slower. To check, disassemble a
//! program and look for functions of `core_arch` that are called.

#[cfg(target_arch = "x86_64")]
mod nearest;
mod portable;
#[cfg(target_arch = "x86_64")]
mod squares;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod upper;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use byoc_plugin_api::{bf16, f16};

pub(crate) use portable::Portable16;

/// 16 lanes of f32.
///
/// A value of an implementing type exists only where the CPU features of that type are enabled: the constructors are
/// unsafe and say so, the other methods rely on it.
pub(crate) trait V16: Copy {
    /// How many registers hold a value.
    const REGISTERS: usize;
    /// Reads 16 values.
    ///
    /// # Safety
    /// The CPU has the features of `Self`; `p` is valid for reading 16 f32.
    unsafe fn load(p: *const f32) -> Self;
    /// 16 times the same value.
    ///
    /// # Safety
    /// The CPU has the features of `Self`.
    unsafe fn splat(x: f32) -> Self;
    /// Writes 16 values.
    ///
    /// # Safety
    /// `p` is valid for writing 16 f32.
    unsafe fn store(self, p: *mut f32);
    /// Reads 16 of half precision.
    ///
    /// # Safety
    /// As [`V16::load`], for 16 f16.
    #[inline(always)]
    unsafe fn load_f16(p: *const f16) -> Self {
        // SAFETY: the caller vouches for both.
        unsafe { Self::load((*p.cast::<[f16; 16]>()).map(f16::to_f32).as_ptr()) }
    }
    /// Reads 16 of bf16.
    ///
    /// # Safety
    /// As [`V16::load`], for 16 bf16.
    #[inline(always)]
    unsafe fn load_bf16(p: *const bf16) -> Self {
        // SAFETY: the caller vouches for both.
        unsafe { Self::load((*p.cast::<[bf16; 16]>()).map(bf16::to_f32).as_ptr()) }
    }
    /// `self * b + c`, fused where the hardware can.
    fn fma(self, b: Self, c: Self) -> Self;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn div(self, b: Self) -> Self;
    /// 1 / `self` within 2e-7, for |x| in 2^-126..2^126; faster than a division where the hardware has a good estimate.
    #[inline(always)]
    fn reciprocal(self) -> Self {
        // SAFETY: there is a value of this type, so the features are there.
        unsafe { Self::splat(1.0) }.div(self)
    }
    /// `self > b ? self : b`, so `b` where either is NaN.
    fn max(self, b: Self) -> Self;
    /// `self < b ? self : b`, so `b` where either is NaN.
    fn min(self, b: Self) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    /// Magnitude of `self`, sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// `self * 2^n` for integral `n` in -250..=250.
    fn scale2(self, n: Self) -> Self;
    /// As [`V16::scale2`], where `self` is at least 0.5 and below 2 and the product is at least 2^-126 and below 2^128, or both are
    /// NaN: in fewer operations where the hardware has none for it.
    #[inline(always)]
    fn scale2_of_normal(self, n: Self) -> Self {
        self.scale2(n)
    }
    /// `a < b ? yes : no`.
    fn select_lt(a: Self, b: Self, yes: Self, no: Self) -> Self;

    /// `self` in the lanes in which it is NaN, `other` in the rest.
    fn nan_or(self, other: Self) -> Self;

    /// Reads the first `n` (at most 16) values; the rest is 0.
    ///
    /// # Safety
    /// As [`V16::load`], for `n` f32.
    #[inline(always)]
    unsafe fn load_up_to(p: *const f32, n: usize) -> Self {
        // SAFETY: the caller vouches for `n` readable values.
        unsafe { if n >= 16 { Self::load(p) } else { Self::load_part(p, n, 0.0) } }
    }
    /// Writes the first `n` (at most 16) lanes.
    ///
    /// # Safety
    /// As [`V16::store`], for `n` f32.
    #[inline(always)]
    unsafe fn store_up_to(self, p: *mut f32, n: usize) {
        // SAFETY: the caller vouches for `n` writable values.
        unsafe { if n >= 16 { self.store(p) } else { self.store_part(p, n) } }
    }
    /// Value `j` of vector `i` becomes value `i` of vector `j`.
    #[inline(always)]
    fn exchange(rows: [Self; 16]) -> [Self; 16] {
        let mut lanes = [[0.0; 16]; 16];
        for (row, lanes) in rows.into_iter().zip(&mut lanes) {
            *lanes = row.lanes();
        }
        let mut columns = rows;
        for (i, column) in columns.iter_mut().enumerate() {
            let mut values = [0.0; 16];
            for (value, row) in values.iter_mut().zip(&lanes) {
                *value = row[i];
            }
            // SAFETY: there is a value of this type, so the features are there.
            *column = unsafe { Self::load(values.as_ptr()) };
        }
        columns
    }

    /// Asks for the cache line at `p`, which need not be valid.
    #[inline(always)]
    fn prefetch(_p: *const f32) {}

    /// As [`V16::prefetch`], for a line that is written next: other processors give it up at once, and not when it is written.
    #[inline(always)]
    fn prefetch_to_write(_p: *const f32) {}

    /// The lanes as an array.
    #[inline(always)]
    fn lanes(self) -> [f32; 16] {
        let mut out = [0.0; 16];
        // SAFETY: `out` holds 16 f32.
        unsafe { self.store(out.as_mut_ptr()) };
        out
    }
    /// The nearest integer of each lane, the even one of two; of lanes that are beyond the type, or no number, anything.
    #[inline(always)]
    fn nearest(self) -> [i8; 16] {
        let (lanes, mut nearest) = (self.lanes(), [0; 16]);
        for (nearest, lane) in nearest.iter_mut().zip(lanes) {
            *nearest = lane.round_ties_even() as i8;
        }
        nearest
    }
    /// Lane i is what lane i + `HALF` was, for the lanes below `HALF`, which is 8, 4, 2 or 1.
    #[inline(always)]
    fn upper<const HALF: usize>(self) -> Self {
        let mut lanes = self.lanes();
        lanes.copy_within(HALF..2 * HALF, 0);
        // SAFETY: there is a value of this type, so the features are there.
        unsafe { Self::load(lanes.as_ptr()) }
    }
    /// The sum of the lanes, in a fixed tree order.
    #[inline(always)]
    fn sum(self) -> f32 {
        let a = self.add(self.upper::<8>());
        let a = a.add(a.upper::<4>());
        let a = a.add(a.upper::<2>());
        a.add(a.upper::<1>()).lanes()[0]
    }
    /// Reads the first `n` (at most 16) values, the rest is `fill`.
    ///
    /// # Safety
    /// As [`V16::load`], for `n` f32.
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize, fill: f32) -> Self {
        let mut a = [fill; 16];
        // SAFETY: the caller vouches for `n` readable values; `a` holds 16, and n <= 16.
        unsafe {
            std::ptr::copy_nonoverlapping(p, a.as_mut_ptr(), n.min(16));
            Self::load(a.as_ptr())
        }
    }
    /// Writes the first `n` (at most 16) lanes.
    ///
    /// # Safety
    /// As [`V16::store`], for `n` f32.
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, n: usize) {
        let a = self.lanes();
        // SAFETY: the caller vouches for `n` writable values.
        unsafe { std::ptr::copy_nonoverlapping(a.as_ptr(), p, n.min(16)) }
    }
}

/// Writes one method that applies the same expression to both halves of an AVX2 pair.
#[cfg(target_arch = "x86_64")]
macro_rules! halves {
    ($name:ident ( $x:ident $(, $arg:ident)* ) = $e:expr) => {
        #[inline(always)]
        fn $name(self $(, $arg: Self)*) -> Self {
            // SAFETY: a value of this type exists only where AVX2 and FMA are enabled.
            unsafe {
                let low = { let $x = self.0; $(let $arg = $arg.0;)* $e };
                let high = { let $x = self.1; $(let $arg = $arg.1;)* $e };
                Avx2x16(low, high)
            }
        }
    };
}

/// The vector of [`Isa::Avx2`](super::Isa::Avx2): two 8-lane registers.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2x16(__m256, __m256);

#[cfg(target_arch = "x86_64")]
impl V16 for Avx2x16 {
    const REGISTERS: usize = 2;
    #[inline(always)]
    fn upper<const HALF: usize>(self) -> Self {
        upper::avx2::<HALF>(self)
    }
    #[inline(always)]
    fn nearest(self) -> [i8; 16] {
        nearest::avx2(self)
    }
    #[inline(always)]
    fn prefetch(p: *const f32) {
        // SAFETY: a prefetch reads nothing; every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    fn prefetch_to_write(p: *const f32) {
        prefetch_to_write(p);
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller vouches for AVX2 and 16 readable f32.
        unsafe { Avx2x16(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize, fill: f32) -> Self {
        /// From its middle minus `n` on, what the lanes read: `n` times yes, then no.
        const READ: [i32; 32] = {
            let mut read = [0; 32];
            let mut at = 0;
            while at < 16 {
                read[at] = -1;
                at += 1;
            }
            read
        };
        // SAFETY: 16 of `READ` follow, as n <= 16 is taken off 16; the caller vouches for AVX2 and `n` readable values, other lanes are
        // not touched.
        unsafe {
            let read = READ.as_ptr().add(16 - n.min(16));
            let (low, high) = (_mm256_loadu_si256(read.cast()), _mm256_loadu_si256(read.add(8).cast()));
            let fill = _mm256_set1_ps(fill);
            let (first, second) = (_mm256_maskload_ps(p, low), _mm256_maskload_ps(p.wrapping_add(8), high));
            let first = _mm256_blendv_ps(fill, first, _mm256_castsi256_ps(low));
            Avx2x16(first, _mm256_blendv_ps(fill, second, _mm256_castsi256_ps(high)))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const f16) -> Self {
        // SAFETY: the caller vouches for AVX2, with which `Isa` has F16C, and 16 readable values.
        unsafe {
            let low = _mm256_cvtph_ps(_mm_loadu_si128(p.cast()));
            Avx2x16(low, _mm256_cvtph_ps(_mm_loadu_si128(p.add(8).cast())))
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const bf16) -> Self {
        // SAFETY: the caller vouches for AVX2 and 16 readable values.
        unsafe {
            let low = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())));
            let high = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.add(8).cast())));
            Avx2x16(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high))
        }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller vouches for AVX2.
        unsafe { Avx2x16(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for 16 writable f32.
        unsafe {
            _mm256_storeu_ps(p, self.0);
            _mm256_storeu_ps(p.add(8), self.1);
        }
    }
    #[inline(always)]
    fn exchange(rows: [Self; 16]) -> [Self; 16] {
        squares::avx2(rows)
    }
    halves!(fma(x, b, c) = _mm256_fmadd_ps(x, b, c));
    halves!(add(x, b) = _mm256_add_ps(x, b));
    halves!(sub(x, b) = _mm256_sub_ps(x, b));
    halves!(mul(x, b) = _mm256_mul_ps(x, b));
    halves!(div(x, b) = _mm256_div_ps(x, b));
    halves!(max(x, b) = _mm256_max_ps(x, b));
    halves!(min(x, b) = _mm256_min_ps(x, b));
    halves!(sqrt(x) = _mm256_sqrt_ps(x));
    halves!(abs(x) = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x));
    halves!(
        copysign(x, s) = {
            let m = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(m, x), _mm256_and_ps(m, s))
        }
    );
    halves!(
        scale2(x, n) = {
            let half = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm256_mul_ps(
                n,
                _mm256_set1_ps(0.5),
            ));
            let bias = _mm256_set1_epi32(127);
            let a = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(half), bias));
            let b = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(_mm256_sub_ps(n, half)), bias));
            _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b))
        }
    );
    halves!(
        scale2_of_normal(x, n) = {
            let exponent = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent))
        }
    );
    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: a value of this type exists only where AVX2 is enabled.
        unsafe {
            let eight = _mm256_add_ps(self.0, self.1);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
    #[inline(always)]
    fn select_lt(a: Self, b: Self, yes: Self, no: Self) -> Self {
        // SAFETY: a value of this type exists only where AVX2 is enabled.
        unsafe {
            Avx2x16(
                _mm256_blendv_ps(no.0, yes.0, _mm256_cmp_ps::<_CMP_LT_OQ>(a.0, b.0)),
                _mm256_blendv_ps(no.1, yes.1, _mm256_cmp_ps::<_CMP_LT_OQ>(a.1, b.1)),
            )
        }
    }
    #[inline(always)]
    fn nan_or(self, other: Self) -> Self {
        // SAFETY: a value of this type exists only where AVX2 is enabled.
        unsafe {
            Avx2x16(
                _mm256_blendv_ps(other.0, self.0, _mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0)),
                _mm256_blendv_ps(other.1, self.1, _mm256_cmp_ps::<_CMP_UNORD_Q>(self.1, self.1)),
            )
        }
    }
}

/// Writes one method of the AVX-512 vector.
#[cfg(target_arch = "x86_64")]
macro_rules! whole {
    ($name:ident ( $x:ident $(, $arg:ident)* ) = $e:expr) => {
        #[inline(always)]
        fn $name(self $(, $arg: Self)*) -> Self {
            // SAFETY: a value of this type exists only where AVX-512 is enabled.
            unsafe {
                let $x = self.0;
                $(let $arg = $arg.0;)*
                Avx512x16($e)
            }
        }
    };
}

/// The vector of [`Isa::Avx512`](super::Isa::Avx512): one register.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512x16(__m512);

#[cfg(target_arch = "x86_64")]
impl Avx512x16 {
    /// The vector itself.
    #[inline(always)]
    pub(crate) fn lanes(self) -> __m512 {
        self.0
    }
}

#[cfg(target_arch = "x86_64")]
impl V16 for Avx512x16 {
    const REGISTERS: usize = 1;
    #[inline(always)]
    fn upper<const HALF: usize>(self) -> Self {
        upper::avx512::<HALF>(self)
    }
    #[inline(always)]
    fn nearest(self) -> [i8; 16] {
        nearest::avx512(self)
    }
    #[inline(always)]
    fn prefetch(p: *const f32) {
        // SAFETY: a prefetch reads nothing; every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    fn prefetch_to_write(p: *const f32) {
        prefetch_to_write(p);
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller vouches for AVX-512 and 16 readable f32.
        unsafe { Avx512x16(_mm512_loadu_ps(p)) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const f16) -> Self {
        // SAFETY: the caller vouches for AVX-512 and 16 readable values.
        unsafe { Avx512x16(_mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const bf16) -> Self {
        // SAFETY: the caller vouches for AVX-512 and 16 readable values.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            Avx512x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)))
        }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller vouches for AVX-512.
        unsafe { Avx512x16(_mm512_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for 16 writable f32.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    fn exchange(rows: [Self; 16]) -> [Self; 16] {
        squares::avx512(rows)
    }
    whole!(fma(x, b, c) = _mm512_fmadd_ps(x, b, c));
    whole!(add(x, b) = _mm512_add_ps(x, b));
    whole!(sub(x, b) = _mm512_sub_ps(x, b));
    whole!(mul(x, b) = _mm512_mul_ps(x, b));
    whole!(div(x, b) = _mm512_div_ps(x, b));
    whole!(
        reciprocal(x) = {
            // An estimate of 14 bits and one step of Newton's.
            let r = _mm512_rcp14_ps(x);
            _mm512_fmadd_ps(_mm512_fnmadd_ps(x, r, _mm512_set1_ps(1.0)), r, r)
        }
    );
    whole!(max(x, b) = _mm512_max_ps(x, b));
    whole!(min(x, b) = _mm512_min_ps(x, b));
    whole!(sqrt(x) = _mm512_sqrt_ps(x));
    whole!(abs(x) = _mm512_abs_ps(x));
    whole!(
        copysign(x, s) = {
            let m = _mm512_set1_ps(-0.0);
            _mm512_or_ps(_mm512_andnot_ps(m, x), _mm512_and_ps(m, s))
        }
    );
    whole!(scale2(x, n) = _mm512_scalef_ps(x, n));
    #[inline(always)]
    fn select_lt(a: Self, b: Self, yes: Self, no: Self) -> Self {
        // SAFETY: a value of this type exists only where AVX-512 is enabled.
        unsafe { Avx512x16(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a.0, b.0), no.0, yes.0)) }
    }
    #[inline(always)]
    fn nan_or(self, other: Self) -> Self {
        // SAFETY: a value of this type exists only where AVX-512 is enabled.
        unsafe { Avx512x16(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0), other.0, self.0)) }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: a value of this type exists only where AVX-512 is enabled.
        unsafe { _mm512_reduce_add_ps(self.0) }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize, fill: f32) -> Self {
        let mask = ((1u32 << n.min(16)) - 1) as u16;
        // SAFETY: the caller vouches for `n` readable values; masked lanes are not touched.
        unsafe { Avx512x16(_mm512_mask_loadu_ps(_mm512_set1_ps(fill), mask, p)) }
    }
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, n: usize) {
        let mask = ((1u32 << n.min(16)) - 1) as u16;
        // SAFETY: the caller vouches for `n` writable values; masked lanes are not touched.
        unsafe { _mm512_mask_storeu_ps(p, mask, self.0) }
    }
}

/// Asks for the cache line at `p` to be this processor's alone: a read would have to be followed by a question to the others.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_to_write(p: *const f32) {
    // The intrinsic needs a feature that Rust has no name for, or asks for a read. Processors without the instruction do nothing.
    // SAFETY: it changes nothing that a program sees, whatever the address.
    unsafe { std::arch::asm!("prefetchw [{}]", in(reg) p.addr(), options(nostack, preserves_flags, nomem)) }
}

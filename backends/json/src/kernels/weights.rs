//! The types that packed weights may have: each is read as f32, in which everything is computed.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m512i, _mm512_loadu_si512};

use byoc_plugin_api::{bf16, f16};

#[cfg(target_arch = "x86_64")]
use super::bf16::terms::{Terms, rounded};
#[cfg(target_arch = "x86_64")]
use super::layout::BLOCK;
#[cfg(target_arch = "x86_64")]
use super::simd::Avx512x16;
use super::simd::V16;

/// Weights as a kernel reads them, of elements of one of these types.
#[derive(Clone, Copy, Debug)]
pub enum PackedWeights<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Half precision.
    F16(&'a [f16]),
    /// The upper half of single precision.
    BF16(&'a [bf16]),
}

impl PackedWeights<'_> {
    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            PackedWeights::F32(elements) => elements.len(),
            PackedWeights::F16(elements) => elements.len(),
            PackedWeights::BF16(elements) => elements.len(),
        }
    }

    /// Where one would be, whether there is such a one or not.
    pub(crate) fn address(&self, index: usize) -> *const u8 {
        match self {
            PackedWeights::F32(elements) => elements.as_ptr().wrapping_add(index).cast(),
            PackedWeights::F16(elements) => elements.as_ptr().wrapping_add(index).cast(),
            PackedWeights::BF16(elements) => elements.as_ptr().wrapping_add(index).cast(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An element of packed weights.
pub(crate) trait Weight: Copy + Sync {
    /// The pieces that are multiplied where numbers of f32 have those of `T`.
    #[cfg(target_arch = "x86_64")]
    type Terms<T: Terms>: Terms;

    /// Sixteen of them as f32.
    ///
    /// # Safety
    /// As [`V16::load`], for this type.
    unsafe fn load<V: V16>(from: *const Self) -> V;

    /// Two times sixteen, rounded to bf16.
    ///
    /// # Safety
    /// 32 of them are readable; the processor has AVX512-BF16.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn two_rows(from: *const Self) -> __m512i {
        // SAFETY: the caller vouches for it.
        unsafe {
            let (first, second): (Avx512x16, Avx512x16) = (Self::load(from), Self::load(from.add(BLOCK)));
            rounded([first.lanes(), second.lanes()])
        }
    }
}

impl Weight for f32 {
    #[cfg(target_arch = "x86_64")]
    type Terms<T: Terms> = T;

    #[inline(always)]
    unsafe fn load<V: V16>(from: *const f32) -> V {
        // SAFETY: the caller vouches for it.
        unsafe { V::load(from) }
    }
}

impl Weight for f16 {
    #[cfg(target_arch = "x86_64")]
    type Terms<T: Terms> = T;

    #[inline(always)]
    unsafe fn load<V: V16>(from: *const f16) -> V {
        // SAFETY: the caller vouches for it.
        unsafe { V::load_f16(from) }
    }
}

impl Weight for bf16 {
    /// It is one piece itself.
    #[cfg(target_arch = "x86_64")]
    type Terms<T: Terms> = T::OfOne;

    #[inline(always)]
    unsafe fn load<V: V16>(from: *const bf16) -> V {
        // SAFETY: the caller vouches for it.
        unsafe { V::load_bf16(from) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn two_rows(from: *const bf16) -> __m512i {
        // SAFETY: the caller vouches for it.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
}

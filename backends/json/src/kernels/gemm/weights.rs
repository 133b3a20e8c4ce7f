//! The types that packed weights may have: each is read as f32, in which everything is computed.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m512i, _mm512_loadu_si512};
use std::ops::Range;

use byoc_plugin_api::{bf16, f16};

use super::block::Source;
#[cfg(target_arch = "x86_64")]
use crate::kernels::bf16::terms::{Terms, rounded};
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::Avx512x16;
use crate::kernels::simd::V16;

/// A matrix B as [`pack_b`](super::pack_b) lays it out, of elements of one of these types.
#[derive(Clone, Copy, Debug)]
pub enum PackedB<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Half precision.
    F16(&'a [f16]),
    /// The upper half of single precision.
    BF16(&'a [bf16]),
}

impl PackedB<'_> {
    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            PackedB::F32(elements) => elements.len(),
            PackedB::F16(elements) => elements.len(),
            PackedB::BF16(elements) => elements.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of one column of a packed B of `k` rows.
    pub(crate) fn column<T>(packed: &[T], k: usize, column: usize) -> impl Iterator<Item = &T> {
        let panel = packed.get(column / BLOCK * k * BLOCK..).unwrap_or_default();
        panel.iter().skip(column % BLOCK).step_by(BLOCK).take(k)
    }

    /// Where a product of `k` rows of B finds it.
    pub(super) fn source(&self, k: usize) -> Source {
        match self {
            PackedB::F32(elements) => Source::Packed(elements.as_ptr(), k),
            PackedB::F16(elements) => Source::PackedF16(elements.as_ptr(), k),
            PackedB::BF16(elements) => Source::PackedBF16(elements.as_ptr(), k),
        }
    }
}

/// An element of packed weights.
pub(super) trait Weight: Copy + Sync {
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

/// Puts rows `ks` and columns `ns` of packed weights with panels of `k` rows into panels of f32, each [rows][16].
///
/// # Safety
/// `from` is readable for the panels of these columns, the first of which starts a panel.
pub(super) unsafe fn widen<W: Weight>(
    isa: Isa,
    from: *const W,
    k: usize,
    ks: Range<usize>,
    ns: Range<usize>,
    out: &mut [f32],
) {
    let rows = ks.len();
    assert!(out.len() >= ns.len().div_ceil(BLOCK) * rows * BLOCK);
    for (panel, out) in out.chunks_exact_mut((rows * BLOCK).max(1)).take(ns.len().div_ceil(BLOCK)).enumerate() {
        let from = from.wrapping_add(((ns.start / BLOCK + panel) * k + ks.start) * BLOCK);
        dispatch(isa, Widen { from, out });
    }
}

/// Asks for rows of 16 elements of 16 bits.
pub(super) struct Fetch {
    pub(super) from: *const u16,
    pub(super) rows: usize,
}

impl Kernel for Fetch {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        // Two rows are a line of the cache.
        for row in (0..self.rows).step_by(2) {
            V::prefetch(self.from.wrapping_add(row * BLOCK).cast());
        }
    }
}

/// Whole blocks of 16 elements, as many as `out` has; the maker vouches for those of `from`.
struct Widen<'a, W> {
    from: *const W,
    out: &'a mut [f32],
}

impl<W: Weight> Kernel for Widen<'_, W> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        for (i, out) in self.out.chunks_exact_mut(BLOCK).enumerate() {
            // SAFETY: `dispatch` checked the features, the maker vouches for the elements.
            unsafe { W::load::<V>(self.from.add(i * BLOCK)).store(out.as_mut_ptr()) };
        }
    }
}

//! Packed filters of a 1x1 convolution times a factor for each input channel.

use super::activation::parts_of;
use super::isa::{Kernel, dispatch};
use super::layout::BLOCK;
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;

/// Whether so many values are filters for so many input channels, in the layout of [`super::ConvKind::Blocked`].
pub(crate) fn fits(channels: usize, len: usize) -> bool {
    channels > 0 && len.is_multiple_of(channels.div_ceil(BLOCK).saturating_mul(BLOCK * BLOCK))
}

/// `y` = `w` times the factor of the input channel; `w` is [output block][input block][16 in][16 out].
///
/// # Panics
/// If the lengths are not as [`fits`] says.
pub(crate) fn scale(threads: &Threads, w: &[f32], factors: &[f32], y: &mut [f32]) {
    assert!(w.len() == y.len() && fits(factors.len(), w.len()));
    let rows = w.len() / BLOCK;
    let parts = parts_of(threads, w.len());
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |i| {
        let rows = part(rows, parts, i);
        // SAFETY: tasks have rows of their own.
        let y = unsafe { out.slice(rows.start * BLOCK, rows.len() * BLOCK) };
        dispatch(threads.isa(), Rows { w: &w[rows.start * BLOCK..][..y.len()], factors, first: rows.start, y });
    });
}

/// Some rows of 16 output channels.
struct Rows<'a> {
    w: &'a [f32],
    factors: &'a [f32],
    /// The number of the first row.
    first: usize,
    y: &'a mut [f32],
}

impl Kernel for Rows<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let period = self.factors.len().next_multiple_of(BLOCK);
        let mut channel = self.first % period;
        for (w, y) in self.w.chunks_exact(BLOCK).zip(self.y.chunks_exact_mut(BLOCK)) {
            // What fills the last block up is zero.
            let factor = self.factors.get(channel).copied().unwrap_or(0.0);
            // SAFETY: `dispatch` checked the features; both have 16 values.
            unsafe { V::load(w.as_ptr()).mul(V::splat(factor)).store(y.as_mut_ptr()) };
            channel = if channel + 1 == period { 0 } else { channel + 1 };
        }
    }
}

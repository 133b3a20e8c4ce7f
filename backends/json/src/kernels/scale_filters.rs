//! Packed filters of a 1x1 convolution times a factor for each input channel.

use super::activation::parts_of;
use super::conv::Filters;
use super::isa::{Kernel, dispatch};
use super::layout::BLOCK;
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;
use super::weights::{PackedWeights, Weight};

/// Whether so many values are filters for so many input and output channels, in the layout of [`super::ConvKind::Blocked`].
pub(crate) fn fits([channels, filters]: [usize; 2], len: usize) -> bool {
    channels > 0 && filters > 0 && Filters::pointwise(channels, filters).len() == Some(len)
}

/// `y` = `w` times the factor of the input channel, in f32; `w` is [output block][input channel][16 outputs], in longer rows at the end where the
/// last block is not full.
///
/// # Panics
/// If the lengths are not as [`fits`] says.
pub(crate) fn scale(threads: &Threads, filters: usize, w: PackedWeights<'_>, factors: &[f32], y: &mut [f32]) {
    match w {
        PackedWeights::F32(w) => run(threads, filters, w, factors, y),
        PackedWeights::F16(w) => run(threads, filters, w, factors, y),
        PackedWeights::BF16(w) => run(threads, filters, w, factors, y),
    }
}

fn run<W: Weight>(threads: &Threads, filters: usize, w: &[W], factors: &[f32], y: &mut [f32]) {
    let channels = factors.len();
    assert!(w.len() == y.len() && fits([channels, filters], w.len()));
    let layout = Filters::pointwise(channels, filters);
    let full = layout.shared() * channels * BLOCK;
    let (y, rest) = y.split_at_mut(full);
    let parts = parts_of(threads, full);
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |i| {
        let rows = part(full / BLOCK, parts, i);
        // SAFETY: tasks have rows of their own.
        let y = unsafe { out.slice(rows.start * BLOCK, rows.len() * BLOCK) };
        let w = &w[rows.start * BLOCK..][..y.len()];
        dispatch(threads.isa(), Rows { w, factors, first: rows.start, row: BLOCK, count: rows.len(), y });
    });
    let row = layout.row(layout.shared());
    if row > 0 {
        dispatch(threads.isa(), Rows { w: &w[full..], factors, first: 0, row, count: channels, y: rest });
    }
}

/// Some rows of output channels.
struct Rows<'a, W> {
    w: &'a [W],
    factors: &'a [f32],
    /// The number of the first row.
    first: usize,
    /// Values of a row.
    row: usize,
    count: usize,
    y: &'a mut [f32],
}

impl<W: Weight> Kernel for Rows<'_, W> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let mut channel = self.first % self.factors.len();
        for at in (0..self.count).map(|row| row * self.row) {
            // What is written too far, the next row overwrites; the layout has room behind the last one.
            for at in (at..at + self.row).step_by(BLOCK) {
                let (w, y) = (&self.w[at..][..BLOCK], &mut self.y[at..][..BLOCK]);
                // SAFETY: `dispatch` checked the features; both have 16 values.
                unsafe { W::load::<V>(w.as_ptr()).mul(V::splat(self.factors[channel])).store(y.as_mut_ptr()) };
            }
            channel = if channel + 1 == self.factors.len() { 0 } else { channel + 1 };
        }
    }
}

//! What happens to a tile of sums: zero points of B, scales, bias, clamp, and rounding to 8 bits.

use std::ops::Range;

use super::linear::Byte;
use super::pack::PANEL;
use super::tile::MOST_ROWS;
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::simd::V16;

/// Where the results go.
#[derive(Debug)]
pub enum Out<'a> {
    /// The sums themselves; they wrap.
    Sums(&'a mut [i32]),
    /// `sum * factor + offset`, clamped.
    Real(&'a mut [f32]),
    /// The same, rounded to even, plus the zero point, within the range of the type.
    Bytes(&'a mut [u8], Byte, i32),
}

impl Out<'_> {
    /// All of it.
    pub fn all(&mut self) -> Out<'_> {
        let len = self.len();
        self.part(0, len)
    }

    /// `len` elements from `start` on.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn part(&mut self, start: usize, len: usize) -> Out<'_> {
        match self {
            Out::Sums(out) => Out::Sums(&mut out[start..start + len]),
            Out::Real(out) => Out::Real(&mut out[start..start + len]),
            Out::Bytes(out, byte, zero) => Out::Bytes(&mut out[start..start + len], *byte, *zero),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Out::Sums(out) => out.len(),
            Out::Real(out) => out.len(),
            Out::Bytes(out, ..) => out.len(),
        }
    }

    pub(super) fn target(self) -> Target {
        match self {
            Out::Sums(out) => Target::Sums(out.as_mut_ptr()),
            Out::Real(out) => Target::Real(out.as_mut_ptr()),
            Out::Bytes(out, byte, zero) => Target::Bytes(out.as_mut_ptr(), byte, zero),
        }
    }
}

/// As [`Out`], shared by tasks that write disjoint parts.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Sums(*mut i32),
    Real(*mut f32),
    Bytes(*mut u8, Byte, i32),
}

// SAFETY: addresses of a slice that outlives the tasks, each of which writes elements of its own.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// What happens to the sums. A list is empty, or has one element for each column.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// Zero points of B, as its packed bytes are: those of `u8` 128 less.
    pub zeros: &'a [i32],
    /// The zero point of all of B, where there is one.
    pub zero: i32,
    /// Added to the sums.
    pub bias: &'a [i32],
    /// Factors of the sums.
    pub factors: &'a [f32],
    /// Added to the products with them.
    pub offsets: &'a [f32],
    /// The ends of what is left of that.
    pub clamp: (f32, f32),
}

impl Default for Epilogue<'_> {
    fn default() -> Self {
        let clamp = (f32::NEG_INFINITY, f32::INFINITY);
        Epilogue { zeros: &[], zero: 0, bias: &[], factors: &[], offsets: &[], clamp }
    }
}

impl Epilogue<'_> {
    pub(super) fn check(&self, columns: usize) {
        let fits = |len: usize| len == 0 || len == columns;
        assert!(fits(self.zeros.len()) && fits(self.bias.len()), "integers for another number of columns");
        assert!(fits(self.factors.len()) && fits(self.offsets.len()), "numbers for another number of columns");
    }

    /// Whether the sums of the rows of A count.
    pub(super) fn needs_sums(&self) -> bool {
        self.zero != 0 || !self.zeros.is_empty()
    }
}

/// A tile and where it goes.
pub(super) struct Finish<'a> {
    pub(super) product: &'a [i32; MOST_ROWS * PANEL],
    /// The sum of each row of A; not looked at where no zero point needs it.
    pub(super) sums: &'a [i32],
    /// The first row.
    pub(super) row: usize,
    /// The columns: at most a panel.
    pub(super) columns: Range<usize>,
    /// Columns of C.
    pub(super) width: usize,
    pub(super) out: Target,
    pub(super) e: &'a Epilogue<'a>,
}

/// Writes a tile.
///
/// # Safety
/// The rows and columns are in C, and nothing else accesses them.
pub(super) unsafe fn run(isa: Isa, finish: Finish<'_>) {
    dispatch(isa, finish);
}

/// The columns of a list, one for each, or `other` where it is empty.
#[inline(always)]
fn columns<T: Copy>(list: &[T], columns: &Range<usize>, other: T) -> [T; PANEL] {
    let mut panel = [other; PANEL];
    if let Some(list) = list.get(columns.clone()) {
        if let Ok(whole) = <[T; PANEL]>::try_from(list) {
            return whole;
        }
        panel[..list.len()].copy_from_slice(list);
    }
    panel
}

impl Kernel for Finish<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Finish { product, sums, row, columns: range, width, out, e } = self;
        let count = range.len();
        let zeros = if e.zeros.is_empty() { [e.zero; PANEL] } else { columns(e.zeros, &range, 0) };
        let (bias, factors) = (columns(e.bias, &range, 0), columns(e.factors, &range, 1.0));
        let offsets = columns(e.offsets, &range, 0.0);
        let (lo, hi) = e.clamp;
        for (index, (product, &sum)) in product.chunks_exact(PANEL).zip(sums).enumerate() {
            let sum = if e.needs_sums() { sum } else { 0 };
            let mut totals = [0i32; PANEL];
            for j in 0..PANEL {
                totals[j] = product[j].wrapping_sub(zeros[j].wrapping_mul(sum)).wrapping_add(bias[j]);
            }
            let at = (row + index) * width + range.start;
            let mut reals = [0f32; PANEL];
            for j in 0..PANEL {
                reals[j] = (totals[j] as f32 * factors[j] + offsets[j]).max(lo).min(hi);
            }
            // SAFETY: `count` elements from there on are this task's own.
            unsafe {
                match out {
                    Target::Sums(out) => store(&totals, out.add(at), count),
                    Target::Real(out) => store(&reals, out.add(at), count),
                    Target::Bytes(out, byte, zero) => {
                        let (least, most) = byte.range();
                        let (least, most) = ((least - zero) as f32, (most - zero) as f32);
                        let mut bytes = [0u8; PANEL];
                        for j in 0..PANEL {
                            let rounded = reals[j].max(least).min(most).round_ties_even();
                            // What is within the range of a byte fits, and no maximum with a number is NaN.
                            let rounded = rounded.to_int_unchecked::<i32>();
                            bytes[j] = (rounded + zero) as u8;
                        }
                        store(&bytes, out.add(at), count);
                    }
                }
            }
        }
    }
}

/// Stores a panel's row, or its first `count` elements.
///
/// # Safety
/// `count` elements may be written.
#[inline(always)]
unsafe fn store<T: Copy>(row: &[T; PANEL], out: *mut T, count: usize) {
    // SAFETY: the caller vouches for it; nothing that is written is a reference.
    unsafe {
        if count == PANEL {
            out.cast::<[T; PANEL]>().write_unaligned(*row);
        } else {
            std::ptr::copy_nonoverlapping(row.as_ptr(), out, count);
        }
    }
}

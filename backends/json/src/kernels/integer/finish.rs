//! What happens to sums: zero points of B, scales, bias, clamp, and rounding to 8 bits.

use std::ops::Range;

use super::linear::{Byte, Levels};
use super::pack::PANEL;
use crate::kernels::layout::BLOCK;

/// Where the results go.
#[derive(Debug)]
pub enum Out<'a> {
    /// The sums themselves; they wrap.
    Sums(&'a mut [i32]),
    /// `sum * factor + offset`, clamped; what is not a number stays none.
    Real(&'a mut [f32]),
    /// The same as blocks of 16 columns, each of all rows; what is in the last one behind the last column is not written.
    Blocked(&'a mut [f32]),
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
            Out::Blocked(out) => Out::Blocked(&mut out[start..start + len]),
            Out::Bytes(out, byte, zero) => Out::Bytes(&mut out[start..start + len], *byte, *zero),
        }
    }

    fn len(&self) -> usize {
        match self {
            Out::Sums(out) => out.len(),
            Out::Real(out) | Out::Blocked(out) => out.len(),
            Out::Bytes(out, ..) => out.len(),
        }
    }

    /// Whether it is for so many rows and columns.
    pub(super) fn fits(&self, rows: usize, columns: usize) -> bool {
        let columns = match self {
            Out::Blocked(_) => columns.checked_next_multiple_of(BLOCK),
            _ => Some(columns),
        };
        columns.and_then(|columns| rows.checked_mul(columns)) == Some(self.len())
    }

    /// Elements from a row to the next, and from 16 columns to the next 16.
    pub(super) fn steps(&self, rows: usize, columns: usize) -> [usize; 2] {
        if matches!(self, Out::Blocked(_)) { [BLOCK, BLOCK * rows] } else { [columns, BLOCK] }
    }

    pub(super) fn target(self) -> Target {
        match self {
            Out::Sums(out) => Target::Sums(out.as_mut_ptr()),
            Out::Real(out) | Out::Blocked(out) => Target::Real(out.as_mut_ptr()),
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

/// What happens to the sums. A list is empty, or has one element for each column, or row.
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
    /// A factor for each row of the products with those; of numbers only.
    pub rows: &'a [f32],
    /// Added to the products with them.
    pub offsets: &'a [f32],
    /// The ends of what is left of that; numbers.
    pub clamp: (f32, f32),
}

impl Default for Epilogue<'_> {
    fn default() -> Self {
        let clamp = (f32::NEG_INFINITY, f32::INFINITY);
        Epilogue { zeros: &[], zero: 0, bias: &[], factors: &[], rows: &[], offsets: &[], clamp }
    }
}

impl Epilogue<'_> {
    pub(super) fn check(&self, rows: usize, columns: usize) {
        let fits = |len: usize| len == 0 || len == columns;
        assert!(self.rows.is_empty() || self.rows.len() == rows, "numbers for another number of rows");
        assert!(fits(self.zeros.len()) && fits(self.bias.len()), "integers for another number of columns");
        assert!(fits(self.factors.len()) && fits(self.offsets.len()), "numbers for another number of columns");
    }

    /// Whether the sums of the rows of A count.
    pub(super) fn needs_sums(&self) -> bool {
        self.zero != 0 || !self.zeros.is_empty()
    }
}

/// Where rows of sums go, and what happens to them.
#[derive(Clone)]
pub(super) struct Finish<'a> {
    /// The sum of each row of A, where a zero point needs it.
    pub(super) sums: &'a [i32],
    /// How many rows.
    pub(super) rows: usize,
    /// The first row.
    pub(super) row: usize,
    /// The columns: of one panel for [`Finish::row`], of as many as are multiplied together elsewhere.
    pub(super) columns: Range<usize>,
    /// As [`Out::steps`] says.
    pub(super) steps: [usize; 2],
    pub(super) out: Target,
    pub(super) e: &'a Epilogue<'a>,
}

/// The columns of a list, or `other` for each where it is empty; `other` also in what is left of the array.
#[inline(always)]
pub(super) fn columns<T: Copy, const N: usize>(list: &[T], columns: &Range<usize>, other: T) -> [T; N] {
    let mut part = [other; N];
    if let Some(list) = list.get(columns.clone()) {
        part[..list.len()].copy_from_slice(list);
    }
    part
}

impl<'a> Finish<'a> {
    /// The columns of a panel alone.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn panel(&self, index: usize) -> Finish<'a> {
        let start = self.columns.start + index * PANEL;
        Finish { columns: start..(start + PANEL).min(self.columns.end), ..self.clone() }
    }

    /// Zero points of B by column.
    #[inline(always)]
    fn zeros(&self) -> [i32; PANEL] {
        if self.e.zeros.is_empty() { [self.e.zero; PANEL] } else { columns(self.e.zeros, &self.columns, 0) }
    }

    /// Where a row of C begins.
    #[inline(always)]
    pub(super) fn at(&self, row: usize) -> usize {
        self.place(row, 0)
    }

    /// Where the columns of a row of C are from the one of that number on, which is the first of a panel: up to 16 follow each other.
    #[inline(always)]
    pub(super) fn place(&self, row: usize, column: usize) -> usize {
        let column = self.columns.start + column;
        (self.row + row) * self.steps[0] + column / BLOCK * self.steps[1] + column % BLOCK
    }

    /// Writes what comes of the sums of a row.
    ///
    /// # Safety
    /// The row and the columns are in C, and nothing else accesses them.
    pub(super) unsafe fn row(&self, index: usize, product: &[i32; PANEL]) {
        let (range, e) = (&self.columns, self.e);
        let (zeros, bias): (_, [i32; PANEL]) = (self.zeros(), columns(e.bias, range, 0));
        let (factors, offsets): ([f32; PANEL], [f32; PANEL]) =
            (columns(e.factors, range, 1.0), columns(e.offsets, range, 0.0));
        let sum = if e.needs_sums() { self.sums[index] } else { 0 };
        let total = |j: usize| product[j].wrapping_sub(zeros[j].wrapping_mul(sum)).wrapping_add(bias[j]);
        let of_row = e.rows.get(self.row + index).copied();
        let scaled = |j: usize| total(j) as f32 * factors[j] * of_row.unwrap_or(1.0);
        let moved = |j: usize| scaled(j) + offsets[j];
        let clamped = |j: usize| moved(j).max(e.clamp.0).min(e.clamp.1);
        let at = self.at(index);
        for j in 0..self.columns.len() {
            // SAFETY: the caller vouches for them.
            unsafe {
                match self.out {
                    Target::Sums(out) => *out.add(at + j) = total(j),
                    Target::Real(out) => *out.add(at + j) = if moved(j).is_nan() { f32::NAN } else { clamped(j) },
                    Target::Bytes(out, byte, zero) => *out.add(at + j) = Levels::new(byte, zero).byte(clamped(j)),
                }
            }
        }
    }
}

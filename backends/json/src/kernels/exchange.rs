//! Rows become columns, 16 by 16 values or bytes in registers.

use super::isa::Kernel;
use super::simd::V16;

/// Values of 4 bytes side by side in each row, whatever they are: moving a vector changes no bit of it.
const SIDE: usize = 16;

/// `to[column * to_row + row] = from[row * from_row + column]`.
pub(crate) struct Exchange {
    pub(crate) from: *const f32,
    pub(crate) from_row: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) to: *mut f32,
    pub(crate) to_row: usize,
}

impl Kernel for Exchange {
    type Out = ();

    /// # Safety
    /// As [`Kernel::run`]; the rows are readable, and what they become is writable.
    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        for column in (0..self.columns).step_by(SIDE) {
            let columns = SIDE.min(self.columns - column);
            for row in (0..self.rows).step_by(SIDE) {
                let rows = SIDE.min(self.rows - row);
                // SAFETY: the caller vouches for rows and columns; these are some of them.
                unsafe {
                    let square = square::<V>(self.from.add(row * self.from_row + column), self.from_row, rows, columns);
                    let to = self.to.add(column * self.to_row + row);
                    for (i, value) in square.into_iter().enumerate().take(columns) {
                        value.store_up_to(to.add(i * self.to_row), rows);
                    }
                }
            }
        }
    }
}

/// Value `i` of each of `rows` rows side by side, for each of `columns` values; 16 of both at most.
///
/// # Safety
/// As [`V16::load`], for these values of these rows.
#[inline(always)]
pub(crate) unsafe fn square<V: V16>(from: *const f32, from_row: usize, rows: usize, columns: usize) -> [V; SIDE] {
    // SAFETY: the caller vouches for it.
    unsafe {
        let mut square = [V::splat(0.0); SIDE];
        for (i, value) in square.iter_mut().enumerate().take(rows) {
            *value = V::load_up_to(from.add(i * from_row), columns);
        }
        V::exchange(square)
    }
}

/// The same of bytes, of which 16 are side by side in at least as many rows: `to[column * to_row + row] = from[row * from_row + column]`.
///
/// # Safety
/// The rows are readable, and what they become is writable.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the square in registers")]
pub(crate) unsafe fn bytes(from: *const u8, from_row: usize, rows: usize, to: *mut u8, to_row: usize) {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpacklo_epi8,
    };
    debug_assert!(rows >= SIDE);
    for row in (0..rows).step_by(SIDE) {
        // The last rows are moved with some before them.
        let row = row.min(rows - SIDE);
        // SAFETY: every x86-64 has SSE2; the caller vouches for 16 bytes of each row, and for as many rows.
        unsafe {
            let mut square = [_mm_setzero_si128(); SIDE];
            for i in 0..SIDE {
                square[i] = _mm_loadu_si128(from.add((row + i) * from_row).cast());
            }
            // Each time, the upper half of the bits of a place goes down by one: after four times, halves are exchanged.
            for _ in 0..4 {
                let before = square;
                for i in 0..SIDE / 2 {
                    square[2 * i] = _mm_unpacklo_epi8(before[i], before[i + SIDE / 2]);
                    square[2 * i + 1] = _mm_unpackhi_epi8(before[i], before[i + SIDE / 2]);
                }
            }
            for i in 0..SIDE {
                _mm_storeu_si128(to.add(i * to_row + row).cast(), square[i]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::{Isa, dispatch};

    #[test]
    fn every_value_goes_to_its_place() {
        for (rows, columns) in [(16, 16), (1, 40), (40, 1), (17, 33), (5, 7), (32, 16)] {
            // Some of these bits are not a number.
            let bits = |i: usize| 0x7f80_0000 + i as u32;
            let from: Vec<f32> = (0..rows * (columns + 3)).map(|i| f32::from_bits(bits(i))).collect();
            for &isa in Isa::available() {
                let mut to = vec![0.0f32; columns * (rows + 2)];
                let (x, y) = (from.as_ptr(), to.as_mut_ptr());
                dispatch(isa, Exchange { from: x, from_row: columns + 3, rows, columns, to: y, to_row: rows + 2 });
                for (at, value) in to.iter().enumerate() {
                    let (column, row) = (at / (rows + 2), at % (rows + 2));
                    let want = if row < rows { bits(row * (columns + 3) + column) } else { 0 };
                    assert_eq!(value.to_bits(), want, "{isa:?} {rows} x {columns}: {row}, {column}");
                }
            }
        }
    }
}

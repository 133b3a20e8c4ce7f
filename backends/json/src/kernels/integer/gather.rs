//! Rows of A, gathered: bytes of `u8`, each row to a multiple of four. And what follows from them: their sums, their greatest
//! elements, and the same in `i16` without the zero point.

use std::ops::Range;

use super::pack::DEPTH;
use super::rows::{Piece, Rows};
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::simd::V16;

/// Pieces of a row that several rows share, at most.
const MOST_PIECES: usize = 32;

/// Bytes that are copied at once.
const WIDE: usize = 16;

/// The rows `rows` of A, of `k` elements each, one behind another: as they lie, or copied to `out`.
pub(super) fn gather<'a>(a: &'a impl Rows, rows: Range<usize>, k: usize, out: &'a mut [u8]) -> &'a [u8] {
    let depth = k.next_multiple_of(DEPTH);
    if let Some(rows) = a.contiguous(rows.clone()).filter(|_| depth == k && a.reading().0 == 0) {
        return rows;
    }
    let out = &mut out[..rows.len() * depth];
    copy(a, rows, depth, &mut *out);
    out
}

fn copy(a: &impl Rows, rows: Range<usize>, depth: usize, out: &mut [u8]) {
    let (flip, zero) = a.reading();
    let mut to = To { bytes: a.bytes(), flip, zero, out, at: 0 };
    let mut row = rows.start;
    while row < rows.end {
        let (mut pieces, mut count) = ([Piece::Zeros(0); MOST_PIECES], 0);
        a.pieces(row, |piece| {
            if let Some(place) = pieces.get_mut(count) {
                *place = piece;
            }
            count += 1;
        });
        let Some(pieces) = pieces.get(..count) else {
            a.pieces(row, |piece| to.piece(piece, 0));
            to.end((row + 1 - rows.start) * depth);
            row += 1;
            continue;
        };
        let (alike, step) = a.alike(row);
        for next in 0..alike.min(rows.end - row) {
            for &piece in pieces {
                to.piece(piece, next * step);
            }
            to.end((row + next + 1 - rows.start) * depth);
        }
        row += alike.min(rows.end - row);
    }
}

/// The rows that are written, as far as they are.
struct To<'a> {
    bytes: &'a [u8],
    flip: u8,
    zero: u8,
    out: &'a mut [u8],
    at: usize,
}

impl To<'_> {
    /// Copies a piece that begins `shift` later.
    #[inline(always)]
    fn piece(&mut self, piece: Piece, shift: usize) {
        let (at, flip) = (self.at, self.flip);
        let (start, count) = match piece {
            Piece::Zeros(count) => {
                self.at += count;
                self.out[at..at + count].fill(self.zero);
                return;
            }
            Piece::Bytes(start, count) => (start + shift, count),
        };
        self.at += count;
        // Without a rest that is no vector, where there is room for what the next piece, or the next row, overwrites.
        let vectors = count.next_multiple_of(WIDE);
        match (self.bytes.get(start..start + vectors), self.out.get_mut(at..at + vectors)) {
            (Some(bytes), Some(out)) => {
                // A number of 128 bits: a loop over bytes is none of vectors in every build.
                let flip = u128::from_ne_bytes([flip; WIDE]);
                for (out, bytes) in out.as_chunks_mut::<WIDE>().0.iter_mut().zip(bytes.as_chunks::<WIDE>().0) {
                    *out = (u128::from_ne_bytes(*bytes) ^ flip).to_ne_bytes();
                }
            }
            _ => {
                for (out, &byte) in self.out[at..at + count].iter_mut().zip(&self.bytes[start..start + count]) {
                    *out = byte ^ flip;
                }
            }
        }
    }

    /// Fills up the row.
    #[inline(always)]
    fn end(&mut self, end: usize) {
        self.out[self.at..end].fill(0);
        self.at = end;
    }
}

struct Widen<'a> {
    bytes: &'a [u8],
    zero: i16,
    out: &'a mut [i16],
}

/// Writes gathered elements without their zero point.
pub(super) fn widen(isa: Isa, bytes: &[u8], zero: u8, out: &mut [i16]) {
    assert_eq!(bytes.len(), out.len());
    dispatch(isa, Widen { bytes, zero: i16::from(zero), out });
}

impl Kernel for Widen<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let zero = self.zero;
        self.out.iter_mut().zip(self.bytes).for_each(|(out, &byte)| *out = i16::from(byte) - zero);
    }
}

struct Sums<'a> {
    rows: &'a [u8],
    depth: usize,
    k: usize,
    zero: i32,
    sums: &'a mut [i32],
}

/// Writes the sum of the first `k` of the `depth` elements of each row, without their zero point.
pub(super) fn sums(isa: Isa, rows: &[u8], (depth, k): (usize, usize), zero: u8, sums: &mut [i32]) {
    if k == 0 {
        sums.fill(0);
    } else {
        dispatch(isa, Sums { rows, depth, k, zero: i32::from(zero), sums });
    }
}

impl Kernel for Sums<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let zeros = (self.k as i32).wrapping_mul(self.zero);
        for (row, sum) in self.rows.chunks_exact(self.depth).zip(self.sums) {
            let total = row[..self.k].iter().fold(0i32, |sum, &byte| sum.wrapping_add(i32::from(byte)));
            *sum = total.wrapping_sub(zeros);
        }
    }
}

struct Greatest<'a>(&'a [u8]);

/// The greatest byte; 0 where there is none.
pub(super) fn greatest(isa: Isa, bytes: &[u8]) -> u8 {
    dispatch(isa, Greatest(bytes))
}

impl Kernel for Greatest<'_> {
    type Out = u8;

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> u8 {
        let mut most = [0u8; 32];
        let (chunks, rest) = self.0.as_chunks::<32>();
        for chunk in chunks {
            most.iter_mut().zip(chunk).for_each(|(most, &byte)| *most = (*most).max(byte));
        }
        most.iter().chain(rest).copied().max().unwrap_or(0)
    }
}

//! Rows of A, gathered: bytes of `u8`, each row to a multiple of four. And what follows from them: their sums, their greatest
//! elements, and the same in `i16` without the zero point.

use std::ops::Range;

use super::pack::DEPTH;
use super::rows::{Piece, Rows};
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::simd::V16;

/// Pieces of a row that several rows share, at most.
const MOST_PIECES: usize = 32;

/// Bytes that are copied at once, of what is no multiple of [`WIDE`].
const NARROW: usize = 16;

/// Bytes that are copied at once: a vector, or several where they are shorter.
const WIDE: usize = 64;

/// The rows `rows` of A, of `k` elements each, one behind another: as they lie, or copied to `out`.
pub(super) fn gather<'a>(isa: Isa, a: &'a impl Rows, rows: Range<usize>, k: usize, out: &'a mut [u8]) -> &'a [u8] {
    let depth = k.next_multiple_of(DEPTH);
    if let Some(rows) = a.contiguous(rows.clone()).filter(|_| depth == k && a.reading().0 == 0) {
        return rows;
    }
    let out = &mut out[..rows.len() * depth];
    dispatch(isa, Gather { a, rows, depth, out: &mut *out });
    out
}

struct Gather<'a, R> {
    a: &'a R,
    rows: Range<usize>,
    depth: usize,
    out: &'a mut [u8],
}

impl<R: Rows> Kernel for Gather<'_, R> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let (flip, zero) = self.a.reading();
        match flip {
            0 => self.copy::<false>(flip, zero),
            _ => self.copy::<true>(flip, zero),
        }
    }
}

impl<R: Rows> Gather<'_, R> {
    #[inline(always)]
    fn copy<const FLIPS: bool>(self, flip: u8, zero: u8) {
        let Gather { a, rows, depth, out } = self;
        let to = To::<FLIPS> { bytes: a.bytes(), flip, zero };
        let mut row = rows.start;
        while row < rows.end {
            let (mut pieces, mut count) = ([Piece::Zeros(0); MOST_PIECES], 0);
            a.pieces(row, |piece| {
                if let Some(place) = pieces.get_mut(count) {
                    *place = piece;
                }
                count += 1;
            });
            let (alike, step) = if count <= MOST_PIECES { a.alike(row) } else { (1, 0) };
            for next in 0..alike.min(rows.end - row) {
                let out = &mut out[(row + next - rows.start) * depth..];
                let mut at = 0;
                match pieces.get(..count) {
                    Some(pieces) => {
                        for &piece in pieces {
                            to.piece(piece, next * step, out, &mut at);
                        }
                    }
                    None => a.pieces(row, |piece| to.piece(piece, 0, out, &mut at)),
                }
                for out in &mut out[at..depth] {
                    *out = 0;
                }
            }
            row += alike.min(rows.end - row);
        }
    }
}

/// What pieces are made of; `FLIPS` says whether signs change.
struct To<'a, const FLIPS: bool> {
    bytes: &'a [u8],
    flip: u8,
    zero: u8,
}

impl<const FLIPS: bool> To<'_, FLIPS> {
    /// Copies a piece that begins `shift` later to `at`, which moves behind it.
    #[inline(always)]
    fn piece(&self, piece: Piece, shift: usize, out: &mut [u8], at: &mut usize) {
        let (start, count) = match piece {
            Piece::Zeros(count) => {
                match out.get_mut(*at..*at + count.next_multiple_of(NARROW)) {
                    // A call takes longer than the few bytes behind a row of a kernel.
                    Some(out) => out.as_chunks_mut().0.iter_mut().for_each(|out| *out = [self.zero; NARROW]),
                    None => out[*at..*at + count].fill(self.zero),
                }
                *at += count;
                return;
            }
            Piece::Bytes(start, count) => (start + shift, count),
        };
        // Whole vectors, where there is room for what the next piece, or the next row, overwrites.
        let vectors = count.next_multiple_of(NARROW);
        match (self.bytes.get(start..start + vectors), out.get_mut(*at..*at + vectors)) {
            // SAFETY: both have as many bytes, a multiple of `NARROW`.
            (Some(bytes), Some(out)) => unsafe { self.vectors(bytes.as_ptr(), out.as_mut_ptr(), vectors) },
            _ => {
                for (out, &byte) in out[*at..*at + count].iter_mut().zip(&self.bytes[start..start + count]) {
                    *out = byte ^ self.flip;
                }
            }
        }
        *at += count;
    }

    /// Copies so many bytes. Pointers, as iterators are calls in builds without link-time optimisation.
    ///
    /// # Safety
    /// As many may be read and written, a multiple of [`NARROW`].
    #[inline(always)]
    unsafe fn vectors(&self, bytes: *const u8, out: *mut u8, count: usize) {
        let mut at = 0;
        // SAFETY: the caller vouches for them.
        unsafe {
            while at + WIDE <= count {
                self.vector::<WIDE>(bytes.add(at), out.add(at));
                at += WIDE;
            }
            while at < count {
                self.vector::<NARROW>(bytes.add(at), out.add(at));
                at += NARROW;
            }
        }
    }

    /// # Safety
    /// So many bytes may be read and written.
    #[inline(always)]
    unsafe fn vector<const N: usize>(&self, bytes: *const u8, out: *mut u8) {
        // SAFETY: the caller vouches for them.
        unsafe {
            let mut vector = bytes.cast::<[u8; N]>().read_unaligned();
            if FLIPS {
                for byte in &mut vector {
                    *byte ^= self.flip;
                }
            }
            out.cast::<[u8; N]>().write_unaligned(vector);
        }
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

//! Widening of rows to `i16`, without their zero point, each to a multiple of four elements.

use std::ops::Range;

use super::pack::DEPTH;
use super::rows::{Piece, Rows};
use crate::kernels::isa::Isa;

/// Pieces of a row that several rows share, at most.
const MOST_PIECES: usize = 32;

/// Bytes of a vector.
const WIDE: usize = 16;

/// Writes the rows `rows` of A, of `k` elements each, one behind another.
pub(super) fn widen(isa: Isa, a: &impl Rows, rows: Range<usize>, k: usize, out: &mut [i16]) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` that reaches the kernels was checked against the CPU.
        Isa::Avx2 | Isa::Avx512 => unsafe { x86::avx2(a, rows, k, out) },
        _ => all::<Portable>(a, rows, k, out),
    }
}

/// Sixteen bytes at a time: without the flipped bits and the zero point.
trait Vector {
    fn widen(bytes: &[u8; WIDE], reading: (u8, i16), out: &mut [i16; WIDE]);
}

struct Portable;

impl Vector for Portable {
    fn widen(bytes: &[u8; WIDE], (flip, zero): (u8, i16), out: &mut [i16; WIDE]) {
        *out = bytes.map(|byte| i16::from(byte ^ flip) - zero);
    }
}

#[inline(always)]
fn all<V: Vector>(a: &impl Rows, rows: Range<usize>, k: usize, out: &mut [i16]) {
    let depth = k.next_multiple_of(DEPTH);
    let mut to = To { bytes: a.bytes(), reading: a.reading(), out, at: 0 };
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
            a.pieces(row, |piece| to.piece::<V>(piece, 0));
            to.end((row + 1 - rows.start) * depth);
            row += 1;
            continue;
        };
        let (alike, step) = a.alike(row);
        for next in 0..alike.min(rows.end - row) {
            for &piece in pieces {
                to.piece::<V>(piece, next * step);
            }
            to.end((row + next + 1 - rows.start) * depth);
        }
        row += alike.min(rows.end - row);
    }
}

/// The rows that are written, as far as they are.
struct To<'a> {
    bytes: &'a [u8],
    reading: (u8, i16),
    out: &'a mut [i16],
    at: usize,
}

impl To<'_> {
    /// Widens a piece that begins `shift` later.
    #[inline(always)]
    fn piece<V: Vector>(&mut self, piece: Piece, shift: usize) {
        let at = self.at;
        let (start, count) = match piece {
            Piece::Zeros(count) => {
                self.at += count;
                self.out[at..at + count].fill(0);
                return;
            }
            Piece::Bytes(start, count) => (start + shift, count),
        };
        self.at += count;
        // Without a rest that is no vector, where there is room for what the next piece, or the next row, overwrites.
        let vectors = count.next_multiple_of(WIDE);
        match (self.bytes.get(start..start + vectors), self.out.get_mut(at..at + vectors)) {
            (Some(bytes), Some(out)) => {
                for (out, bytes) in out.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks().0) {
                    V::widen(bytes, self.reading, out);
                }
            }
            _ => {
                let (flip, zero) = self.reading;
                for (out, &byte) in self.out[at..at + count].iter_mut().zip(&self.bytes[start..start + count]) {
                    *out = i16::from(byte ^ flip) - zero;
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm_set1_epi8, _mm_xor_si128, _mm256_cvtepu8_epi16, _mm256_set1_epi16,
        _mm256_storeu_si256, _mm256_sub_epi16,
    };
    use std::ops::Range;

    use super::{Rows, Vector, WIDE, all};

    /// # Safety
    /// The CPU has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2(a: &impl Rows, rows: Range<usize>, k: usize, out: &mut [i16]) {
        all::<Avx2>(a, rows, k, out);
    }

    struct Avx2;

    impl Vector for Avx2 {
        #[inline(always)]
        fn widen(bytes: &[u8; WIDE], (flip, zero): (u8, i16), out: &mut [i16; WIDE]) {
            // SAFETY: only `avx2` uses this type; sixteen elements on both sides.
            unsafe {
                let bytes = _mm_xor_si128(_mm_loadu_si128(bytes.as_ptr().cast::<__m128i>()), _mm_set1_epi8(flip as i8));
                let wide = _mm256_sub_epi16(_mm256_cvtepu8_epi16(bytes), _mm256_set1_epi16(zero));
                _mm256_storeu_si256(out.as_mut_ptr().cast::<__m256i>(), wide);
            }
        }
    }
}

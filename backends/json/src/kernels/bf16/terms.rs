//! Which pieces of two numbers are multiplied, where they are, and what multiplies them.

use std::arch::x86_64::*;

use super::TILE;
use super::pieces::pieces;

/// Rows and columns whose sums are in the tiles at a time: two tiles by two.
pub(crate) const SIDE: usize = 2 * TILE;
/// Elements of k that a row of a tile holds.
pub(crate) const STEP: usize = 32;
/// Most pieces of a number.
pub(crate) const MOST: usize = 3;
/// f32 values of the sums: of each tile 16 rows of 16.
pub(crate) const SUMS: usize = SIDE * SIDE;

/// The pieces of A and B, and which of them meet: those whose product is not below what is left out anyway.
pub(crate) trait Terms {
    /// Pieces of A.
    const A: usize;
    /// Pieces of B.
    const B: usize;
    /// (piece of A, piece of B); neighbours have one in common, which then need not be loaded again.
    const ORDER: &'static [(usize, usize)];
    /// The same where B has numbers of bf16.
    type OfOne: Terms;
}

/// As exact as f32.
pub(crate) struct Six;
impl Terms for Six {
    type OfOne = ThreeOfOne;
    const A: usize = 3;
    const B: usize = 3;
    const ORDER: &'static [(usize, usize)] = &[(2, 0), (0, 0), (0, 2), (0, 1), (1, 1), (1, 0)];
}

/// As exact as f32 where B has numbers of bf16.
pub(crate) struct ThreeOfOne;
impl Terms for ThreeOfOne {
    type OfOne = ThreeOfOne;
    const A: usize = 3;
    const B: usize = 1;
    const ORDER: &'static [(usize, usize)] = &[(2, 0), (1, 0), (0, 0)];
}

/// Sixteen bits of precision.
pub(crate) struct Three;
impl Terms for Three {
    type OfOne = TwoOfOne;
    const A: usize = 2;
    const B: usize = 2;
    const ORDER: &'static [(usize, usize)] = &[(1, 0), (0, 0), (0, 1)];
}

/// Sixteen bits of precision where B has numbers of bf16.
pub(crate) struct TwoOfOne;
impl Terms for TwoOfOne {
    type OfOne = TwoOfOne;
    const A: usize = 2;
    const B: usize = 1;
    const ORDER: &'static [(usize, usize)] = &[(1, 0), (0, 0)];
}

/// Eight bits of precision.
pub(crate) struct One;
impl Terms for One {
    type OfOne = One;
    const A: usize = 1;
    const B: usize = 1;
    const ORDER: &'static [(usize, usize)] = &[(0, 0)];
}

/// Where the tiles of one step of k are: of each piece two tiles, one behind the other, and how many bytes the next piece is further.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    pub(crate) tiles: *const u8,
    pub(crate) piece: usize,
}

/// 32 elements of k of A and B, of which those past `elements` are zero.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) elements: usize,
}

/// What multiplies pairs of bf16.
pub(crate) trait Multiplier: Sized {
    /// Elements of k for which tiles of 32 columns of B should be used before others are.
    const DEPTH: usize;

    /// Ready to be used by this thread until it is dropped.
    ///
    /// # Safety
    /// The processor has it, as [`Unit::of`](super::Unit::of) says, and AVX-512; no other of this thread is alive.
    unsafe fn start() -> Self;

    /// Writes a row of A of a tile of each piece, `stride` bytes apart: 32 elements.
    ///
    /// # Safety
    /// The processor has the unit; 64 writable bytes for each piece.
    unsafe fn put_a<T: Terms>(to: *mut u8, stride: usize, elements: [__m512; 2]);

    /// The same of row `index` of a tile of B, of 32 rows of elements.
    ///
    /// # Safety
    /// As [`Multiplier::put_a`], and of `rows`.
    unsafe fn put_b<T: Terms>(to: *mut u8, stride: usize, rows: &impl Rows, index: usize);

    /// The sums of the products of `rows` rows by `columns` columns, at most [`SIDE`] each, over all steps, where [`sum_of`] says. Sums of
    /// further rows and columns are of no meaning. Says whether all are finite; it may say no where one of those is not.
    ///
    /// # Safety
    /// The tiles of the operands are readable: all pieces, and of each the first tile, or both if there are more than [`TILE`] rows or columns.
    unsafe fn sums<T: Terms>(
        &self,
        of: [usize; 2],
        steps: impl Iterator<Item = Step> + Clone,
        between: &mut impl Between,
        sums: &mut [f32; SUMS],
    ) -> bool;
}

/// 32 rows of 16 columns of B.
pub(crate) trait Rows {
    /// A row.
    ///
    /// # Safety
    /// The processor has AVX-512.
    unsafe fn row(&self, index: usize) -> __m512;

    /// An even row and the one after it, as 32 numbers of bf16.
    ///
    /// # Safety
    /// The processor has AVX-512 and AVX512-BF16.
    #[inline(always)]
    unsafe fn two(&self, index: usize) -> __m512i {
        // SAFETY: the caller vouches for it.
        unsafe { rounded([self.row(index), self.row(index + 1)]) }
    }
}

/// Numbers rounded to bf16, one vector behind the other.
///
/// # Safety
/// The processor has AVX512-BF16.
#[inline(always)]
pub(crate) unsafe fn rounded([first, second]: [__m512; 2]) -> __m512i {
    // SAFETY: the caller vouches for the processor; both are vectors of 64 bytes.
    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(second, first)) }
}

/// What else is done while matrix units compute.
pub(crate) trait Between {
    /// The parts of it of so many steps.
    ///
    /// # Safety
    /// The processor has AVX-512.
    unsafe fn advance(&mut self, steps: usize);

    /// Asks for what the next part will read; where the same registers do both, parts come one after the other.
    fn fetch(&mut self) {}
}

/// Nothing.
impl Between for () {
    #[inline(always)]
    unsafe fn advance(&mut self, _: usize) {}
}

/// Writes one row of a tile of each of `count` pieces, `stride` bytes apart: the elements of `low` paired with those of `high`, which takes
/// no permutation.
///
/// # Safety
/// AVX-512; 64 writable bytes for each piece.
#[inline(always)]
pub(super) unsafe fn put_row(count: usize, to: *mut u8, stride: usize, [low, high]: [__m512; 2]) {
    // SAFETY: the caller vouches for it.
    unsafe {
        match count {
            3 => put_pieces(pieces::<3>(low, high), to, stride),
            2 => put_pieces(pieces::<2>(low, high), to, stride),
            _ => put_pieces(pieces::<1>(low, high), to, stride),
        }
    }
}

/// # Safety
/// As [`put_row`].
#[inline(always)]
unsafe fn put_pieces<const N: usize>(pieces: [__m512i; N], to: *mut u8, stride: usize) {
    for (index, pairs) in pieces.into_iter().enumerate() {
        // SAFETY: the caller vouches for it.
        unsafe { _mm512_storeu_si512(to.add(index * stride).cast(), pairs) };
    }
}

/// Whether no sum is infinite or not a number.
///
/// # Safety
/// AVX-512.
#[inline(always)]
pub(super) unsafe fn all_finite(sums: &[f32; SUMS]) -> bool {
    // SAFETY: the caller vouches for AVX-512; chunks of 16.
    unsafe {
        let zero = _mm512_setzero_ps();
        // Four at a time, as each addition waits for the one before.
        let mut checks = [zero; 4];
        for sums in sums.chunks_exact(4 * TILE) {
            for (index, check) in checks.iter_mut().enumerate() {
                *check = _mm512_fmadd_ps(zero, _mm512_loadu_ps(sums.as_ptr().add(index * TILE)), *check);
            }
        }
        let [a, b, c, d] = checks;
        let check = _mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d));
        _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(check, check) == 0
    }
}

/// Where the 16 sums of a row are, in the first or the second tile of columns.
#[inline(always)]
pub(crate) fn sum_of(row: usize, half: usize) -> usize {
    ((row / TILE * 2 + half) * TILE + row % TILE) * TILE
}

/// A slice from its first value at the start of a cache line on, of which a tile has sixteen; at most 15 values are left out.
pub(crate) fn from_line(scratch: &mut [f32]) -> &mut [f32] {
    let skip = to_line(scratch);
    &mut scratch[skip..]
}

/// Values before the first one at the start of a cache line.
pub(crate) fn to_line(values: &[f32]) -> usize {
    values.as_ptr().align_offset(64).min(TILE - 1)
}

/// `count` elements of a row of A, at most 32, `stride` apart, and zeros.
///
/// # Safety
/// AVX-512; the elements are readable. A masked load touches no other.
#[inline(always)]
pub(crate) unsafe fn elements(from: *const f32, stride: usize, count: usize) -> [__m512; 2] {
    // SAFETY: the caller vouches for it.
    unsafe {
        if stride == 1 && count == STEP {
            return [_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(TILE))];
        }
        if count == 0 {
            // A load from where there is no memory, though nothing of it counts, takes hundreds of cycles.
            return [_mm512_setzero_ps(); 2];
        }
        if stride == 1 {
            let mask = ((1_u64 << count) - 1) as u32;
            let (low, high) = (mask as __mmask16, (mask >> TILE) as __mmask16);
            return [_mm512_maskz_loadu_ps(low, from), _mm512_maskz_loadu_ps(high, from.wrapping_add(TILE))];
        }
        let mut values = [0.0_f32; STEP];
        for (index, value) in values.iter_mut().enumerate().take(count) {
            *value = *from.add(index * stride);
        }
        [_mm512_loadu_ps(values.as_ptr()), _mm512_loadu_ps(values.as_ptr().add(TILE))]
    }
}

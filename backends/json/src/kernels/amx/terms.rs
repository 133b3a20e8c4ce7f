//! Which pieces of two numbers are multiplied, and the products of tiles that do so.

use std::arch::x86_64::*;

use super::{TILE, TILE_BYTES, Tiles, pieces};

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
}

/// As exact as f32.
pub(crate) struct Six;
impl Terms for Six {
    const A: usize = 3;
    const B: usize = 3;
    const ORDER: &'static [(usize, usize)] = &[(2, 0), (0, 0), (0, 2), (0, 1), (1, 1), (1, 0)];
}

/// As exact as f32 where B has numbers of bf16.
pub(crate) struct ThreeOfOne;
impl Terms for ThreeOfOne {
    const A: usize = 3;
    const B: usize = 1;
    const ORDER: &'static [(usize, usize)] = &[(2, 0), (1, 0), (0, 0)];
}

/// Sixteen bits of precision.
pub(crate) struct Three;
impl Terms for Three {
    const A: usize = 2;
    const B: usize = 2;
    const ORDER: &'static [(usize, usize)] = &[(1, 0), (0, 0), (0, 1)];
}

/// Sixteen bits of precision where B has numbers of bf16.
pub(crate) struct TwoOfOne;
impl Terms for TwoOfOne {
    const A: usize = 2;
    const B: usize = 1;
    const ORDER: &'static [(usize, usize)] = &[(1, 0), (0, 0)];
}

/// Eight bits of precision.
pub(crate) struct One;
impl Terms for One {
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

/// Adds the products of 32 elements of k to the sums. Tiles 0 to 3 are the sums, 4 and 5 rows of A, 6 and 7 columns of B; without `ROWS`
/// or `COLUMNS` the second of them is not there.
///
/// # Safety
/// The tiles of `a` and `b` are readable.
#[inline(always)]
pub(crate) unsafe fn products<T: Terms, const ROWS: bool, const COLUMNS: bool>(tiles: &Tiles, a: Operand, b: Operand) {
    let (mut loaded_a, mut loaded_b) = (MOST, MOST);
    for &(i, j) in T::ORDER {
        // SAFETY: the caller vouches for the tiles.
        unsafe {
            if i != loaded_a {
                let from = a.tiles.add(i * a.piece);
                tiles.load::<4>(from);
                if ROWS {
                    tiles.load::<5>(from.add(TILE_BYTES));
                }
            }
            if j != loaded_b {
                let from = b.tiles.add(j * b.piece);
                tiles.load::<6>(from);
                if COLUMNS {
                    tiles.load::<7>(from.add(TILE_BYTES));
                }
            }
        }
        (loaded_a, loaded_b) = (i, j);
        tiles.product::<0, 4, 6>();
        if COLUMNS {
            tiles.product::<1, 4, 7>();
        }
        if ROWS {
            tiles.product::<2, 5, 6>();
        }
        if ROWS && COLUMNS {
            tiles.product::<3, 5, 7>();
        }
    }
}

impl Tiles {
    /// The sums are zero.
    #[inline(always)]
    pub(crate) fn clear_sums(&self) {
        self.zero::<0>();
        self.zero::<1>();
        self.zero::<2>();
        self.zero::<3>();
    }

    /// Writes the sums: rows 0 to 15 by columns 0 to 15, then by columns 16 to 31, then the later rows.
    #[inline(always)]
    pub(crate) fn store_sums(&self, to: &mut [f32; SUMS]) {
        let to: *mut u8 = to.as_mut_ptr().cast();
        // SAFETY: four tiles of 1024 bytes.
        unsafe {
            self.store::<0>(to);
            self.store::<1>(to.add(TILE_BYTES));
            self.store::<2>(to.add(2 * TILE_BYTES));
            self.store::<3>(to.add(3 * TILE_BYTES));
        }
    }
}

/// Writes one row of a tile of each of `count` pieces, `stride` bytes apart: the elements of `low` paired with those of `high`.
///
/// # Safety
/// AVX-512; 64 writable bytes for each piece.
#[inline(always)]
pub(crate) unsafe fn put_row(count: usize, to: *mut u8, stride: usize, [low, high]: [__m512; 2]) {
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
pub(crate) unsafe fn all_finite(sums: &[f32; SUMS]) -> bool {
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

/// A slice from its first value at the start of a cache line on, of which a tile has sixteen; at most 15 values are left out.
pub(crate) fn from_line(scratch: &mut [f32]) -> &mut [f32] {
    let skip = scratch.as_ptr().align_offset(64).min(TILE - 1);
    &mut scratch[skip..]
}

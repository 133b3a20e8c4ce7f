//! Products of bytes by matrix units (AMX), exact in `i32`. Rows of A are read where they are, 16 at a time; panels of B are put in the
//! order of tiles first, 32 columns at a time, for all rows that are multiplied with them.

use std::arch::x86_64::{
    __m256i, _mm256_loadu_si256, _mm512_add_epi32, _mm512_castsi256_si512, _mm512_inserti64x4, _mm512_loadu_si512,
    _mm512_setzero_si512, _mm512_storeu_si512,
};

use super::pack::{DEPTH, PANEL};
use super::tail::{Tail, Tails};
use super::tile::{Tiles, each_tile};
use crate::kernels::amx::{Config, LINE, TILE, TILE_BYTES, Tiles as Unit};

/// Tiles of columns that are multiplied together, of two panels each.
const SIDE: usize = 2;

/// Bytes of the sums of two tiles of rows.
const SUMS: usize = 2 * SIDE * TILE_BYTES;

/// Bytes that [`run`] needs for products of rows of so many elements, whatever their pieces are; `None` if they cannot be counted.
pub(super) fn scratch_len(depth: usize) -> Option<usize> {
    // The last product of a piece repeats less than all elements, of a piece that has as many at least.
    depth.checked_mul(2 * SIDE * TILE)?.checked_add(SUMS + LINE)
}

/// How the elements of a row are cut into what one product takes.
#[derive(Clone, Copy)]
struct Cut {
    /// Pieces of a row.
    pieces: usize,
    /// Elements of a piece.
    length: usize,
    /// Products for each of them.
    products: usize,
    /// Elements that a product takes.
    bytes: usize,
}

impl Cut {
    fn new(tiles: &Tiles<'_>) -> Cut {
        let length = tiles.depth / tiles.places.pieces;
        Cut { pieces: tiles.places.pieces, length, products: length.div_ceil(LINE), bytes: length.min(LINE) }
    }

    /// Where the elements of a product are in a piece: the last ones end with it, so that nothing behind it is read.
    #[inline(always)]
    fn start(&self, product: usize) -> usize {
        (product * LINE).min(self.length - self.bytes)
    }

    /// Bytes of a tile of B.
    fn tile(&self) -> usize {
        self.bytes * TILE
    }
}

/// How rows are cut into tiles of as many each.
#[derive(Clone, Copy)]
struct Cuts {
    /// Rows of a line.
    line: usize,
    /// Tiles of a line.
    count: usize,
    /// Rows of a tile.
    rows: usize,
}

impl Cuts {
    fn new(line: usize) -> Cuts {
        let count = line.div_ceil(TILE);
        Cuts { line, count, rows: line.div_ceil(count) }
    }

    /// The line, and the first row in it, of a tile. The last one of a line ends with it, and may repeat rows of the one before.
    #[inline(always)]
    fn place(&self, tile: usize) -> [usize; 2] {
        [tile / self.count, (tile % self.count * self.rows).min(self.line - self.rows)]
    }
}

/// Multiplies one to four panels; `scratch` is of [`scratch_len`] bytes at least.
///
/// # Safety
/// As [`multiply`](super::multiply::multiply); the process may use matrix units for bytes, and the CPU has AVX-512 F, VL, DQ and BW.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
pub(super) unsafe fn run(tiles: &Tiles<'_>, scratch: &mut [u8]) {
    assert!(scratch_len(tiles.depth).is_some_and(|len| scratch.len() >= len), "the scratch is too short");
    let both = tiles.stats.len() > 2;
    // SAFETY: the caller vouches for all of it.
    unsafe {
        match &Tails::new(tiles) {
            Tails::Bytes(tail) if both => columns::<2>(tiles, tail, scratch),
            Tails::Bytes(tail) => columns::<1>(tiles, tail, scratch),
            Tails::Real(tail) if both => columns::<2>(tiles, tail, scratch),
            Tails::Real(tail) => columns::<1>(tiles, tail, scratch),
            Tails::Panels(tail) if both => columns::<2>(tiles, tail, scratch),
            Tails::Panels(tail) => columns::<1>(tiles, tail, scratch),
        }
    }
}

/// All rows of `W` tiles of columns.
///
/// # Safety
/// As [`run`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
unsafe fn columns<const W: usize>(tiles: &Tiles<'_>, tail: &impl Tail, scratch: &mut [u8]) {
    let (cut, places) = (Cut::new(tiles), tiles.places);
    let cuts = Cuts::new(tiles.finish.rows / places.lines);
    let skipped = scratch.as_ptr().align_offset(LINE);
    let (sums, b) = scratch[skipped..].split_at_mut(SUMS);
    let (sums, b) = (sums.as_mut_ptr(), b.as_mut_ptr());
    let total = places.lines * cuts.count;
    // SAFETY: the caller vouches for the unit, and `scratch_len` and `Tiles::check` for the lengths.
    unsafe {
        order::<W>(tiles, cut, b);
        let unit = Unit::configure(&Config::of_products(cuts.rows, cut.bytes));
        for first in (0..total).step_by(2) {
            let [line, row] = cuts.place(first);
            let a = tiles.bytes.as_ptr().add(line * places.line + row * places.row);
            if first + 1 == total {
                multiply::<W, false>(&unit, tiles, cut, [a, a], b, sums);
                finish::<W>(tiles, tail, sums, (line * cuts.line + row, cuts.rows));
                break;
            }
            let [next_line, next_row] = cuts.place(first + 1);
            let next = tiles.bytes.as_ptr().add(next_line * places.line + next_row * places.row);
            multiply::<W, true>(&unit, tiles, cut, [a, next], b, sums);
            finish::<W>(tiles, tail, sums, (line * cuts.line + row, cuts.rows));
            let sums = sums.add(SIDE * TILE_BYTES);
            finish::<W>(tiles, tail, sums, (next_line * cuts.line + next_row, cuts.rows));
        }
    }
}

/// Puts panels in the order of `W` tiles for each product: as many steps of four elements, of 16 columns each.
///
/// # Safety
/// As [`run`]; `out` has room for all of them.
#[inline(always)]
unsafe fn order<const W: usize>(tiles: &Tiles<'_>, cut: Cut, mut out: *mut u8) {
    let (b, depth, last) = (tiles.b.as_ptr(), tiles.depth, tiles.stats.len() - 1);
    for piece in 0..cut.pieces {
        for product in 0..cut.products {
            let start = cut.start(product);
            // Elements that the product before this one has had.
            let had = product * LINE - start;
            for w in 0..W {
                // Where the second one is none, it is the first one again, and what comes of it is not written.
                let [low, high] = [2 * w, last.min(2 * w + 1)];
                for step in (0..cut.bytes).step_by(DEPTH) {
                    let at = piece * cut.length + start + step;
                    // SAFETY: 32 bytes of each panel for each step; the caller vouches for the rest.
                    unsafe {
                        let mut line = _mm512_setzero_si512();
                        if step >= had {
                            let low = _mm256_loadu_si256(b.add((low * depth + at) * PANEL).cast::<__m256i>());
                            let high = _mm256_loadu_si256(b.add((high * depth + at) * PANEL).cast::<__m256i>());
                            line = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
                        }
                        _mm512_storeu_si512(out.cast(), line);
                        out = out.add(LINE);
                    }
                }
            }
        }
    }
}

/// The sums of one tile of rows, or with `ROWS` of two, with `W` tiles of columns. Tiles 0 to 3 are the sums, 4 and 5 rows of A, 6 and 7
/// columns of B.
///
/// # Safety
/// As [`run`], for rows that there are; `b` is in the order of tiles, and `sums` has room for four.
#[inline(always)]
unsafe fn multiply<const W: usize, const ROWS: bool>(
    unit: &Unit,
    tiles: &Tiles<'_>,
    cut: Cut,
    rows: [*const u8; 2],
    mut b: *const u8,
    sums: *mut u8,
) {
    let stride = tiles.places.row;
    unit.zero::<0>();
    unit.zero::<1>();
    unit.zero::<2>();
    unit.zero::<3>();
    for piece in 0..cut.pieces {
        for product in 0..cut.products {
            let at = piece * tiles.places.piece + cut.start(product);
            // SAFETY: the caller vouches for the rows and for B.
            unsafe {
                unit.load::<4>(rows[0].add(at), stride);
                unit.load::<6>(b, LINE);
                b = b.add(cut.tile());
                unit.add_bytes::<0, 4, 6>();
                if W == 2 {
                    unit.load::<7>(b, LINE);
                    b = b.add(cut.tile());
                    unit.add_bytes::<1, 4, 7>();
                }
                if ROWS {
                    unit.load::<5>(rows[1].add(at), stride);
                    unit.add_bytes::<2, 5, 6>();
                }
            }
            if W == 2 && ROWS {
                unit.add_bytes::<3, 5, 7>();
            }
        }
    }
    // SAFETY: the caller vouches for four tiles.
    unsafe {
        unit.store::<0>(sums);
        unit.store::<1>(sums.add(TILE_BYTES));
        unit.store::<2>(sums.add(SIDE * TILE_BYTES));
        unit.store::<3>(sums.add((SIDE + 1) * TILE_BYTES));
    }
}

/// Writes what comes of the sums of so many rows from a row on.
///
/// # Safety
/// As [`run`], for rows that there are; `sums` are those of a tile of rows.
#[inline(always)]
unsafe fn finish<const W: usize>(tiles: &Tiles<'_>, tail: &impl Tail, sums: *const u8, (first, rows): (usize, usize)) {
    // SAFETY: the caller vouches for all of it.
    unsafe { each_tile!(0..rows, some::<W>, tiles, tail, sums, first) };
}

/// `P` of them.
///
/// # Safety
/// As [`finish`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
unsafe fn some<const P: usize, const W: usize>(
    tiles: &Tiles<'_>,
    tail: &impl Tail,
    sums: *const u8,
    first: usize,
    row: usize,
) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        let (start, mut of_rows) = (tail.start(), [[_mm512_setzero_si512(); P]; W]);
        for w in 0..W {
            for p in 0..P {
                let sum = _mm512_loadu_si512(sums.add(w * TILE_BYTES + (row + p) * LINE).cast());
                of_rows[w][p] = _mm512_add_epi32(start[w], sum);
            }
        }
        tail.write::<P, W>(tiles, first + row, of_rows);
    }
}

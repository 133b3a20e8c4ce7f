//! The register tile: six rows of A times a panel of eight columns of B, exact in `i32`, and at once what follows it.

use super::finish::Finish;
use super::pack::{DEPTH, PANEL};
use crate::kernels::isa::Isa;

/// Rows of a tile.
pub(super) const MOST_ROWS: usize = 6;

/// Rows of A times a panel of B.
pub(super) struct Tiles<'a> {
    /// Rows of `depth` elements.
    pub(super) a: &'a [i16],
    /// A panel of B.
    pub(super) b: &'a [i8],
    /// Elements of a row: a multiple of [`DEPTH`].
    pub(super) depth: usize,
    /// What follows, for as many rows.
    pub(super) finish: Finish<'a>,
}

impl Tiles<'_> {
    /// Computes and writes them.
    ///
    /// # Safety
    /// The rows and columns of `finish` are in C, and nothing else accesses them.
    pub(super) unsafe fn run(&self, isa: Isa) {
        assert!(self.a.len() == self.finish.sums.len() * self.depth && self.b.len() == self.depth * PANEL);
        assert!(self.depth.is_multiple_of(DEPTH) && (1..=PANEL).contains(&self.finish.columns.len()));
        match isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Isa` that reaches the kernels was checked against the CPU; the lengths were checked above; the caller
            // vouches for C.
            Isa::Avx2 | Isa::Avx512 => unsafe { x86::avx2(self) },
            // SAFETY: the caller vouches for C.
            _ => unsafe { self.portable() },
        }
    }

    /// What the other instruction sets compute, by its definition.
    ///
    /// # Safety
    /// As [`Tiles::run`].
    unsafe fn portable(&self) {
        for index in 0..self.finish.sums.len() {
            let mut product = [0i32; PANEL];
            let row = &self.a[index * self.depth..][..self.depth];
            for (a, b) in row.chunks_exact(DEPTH).zip(self.b.chunks_exact(DEPTH * PANEL)) {
                for (sum, b) in product.iter_mut().zip(b.chunks_exact(DEPTH)) {
                    for (&a, &b) in a.iter().zip(b) {
                        *sum = sum.wrapping_add(i32::from(a) * i32::from(b));
                    }
                }
            }
            // SAFETY: the caller vouches for C.
            unsafe { self.finish.row(index, &product) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_hadd_epi32, _mm256_madd_epi16,
        _mm256_set1_epi64x, _mm256_setzero_si256,
    };

    use super::super::avx2::{Order, Panel};
    use super::{DEPTH, MOST_ROWS, PANEL, Tiles};

    /// # Safety
    /// As [`Tiles::run`]; the CPU has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2(tiles: &Tiles<'_>) {
        // SAFETY: the caller vouches for all of it.
        unsafe {
            let panel = Panel::new(&tiles.finish, Order::Joined);
            let rows = tiles.finish.sums.len();
            let mut row = 0;
            while row + MOST_ROWS <= rows {
                tile::<MOST_ROWS>(tiles, &panel, row);
                row += MOST_ROWS;
            }
            match rows - row {
                0 => {}
                1 => tile::<1>(tiles, &panel, row),
                2 => tile::<2>(tiles, &panel, row),
                3 => tile::<3>(tiles, &panel, row),
                4 => tile::<4>(tiles, &panel, row),
                _ => tile::<5>(tiles, &panel, row),
            }
        }
    }

    /// Rows `row` to `row + P`. Sums of two products of `i16` are exact in `i32`: the elements of A are at most 255, those of B 128.
    ///
    /// # Safety
    /// As [`avx2`], for rows that there are.
    #[inline]
    #[target_feature(enable = "avx2")]
    #[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
    unsafe fn tile<const P: usize>(tiles: &Tiles<'_>, panel: &Panel<'_>, row: usize) {
        let depth = tiles.depth;
        // SAFETY: the caller vouches for the rows; 32 bytes of a panel for each step, and four elements of each row.
        unsafe {
            let (a, mut b) = (tiles.a.as_ptr().add(row * depth), tiles.b.as_ptr());
            let mut sums = [[_mm256_setzero_si256(); 2]; P];
            for step in (0..depth).step_by(DEPTH) {
                // Four columns of four rows each.
                let left = _mm256_cvtepi8_epi16(_mm_loadu_si128(b.cast::<__m128i>()));
                let right = _mm256_cvtepi8_epi16(_mm_loadu_si128(b.add(16).cast::<__m128i>()));
                b = b.add(DEPTH * PANEL);
                for p in 0..P {
                    let row = _mm256_set1_epi64x(a.add(p * depth + step).cast::<i64>().read_unaligned());
                    sums[p][0] = _mm256_add_epi32(sums[p][0], _mm256_madd_epi16(row, left));
                    sums[p][1] = _mm256_add_epi32(sums[p][1], _mm256_madd_epi16(row, right));
                }
            }
            // Both halves of a column's sum are neighbours.
            let mut joined = [_mm256_setzero_si256(); P];
            for p in 0..P {
                joined[p] = _mm256_hadd_epi32(sums[p][0], sums[p][1]);
            }
            panel.write(row, joined);
        }
    }
}

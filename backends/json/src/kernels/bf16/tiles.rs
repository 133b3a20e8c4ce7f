//! Products of bf16 by matrix units.

use std::arch::x86_64::__m512;

use super::terms::{Between, MOST, Multiplier, Operand, Rows, SUMS, Step, Terms, all_finite, put_row};
use super::{TILE, TILE_BYTES};
use crate::kernels::amx::{Config, LINE, Tiles};

/// Adds the products of 32 elements of k to the sums. Tiles 0 to 3 are the sums, 4 and 5 rows of A, 6 and 7 columns of B; without `ROWS`
/// or `COLUMNS` the second of them is not there.
///
/// # Safety
/// The tiles of `a` and `b` are readable.
#[inline(always)]
unsafe fn products<T: Terms, const ROWS: bool, const COLUMNS: bool>(tiles: &Tiles, a: Operand, b: Operand) {
    let (mut loaded_a, mut loaded_b) = (MOST, MOST);
    for &(i, j) in T::ORDER {
        // SAFETY: the caller vouches for the tiles.
        unsafe {
            if i != loaded_a {
                let from = a.tiles.add(i * a.piece);
                tiles.load::<4>(from, LINE);
                if ROWS {
                    tiles.load::<5>(from.add(TILE_BYTES), LINE);
                }
            }
            if j != loaded_b {
                let from = b.tiles.add(j * b.piece);
                tiles.load::<6>(from, LINE);
                if COLUMNS {
                    tiles.load::<7>(from.add(TILE_BYTES), LINE);
                }
            }
        }
        (loaded_a, loaded_b) = (i, j);
        tiles.add_bf16::<0, 4, 6>();
        if COLUMNS {
            tiles.add_bf16::<1, 4, 7>();
        }
        if ROWS {
            tiles.add_bf16::<2, 5, 6>();
        }
        if ROWS && COLUMNS {
            tiles.add_bf16::<3, 5, 7>();
        }
    }
}

impl Multiplier for Tiles {
    /// 32 KiB in one piece: such tiles have to come from the first-level cache. Those of more pieces need not.
    const DEPTH: usize = 512;

    #[inline(always)]
    unsafe fn start() -> Tiles {
        static WHOLE: Config = Config::WHOLE;
        // SAFETY: the caller vouches for the unit.
        unsafe { Tiles::configure(&WHOLE) }
    }

    #[inline(always)]
    unsafe fn put_a<T: Terms>(to: *mut u8, stride: usize, elements: [__m512; 2]) {
        // SAFETY: the caller vouches for it.
        unsafe { put_row(T::A, to, stride, elements) };
    }

    #[inline(always)]
    unsafe fn put_b<T: Terms>(to: *mut u8, stride: usize, rows: &impl Rows, index: usize) {
        // SAFETY: the caller vouches for it.
        unsafe { put_row(T::B, to, stride, [rows.row(index), rows.row(index + TILE)]) };
    }

    #[inline(always)]
    unsafe fn sums<T: Terms>(
        &self,
        [rows, columns]: [usize; 2],
        steps: impl Iterator<Item = Step> + Clone,
        between: &mut impl Between,
        sums: &mut [f32; SUMS],
    ) -> bool {
        self.zero::<0>();
        self.zero::<1>();
        self.zero::<2>();
        self.zero::<3>();
        for Step { a, b, .. } in steps {
            // SAFETY: the caller vouches for the tiles.
            unsafe {
                match (rows > TILE, columns > TILE) {
                    (true, true) => products::<T, true, true>(self, a, b),
                    (true, false) => products::<T, true, false>(self, a, b),
                    (false, true) => products::<T, false, true>(self, a, b),
                    (false, false) => products::<T, false, false>(self, a, b),
                }
                between.advance(1);
            }
        }
        let to: *mut u8 = sums.as_mut_ptr().cast();
        // SAFETY: four tiles of 1024 bytes.
        unsafe {
            self.store::<0>(to);
            self.store::<1>(to.add(TILE_BYTES));
            self.store::<2>(to.add(2 * TILE_BYTES));
            self.store::<3>(to.add(3 * TILE_BYTES));
            all_finite(sums)
        }
    }
}

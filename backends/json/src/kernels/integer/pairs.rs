//! Products of bytes on AVX2. `vpmaddubsw` adds up two of them in 16 bits and would saturate: it is used where the greatest byte of
//! a tile and the weights of a panel say that it cannot, for one step or for several in a row.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi16, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setzero_si256,
};

use super::avx2::Panel;
use super::pack::{DEPTH, PANEL};
use super::tile::{MOST_ROWS, Tiles, each_tile};
use super::wide;

/// # Safety
/// As [`multiply`](super::multiply::multiply); the CPU has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn run(tiles: &Tiles<'_>) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        let panels = [Panel::new(&tiles.finish, [0; PANEL]), Panel::new(&tiles.finish, tiles.taken(0))];
        each_tile!(0..tiles.finish.rows, tile, tiles, &panels);
    }
}

/// Rows `row` to `row + P`. The panels are one: for products without the zero point, and with it.
///
/// # Safety
/// As [`run`], for rows that there are.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn tile<const P: usize>(tiles: &Tiles<'_>, panels: &[Panel<'_>; 2], row: usize) {
    // SAFETY: the caller vouches for the rows; they are there in 16 bits, too, where not even one step fits.
    unsafe {
        match tiles.stats[0].chain(tiles.peaks[row / MOST_ROWS]) {
            0 => panels[0].write(row, wide::sums::<P>(tiles, row)),
            1 => panels[1].write(row, sums::<P, 1>(tiles, row)),
            2 => panels[1].write(row, sums::<P, 2>(tiles, row)),
            _ => panels[1].write(row, sums::<P, 4>(tiles, row)),
        }
    }
}

/// The sums of chains of `L` steps each, and of what is left by single ones.
///
/// # Safety
/// There are these rows; the CPU has AVX2.
#[inline(always)]
unsafe fn sums<const P: usize, const L: usize>(tiles: &Tiles<'_>, row: usize) -> [__m256i; P] {
    let depth = tiles.depth;
    // SAFETY: the caller vouches for the rows; 32 bytes of a panel for each step, and four elements of each row.
    unsafe {
        let (a, b) = (tiles.bytes.as_ptr().add(row * depth), tiles.b.as_ptr());
        let mut sums = [_mm256_setzero_si256(); P];
        let mut at = 0;
        while at + L * DEPTH <= depth {
            chain::<P, L>(a.add(at), depth, b.add(at * PANEL), &mut sums);
            at += L * DEPTH;
        }
        while at < depth {
            chain::<P, 1>(a.add(at), depth, b.add(at * PANEL), &mut sums);
            at += DEPTH;
        }
        sums
    }
}

/// Adds `L` steps to the sums.
///
/// # Safety
/// As [`sums`].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
unsafe fn chain<const P: usize, const L: usize>(a: *const u8, depth: usize, b: *const i8, sums: &mut [__m256i; P]) {
    // SAFETY: the caller vouches for `L` steps of all rows and of the panel.
    unsafe {
        let mut panel = [_mm256_setzero_si256(); L];
        for l in 0..L {
            panel[l] = _mm256_loadu_si256(b.add(l * DEPTH * PANEL).cast::<__m256i>());
        }
        for p in 0..P {
            let row = a.add(p * depth);
            let mut words = _mm256_maddubs_epi16(_mm256_set1_epi32(row.cast::<i32>().read_unaligned()), panel[0]);
            for l in 1..L {
                let four = _mm256_set1_epi32(row.add(l * DEPTH).cast::<i32>().read_unaligned());
                words = _mm256_add_epi16(words, _mm256_maddubs_epi16(four, panel[l]));
            }
            sums[p] = _mm256_add_epi32(sums[p], _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
        }
    }
}

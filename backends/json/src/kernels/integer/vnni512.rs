//! Products of bytes by instructions that add up four of them in 32 bits, exactly: vectors of 512 bits, of two panels each.

use std::arch::x86_64::{
    __m256i, __m512i, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm512_castsi256_si512, _mm512_dpbusd_epi32,
    _mm512_inserti64x4, _mm512_mullo_epi32, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_sub_epi32,
};

use super::avx512::LANES;
use super::pack::{DEPTH, PANEL};
use super::tail::{Tail, Tails};
use super::tile::{Places, Tiles, each_even_tile, each_tile};

/// Rows of two vectors whose sums stay in registers, 24 of 32, and from what depth on so many are faster than
/// [`MOST_ROWS`](super::tile::MOST_ROWS): B is loaded half as often, but what follows sums takes registers too.
const TALL: usize = 12;
const DEEP: usize = 256;

/// One to four panels.
///
/// # Safety
/// As [`multiply`](super::multiply::multiply); the CPU has AVX512-VNNI.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
pub(super) unsafe fn run(tiles: &Tiles<'_>) {
    let (rows, depth, both) = (tiles.finish.rows, tiles.depth, tiles.stats.len() > 2);
    let dense = tiles.places == Places::dense(depth);
    // SAFETY: the caller vouches for all of it.
    unsafe {
        match &Tails::new(tiles) {
            Tails::Bytes(tail) if dense && both => each_tile!(0..rows, tile::<2>, tiles, tail),
            Tails::Bytes(tail) if dense => each_tile!(0..rows, tile::<1>, tiles, tail),
            Tails::Bytes(tail) => lines(tiles, tail),
            Tails::Real(tail) if dense && both => {
                let tall = if depth < DEEP { 0 } else { rows / TALL * TALL };
                for row in (0..tall).step_by(TALL) {
                    tile::<TALL, 2>(tiles, tail, row);
                }
                each_tile!(tall..rows, tile::<2>, tiles, tail);
            }
            Tails::Real(tail) if dense => each_tile!(0..rows, tile::<1>, tiles, tail),
            Tails::Real(tail) => lines(tiles, tail),
            // Only dense rows have these, as `Tiles::check` says.
            Tails::Panels(tail) if tiles.finds && both => each_tile!(0..rows, finding::<2>, tiles, tail),
            Tails::Panels(tail) if tiles.finds => each_tile!(0..rows, finding::<1>, tiles, tail),
            Tails::Panels(tail) if both => each_tile!(0..rows, tile::<2>, tiles, tail),
            Tails::Panels(tail) => each_tile!(0..rows, tile::<1>, tiles, tail),
        }
    }
}

/// Lines of windows.
///
/// # Safety
/// As [`run`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
unsafe fn lines(tiles: &Tiles<'_>, tail: &impl Tail) {
    for index in 0..tiles.places.lines {
        let line = &tiles.line(index);
        let rows = line.finish.rows;
        // SAFETY: the caller vouches for all of it.
        unsafe {
            match line.stats.len() {
                1 | 2 => each_even_tile!(rows, tile::<1>, line, tail),
                _ => each_even_tile!(rows, tile::<2>, line, tail),
            }
        }
    }
}

/// Rows `row` to `row + P` of `W` vectors.
///
/// # Safety
/// As [`run`], for rows that there are.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
unsafe fn tile<const P: usize, const W: usize>(tiles: &Tiles<'_>, tail: &impl Tail, row: usize) {
    // SAFETY: the caller vouches for all of it.
    unsafe { tail.write::<P, W>(tiles, row, sums::<P, W, false>(tiles, row, tail.start())) };
}

/// The same where the sums of the columns of B are found on the way.
///
/// # Safety
/// As [`tile`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
unsafe fn finding<const P: usize, const W: usize>(tiles: &Tiles<'_>, tail: &impl Tail, row: usize) {
    // SAFETY: the caller vouches for all of it.
    unsafe { tail.write::<P, W>(tiles, row, sums::<P, W, true>(tiles, row, tail.start())) };
}

/// The sums of rows of `W` vectors, which start with what is given. Where the sums of columns are found, what the zero point of A adds to
/// the products is taken off.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
unsafe fn sums<const P: usize, const W: usize, const FIND: bool>(
    tiles: &Tiles<'_>,
    row: usize,
    start: [__m512i; 2],
) -> [[__m512i; P]; W] {
    let (depth, last) = (tiles.depth, tiles.stats.len() - 1);
    let Places { row: step_of_row, pieces, piece: step_of_piece, .. } = tiles.places;
    let length = depth / pieces;
    // SAFETY: the caller vouches for the rows; 32 bytes of each panel for each step, and four elements of each row.
    unsafe {
        let (mut a, b) = (tiles.bytes.as_ptr().add(row * step_of_row), tiles.b.as_ptr());
        // The first rows ask for the panels that are multiplied next; to others it is what they read.
        let ahead = b.wrapping_add(if row == 0 && tiles.ahead { tiles.b.len() } else { 0 });
        let mut sums = [[_mm512_setzero_si512(); P]; W];
        for w in 0..W {
            sums[w] = [start[w]; P];
        }
        let (mut of_columns, ones) = ([_mm512_setzero_si512(); W], _mm512_set1_epi8(1));
        let mut step = 0;
        let mut end = length;
        while step < depth {
            while step < end {
                let mut weights = [_mm512_setzero_si512(); W];
                for w in 0..W {
                    _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add((step * W + w * DEPTH) * LANES));
                    // Where the second one is none, it is the first one again, and what comes of it is not written.
                    let [low, high] = [2 * w, last.min(2 * w + 1)];
                    let low = _mm256_loadu_si256(b.add((low * depth + step) * PANEL).cast::<__m256i>());
                    let high = _mm256_loadu_si256(b.add((high * depth + step) * PANEL).cast::<__m256i>());
                    weights[w] = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
                }
                if FIND {
                    for w in 0..W {
                        of_columns[w] = _mm512_dpbusd_epi32(of_columns[w], ones, weights[w]);
                    }
                }
                for p in 0..P {
                    let four = _mm512_set1_epi32(a.add(p * step_of_row + step).cast::<i32>().read_unaligned());
                    for w in 0..W {
                        sums[w][p] = _mm512_dpbusd_epi32(sums[w][p], four, weights[w]);
                    }
                }
                step += DEPTH;
            }
            // The next piece, seen from the first element of all of them.
            a = a.wrapping_add(step_of_piece).wrapping_sub(length);
            end += length;
        }
        if FIND {
            for w in 0..W {
                let taken = _mm512_mullo_epi32(of_columns[w], _mm512_set1_epi32(i32::from(tiles.zero)));
                for p in 0..P {
                    sums[w][p] = _mm512_sub_epi32(sums[w][p], taken);
                }
            }
        }
        sums
    }
}

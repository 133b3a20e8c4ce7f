//! Products of bytes by instructions that add up four of them in 32 bits, exactly: vectors of 256 bits.

use std::arch::x86_64::{
    __m256i, _mm256_dpbusd_avx_epi32, _mm256_loadu_si256, _mm256_set1_epi32, _mm256_setzero_si256,
};

use super::avx2::Panel;
use super::pack::{DEPTH, PANEL};
use super::tile::{Tiles, each_tile};

/// Of several panels, the one at `index`; the last one stands in for those that there are not.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn panel<'a>(tiles: &Tiles<'a>, index: usize) -> Panel<'a> {
    let index = index.min(tiles.stats.len() - 1);
    // SAFETY: the caller vouches for the CPU.
    unsafe { Panel::new(&tiles.finish.panel(index), tiles.taken(index)) }
}

/// One or two panels.
///
/// # Safety
/// As [`multiply`](super::multiply::multiply); the CPU has AVX-VNNI.
#[target_feature(enable = "avx2,avxvnni")]
pub(super) unsafe fn run(tiles: &Tiles<'_>) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        let panels = [panel(tiles, 0), panel(tiles, 1)];
        match tiles.stats.len() {
            1 => each_tile!(0..tiles.finish.rows, tile::<1>, tiles, &panels),
            _ => each_tile!(0..tiles.finish.rows, tile::<2>, tiles, &panels),
        }
    }
}

/// Rows `row` to `row + P` of `Q` panels.
///
/// # Safety
/// As [`run`], for rows and panels that there are.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
unsafe fn tile<const P: usize, const Q: usize>(tiles: &Tiles<'_>, panels: &[Panel<'_>; 2], row: usize) {
    let depth = tiles.depth;
    // SAFETY: the caller vouches for the rows; 32 bytes of each panel for each step, and four elements of each row.
    unsafe {
        let (a, b) = (tiles.bytes.as_ptr().add(row * depth), tiles.b.as_ptr());
        let mut sums = [[_mm256_setzero_si256(); P]; Q];
        for step in (0..depth).step_by(DEPTH) {
            let mut weights = [_mm256_setzero_si256(); Q];
            for q in 0..Q {
                weights[q] = _mm256_loadu_si256(b.add((q * depth + step) * PANEL).cast::<__m256i>());
            }
            for p in 0..P {
                let four = _mm256_set1_epi32(a.add(p * depth + step).cast::<i32>().read_unaligned());
                for q in 0..Q {
                    sums[q][p] = _mm256_dpbusd_avx_epi32(sums[q][p], four, weights[q]);
                }
            }
        }
        for q in 0..Q {
            panels[q].write(row, sums[q]);
        }
    }
}

//! Products of bytes by instructions that add up four of them in 32 bits, exactly.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_dpbusd_avx_epi32, _mm256_loadu_si256, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm512_castsi256_si512, _mm512_castsi512_si256, _mm512_dpbusd_epi32, _mm512_extracti64x4_epi64, _mm512_inserti64x4,
    _mm512_set1_epi32, _mm512_setzero_si512,
};

use super::avx2::Panel;
use super::pack::{DEPTH, PANEL};
use super::tile::{Tiles, each_tile};

/// Of several panels, the one at `index`; the last one stands in for those that there are not.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn panel<'a>(tiles: &Tiles<'a>, index: usize) -> Panel<'a> {
    let index = index.min(tiles.stats.len() - 1);
    // SAFETY: the caller vouches for the CPU.
    unsafe { Panel::new(&tiles.finish.panel(index), tiles.taken(index)) }
}

/// One or two panels.
///
/// # Safety
/// As [`multiply`](super::multiply::multiply); the CPU has AVX-VNNI.
#[target_feature(enable = "avx2,avxvnni")]
pub(super) unsafe fn run256(tiles: &Tiles<'_>) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        let panels = [panel(tiles, 0), panel(tiles, 1)];
        match tiles.stats.len() {
            1 => each_tile!(tiles.finish.rows, tile256::<1>, tiles, &panels),
            _ => each_tile!(tiles.finish.rows, tile256::<2>, tiles, &panels),
        }
    }
}

/// Rows `row` to `row + P` of `Q` panels.
///
/// # Safety
/// As [`run256`], for rows and panels that there are.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
unsafe fn tile256<const P: usize, const Q: usize>(tiles: &Tiles<'_>, panels: &[Panel<'_>; 2], row: usize) {
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

/// One to four panels.
///
/// # Safety
/// As [`multiply`](super::multiply::multiply); the CPU has AVX512-VNNI.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
pub(super) unsafe fn run512(tiles: &Tiles<'_>) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        let panels = [panel(tiles, 0), panel(tiles, 1), panel(tiles, 2), panel(tiles, 3)];
        match tiles.stats.len() {
            1 | 2 => each_tile!(tiles.finish.rows, tile512::<1>, tiles, &panels),
            _ => each_tile!(tiles.finish.rows, tile512::<2>, tiles, &panels),
        }
    }
}

/// Rows `row` to `row + P` of `W` vectors of two panels each.
///
/// # Safety
/// As [`run512`], for rows that there are.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
unsafe fn tile512<const P: usize, const W: usize>(tiles: &Tiles<'_>, panels: &[Panel<'_>; 4], row: usize) {
    let (depth, last) = (tiles.depth, tiles.stats.len() - 1);
    // SAFETY: the caller vouches for the rows; 32 bytes of each panel for each step, and four elements of each row.
    unsafe {
        let (a, b) = (tiles.bytes.as_ptr().add(row * depth), tiles.b.as_ptr());
        let mut sums = [[_mm512_setzero_si512(); P]; W];
        for step in (0..depth).step_by(DEPTH) {
            let mut weights = [_mm512_setzero_si512(); W];
            for w in 0..W {
                // Where the second one is none, it is the first one again, and what comes of it is not written.
                let [low, high] = [2 * w, last.min(2 * w + 1)];
                let low = _mm256_loadu_si256(b.add((low * depth + step) * PANEL).cast::<__m256i>());
                let high = _mm256_loadu_si256(b.add((high * depth + step) * PANEL).cast::<__m256i>());
                weights[w] = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
            }
            for p in 0..P {
                let four = _mm512_set1_epi32(a.add(p * depth + step).cast::<i32>().read_unaligned());
                for w in 0..W {
                    sums[w][p] = _mm512_dpbusd_epi32(sums[w][p], four, weights[w]);
                }
            }
        }
        for w in 0..W {
            let (low, high) = halves(&sums[w]);
            panels[2 * w].write(row, low);
            if 2 * w < last {
                panels[2 * w + 1].write(row, high);
            }
        }
    }
}

/// The sums of two panels.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
unsafe fn halves<const P: usize>(sums: &[__m512i; P]) -> ([__m256i; P], [__m256i; P]) {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let mut halves = ([_mm256_setzero_si256(); P], [_mm256_setzero_si256(); P]);
        for p in 0..P {
            halves.0[p] = _mm512_castsi512_si256(sums[p]);
            halves.1[p] = _mm512_extracti64x4_epi64::<1>(sums[p]);
        }
        halves
    }
}

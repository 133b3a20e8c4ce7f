//! Packing of B into panels [ceil(N / 8)][ceil(K / 4)][8][4] of `i8`.

use std::ops::Range;

use super::linear::Byte;
use crate::kernels::sizes::{product, reach};

/// Columns of a panel.
pub const PANEL: usize = 8;

/// Rows of B that stand side by side: as many bytes as the dot products of VNNI add up.
pub const DEPTH: usize = 4;

/// Names the layout of [`pack`].
pub const PACKED_LAYOUT: &str = "integer/n8k4/1";

/// Names the layout of [`pack`] where B has zeros between rows of a kernel, as [`window_len`](super::window_len) says.
pub const PACKED_ROWS_LAYOUT: &str = "integer/n8k4-rows/1";

/// Bytes of a packed B; `None` if they cannot be counted.
pub fn packed_len(k: usize, n: usize) -> Option<usize> {
    product(&[n.checked_next_multiple_of(PANEL)?, k.checked_next_multiple_of(DEPTH)?])
}

/// Packs B[k, n] with the given row and column strides. Bytes of `u8` become `i8`, 128 less; what is past K and N is zero.
///
/// # Panics
/// If a length is wrong.
pub fn pack(k: usize, n: usize, b: &[u8], strides: [usize; 2], byte: Byte, out: &mut [i8]) {
    assert_eq!(Some(out.len()), packed_len(k, n));
    assert!(reach(&[k, n], &strides).is_some_and(|len| b.len() >= len));
    panels(k, 0..n, b, strides, byte, out);
}

/// Packs the columns `ns`, which start at a panel.
pub(super) fn panels(k: usize, ns: Range<usize>, b: &[u8], [row, column]: [usize; 2], byte: Byte, out: &mut [i8]) {
    let flip = if byte == Byte::U8 { 0x80 } else { 0 };
    let panel = k.next_multiple_of(DEPTH) * PANEL;
    for (n0, out) in ns.clone().step_by(PANEL).zip(out.chunks_exact_mut(panel.max(1))) {
        let width = PANEL.min(ns.end - n0);
        for (k0, out) in (0..k).step_by(DEPTH).zip(out.chunks_exact_mut(DEPTH * PANEL)) {
            let depth = DEPTH.min(k - k0);
            let from = &b[k0 * row + n0 * column..];
            match (width, depth, row, column) {
                (PANEL, DEPTH, _, 1) => side_by_side(from, row, flip, out),
                (PANEL, DEPTH, 1, _) => one_after_another(from, column, flip, out),
                _ => {
                    out.fill(0);
                    for (i, j) in (0..depth).flat_map(|i| (0..width).map(move |j| (i, j))) {
                        out[j * DEPTH + i] = (from[i * row + j * column] ^ flip) as i8;
                    }
                }
            }
        }
    }
}

/// A step of a panel whose columns are neighbours.
#[inline]
fn side_by_side(from: &[u8], row: usize, flip: u8, out: &mut [i8]) {
    // No `map`: in builds without link-time optimisation it is a call for each row.
    let (a, b, c, d) = (&from[..PANEL], &from[row..][..PANEL], &from[2 * row..][..PANEL], &from[3 * row..][..PANEL]);
    let out = &mut out[..DEPTH * PANEL];
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE2; eight bytes of each row, and 32 of the step.
    unsafe {
        use std::arch::x86_64::{
            _mm_loadl_epi64, _mm_set1_epi8, _mm_storeu_si128, _mm_unpackhi_epi16, _mm_unpacklo_epi8,
            _mm_unpacklo_epi16, _mm_xor_si128,
        };
        let above = _mm_unpacklo_epi8(_mm_loadl_epi64(a.as_ptr().cast()), _mm_loadl_epi64(b.as_ptr().cast()));
        let below = _mm_unpacklo_epi8(_mm_loadl_epi64(c.as_ptr().cast()), _mm_loadl_epi64(d.as_ptr().cast()));
        let flip = _mm_set1_epi8(flip as i8);
        let (low, high) = (_mm_unpacklo_epi16(above, below), _mm_unpackhi_epi16(above, below));
        _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_xor_si128(low, flip));
        _mm_storeu_si128(out.as_mut_ptr().add(16).cast(), _mm_xor_si128(high, flip));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for j in 0..PANEL {
        for (i, row) in [a, b, c, d].into_iter().enumerate() {
            out[j * DEPTH + i] = (row[j] ^ flip) as i8;
        }
    }
}

/// A step of a panel whose rows are neighbours.
#[inline]
fn one_after_another(from: &[u8], column: usize, flip: u8, out: &mut [i8]) {
    let out = &mut out[..DEPTH * PANEL];
    for j in 0..PANEL {
        let from = &from[j * column..][..DEPTH];
        for i in 0..DEPTH {
            out[j * DEPTH + i] = (from[i] ^ flip) as i8;
        }
    }
}

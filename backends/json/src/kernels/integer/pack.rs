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
            if width < PANEL || depth < DEPTH {
                out.fill(0);
            }
            for i in 0..depth {
                let from = &b[(k0 + i) * row + n0 * column..];
                for j in 0..width {
                    out[j * DEPTH + i] = (from[j * column] ^ flip) as i8;
                }
            }
        }
    }
}

//! Packing of A into panels [K / 16][P rows][16] and of B into panels [K][16 columns].

use crate::kernels::exchange::Exchange;
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::simd::V16;
use crate::kernels::sizes::{product, reach};

/// f32 values of a packed B; `None` if they cannot be counted.
pub fn packed_b_len(k: usize, n: usize) -> Option<usize> {
    product(&[n.div_ceil(BLOCK), k, BLOCK])
}

/// The elements of one column of a packed B of `k` rows.
pub(crate) fn packed_b_column<T>(packed: &[T], k: usize, column: usize) -> impl Iterator<Item = &T> {
    let panel = packed.get(column / BLOCK * k * BLOCK..).unwrap_or_default();
    panel.iter().skip(column % BLOCK).step_by(BLOCK).take(k)
}

/// Packs B[k, n] with the given row and column strides as [ceil(n / 16)][k][16], zero past n.
///
/// # Panics
/// If a length is wrong.
pub fn pack_b(k: usize, n: usize, b: &[f32], strides: [usize; 2], out: &mut [f32]) {
    assert_eq!(Some(out.len()), packed_b_len(k, n));
    assert!(reach(&[k, n], &strides).is_some_and(|len| b.len() >= len));
    // SAFETY: the length check above covers every element the strides reach.
    unsafe { panels(Isa::detect(), b.as_ptr(), strides, 0..k, 0..n, out) };
}

/// Packs rows `ks` and columns `ns` of B into panels of 16 columns, each [rows][16].
///
/// # Safety
/// `b` is readable wherever the strides lead for these rows and columns.
pub(crate) unsafe fn panels(
    isa: Isa,
    b: *const f32,
    [row, column]: [usize; 2],
    ks: std::ops::Range<usize>,
    ns: std::ops::Range<usize>,
    out: &mut [f32],
) {
    let k = ks.len();
    for (panel, out) in out.chunks_exact_mut((k * BLOCK).max(1)).take(ns.len().div_ceil(BLOCK)).enumerate() {
        let first = ns.start + panel * BLOCK;
        let width = BLOCK.min(ns.end - first);
        // Without rows this may point beside the matrix; then nothing is read.
        let from = b.wrapping_add(ks.start * row + first * column);
        if column == 1 && width == BLOCK {
            for (i, to) in out.chunks_exact_mut(BLOCK).enumerate() {
                // SAFETY: 16 contiguous columns of a row that the caller vouches for; a constant length becomes one or
                // two moves.
                unsafe { *to.as_mut_ptr().cast::<[f32; BLOCK]>() = *from.add(i * row).cast::<[f32; BLOCK]>() };
            }
            continue;
        }
        if width < BLOCK {
            out.fill(0.0);
        }
        if row == 1 {
            // The columns that there are, each contiguous; `out` holds k rows of 16.
            let to = out.as_mut_ptr();
            dispatch(isa, Exchange { from, from_row: column, rows: width, columns: k, to, to_row: BLOCK });
            continue;
        }
        // Blocks of 16 x 16 keep both sides in cache.
        for k0 in (0..k).step_by(BLOCK) {
            let k1 = (k0 + BLOCK).min(k);
            for j in 0..width {
                for i in k0..k1 {
                    // SAFETY: row i, column first + j are in range; `out` holds k rows of 16.
                    unsafe { *out.get_unchecked_mut(i * BLOCK + j) = *from.add(i * row + j * column) };
                }
            }
        }
    }
}

/// f32 values of `rows` packed rows of A. No more than `scratch_len` counted, so nothing wraps here.
pub(super) fn panel_a_len(rows: usize, k: usize) -> usize {
    rows * k.next_multiple_of(BLOCK)
}

/// Packs rows of A into one panel [ceil(k / 16)][rows][16], times `alpha`; what is past k is not written. Values of one row stay together
/// because the compiler would turn a tile's loads of neighbouring rows into one vector load and shuffles, which halves the speed.
pub(super) struct PanelA<'a> {
    pub(super) a: *const f32,
    /// Strides of rows and columns.
    pub(super) strides: [usize; 2],
    pub(super) rows: usize,
    pub(super) k: usize,
    pub(super) alpha: f32,
    pub(super) out: &'a mut [f32],
}

/// How far ahead of what is read it is fetched, at least: 1 KiB. What reads ahead by itself stops at the end of each 4 KiB.
const AHEAD: usize = 256;

impl Kernel for PanelA<'_> {
    type Out = ();

    /// The maker of a `PanelA` vouches for all that the strides lead to.
    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let PanelA { a, strides: [row, column], rows, k, alpha, out } = self;
        let out = &mut out[..panel_a_len(rows, k)];
        let whole = if column == 1 { k / BLOCK } else { 0 };
        // SAFETY: `dispatch` checked the features. Rows and columns below k are readable; `out` holds `rows` x 16 values for each 16 of k.
        unsafe {
            let factor = V::splat(alpha);
            // Row by row, as they are in memory.
            for i in 0..rows {
                for block in 0..whole {
                    let from = a.wrapping_add(i * row + block * BLOCK);
                    V::prefetch(from.wrapping_add(row.max(AHEAD)));
                    V::load(from).mul(factor).store(out.as_mut_ptr().add((block * rows + i) * BLOCK));
                }
            }
            // Of a transposed matrix 16 columns at a time, in which rows are neighbours.
            for block in whole..k.div_ceil(BLOCK) {
                for i in 0..rows {
                    for at in block * BLOCK..k.min((block + 1) * BLOCK) {
                        let to = out.as_mut_ptr().add((block * rows + i) * BLOCK + at % BLOCK);
                        *to = alpha * *a.wrapping_add(i * row + at * column);
                    }
                }
            }
        }
    }
}

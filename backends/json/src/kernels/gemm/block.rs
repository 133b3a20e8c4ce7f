//! One thread's part of a matrix product: cache blocking around the register tile.

use super::finish::{Finish, LARGEST};
use super::tile::{Tile, TileFn, one_block, tiles};
use super::{Bias, GemmParams, pack};
use crate::kernels::activation::Activation;
use crate::kernels::isa::{Isa, dispatch};
use crate::kernels::layout::BLOCK;
use std::ops::Range;

/// Rows of A packed together, depth and columns of a cache block: 196 x 384 of A and 384 x 256 of B are 288 and
/// 384 KiB, which fits second-level caches of 1 MiB; smaller ones still stream both in order.
const ROWS: usize = 196;
const DEPTH: usize = 384;
const COLUMNS: usize = 256;

/// Where B comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// Base and strides (row, column).
    Strided(*const f32, [usize; 2]),
    /// Panels made by [`pack::pack_b`].
    Packed(*const f32),
}

// SAFETY: read-only pointers into a slice that outlives the parallel call.
unsafe impl Sync for Source {}
// SAFETY: as above.
unsafe impl Send for Source {}

impl Source {
    pub(super) fn offset(self, by: usize) -> Source {
        match self {
            Source::Strided(p, strides) => Source::Strided(p.wrapping_add(by), strides),
            packed @ Source::Packed(_) => packed,
        }
    }
}

/// f32 values of scratch for one thread: panels of A over all of k, and a block of B; `None` if they cannot be counted.
pub(crate) fn scratch_len(m: usize, n: usize, k: usize) -> Option<usize> {
    let panels = k.checked_next_multiple_of(BLOCK)?.checked_mul(m.min(ROWS))?;
    panels.checked_add(k.min(DEPTH + BLOCK) * n.min(COLUMNS).next_multiple_of(BLOCK))
}

/// The rows and columns of C that one task computes. The pointers are those of the whole matrix.
pub(crate) struct Block<'a> {
    pub(crate) p: &'a GemmParams,
    pub(crate) isa: Isa,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    pub(crate) a: *const f32,
    pub(crate) b: Source,
    pub(crate) c: *mut f32,
    pub(crate) residual: Option<*const f32>,
    pub(crate) bias: Bias<'a>,
    pub(crate) act: Activation,
}

impl Block<'_> {
    /// # Safety
    /// The pointers reach every element of the block; no other task writes it; `columns` starts on a multiple of 16.
    pub(crate) unsafe fn run(&self, scratch: &mut [f32]) {
        let k = self.p.k;
        let (table, _) = tiles(self.isa, self.rows.len());
        let (a_space, b_space) = scratch.split_at_mut(pack::panel_a_len(self.rows.len().min(ROWS), k));
        for m0 in self.rows.clone().step_by(ROWS) {
            let m1 = (m0 + ROWS).min(self.rows.end);
            let panels = Panels { first: m0, rows: m1 - m0, max: table.len() };
            for (start, count) in panels.iter() {
                let a = self.a.wrapping_add((m0 + start) * self.p.a[0]);
                // SAFETY: the caller vouches for the rows of A.
                unsafe {
                    pack::panel_a(a, self.p.a, count, k, self.p.alpha, &mut a_space[pack::panel_a_len(start, k)..]);
                }
            }
            for n0 in self.columns.clone().step_by(COLUMNS) {
                let n1 = (n0 + COLUMNS).min(self.columns.end);
                let parts = k.div_ceil(DEPTH).max(1);
                for i in 0..parts {
                    let ks = cut(k, parts, i)..cut(k, parts, i + 1);
                    // SAFETY: as above.
                    unsafe { self.depth(&panels, a_space, n0..n1, ks, b_space) };
                }
                self.activate(m0..m1, n0..n1);
            }
        }
    }

    /// Adds the product over `ks` to the columns `ns` of the packed rows.
    ///
    /// # Safety
    /// As [`Block::run`].
    unsafe fn depth(&self, panels: &Panels, a: &[f32], ns: Range<usize>, ks: Range<usize>, b_space: &mut [f32]) {
        let p = self.p;
        // SAFETY: the caller vouches for B.
        let (b, b_panel) = unsafe {
            match self.b {
                Source::Packed(b) => (b.add(ns.start * p.k + ks.start * BLOCK), p.k * BLOCK),
                Source::Strided(b, strides) => {
                    pack::panels(self.isa, b, strides, ks.clone(), ns.clone(), b_space);
                    (b_space.as_ptr(), ks.len() * BLOCK)
                }
            }
        };
        let (table, blocks) = tiles(self.isa, self.rows.len());
        let mut n = ns.start;
        while n < ns.end {
            // The last columns may need fewer blocks than the table's tiles read.
            let wide = (ns.end - n).div_ceil(BLOCK) >= blocks;
            let (table, blocks) = if wide { (table, blocks) } else { (one_block(self.isa), 1) };
            let columns = (blocks * BLOCK).min(ns.end - n);
            for (index, (start, rows)) in panels.iter().enumerate() {
                // SAFETY: panel n / 16 of B exists.
                let b = unsafe { b.add((n - ns.start) / BLOCK * b_panel) };
                // Each tile fetches one panel of the next columns; with fewer tiles the hardware must do.
                let next = if index < blocks && matches!(self.b, Source::Packed(_)) { blocks + index } else { 0 };
                let ahead = b.wrapping_add(next * b_panel);
                let a = a[pack::panel_a_len(start, p.k) + ks.start * rows..].as_ptr();
                let tile =
                    Tile { a, b, b_panel, k: ks.len(), ahead, out: std::ptr::null_mut(), out_row: 0, add: false };
                // SAFETY: the table matches the CPU; the caller vouches for A, B and C.
                unsafe {
                    self.tile(
                        table[rows - 1],
                        tile,
                        panels.first + start..panels.first + start + rows,
                        n,
                        columns,
                        blocks,
                        &ks,
                    )
                };
            }
            n += columns;
        }
    }

    /// One tile: straight into C if nothing else is to be done there, else through a buffer.
    ///
    /// # Safety
    /// As [`Block::run`]; the tile's panels are valid.
    #[expect(clippy::too_many_arguments, reason = "the coordinates of a tile")]
    unsafe fn tile(
        &self,
        run: TileFn,
        mut tile: Tile,
        rows: Range<usize>,
        n: usize,
        columns: usize,
        blocks: usize,
        ks: &Range<usize>,
    ) {
        let (p, last) = (self.p, ks.end == self.p.k);
        let beta = if ks.start > 0 { 1.0 } else { p.beta };
        let clamp = self.act.as_clamp().filter(|_| last);
        let plain = !last || (self.bias == Bias::None && self.residual.is_none() && self.act == Activation::None);
        let at = rows.start * p.c_row + n;
        let c = self.c.wrapping_add(at);
        if plain && columns == blocks * BLOCK && (beta == 0.0 || beta == 1.0) {
            (tile.out, tile.out_row, tile.add) = (c, p.c_row, beta == 1.0);
            // SAFETY: the caller vouches for it.
            unsafe { run(&tile) };
            return;
        }
        let mut sums = [0.0f32; LARGEST];
        (tile.out, tile.out_row) = (sums.as_mut_ptr(), blocks * BLOCK);
        // SAFETY: `sums` holds the largest tile; the caller vouches for the rest.
        unsafe { run(&tile) };
        let null = std::ptr::null();
        let (bias_row, bias_column) = match self.bias {
            Bias::PerRow(v) if last => (v[rows.start..].as_ptr(), null),
            Bias::PerCol(v) if last => (null, v[n..].as_ptr()),
            _ => (null, null),
        };
        dispatch(
            self.isa,
            Finish {
                sums: sums.as_ptr(),
                sums_row: blocks * BLOCK,
                c,
                c_row: p.c_row,
                rows: rows.len(),
                columns,
                beta,
                bias_row,
                bias_column,
                residual: self.residual.filter(|_| last).map_or(null, |r| r.wrapping_add(at)),
                clamp: clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY)),
            },
        );
    }

    /// The activations that do not fit in registers, while the block is in cache.
    fn activate(&self, rows: Range<usize>, columns: Range<usize>) {
        if self.act.as_clamp().is_none() {
            for row in rows {
                // SAFETY: this task's own part of a row of C.
                let part = unsafe {
                    let start = self.c.add(row * self.p.c_row + columns.start);
                    std::slice::from_raw_parts_mut(start, columns.len())
                };
                self.act.apply(self.isa, part);
            }
        }
    }
}

/// Where part `i` of `parts` of k starts: on whole blocks of the panels.
fn cut(k: usize, parts: usize, i: usize) -> usize {
    (k.div_ceil(BLOCK) * i / parts * BLOCK).min(k)
}

/// Packed rows cut into panels of nearly equal size.
struct Panels {
    first: usize,
    rows: usize,
    max: usize,
}

impl Panels {
    /// Start (from `first`) and rows of each panel.
    fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        let (rows, parts) = (self.rows, self.rows.div_ceil(self.max));
        (0..parts).map(move |i| (rows * i / parts, rows * (i + 1) / parts - rows * i / parts))
    }
}

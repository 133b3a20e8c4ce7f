//! One thread's part of a matrix product: cache blocking around the register tile.

use super::finish::{Finish, LARGEST};
use super::tile::{Tile, TileFn, one_block, tiles, widening_tiles};
use super::{Bias, GemmParams, pack};
use crate::kernels::activation::Activation;
use crate::kernels::cuts::Cuts;
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::SharedMut;
use crate::kernels::simd::V16;
use crate::kernels::weights::PackedWeights;
use byoc_plugin_api::{bf16, f16};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Rows of A packed together, depth and columns of a cache block. 196 x 768 of A are 588 KiB, which leaves room in second-level caches
/// of 1 MiB for the panels of B that pass by, 96 KiB and as much ahead; smaller ones still stream both in order.
const ROWS: usize = 196;
/// More than are packed together: up to half as many again are no block of their own, for which all of B would be read once more. With
/// most of them A takes nearly all of such a cache, and that was still faster.
const MOST_ROWS: usize = ROWS + ROWS / 2;
const DEPTH: usize = 768;
/// The depth where B is packed as it is met: then 384 x 256 of it, 384 KiB, have to be there.
const STRIDED_DEPTH: usize = 384;
const COLUMNS: usize = 256;
/// Most columns of a tile.
const WIDEST: usize = 4 * BLOCK;

/// Where B comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// Base and strides (row, column).
    Strided(*const f32, [usize; 2]),
    /// Panels made by [`pack::pack_b`], and the rows of B in each, of which the product takes the first.
    Packed(*const f32, usize),
    /// As `Packed`, of half precision.
    PackedF16(*const f16, usize),
    /// As `Packed`, of bf16.
    PackedBF16(*const bf16, usize),
}

// SAFETY: read-only pointers into a slice that outlives the parallel call.
unsafe impl Sync for Source {}
// SAFETY: as above.
unsafe impl Send for Source {}

impl Source {
    /// The depth of a cache block.
    fn depth(self) -> usize {
        match self {
            Source::Strided(..) => STRIDED_DEPTH,
            Source::Packed(..) | Source::PackedF16(..) | Source::PackedBF16(..) => DEPTH,
        }
    }

    /// A packed B of `k` rows.
    pub(super) fn of(packed: PackedWeights<'_>, k: usize) -> Source {
        match packed {
            PackedWeights::F32(elements) => Source::Packed(elements.as_ptr(), k),
            PackedWeights::F16(elements) => Source::PackedF16(elements.as_ptr(), k),
            PackedWeights::BF16(elements) => Source::PackedBF16(elements.as_ptr(), k),
        }
    }

    /// Panels of 16 bits, and the rows of B in each.
    fn narrow(self) -> Option<(*const u16, usize)> {
        match self {
            Source::PackedF16(b, k) => Some((b.cast(), k)),
            Source::PackedBF16(b, k) => Some((b.cast(), k)),
            Source::Strided(..) | Source::Packed(..) => None,
        }
    }

    pub(super) fn offset(self, by: usize) -> Source {
        match self {
            Source::Strided(p, strides) => Source::Strided(p.wrapping_add(by), strides),
            packed => packed,
        }
    }
}

/// f32 values of scratch for one thread: panels of A over all of k, and a block of B; `None` if they cannot be counted.
pub(crate) fn scratch_len(m: usize, n: usize, k: usize) -> Option<usize> {
    let panels = k.checked_next_multiple_of(BLOCK)?.checked_mul(m.min(MOST_ROWS))?;
    let strided = k.min(STRIDED_DEPTH + BLOCK) * n.min(COLUMNS).next_multiple_of(BLOCK);
    let widened = k.min(DEPTH + BLOCK) * n.min(WIDEST).next_multiple_of(BLOCK);
    panels.checked_add(strided.max(widened))
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
    /// Whether rows of C have room for whole blocks of columns, in which anything may be written.
    pub(crate) padded: bool,
}

impl Block<'_> {
    /// # Safety
    /// The pointers reach every element of the block; no other task writes it; `columns` starts on a multiple of 16.
    pub(crate) unsafe fn run(&self, scratch: &mut [f32]) {
        let k = self.p.k;
        let (a_space, b_space) = scratch.split_at_mut(pack::panel_a_len(self.rows.len().min(MOST_ROWS), k));
        for rows in blocks(&self.rows) {
            let panels = Panels::in_block(self.isa, self.rows.len(), &rows);
            let packed = SharedMut::new(&mut *a_space);
            for index in 0..panels.count() {
                // SAFETY: the caller vouches for the rows of A.
                unsafe { self.pack(&panels, index, &packed) };
            }
            // SAFETY: as above.
            unsafe { self.panels(&panels, a_space, b_space) };
        }
    }

    /// Packs one of the panels of A, to where [`Block::panels`] looks for it.
    ///
    /// # Safety
    /// As [`Block::run`]; nothing else accesses this panel of `to`.
    pub(super) unsafe fn pack(&self, panels: &Panels, index: usize, to: &SharedMut<'_, f32>) {
        let (start, count) = panels.cuts.at(index);
        let a = self.a.wrapping_add((panels.first + start) * self.p.a[0]);
        let (at, len) = (pack::panel_a_len(start, self.p.k), pack::panel_a_len(count, self.p.k));
        // SAFETY: the caller vouches for the panel, and for the rows of A.
        let out = unsafe { to.slice(at, len) };
        let GemmParams { a: strides, k, alpha, .. } = *self.p;
        dispatch(self.isa, pack::PanelA { a, strides, rows: count, k, alpha, out });
    }

    /// The rows that are packed in `a`.
    ///
    /// # Safety
    /// As [`Block::run`], for these rows.
    pub(super) unsafe fn panels(&self, panels: &Panels, a: &[f32], b_space: &mut [f32]) {
        let k = self.p.k;
        for n0 in self.columns.clone().step_by(COLUMNS) {
            let n1 = (n0 + COLUMNS).min(self.columns.end);
            let parts = k.div_ceil(self.b.depth()).max(1);
            for i in 0..parts {
                let ks = cut(k, parts, i)..cut(k, parts, i + 1);
                // SAFETY: the caller vouches for it.
                unsafe { self.depth(panels, a, n0..n1, ks, b_space) };
            }
        }
    }

    /// Adds the product over `ks` to the columns `ns` of the packed rows.
    ///
    /// # Safety
    /// As [`Block::run`].
    unsafe fn depth(&self, panels: &Panels, a: &[f32], ns: Range<usize>, ks: Range<usize>, b_space: &mut [f32]) {
        let p = self.p;
        if let Source::Strided(b, strides) = self.b {
            // SAFETY: the caller vouches for B.
            unsafe { pack::panels(self.isa, b, strides, ks.clone(), ns.clone(), b_space) };
        }
        let (table, blocks) = tiles(self.isa, self.rows.len());
        let mut n = ns.start;
        while n < ns.end {
            // The last columns may need fewer blocks than the table's tiles read.
            let wide = (ns.end - n).div_ceil(BLOCK) >= blocks;
            let (table, blocks) = if wide { (table, blocks) } else { (one_block(self.isa), 1) };
            let columns = (blocks * BLOCK).min(ns.end - n);
            let ends = self.ends(n, columns, blocks, &ks);
            // SAFETY: the caller vouches for B.
            let (b, b_panel) = unsafe { self.panels_of_b(n..n + columns, ns.start, &ks, b_space) };
            let parts = panels.count();
            let first = match self.b {
                Source::PackedF16(..) => widening_tiles::<f16>(self.isa, blocks),
                Source::PackedBF16(..) => widening_tiles::<bf16>(self.isa, blocks),
                Source::Strided(..) | Source::Packed(..) => table,
            };
            for (index, (start, rows)) in panels.iter().enumerate() {
                let table = if index == 0 { first } else { table };
                // Each tile fetches one panel of the next columns; with fewer tiles the hardware must do.
                let next = if index < blocks && matches!(self.b, Source::Packed(..)) { blocks + index } else { 0 };
                let a = a[pack::panel_a_len(start, p.k) + ks.start * rows..].as_ptr();
                let mut tile = Tile::new(a, b, b_panel, ks.len(), next * b_panel);
                if self.isa == Isa::Avx2 && blocks == 1 && matches!(self.b, Source::Packed(..)) {
                    tile.fetch_part(index, parts);
                }
                self.point_at_narrow(&mut tile, n, blocks, &ks, [index, parts]);
                // SAFETY: the table matches the CPU; the caller vouches for A, B and C.
                unsafe { self.tile(table[rows - 1], tile, &ends, panels.first + start, rows) };
            }
            n += columns;
        }
    }

    /// Where the panels of some columns are, rows `ks` of them, and how far the next one is. A strided B is packed from column
    /// `first` on; one of 16 bits is widened to there by the tile of the first rows.
    ///
    /// # Safety
    /// As [`Block::run`].
    unsafe fn panels_of_b(
        &self,
        ns: Range<usize>,
        first: usize,
        ks: &Range<usize>,
        b_space: &mut [f32],
    ) -> (*const f32, usize) {
        let widened = ks.len() * BLOCK;
        match self.b {
            // SAFETY: the caller vouches for B.
            Source::Packed(b, k) => (unsafe { b.add((ns.start / BLOCK * k + ks.start) * BLOCK) }, k * BLOCK),
            Source::Strided(..) => (b_space[(ns.start - first) / BLOCK * widened..].as_ptr(), widened),
            Source::PackedF16(..) | Source::PackedBF16(..) => {
                assert!(b_space.len() >= ns.len().div_ceil(BLOCK) * widened);
                (b_space.as_mut_ptr().cast_const(), widened)
            }
        }
    }

    /// Lets a tile know `blocks` panels of 16 bits from column `n` on, where B has such, and has it ask for its part of the next ones.
    fn point_at_narrow(&self, tile: &mut Tile, n: usize, blocks: usize, ks: &Range<usize>, [index, parts]: [usize; 2]) {
        let Some((b, k)) = self.b.narrow() else { return };
        let panel = |panel: usize, row: usize| b.wrapping_add((panel * k + row) * BLOCK);
        let (own, next) = (n / BLOCK, n / BLOCK + blocks);
        (tile.narrow, tile.narrow_panel) = (panel(own, ks.start), k * BLOCK);
        if self.isa == Isa::Avx512 {
            // A tile asks for a line at each step, which is two rows: those of two panels where they follow each other.
            let each = if ks.len() == k { 2 } else { 1 };
            if index * each < blocks {
                tile.ahead = panel(next + index * each, ks.start).cast();
            }
            return;
        }
        let rows = ks.start + ks.len() * index / parts..ks.start + ks.len() * (index + 1) / parts;
        for at in next..(next + blocks).min(self.p.n.div_ceil(BLOCK)) {
            dispatch(self.isa, Fetch { from: panel(at, rows.start), rows: rows.len() });
        }
    }

    /// How the tiles of some columns end, which are in `blocks` panels.
    fn ends(&self, n: usize, columns: usize, blocks: usize, ks: &Range<usize>) -> Ends {
        let last = ks.end == self.p.k;
        let clamp = self.act.as_clamp().filter(|_| last);
        let bias = match self.bias {
            Bias::PerCol(v) if last => v[n..].as_ptr(),
            _ => std::ptr::null(),
        };
        let beta = if ks.start == 0 { self.p.beta } else { 1.0 };
        let bias_of_rows = last && matches!(self.bias, Bias::PerRow(_));
        Ends {
            n,
            columns,
            blocks,
            beta,
            whole: (columns == blocks * BLOCK || self.padded) && (beta == 0.0 || beta == 1.0) && !bias_of_rows,
            bias,
            residual: self.residual.filter(|_| last),
            clamp: clamp.unwrap_or(Tile::NO_CLAMP),
            act: if last && clamp.is_none() { self.act } else { Activation::None },
            last,
        }
    }

    /// One tile of `rows` rows from `row` on: straight into C where it fills whole vectors of it, else through a buffer.
    ///
    /// # Safety
    /// As [`Block::run`]; the tile's panels are valid.
    unsafe fn tile(&self, run: TileFn, mut tile: Tile, ends: &Ends, row: usize, rows: usize) {
        let c_row = self.p.c_row;
        let offset = row * c_row + ends.n;
        let c = self.c.wrapping_add(offset);
        let residual = ends.residual.map_or(std::ptr::null(), |r| r.wrapping_add(offset));
        if ends.whole {
            (tile.out, tile.out_row, tile.add) = (c, c_row, ends.beta == 1.0);
            (tile.bias, tile.residual, tile.clamp) = (ends.bias, residual, ends.clamp);
            // SAFETY: the caller vouches for it.
            unsafe { run(&tile) };
        } else {
            let mut sums = MaybeUninit::<[f32; LARGEST]>::uninit();
            (tile.out, tile.out_row) = (sums.as_mut_ptr().cast(), ends.blocks * BLOCK);
            // SAFETY: `sums` holds the largest tile; the caller vouches for the rest.
            unsafe { run(&tile) };
            let (sums, sums_row) = (sums.as_ptr().cast(), ends.blocks * BLOCK);
            let Ends { columns, beta, bias: bias_column, clamp, .. } = *ends;
            let bias_row = match self.bias {
                Bias::PerRow(v) if ends.last => v[row..].as_ptr(),
                _ => std::ptr::null(),
            };
            let finish =
                Finish { sums, sums_row, c, c_row, rows, columns, beta, bias_row, bias_column, residual, clamp };
            dispatch(self.isa, finish);
        }
        // SAFETY: this task's own rows of C, while they are in cache.
        unsafe { ends.act.apply_rows(self.isa, c, c_row, rows, ends.columns) };
    }
}

/// What the tiles of some columns have in common.
struct Ends {
    /// First column and number of columns, in this many panels.
    n: usize,
    columns: usize,
    blocks: usize,
    /// Factor of what C holds.
    beta: f32,
    /// Whether a tile writes C itself.
    whole: bool,
    /// One value for each of the columns, or null.
    bias: *const f32,
    residual: Option<*const f32>,
    clamp: (f32, f32),
    /// Applied at last, if it is no clamp.
    act: Activation,
    /// Whether they sum the end of k.
    last: bool,
}

/// The rows that are packed together: [`ROWS`], of the last block more or fewer by half.
pub(super) fn blocks(rows: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let (start, end) = (rows.start, rows.end);
    let count = ((rows.len() + ROWS - ROWS / 2) / ROWS).max(1).min(rows.len());
    (0..count).map(move |i| start + i * ROWS..if i + 1 == count { end } else { start + (i + 1) * ROWS })
}

/// Where part `i` of `parts` of k starts: on whole blocks of the panels.
fn cut(k: usize, parts: usize, i: usize) -> usize {
    (k.div_ceil(BLOCK) * i / parts * BLOCK).min(k)
}

/// Packed rows cut into panels.
#[derive(Clone, Copy)]
pub(super) struct Panels {
    first: usize,
    cuts: Cuts,
}

impl Panels {
    /// Those of the rows of a whole product; `None` if they are more than are packed together.
    pub(super) fn of(isa: Isa, rows: usize) -> Option<Panels> {
        (rows < MOST_ROWS).then(|| Panels { first: 0, cuts: Cuts::new(rows, tiles(isa, rows).0.len()) })
    }

    /// Those of some rows, which are packed together, of a block that has `all`.
    pub(super) fn in_block(isa: Isa, all: usize, rows: &Range<usize>) -> Panels {
        Panels { first: rows.start, cuts: Cuts::new(rows.len(), tiles(isa, all).0.len()) }
    }

    pub(super) fn count(self) -> usize {
        self.cuts.count
    }

    /// Start (from `first`) and rows of each panel.
    pub(super) fn iter(self) -> impl Iterator<Item = (usize, usize)> {
        self.cuts.iter()
    }
}

/// Asks for rows of 16 elements of 16 bits.
struct Fetch {
    from: *const u16,
    rows: usize,
}

impl Kernel for Fetch {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        // Two rows are a line of the cache.
        for row in (0..self.rows).step_by(2) {
            V::prefetch(self.from.wrapping_add(row * BLOCK).cast());
        }
    }
}

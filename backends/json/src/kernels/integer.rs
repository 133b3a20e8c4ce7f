//! Products of matrices and convolutions of 8-bit integers, exact in `i32`, with what follows them: scales, bias, clamp, and the
//! way back to 8 bits.
//!
//! The rows of A are gathered as bytes, those of B are in panels that the instruction sets have in common. Dot products of bytes
//! multiply both as they are where the CPU has some that are exact, or where what saturates elsewhere cannot; else A is widened to
//! `i16`. Every instruction set gives the same bits.

mod affine;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bytes;
mod depthwise;
mod dot;
mod finish;
mod gather;
mod linear;
mod multiply;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod pool;
mod rows;
mod stats;
mod strips;
mod table;
#[cfg(target_arch = "x86_64")]
mod tail;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(target_arch = "x86_64")]
mod vnni;
#[cfg(target_arch = "x86_64")]
mod vnni512;
#[cfg(target_arch = "x86_64")]
mod vnni_row;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(target_arch = "x86_64")]
mod windows;

use std::ops::Range;

use super::isa::Isa;
use super::parallel::{SharedMut, Threads, grid, part};
use super::sizes::reach;
pub use affine::affine;
pub use bytes::{Scaled, combine, combines};
pub use depthwise::{DEPTHWISE_LAYOUT, MAX_TAPS, depthwise, depthwise_scratch_len, pack_depthwise};
use dot::{Dot, MOST_PANELS};
use finish::Finish;
pub use finish::{Epilogue, Out};
pub(crate) use linear::Levels;
pub use linear::{Byte, Grid, dequantise, dynamic_range, quantise, range};
pub use pack::{DEPTH, PACKED_LAYOUT, PACKED_ROWS_LAYOUT, PANEL, pack, packed_len};
pub use pool::{MAX_AVERAGED, MAX_PIXELS, average, largest, mean};
pub use rows::{Image, Plain, Rows, by_window, window_len};
pub use stats::{PanelStats, stats, stats_of_sums};
pub use table::lookup;
use tile::{MOST_ROWS, Places, Tiles};

/// Depths up to which no sum of products with zero points on both sides wraps.
pub const MAX_DEPTH: usize = 1 << 15;

/// The shape of C[m, n] = A[m, k] B[k, n].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
}

/// B.
#[derive(Clone, Copy, Debug)]
pub enum Right<'a> {
    /// Panels made by [`pack`], and what [`stats`] says of them; without that, A is widened where there is no VNNI.
    Packed(&'a [i8], &'a [PanelStats]),
    /// Bytes with row and column strides; packed, and looked at where that is faster, when they are needed.
    Strided(&'a [u8], [usize; 2], Byte),
}

/// Bytes of `i16` rows that one thread has at a time.
const CACHED: usize = 160 << 10;

/// The same of rows that are not widened. They take less than half of the second-level cache, and each time B is read for more of them.
const CACHED_BYTES: usize = 400 << 10;

/// Tiles of rows that one thread has at a time, at most.
const MOST_TILES: usize = 32;

/// Rows and columns are cut in these units.
const UNIT: usize = 4 * PANEL;

/// Whether [`product`] is faster with what [`stats`] says of B.
pub fn wants_stats(threads: &Threads, rows: usize) -> bool {
    // For few rows, to look at B takes as long as to multiply it.
    rows >= 2 * MOST_ROWS && Dot::of(threads.isa()) != Dot::Wide
}

/// How the rows of a product are cut into blocks.
#[derive(Clone, Copy, Debug)]
struct Space {
    /// Rows of A that are gathered together.
    rows: usize,
    /// Elements of a gathered row.
    depth: usize,
    /// Whether rows may be widened.
    widens: bool,
    /// Columns whose panels are packed together, where B is not.
    columns: usize,
    /// `f32` values of scratch for matrix units.
    units: usize,
}

/// `f32` values in whose place [`PanelStats`] are.
const STATS: usize = size_of::<PanelStats>() / size_of::<f32>();

impl Space {
    fn new(shape: &Shape, packed: bool, dot: Dot) -> Option<Space> {
        let depth = shape.k.checked_next_multiple_of(DEPTH)?;
        let widens = dot.widens();
        let fit = if widens { CACHED / (2 * depth.max(1)) } else { CACHED_BYTES / depth.max(1) };
        let rows = fit.clamp(MOST_ROWS, MOST_TILES * MOST_ROWS) / MOST_ROWS * MOST_ROWS;
        let columns = if packed { 0 } else { shape.n.checked_next_multiple_of(PANEL)? };
        #[cfg(target_arch = "x86_64")]
        let units = if dot == Dot::Amx { amx::scratch_len(depth)?.div_ceil(size_of::<f32>()) } else { 0 };
        #[cfg(not(target_arch = "x86_64"))]
        let units = 0;
        Some(Space { rows: rows.min(shape.m.max(1)), depth, widens, columns, units })
    }

    /// `f32` values of one thread's scratch; `None` if they cannot be counted.
    fn len(&self) -> Option<usize> {
        let elements = self.rows.checked_mul(self.depth)?;
        let panels = self.columns.checked_mul(self.depth)?.div_ceil(4).checked_add(self.columns / PANEL * STATS)?;
        let wide = if self.widens { elements.div_ceil(2) } else { 0 };
        let rows = elements.div_ceil(4).checked_add(wide)?;
        rows.checked_add(self.rows)?.checked_add(panels)?.checked_add(self.units)
    }
}

/// `f32` values of scratch that [`product`] needs; `None` if they cannot be counted.
pub fn scratch_len(threads: &Threads, shape: &Shape, packed: bool) -> Option<usize> {
    // What is known of B, without which rows are widened, is left open.
    let dots = [Dot::Wide, Dot::of_product(threads, shape.m, shape.k)];
    let each = dots.map(|dot| Space::new(shape, packed, dot)?.len());
    each[0]?.max(each[1]?).checked_mul(threads.count())
}

/// Whether [`product`] computes this by matrix units.
pub fn is_on_amx(threads: &Threads, shape: &Shape) -> bool {
    Dot::of_product(threads, shape.m, shape.k) == Dot::Amx
}

/// The rows and columns that one task computes.
struct Block<'a, R> {
    shape: Shape,
    isa: Isa,
    dot: Dot,
    a: &'a R,
    b: Right<'a>,
    e: &'a Epilogue<'a>,
    out: finish::Target,
    /// As [`Out::steps`] says.
    steps: [usize; 2],
    space: Space,
}

/// C = what `e` makes of (A - zero) (B - zero), for the rows that `a` gives and one B.
///
/// # Panics
/// If a slice is shorter than the shapes say.
pub fn product(
    threads: &Threads,
    shape: Shape,
    a: &impl Rows,
    b: Right<'_>,
    out: Out<'_>,
    e: &Epilogue<'_>,
    scratch: &mut [f32],
) {
    let packed = matches!(b, Right::Packed(..));
    check(&shape, a, &b, &out, e);
    let known = match b {
        Right::Packed(_, stats) => !stats.is_empty(),
        Right::Strided(..) => wants_stats(threads, shape.m),
    };
    let dot = Dot::of_product(threads, shape.m, shape.k);
    // VNNI needs the sums of columns at most, which are found as fast as B is read.
    let dot = if shape.k > 0 && (known || !dot.widens()) { dot } else { Dot::Wide };
    let space = Space::new(&shape, packed, dot);
    let Some((space, each)) = space.and_then(|space| Some((space, space.len()?))) else {
        panic!("the sizes are too large");
    };
    assert!(each.checked_mul(threads.count()).is_some_and(|len| scratch.len() >= len), "the scratch is too short");
    if shape.m == 0 || shape.n == 0 {
        return;
    }
    let steps = out.steps(shape.m, shape.n);
    let block = Block { shape, isa: threads.isa(), dot, a, b, e, out: out.target(), steps, space };
    // Lines of windows are multiplied where they are, or else rows are gathered.
    #[cfg(target_arch = "x86_64")]
    let lines = windows::Lines::of(&block);
    #[cfg(target_arch = "x86_64")]
    let unit = lines.as_ref().map_or(MOST_ROWS, windows::Lines::windows);
    #[cfg(not(target_arch = "x86_64"))]
    let unit = MOST_ROWS;
    let wanted = threads.count().min(shape.m.saturating_mul(shape.n).saturating_mul(shape.k).div_ceil(128 << 10));
    let (units, tiles) = (shape.n.div_ceil(UNIT), shape.m.div_ceil(unit));
    // Rows are gathered, and B is packed where it is not, by each thread that needs them.
    let (columns, rows) = grid(wanted, 1, units, tiles, shape.n >= 4 * shape.m);
    let (total, tasks) = (columns * rows, threads.count().min(columns * rows));
    let scratch = SharedMut::new(scratch);
    threads.parallel_for(tasks, |task| {
        // SAFETY: one part of the scratch for each task.
        let scratch = unsafe { scratch.slice(task * each, each) };
        for at in part(total, tasks, task) {
            let units = part(units, columns, at % columns);
            let tiles = part(tiles, rows, at / columns);
            let columns = units.start * UNIT..(units.end * UNIT).min(shape.n);
            #[cfg(target_arch = "x86_64")]
            if let Some(lines) = &lines {
                // SAFETY: the parts are disjoint, and `check` looked at all lengths.
                unsafe { lines.run(&block, tiles, columns, scratch) };
                continue;
            }
            let rows = tiles.start * MOST_ROWS..(tiles.end * MOST_ROWS).min(shape.m);
            // SAFETY: as above.
            unsafe { block.run(rows, columns, scratch) };
        }
    });
}

fn check(shape: &Shape, a: &impl Rows, b: &Right<'_>, out: &Out<'_>, e: &Epilogue<'_>) {
    assert!(a.fits(shape.m, shape.k), "A is too short");
    match b {
        Right::Packed(b, stats) => {
            assert_eq!(Some(b.len()), packed_len(shape.k, shape.n), "B has another size");
            assert!(stats.is_empty() || stats.len() == shape.n.div_ceil(PANEL), "what is known is not of this B");
        }
        Right::Strided(b, strides, _) => {
            assert!(reach(&[shape.k, shape.n], strides).is_some_and(|len| b.len() >= len), "B is too short");
        }
    }
    assert!(out.fits(shape.m, shape.n), "C has another size");
    e.check(shape.m, shape.n);
    assert!(e.rows.is_empty() || matches!(out, Out::Real(_) | Out::Blocked(_)), "only numbers have factors by row");
}

/// Scratch as bytes.
pub(crate) fn as_bytes(scratch: &mut [f32]) -> &mut [u8] {
    // SAFETY: every bit pattern is a byte.
    unsafe { scratch.align_to_mut::<u8>().1 }
}

/// The scratch of a task, by use.
struct Scratch<'s> {
    bytes: &'s mut [u8],
    wide: &'s mut [i16],
    sums: &'s mut [i32],
    stats: &'s mut [PanelStats],
    panels: &'s mut [i8],
    units: &'s mut [u8],
}

impl Space {
    fn cut<'s>(&self, scratch: &'s mut [f32]) -> Scratch<'s> {
        let elements = self.rows * self.depth;
        let (units, rest) = scratch.split_at_mut(self.units);
        let (sums, rest) = rest.split_at_mut(self.rows);
        let (wide, rest) = rest.split_at_mut(if self.widens { elements.div_ceil(2) } else { 0 });
        let (bytes, rest) = rest.split_at_mut(elements.div_ceil(4));
        let (stats, panels) = rest.split_at_mut(self.columns / PANEL * STATS);
        // SAFETY: these types are integers without gaps between them, for which every bit pattern will do, and their alignment is at most
        // that of `f32`.
        unsafe {
            Scratch {
                sums: sums.align_to_mut::<i32>().1,
                wide: wide.align_to_mut::<i16>().1,
                bytes: as_bytes(bytes),
                stats: stats.align_to_mut::<PanelStats>().1,
                panels: panels.align_to_mut::<i8>().1,
                units: as_bytes(units),
            }
        }
    }
}

/// The panels of some columns.
#[derive(Clone, Copy)]
struct Panels<'a> {
    b: &'a [i8],
    stats: &'a [PanelStats],
}

/// Rows of A, in the forms that dot products read.
struct Gathered<'a> {
    bytes: &'a [u8],
    wide: &'a [i16],
    peaks: &'a [u8],
    sums: &'a [i32],
    zero: u8,
}

impl<R: Rows> Block<'_, R> {
    /// # Safety
    /// No other task writes these rows and columns of C, whose length was checked; `columns` starts at a panel.
    unsafe fn run(&self, rows: Range<usize>, columns: Range<usize>, scratch: &mut [f32]) {
        let Scratch { bytes, wide, sums, stats, panels, units } = self.space.cut(scratch);
        let (depth, k) = (self.space.depth, self.shape.k);
        let panels = match self.b {
            Right::Packed(b, stats) => {
                let range = columns.start / PANEL..columns.end.div_ceil(PANEL);
                let b = &b[range.start * depth * PANEL..range.end * depth * PANEL];
                Panels { b, stats: stats.get(range).unwrap_or_default() }
            }
            Right::Strided(b, strides, byte) => {
                pack::panels(k, columns.clone(), b, strides, byte, panels);
                let stats = &mut stats[..if self.dot == Dot::Wide { 0 } else { columns.len().div_ceil(PANEL) }];
                stats::look(self.dot, panels, k, stats);
                Panels { b: panels, stats }
            }
        };
        let mut peaks = [0; MOST_TILES];
        // Blocks of nearly as many tiles each: B is read for every one of them.
        let (blocks, tiles) = (rows.len().div_ceil(self.space.rows), rows.len().div_ceil(MOST_ROWS));
        for index in 0..blocks {
            let tiles = part(tiles, blocks, index);
            let block = rows.start + tiles.start * MOST_ROWS..(rows.start + tiles.end * MOST_ROWS).min(rows.end);
            let bytes = gather::gather(self.isa, self.a, block.clone(), k, bytes);
            let zero = self.a.reading().1;
            if self.e.needs_sums() {
                gather::sums(self.isa, bytes, (depth, k), zero, &mut sums[..block.len()]);
            }
            let peaks = &mut peaks[..block.len().div_ceil(MOST_ROWS)];
            let needs_wide = self.peaks(bytes, panels.stats, peaks);
            let wide = if needs_wide { &mut wide[..bytes.len()] } else { &mut [] };
            if needs_wide {
                gather::widen(self.isa, bytes, zero, wide);
            }
            // SAFETY: as this function's.
            unsafe { self.tiles(&Gathered { bytes, wide, peaks, sums, zero }, block, columns.clone(), panels, units) };
        }
    }

    /// Writes the greatest byte of each tile; whether some tile is to be widened for some panel.
    fn peaks(&self, bytes: &[u8], stats: &[PanelStats], peaks: &mut [u8]) -> bool {
        if self.dot != Dot::Pairs {
            return self.dot == Dot::Wide;
        }
        if self.space.depth == 0 {
            return false;
        }
        for (peak, rows) in peaks.iter_mut().zip(bytes.chunks(MOST_ROWS * self.space.depth)) {
            *peak = gather::greatest(self.isa, rows);
        }
        let most = peaks.iter().copied().max().unwrap_or(0);
        stats.iter().any(|stats| stats.chain(most) == 0)
    }

    /// The products of a block of rows.
    ///
    /// # Safety
    /// As [`Block::run`].
    unsafe fn tiles(
        &self,
        a: &Gathered<'_>,
        rows: Range<usize>,
        columns: Range<usize>,
        panels: Panels<'_>,
        units: &mut [u8],
    ) {
        let (depth, step) = (self.space.depth, self.dot.panels());
        for first in (0..columns.len().div_ceil(PANEL)).step_by(step) {
            let start = columns.start + first * PANEL;
            let columns = start..(start + step * PANEL).min(columns.end);
            let range = first..first + columns.len().div_ceil(PANEL);
            let b = &panels.b[range.start * depth * PANEL..range.end * depth * PANEL];
            let (mut found, mut finds) = ([PanelStats::default(); MOST_PANELS], false);
            let stats = match panels.stats.get(range) {
                Some(known) => known,
                None if self.dot == Dot::Wide => &[],
                None => {
                    let found = &mut found[..columns.len().div_ceil(PANEL)];
                    // Where A has no zero point, nothing is taken off the products.
                    finds = a.zero != 0 && self.dot == Dot::Vnni512;
                    if a.zero != 0 && !finds {
                        stats::look(self.dot, b, depth, found);
                    }
                    found
                }
            };
            let finish = Finish {
                sums: a.sums,
                rows: rows.len(),
                row: rows.start,
                columns,
                steps: self.steps,
                out: self.out,
                e: self.e,
            };
            let tiles = Tiles {
                bytes: a.bytes,
                places: Places::dense(depth),
                ahead: true,
                wide: a.wide,
                peaks: a.peaks,
                zero: a.zero,
                b,
                finds,
                stats,
                depth,
                finish,
            };
            // SAFETY: this task writes these rows and columns alone, and they are in C; an `Isa` that reaches the kernels was
            // checked against the CPU, and so was what dot products it has.
            unsafe { multiply::multiply(&tiles, self.dot, self.isa != Isa::Portable, units) };
        }
    }
}

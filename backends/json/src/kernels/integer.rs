//! Products of matrices and convolutions of 8-bit integers, exact in `i32`, with what follows them: scales, bias, clamp, and the
//! way back to 8 bits.
//!
//! The rows of A are widened to `i16` without their zero point, so that no product of two saturates; B stays in 8 bits, in panels
//! that the instruction sets have in common. Every instruction set gives the same bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod bytes;
mod depthwise;
mod finish;
mod linear;
mod pack;
mod rows;
#[cfg(test)]
mod tests;
mod tile;
mod widen;

use std::ops::Range;

use super::isa::Isa;
use super::parallel::{SharedMut, Threads, grid, part};
use super::sizes::reach;
pub use bytes::{Scaled, combine, combines, largest, lookup, mean};
pub use depthwise::{DEPTHWISE_LAYOUT, MAX_TAPS, depthwise, depthwise_scratch_len, pack_depthwise};
use finish::Finish;
pub use finish::{Epilogue, Out};
pub use linear::{Byte, Grid, dequantise, dynamic_range, quantise, range};
pub use pack::{DEPTH, PACKED_LAYOUT, PANEL, pack, packed_len};
pub use rows::{Image, Plain, Rows};
use tile::{MOST_ROWS, Tiles};

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
    /// Panels made by [`pack`].
    Packed(&'a [i8]),
    /// Bytes with row and column strides; packed when they are needed.
    Strided(&'a [u8], [usize; 2], Byte),
}

/// Bytes of `i16` rows that one thread has packed at a time.
const CACHED: usize = 160 << 10;

/// Rows and columns are cut in these units.
const UNIT: usize = 4 * PANEL;

/// How the rows of a product are cut into blocks.
#[derive(Clone, Copy, Debug)]
struct Space {
    /// Rows of A that are packed together.
    rows: usize,
    /// Elements of a packed row.
    depth: usize,
    /// Columns whose panels are packed together, where B is not.
    columns: usize,
}

impl Space {
    fn new(shape: &Shape, packed: bool) -> Option<Space> {
        let depth = shape.k.checked_next_multiple_of(DEPTH)?;
        let fit = CACHED / (2 * depth.max(1));
        let rows = fit.clamp(MOST_ROWS, 32 * MOST_ROWS) / MOST_ROWS * MOST_ROWS;
        let columns = if packed { 0 } else { shape.n.checked_next_multiple_of(PANEL)? };
        Some(Space { rows: rows.min(shape.m.max(1)), depth, columns })
    }

    /// `f32` values of one thread's scratch; `None` if they cannot be counted.
    fn len(&self) -> Option<usize> {
        let rows = self.rows.checked_mul(self.depth)?.div_ceil(2);
        let panels = self.columns.checked_mul(self.depth)?.div_ceil(4);
        rows.checked_add(self.rows)?.checked_add(panels)
    }
}

/// `f32` values of scratch that [`product`] needs on this many threads; `None` if they cannot be counted.
pub fn scratch_len(shape: &Shape, packed: bool, threads: usize) -> Option<usize> {
    Space::new(shape, packed)?.len()?.checked_mul(threads)
}

/// The rows and columns that one task computes.
struct Block<'a, R> {
    shape: Shape,
    isa: Isa,
    a: &'a R,
    b: Right<'a>,
    e: &'a Epilogue<'a>,
    out: finish::Target,
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
    let packed = matches!(b, Right::Packed(_));
    check(&shape, a, &b, &out, e);
    let space = Space::new(&shape, packed);
    let Some((space, each)) = space.and_then(|space| Some((space, space.len()?))) else {
        panic!("the sizes are too large");
    };
    assert!(each.checked_mul(threads.count()).is_some_and(|len| scratch.len() >= len), "the scratch is too short");
    if shape.m == 0 || shape.n == 0 {
        return;
    }
    let wanted = threads.count().min(shape.m.saturating_mul(shape.n).saturating_mul(shape.k).div_ceil(128 << 10));
    let (units, tiles) = (shape.n.div_ceil(UNIT), shape.m.div_ceil(MOST_ROWS));
    // Rows are widened, and B is packed where it is not, by each thread that needs them.
    let (columns, rows) = grid(wanted, 1, units, tiles, shape.n >= 4 * shape.m);
    let (total, tasks) = (columns * rows, threads.count().min(columns * rows));
    let block = Block { shape, isa: threads.isa(), a, b, e, out: out.target(), space };
    let scratch = SharedMut::new(scratch);
    threads.parallel_for(tasks, |task| {
        // SAFETY: one part of the scratch for each task.
        let scratch = unsafe { scratch.slice(task * each, each) };
        for at in part(total, tasks, task) {
            let units = part(units, columns, at % columns);
            let tiles = part(tiles, rows, at / columns);
            let columns = units.start * UNIT..(units.end * UNIT).min(shape.n);
            let rows = tiles.start * MOST_ROWS..(tiles.end * MOST_ROWS).min(shape.m);
            // SAFETY: the parts are disjoint, and `check` looked at all lengths.
            unsafe { block.run(rows, columns, scratch) };
        }
    });
}

fn check(shape: &Shape, a: &impl Rows, b: &Right<'_>, out: &Out<'_>, e: &Epilogue<'_>) {
    assert!(a.fits(shape.m, shape.k), "A is too short");
    match b {
        Right::Packed(b) => assert_eq!(Some(b.len()), packed_len(shape.k, shape.n), "B has another size"),
        Right::Strided(b, strides, _) => {
            assert!(reach(&[shape.k, shape.n], strides).is_some_and(|len| b.len() >= len), "B is too short");
        }
    }
    assert!(shape.m.checked_mul(shape.n).is_some_and(|len| out.len() == len), "C has another size");
    e.check(shape.n);
}

/// The scratch of a task, by use.
struct Scratch<'s> {
    rows: &'s mut [i16],
    sums: &'s mut [i32],
    panels: &'s mut [i8],
}

impl Space {
    fn cut<'s>(&self, scratch: &'s mut [f32]) -> Scratch<'s> {
        let (sums, rest) = scratch.split_at_mut(self.rows);
        let (rows, panels) = rest.split_at_mut((self.rows * self.depth).div_ceil(2));
        // SAFETY: every bit pattern is an integer of these types, whose alignment is at most that of `f32`.
        let (sums, rows, panels) =
            unsafe { (sums.align_to_mut::<i32>().1, rows.align_to_mut::<i16>().1, panels.align_to_mut::<i8>().1) };
        Scratch { rows, sums, panels }
    }
}

impl<R: Rows> Block<'_, R> {
    /// # Safety
    /// No other task writes these rows and columns of C, whose length was checked; `columns` starts at a panel.
    unsafe fn run(&self, rows: Range<usize>, columns: Range<usize>, scratch: &mut [f32]) {
        let Scratch { rows: packed, sums, panels } = self.space.cut(scratch);
        let depth = self.space.depth;
        let (b, first) = match self.b {
            Right::Packed(b) => (b, 0),
            Right::Strided(b, strides, byte) => {
                pack::panels(self.shape.k, columns.clone(), b, strides, byte, panels);
                (&*panels, columns.start / PANEL)
            }
        };
        for start in rows.clone().step_by(self.space.rows) {
            let block = start..(start + self.space.rows).min(rows.end);
            widen::widen(self.isa, self.a, block.clone(), self.shape.k, packed);
            if self.e.needs_sums() {
                pack::sums(self.isa, &packed[..block.len() * depth], depth, sums);
            }
            for column in columns.clone().step_by(PANEL) {
                let panel = &b[(column / PANEL - first) * depth * PANEL..][..depth * PANEL];
                let finish = Finish {
                    sums: &sums[..block.len()],
                    row: block.start,
                    columns: column..(column + PANEL).min(columns.end),
                    width: self.shape.n,
                    out: self.out,
                    e: self.e,
                };
                let tiles = Tiles { a: &packed[..block.len() * depth], b: panel, depth, finish };
                // SAFETY: this task writes these rows and columns alone, and they are in C.
                unsafe { tiles.run(self.isa) };
            }
        }
    }
}

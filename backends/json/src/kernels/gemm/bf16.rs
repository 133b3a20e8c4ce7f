//! A matrix product of numbers of bf16, which f32 is a sum of: products are added up in f32, by matrix units or dot products.
//!
//! Rows of A go into tiles once for all columns; 32 columns of B at a time are put into tiles just before they are used, in small parts
//! between the products of the columns before. B stays the panels of f32 (or of 16 bits) that the vector kernels read too.

use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::ops::Range;

use super::block::{Block, Source};
use super::finish::Finish;
use super::{Bias, GemmParams, Math};
use crate::kernels::bf16::terms::{
    Between, MOST, Multiplier, Operand, Rows, SIDE, STEP, SUMS, Step, Terms, elements, from_line, rounded,
};
use crate::kernels::bf16::{self, Dots, TILE, TILE_BYTES, Tiles, Unit};
use crate::kernels::isa::Kernel;
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::Threads;
use crate::kernels::simd::{Avx512x16, V16};
use crate::kernels::weights::Weight;

/// Rows of A that are put into tiles together.
const ROWS: usize = 256;

/// Elements of k for which A is in tiles at a time: 768 KiB of 256 rows, which the second-level cache has room for.
const fn slab(pieces: usize) -> usize {
    1536 / pieces
}

/// f32 values of the tiles of 32 columns of B over a part of k. C is read and written for each part, so that shorter ones take longer.
const B_SPACE: usize = SIDE * Tiles::DEPTH * MOST / 2;
const _: () = assert!(Dots::DEPTH <= Tiles::DEPTH * MOST, "numbers of one piece");
/// Bytes from the tiles of a piece to those of the next.
const PIECE: usize = 2 * TILE_BYTES;

/// What the product is computed by here, if its B is packed.
pub(super) fn unit(threads: &Threads, p: &GemmParams) -> Option<Unit> {
    // Fewer rows are a matter of the bytes of B, and of the time that it takes to put them into tiles.
    let least = match p.math {
        Math::F32 => return None,
        Math::Bf16 => TILE,
        Math::Bf16x3 => 24,
        Math::Bf16x6 => 32,
    };
    threads.unit(p.math).filter(|_| p.m >= least && p.k > 0)
}

/// f32 values of scratch for one thread; `None` if they cannot be counted.
pub(super) fn scratch_len(p: &GemmParams) -> Option<usize> {
    if p.math == Math::F32 {
        return Some(0);
    }
    let rows = p.m.min(ROWS).next_multiple_of(SIDE);
    // Fewer pieces have longer slabs of as many bytes.
    let a = rows.checked_mul(p.k.min(slab(MOST)).next_multiple_of(STEP))? * MOST / 2;
    Some(a + 2 * B_SPACE + SUMS + TILE)
}

/// The part of the product that `block` says.
///
/// # Safety
/// As [`Block::run`]; [`fn@unit`] said so of the product, whose B is packed, and `scratch` has [`scratch_len`] values.
pub(super) unsafe fn run(block: &Block<'_>, unit: Unit, scratch: &mut [f32]) {
    let math = block.p.math;
    // SAFETY: the caller vouches for all of it; both units come with AVX-512.
    unsafe {
        match block.b {
            Source::Packed(b, k) => bf16::run(unit, math, Compute { block, b, k, scratch }),
            Source::PackedF16(b, k) => bf16::run(unit, math, Compute { block, b, k, scratch }),
            Source::PackedBF16(b, k) => bf16::run(unit, math, Compute { block, b, k, scratch }),
            Source::Strided(..) => block.run(scratch),
        }
    }
}

/// [`run`] with panels of `k` rows of one type.
struct Compute<'a, W> {
    block: &'a Block<'a>,
    b: *const W,
    k: usize,
    scratch: &'a mut [f32],
}

impl<W: Weight> bf16::Job for Compute<'_, W> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<T: Terms, M: Multiplier>(self) {
        let Compute { block, b, k, scratch } = self;
        // SAFETY: the caller vouches for the unit, the maker for the operands.
        unsafe { compute::<W::Terms<T>, W, M>(block, b, k, scratch) };
    }
}

/// # Safety
/// As [`run`]; `b` are the panels, of `k` rows.
#[inline(always)]
unsafe fn compute<T: Terms, W: Weight, M: Multiplier>(block: &Block<'_>, b: *const W, k: usize, scratch: &mut [f32]) {
    let Some((sums, rest)) = from_line(scratch).split_first_chunk_mut() else { panic!("the scratch is too short") };
    let (first, rest) = rest.split_at_mut(B_SPACE);
    let (second, a) = rest.split_at_mut(B_SPACE);
    // SAFETY: the caller vouches for the unit; nothing else here starts it.
    let unit = unsafe { M::start() };
    let mut rows = block.rows.start;
    while rows < block.rows.end {
        let end = (rows + ROWS).min(block.rows.end);
        let mut job = Slab { block, unit: &unit, b, k, rows: rows..end, ks: 0..0, a };
        for start in (0..block.p.k).step_by(slab(T::A)) {
            job.ks = start..(start + slab(T::A)).min(block.p.k);
            // SAFETY: the caller vouches for it.
            unsafe { job.run::<T>(sums, [&mut *first, &mut *second]) };
        }
        rows = end;
    }
}

/// Some rows of A over a part of k, which are in tiles while all columns pass by.
struct Slab<'s, W, M> {
    block: &'s Block<'s>,
    unit: &'s M,
    b: *const W,
    /// Rows of a panel of B.
    k: usize,
    rows: Range<usize>,
    ks: Range<usize>,
    /// For each 32 rows and 32 of k the pieces, of each two tiles.
    a: &'s mut [f32],
}

/// 32 columns of B over a part of a slab.
#[derive(Clone)]
struct Part {
    columns: Range<usize>,
    ks: Range<usize>,
}

impl<W: Weight, M: Multiplier> Slab<'_, W, M> {
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn run<T: Terms>(&mut self, sums: &mut [f32; SUMS], [mut now, mut next]: [&mut [f32]; 2]) {
        // SAFETY: the caller vouches for it.
        unsafe {
            self.put_rows::<T>();
            let mut coming = self.first();
            let mut feeder = Feeder::new(self, &coming);
            feeder.advance::<T, M>(now, usize::MAX);
            let last = self.block.columns.end;
            while coming.columns.start < last {
                let part = coming.clone();
                coming = self.after(&part);
                feeder = Feeder::new(self, &coming);
                self.part::<T>(
                    &part,
                    now,
                    sums,
                    &mut Meanwhile { feeder: &mut feeder, to: next, of: PhantomData, each: 0 },
                );
                feeder.advance::<T, M>(next, usize::MAX);
                std::mem::swap(&mut now, &mut next);
            }
        }
    }

    fn first(&self) -> Part {
        let start = self.block.columns.start;
        self.at(start, self.ks.start)
    }

    /// The next depth of the same columns, or the next columns; past the last ones there are none.
    fn after(&self, part: &Part) -> Part {
        match part.ks.end < self.ks.end {
            true => self.at(part.columns.start, part.ks.end),
            false => self.at(part.columns.end, self.ks.start),
        }
    }

    fn at(&self, column: usize, k: usize) -> Part {
        let end = self.block.columns.end;
        Part { columns: column..(column + SIDE).min(end), ks: k..(k + M::DEPTH).min(self.ks.end) }
    }

    /// Puts the rows of A into tiles; those and the elements of k that are missing for whole ones are zero.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn put_rows<T: Terms>(&mut self) {
        let p = self.block.p;
        let steps = self.ks.len().div_ceil(STEP);
        let to: *mut u8 = self.a.as_mut_ptr().cast();
        for row in 0..self.rows.len().next_multiple_of(TILE) {
            let from = self.block.a.wrapping_add((self.rows.start + row) * p.a[0] + self.ks.start * p.a[1]);
            for step in 0..steps {
                let count = if row < self.rows.len() { (self.ks.len() - step * STEP).min(STEP) } else { 0 };
                let from = from.wrapping_add(step * STEP * p.a[1]);
                let place = (row / SIDE * steps + step) * T::A * PIECE + row % SIDE * 64;
                // SAFETY: the caller vouches for A; `scratch_len` counts the tiles.
                unsafe {
                    let [low, high] = elements(from, p.a[1], count);
                    let alpha = _mm512_set1_ps(p.alpha);
                    M::put_a::<T>(to.add(place), PIECE, [_mm512_mul_ps(low, alpha), _mm512_mul_ps(high, alpha)]);
                }
            }
        }
    }

    /// Adds a part of the product to C, and feeds tiles meanwhile.
    ///
    /// # Safety
    /// As [`run`]; `b` are the tiles of the part.
    #[inline(always)]
    unsafe fn part<T: Terms>(
        &self,
        part: &Part,
        b: &[f32],
        sums: &mut [f32; SUMS],
        meanwhile: &mut Meanwhile<'_, W, T, M>,
    ) {
        let panels = self.rows.len().div_ceil(SIDE);
        let steps = part.ks.len().div_ceil(STEP);
        let done = (part.ks.start - self.ks.start) / STEP;
        let stride = self.ks.len().div_ceil(STEP);
        meanwhile.each = meanwhile.feeder.left().div_ceil(panels * steps);
        for panel in 0..panels {
            let rows = panel * SIDE..(panel * SIDE + SIDE).min(self.rows.len());
            let a = self.a.as_ptr().cast::<u8>().wrapping_add((panel * stride + done) * T::A * PIECE);
            let b = b.as_ptr().cast::<u8>();
            // SAFETY: the caller vouches for A, B and C.
            unsafe {
                let steps = (0..steps).map(|step| {
                    let a = Operand { tiles: a.wrapping_add(step * T::A * PIECE), piece: PIECE };
                    let b = Operand { tiles: b.wrapping_add(step * T::B * PIECE), piece: PIECE };
                    Step { a, b, elements: part.ks.len() - step * STEP }
                });
                let are_finite = self.unit.sums::<T>([rows.len(), part.columns.len()], steps, meanwhile, sums);
                let rows = self.rows.start + rows.start..self.rows.start + rows.end;
                if !are_finite {
                    self.plain(&rows, part, sums);
                }
                self.finish(&rows, part, sums);
            }
        }
    }

    /// The same sums by the vector units, as what is not finite is no sum of pieces.
    ///
    /// # Safety
    /// As [`run`].
    #[cold]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
    unsafe fn plain(&self, rows: &Range<usize>, part: &Part, sums: &mut [f32; SUMS]) {
        let p = self.block.p;
        for (index, tile) in sums.chunks_exact_mut(TILE * TILE).enumerate() {
            let column = part.columns.start + index % 2 * TILE;
            if column >= part.columns.end {
                continue;
            }
            for (row, out) in (rows.start + index / 2 * TILE..rows.end).zip(tile.chunks_exact_mut(TILE)) {
                // SAFETY: the caller vouches for A and B; a row of the tile has 16 values.
                unsafe {
                    let mut sum = Avx512x16::splat(0.0);
                    for k in part.ks.clone() {
                        let a = p.alpha * *self.block.a.add(row * p.a[0] + k * p.a[1]);
                        let b: Avx512x16 = W::load(self.b.add((column / BLOCK * self.k + k) * BLOCK));
                        sum = b.fma(Avx512x16::splat(a), sum);
                    }
                    sum.store(out.as_mut_ptr());
                }
            }
        }
    }

    /// Adds the sums to C, with everything else that happens to it where they are the last.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn finish(&self, rows: &Range<usize>, part: &Part, sums: &[f32; SUMS]) {
        let Block { p, isa, c, residual, bias, act, .. } = *self.block;
        let last = part.ks.end == p.k;
        let null = std::ptr::null();
        for (index, tile) in sums.chunks_exact(TILE * TILE).enumerate() {
            let (row, column) = (rows.start + index / 2 * TILE, part.columns.start + index % 2 * TILE);
            if row >= rows.end || column >= part.columns.end {
                continue;
            }
            let offset = row * p.c_row + column;
            let (bias_row, bias_column) = match bias {
                Bias::PerRow(v) if last => (v[row..].as_ptr(), null),
                Bias::PerCol(v) if last => (null, v[column..].as_ptr()),
                _ => (null, null),
            };
            let finish = Finish {
                sums: tile.as_ptr(),
                sums_row: TILE,
                c: c.wrapping_add(offset),
                c_row: p.c_row,
                rows: (rows.end - row).min(TILE),
                columns: (part.columns.end - column).min(TILE),
                beta: if part.ks.start == 0 { p.beta } else { 1.0 },
                bias_row,
                bias_column,
                residual: residual.filter(|_| last).map_or(null, |r| r.wrapping_add(offset)),
                clamp: act.as_clamp().filter(|_| last).unwrap_or((f32::NEG_INFINITY, f32::INFINITY)),
            };
            // SAFETY: the caller vouches for C and AVX-512.
            unsafe { finish.run::<Avx512x16>() };
        }
        if last && act.as_clamp().is_none() {
            let start = c.wrapping_add(rows.start * p.c_row + part.columns.start);
            // SAFETY: this task's own rows of C.
            unsafe { act.apply_rows(isa, start, p.c_row, rows.len(), part.columns.len()) };
        }
    }
}

/// The next part of B goes into tiles while one is multiplied.
struct Meanwhile<'s, W, T, M> {
    feeder: &'s mut Feeder<W>,
    to: &'s mut [f32],
    of: PhantomData<(T, M)>,
    /// Rows for each step.
    each: usize,
}

impl<W: Weight, T: Terms, M: Multiplier> Between for Meanwhile<'_, W, T, M> {
    #[inline(always)]
    unsafe fn advance(&mut self, steps: usize) {
        // SAFETY: the caller vouches for AVX-512, the slab for B and the tiles.
        unsafe { self.feeder.advance::<T, M>(self.to, self.each.saturating_mul(steps)) };
    }

    #[inline(always)]
    fn fetch(&mut self) {
        self.feeder.fetch(self.each);
    }
}

/// Puts the columns of a part of B into tiles, row by row.
struct Feeder<W> {
    /// Of both panels where their rows start; null for one that is not there.
    from: [*const W; 2],
    /// Elements of k.
    count: usize,
    /// Rows of tiles: of each 32 elements of k 16 of one panel, then 16 of the other.
    next: usize,
    /// The first of these rows that was not asked for.
    fetched: usize,
    end: usize,
}

impl<W: Weight> Feeder<W> {
    fn new<M>(slab: &Slab<'_, W, M>, part: &Part) -> Feeder<W> {
        let panels = part.columns.len().div_ceil(TILE);
        let from = std::array::from_fn(|panel| {
            let start = ((part.columns.start / BLOCK + panel) * slab.k + part.ks.start) * BLOCK;
            if panel < panels { slab.b.wrapping_add(start) } else { std::ptr::null() }
        });
        let end = if panels == 0 { 0 } else { part.ks.len().div_ceil(STEP) * SIDE };
        Feeder { from, count: part.ks.len(), next: 0, fetched: 0, end }
    }

    fn left(&self) -> usize {
        self.end - self.next
    }

    /// Asks for what the next `rows` rows are made of, if the unit pairs rows that are neighbours.
    #[inline(always)]
    fn fetch(&mut self, rows: usize) {
        let end = (self.fetched + rows).min(self.end);
        for at in self.fetched..end {
            let (step, panel, row) = (at / SIDE, at / TILE % 2, at % TILE);
            let from = self.from[panel].wrapping_add((step * STEP + 2 * row) * BLOCK);
            for line in (0..2 * BLOCK * size_of::<W>()).step_by(64) {
                // SAFETY: AVX-512 has it, whatever the address.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast::<i8>().wrapping_add(line)) };
            }
        }
        self.fetched = end;
    }

    /// Puts the next `rows` rows.
    ///
    /// # Safety
    /// As [`run`]; `to` has room for the tiles of a part.
    #[inline(always)]
    unsafe fn advance<T: Terms, M: Multiplier>(&mut self, to: &mut [f32], rows: usize) {
        let to: *mut u8 = to.as_mut_ptr().cast();
        let end = self.next + rows.min(self.left());
        while self.next < end {
            // What is left of a tile.
            let (step, panel, row) = (self.next / SIDE, self.next / TILE % 2, self.next % TILE);
            let rows = row..TILE.min(row + end - self.next);
            self.next += rows.len();
            let from = self.from[panel];
            if from.is_null() {
                continue;
            }
            let first = step * STEP;
            let of_step = RowsOfB { from: from.wrapping_add(first * BLOCK), count: self.count - first };
            let tile = to.wrapping_add(step * T::B * PIECE + panel * TILE_BYTES);
            for row in rows {
                // SAFETY: the caller vouches for B and for `to`.
                unsafe { M::put_b::<T>(tile.wrapping_add(row * 64), PIECE, &of_step, row) };
            }
        }
    }
}

/// 32 rows of B of which there are `count`, and zeros.
struct RowsOfB<W> {
    from: *const W,
    count: usize,
}

impl<W: Weight> Rows for RowsOfB<W> {
    #[inline(always)]
    unsafe fn row(&self, index: usize) -> __m512 {
        // SAFETY: the maker vouches for the rows that there are.
        unsafe {
            let there = index < self.count;
            let row: Avx512x16 = if there { W::load(self.from.add(index * BLOCK)) } else { Avx512x16::splat(0.0) };
            row.lanes()
        }
    }

    #[inline(always)]
    unsafe fn two(&self, index: usize) -> __m512i {
        // SAFETY: the maker vouches for the rows that there are.
        unsafe {
            match index + 1 < self.count {
                true => W::two_rows(self.from.add(index * BLOCK)),
                false => rounded([self.row(index), self.row(index + 1)]),
            }
        }
    }
}

//! How threads share a product.

#[cfg(target_arch = "x86_64")]
use super::bf16;
use super::block::{Block, Panels, Source, blocks};
use super::{Epilogue, GemmParams, block_scratch_len, check, scratch_of_one};
use crate::kernels::bf16::Unit;
use crate::kernels::isa::Isa;
use crate::kernels::parallel::{SharedMut, Threads, grid, part};
use std::ops::Range;

/// Rows and columns are cut in these units, so that only the last part has ragged tiles.
const UNIT: usize = 32;
/// Multiply-adds below which a second thread costs more than it saves.
const LEAST_WORK: usize = 64 * 1024;
/// Multiply-adds of a part, at least, where there are more parts than threads.
const LEAST_PART: usize = 1024 * 1024;
/// Parts for each thread, at most.
const PARTS: usize = 4;

/// C of a product, as [`gemm`](super::gemm) has it.
pub(super) fn run(
    threads: &Threads,
    p: &GemmParams,
    a: &[f32],
    b: Source,
    c: &mut [f32],
    e: &Epilogue<'_>,
    scratch: &mut [f32],
) {
    check(p, a, c, e);
    let each = scratch_of_one(p);
    let Some(each) = each.filter(|each| each.checked_mul(threads.count()).is_some_and(|len| scratch.len() >= len))
    else {
        panic!("the scratch is too short");
    };
    #[cfg(target_arch = "x86_64")]
    let unit = bf16::unit(threads, p).filter(|_| !matches!(b, Source::Strided(..)));
    #[cfg(not(target_arch = "x86_64"))]
    let unit = None;
    let job = Job { p, isa: threads.isa(), unit, a, b, c: SharedMut::new(c), e };
    match job.column_parts(threads) {
        Some(parts) => job.by_columns(threads, parts, scratch),
        None => job.by_parts(threads, each, scratch),
    }
}

/// A product whose lengths are checked.
struct Job<'a> {
    p: &'a GemmParams,
    isa: Isa,
    /// What computes it in bf16.
    unit: Option<Unit>,
    a: &'a [f32],
    b: Source,
    c: SharedMut<'a, f32>,
    e: &'a Epilogue<'a>,
}

impl<'a> Job<'a> {
    fn matrices(&self) -> usize {
        self.p.batch[0] * self.p.batch[1]
    }

    fn block(&self, matrix: usize, rows: Range<usize>, units: &Range<usize>) -> Block<'a> {
        let p = self.p;
        let index = [matrix / p.batch[1], matrix % p.batch[1]];
        let offset = |strides: [usize; 2]| index[0] * strides[0] + index[1] * strides[1];
        Block {
            p,
            isa: self.isa,
            rows,
            columns: units.start * UNIT..(units.end * UNIT).min(p.n),
            a: self.a.as_ptr().wrapping_add(offset(p.a_batch)),
            b: self.b.offset(offset(p.b_batch)),
            c: self.c.as_ptr().wrapping_add(offset(p.c_batch)),
            residual: self.e.residual.map(|r| r.as_ptr().wrapping_add(offset(p.c_batch))),
            bias: self.e.bias,
            act: self.e.act,
            padded: false,
        }
    }

    /// Into how many parts the columns are cut if threads pack the rows together and then take columns: more than there are threads, so
    /// that one that gets less of its core takes fewer. `None` where there is too little to do for that, or rows are the longer side.
    fn column_parts(&self, threads: &Threads) -> Option<usize> {
        let p = self.p;
        let most = p.work() / self.matrices().max(1) / LEAST_PART;
        let parts = (PARTS * threads.count()).min(most).min(p.n / (2 * UNIT));
        let pays = threads.count() > 1 && parts > threads.count() && p.n >= p.m && self.matrices() < threads.count();
        (pays && self.unit.is_none()).then_some(parts)
    }

    /// All threads pack the rows of A, each once, and then take parts of the columns.
    fn by_columns(&self, threads: &Threads, parts: usize, scratch: &mut [f32]) {
        let p = self.p;
        let Some(each) = block_scratch_len(0, p.n, p.k) else { panic!("the scratch is too short") };
        let (own, packed) = scratch.split_at_mut(each * threads.count());
        let own = SharedMut::new(own);
        let all = 0..p.n.div_ceil(UNIT);
        for (matrix, rows) in (0..self.matrices()).flat_map(|matrix| blocks(&(0..p.m)).map(move |rows| (matrix, rows)))
        {
            let panels = Panels::in_block(self.isa, p.m, &rows);
            let shared = SharedMut::new(&mut *packed);
            threads.parallel_for(panels.count(), |index| {
                // SAFETY: `check` checked that the strides stay within A; panels are disjoint.
                unsafe { self.block(matrix, 0..p.m, &all).pack(&panels, index, &shared) };
            });
            let packed = &*packed;
            threads.parallel_for_each(parts, |thread, index| {
                // SAFETY: one part of the scratch for each thread.
                let own = unsafe { own.slice(thread * each, each) };
                let block = self.block(matrix, 0..p.m, &part(all.end, parts, index));
                // SAFETY: `check` and the callers checked that the strides stay within the slices; parts are disjoint columns.
                unsafe { block.panels(&panels, packed, own) };
            });
        }
    }

    /// Threads pack what they need, each by itself: so they get few parts, of the longer side.
    fn by_parts(&self, threads: &Threads, each: usize, scratch: &mut [f32]) {
        let p = self.p;
        let wanted = threads.count().min(p.work().div_ceil(LEAST_WORK));
        let rows_tile = match self.isa {
            _ if self.unit.is_some() => UNIT,
            Isa::Avx512 => 14,
            _ => 6,
        };
        let (units, tiles) = (p.n.div_ceil(UNIT), p.m.div_ceil(rows_tile));
        let (column_parts, row_parts) = grid(wanted, self.matrices(), units, tiles, p.n >= p.m);
        let total = self.matrices() * row_parts * column_parts;
        let tasks = threads.count().min(total);
        let scratch = SharedMut::new(scratch);
        threads.parallel_for_each(tasks, |thread, task| {
            // SAFETY: one part of the scratch for each thread.
            let scratch = unsafe { scratch.slice(thread * each, each) };
            for at in part(total, tasks, task) {
                let (column_part, rest) = (at % column_parts, at / column_parts);
                let (row_part, matrix) = (rest % row_parts, rest / row_parts);
                let block = self.block(matrix, part(p.m, row_parts, row_part), &part(units, column_parts, column_part));
                // SAFETY: `check` and the callers checked that the strides stay within the slices; tasks write disjoint
                // rows, columns or matrices of C; the scratch was measured for both.
                unsafe {
                    #[cfg(target_arch = "x86_64")]
                    if let Some(unit) = self.unit {
                        bf16::run(&block, unit, scratch);
                        continue;
                    }
                    block.run(scratch);
                }
            }
        });
    }
}

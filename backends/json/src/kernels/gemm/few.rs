//! Products with one to four rows and a packed B: for each matrix of a batch every panel is read once, in order, and its sums stay
//! in registers, so memory bandwidth is the limit.

use std::ops::Range;

use super::gemv::finish;
use super::{Epilogue, GemmParams};
use crate::kernels::isa::{Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;
use crate::kernels::weights::Weight;

/// How far ahead a panel is fetched, in bytes: the hardware stops at the borders of pages.
const AHEAD: usize = 2048;

/// C of a product that is [`GemmParams::small`]; the lengths are checked.
pub(super) fn run<W: Weight>(
    threads: &Threads,
    p: &GemmParams,
    a: &[f32],
    packed: &[W],
    c: &mut [f32],
    e: &Epilogue<'_>,
) {
    let panels = p.n.div_ceil(BLOCK);
    let matrices = p.batch[0] * p.batch[1];
    if p.m == 0 || panels * matrices == 0 {
        return;
    }
    let work = matrices.saturating_mul(p.n).saturating_mul(p.k);
    let tasks = threads.count().min(work.div_ceil(16 * 1024)).clamp(1, panels);
    let out = SharedMut::new(c);
    threads.parallel_for(tasks, |task| {
        let panels = part(panels, tasks, task);
        let columns = panels.start * BLOCK..(panels.end * BLOCK).min(p.n);
        for matrix in 0..matrices {
            let index = [matrix / p.batch[1], matrix % p.batch[1]];
            let offset = |strides: [usize; 2]| index[0] * strides[0] + index[1] * strides[1];
            let (a, start) = (a.get(offset(p.a_batch)..).unwrap_or_default(), offset(p.c_batch));
            let c = out.as_ptr().wrapping_add(start);
            dispatch(threads.isa(), Few { p, a, packed, panels: panels.clone(), c });
            for row in 0..p.m {
                let first = start + row * p.c_row + columns.start;
                // SAFETY: tasks write disjoint columns.
                let y = unsafe { out.slice(first, columns.len()) };
                let residual = e.residual.map(|r| &r[first..][..columns.len()]);
                finish(threads.isa(), e, row, columns.clone(), residual, y);
            }
        }
    });
}

/// Some panels of one matrix. `c` points to its C, all rows of which are valid and, in these columns, nobody else's.
struct Few<'a, W> {
    p: &'a GemmParams,
    a: &'a [f32],
    packed: &'a [W],
    panels: Range<usize>,
    c: *mut f32,
}

impl<W: Weight> Kernel for Few<'_, W> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        // SAFETY: `dispatch` checked the features.
        unsafe {
            // Panels that are read at a time, as memory gives more of several streams, and sums of each: as many as stay in the 32
            // registers of AVX-512, the 16 of others.
            match (self.p.m, V::REGISTERS) {
                (1, 1) => self.rows::<V, 1, 4, 4>(),
                (2, 1) => self.rows::<V, 2, 4, 2>(),
                (3, 1) => self.rows::<V, 3, 4, 2>(),
                (4, 1) => self.rows::<V, 4, 4, 1>(),
                (1, 2) => self.rows::<V, 1, 2, 2>(),
                (2, 2) => self.rows::<V, 2, 2, 1>(),
                (1, _) => self.rows::<V, 1, 1, 2>(),
                (2, _) => self.rows::<V, 2, 1, 1>(),
                (3, _) => self.rows::<V, 3, 1, 1>(),
                (4, _) => self.rows::<V, 4, 1, 1>(),
                _ => unreachable!("few rows"),
            }
        }
    }
}

impl<W: Weight> Few<'_, W> {
    /// `ROWS` rows of all panels, `PANELS` at a time.
    ///
    /// # Safety
    /// The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn rows<V: V16, const ROWS: usize, const PANELS: usize, const SUMS: usize>(&self) {
        let (p, [row, column]) = (self.p, self.p.a);
        assert!(p.k == 0 || self.a.len() > (ROWS - 1) * row + (p.k - 1) * column, "A is too short");
        let mut panel = self.panels.start;
        // SAFETY: the assertion covers A, the caller vouches for the features.
        unsafe {
            while panel + PANELS <= self.panels.end {
                self.some::<V, ROWS, PANELS, SUMS>(panel);
                panel += PANELS;
            }
            while panel < self.panels.end {
                self.some::<V, ROWS, 1, SUMS>(panel);
                panel += 1;
            }
        }
    }

    /// `PANELS` panels, the first of which is `first`.
    ///
    /// # Safety
    /// The CPU has the features of `V`; A has `ROWS` rows of k columns.
    #[inline(always)]
    unsafe fn some<V: V16, const ROWS: usize, const PANELS: usize, const SUMS: usize>(&self, first: usize) {
        let (p, [row, column]) = (self.p, self.p.a);
        let b = self.packed[first * p.k * BLOCK..][..PANELS * p.k * BLOCK].as_ptr();
        let a = self.a.as_ptr();
        // SAFETY: the slice covers the panels, k rows of 16 each, the caller vouches for A; what is fetched ahead is not read.
        unsafe {
            let mut sums = [[[V::splat(0.0); SUMS]; PANELS]; ROWS];
            let mut at = 0;
            while at + SUMS <= p.k {
                for s in 0..SUMS {
                    for panel in 0..PANELS {
                        let from = b.add((panel * p.k + at + s) * BLOCK);
                        V::prefetch(from.cast::<u8>().wrapping_add(AHEAD).cast());
                        let b: V = W::load(from);
                        for (r, sums) in sums.iter_mut().enumerate() {
                            let a = V::splat(*a.add(r * row + (at + s) * column));
                            sums[panel][s] = b.fma(a, sums[panel][s]);
                        }
                    }
                }
                at += SUMS;
            }
            for at in at..p.k {
                for panel in 0..PANELS {
                    let b: V = W::load(b.add((panel * p.k + at) * BLOCK));
                    for (r, sums) in sums.iter_mut().enumerate() {
                        sums[panel][0] = b.fma(V::splat(*a.add(r * row + at * column)), sums[panel][0]);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                for (panel, sums) in sums.iter().enumerate() {
                    let start = (first + panel) * BLOCK;
                    self.store(self.c.add(r * p.c_row + start), BLOCK.min(p.n - start), sums);
                }
            }
        }
    }

    /// The sum of sums, times alpha, with beta of what was there.
    ///
    /// # Safety
    /// The CPU has the features of `V`; `width` values, 1 to 16, can be read and written.
    #[inline(always)]
    unsafe fn store<V: V16, const SUMS: usize>(&self, to: *mut f32, width: usize, sums: &[V; SUMS]) {
        // SAFETY: the caller vouches for it.
        unsafe {
            let mut sum = sums[0];
            for &other in &sums[1..] {
                sum = sum.add(other);
            }
            if self.p.alpha != 1.0 {
                sum = sum.mul(V::splat(self.p.alpha));
            }
            if self.p.beta != 0.0 {
                sum = V::load_up_to(to, width).fma(V::splat(self.p.beta), sum);
            }
            sum.store_up_to(to, width);
        }
    }
}

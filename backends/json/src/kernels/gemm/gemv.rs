//! Products with one to four rows: B is read once, in order, so memory bandwidth is the limit.

use super::{Bias, Epilogue, GemmParams};
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;
use std::ops::Range;

/// Whether B is contiguous along rows or columns.
pub(super) fn supports(p: &GemmParams) -> bool {
    p.b[0] == 1 || p.b[1] == 1
}

/// Rows of B that are added at a time when it is row-major.
const AT_ONCE: usize = 8;

/// Elements of B that stay in the first-level cache.
const CACHED: usize = 4096;

/// Columns summed at a time when B is row-major: a strip of C stays in the first-level cache.
const STRIP: usize = 2048;

pub(super) fn run(threads: &Threads, p: &GemmParams, a: &[f32], b: &[f32], c: &mut [f32], e: &Epilogue<'_>) {
    if p.n == 0 {
        return;
    }
    let matrices = p.batch[0] * p.batch[1];
    let work = matrices.saturating_mul(p.n).saturating_mul(p.k);
    let wanted = threads.count().min(work.div_ceil(16 * 1024)).max(1);
    let column_parts = if matrices.is_multiple_of(wanted) { 1 } else { wanted.min(p.n.div_ceil(16)).max(1) };
    let total = matrices * column_parts;
    let out = SharedMut::new(c);
    threads.parallel_for(wanted.min(total), |task| {
        for at in part(total, wanted.min(total), task) {
            let (column_part, matrix) = (at % column_parts, at / column_parts);
            let units = part(p.n.div_ceil(16), column_parts, column_part);
            let columns = units.start * 16..(units.end * 16).min(p.n);
            let index = [matrix / p.batch[1], matrix % p.batch[1]];
            let offset = |strides: [usize; 2]| index[0] * strides[0] + index[1] * strides[1];
            let (a, b, c) = (from(a, offset(p.a_batch)), from(b, offset(p.b_batch)), offset(p.c_batch));
            for row in 0..p.m {
                // SAFETY: tasks write disjoint columns or matrices.
                let y = unsafe { out.slice(c + row * p.c_row + columns.start, columns.len()) };
                let a = Vector { data: from(a, row * p.a[0]), stride: p.a[1] };
                let line = Line { p, a, b, columns: columns.clone() };
                dispatch(threads.isa(), Product { line: &line, y });
                let residual = e.residual.map(|r| &r[c + row * p.c_row + columns.start..][..columns.len()]);
                finish(threads.isa(), e, row, columns.clone(), residual, y);
            }
        }
    });
}

/// One product without batch or epilogue on the calling thread.
///
/// # Safety
/// `c` is valid for the rows and columns of C, and is not accessed by anything else.
pub(super) unsafe fn on_this_thread(isa: Isa, p: &GemmParams, a: &[f32], b: &[f32], c: *mut f32) {
    // Parts of B that stay in the cache until every row has met them. A sum over k stays in one order.
    let (columns, inner) = match p.b[1] {
        1 => (p.n, (CACHED / p.n.max(1)).next_multiple_of(AT_ONCE)),
        _ => ((CACHED / p.k.max(1)).max(1), p.k),
    };
    for start in (0..p.n).step_by(columns.max(1)) {
        let columns = start..(start + columns).min(p.n);
        // Of no elements the sum is there, too.
        for first in (0..p.k.max(1)).step_by(inner.max(1)) {
            let part =
                GemmParams { k: inner.min(p.k - first), beta: if first == 0 { p.beta } else { 1.0 }, ..p.clone() };
            for row in 0..p.m {
                // SAFETY: the caller vouches for the rows of C.
                let y = unsafe { std::slice::from_raw_parts_mut(c.add(row * p.c_row + start), columns.len()) };
                let a = Vector { data: from(a, row * p.a[0] + first * p.a[1]), stride: p.a[1] };
                let line = Line { p: &part, a, b: from(b, first * p.b[0]), columns: columns.clone() };
                dispatch(isa, Product { line: &line, y });
            }
        }
    }
}

/// The elements from `start` on: none where there are none, wherever the strides of an empty matrix lead.
fn from(data: &[f32], start: usize) -> &[f32] {
    data.get(start..).unwrap_or_default()
}

/// A row of A.
struct Vector<'a> {
    data: &'a [f32],
    stride: usize,
}

/// One row of the product, for some columns.
struct Line<'a> {
    p: &'a GemmParams,
    a: Vector<'a>,
    b: &'a [f32],
    columns: Range<usize>,
}

/// Adds bias and residual to some columns of a row, and applies the activation.
pub(super) fn finish(
    isa: Isa,
    e: &Epilogue<'_>,
    row: usize,
    columns: Range<usize>,
    residual: Option<&[f32]>,
    y: &mut [f32],
) {
    match e.bias {
        Bias::None => {}
        Bias::PerRow(b) => y.iter_mut().for_each(|v| *v += b[row]),
        Bias::PerCol(b) => y.iter_mut().zip(&b[columns]).for_each(|(v, b)| *v += b),
    }
    if let Some(r) = residual {
        y.iter_mut().zip(r).for_each(|(v, r)| *v += r);
    }
    e.act.apply(isa, y);
}

struct Product<'a> {
    line: &'a Line<'a>,
    y: &'a mut [f32],
}

impl Kernel for Product<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let beta = self.line.p.beta;
        if self.line.p.b[1] == 1 {
            if beta == 0.0 {
                self.y.fill(0.0);
            } else if beta != 1.0 {
                self.y.iter_mut().for_each(|v| *v *= beta);
            }
            for (i, y) in self.y.chunks_mut(STRIP).enumerate() {
                // SAFETY: `dispatch` checked the features.
                unsafe { self.line.add_rows::<V>(self.line.columns.start + i * STRIP, y) };
            }
        } else {
            for (i, y) in self.y.iter_mut().enumerate() {
                // SAFETY: `dispatch` checked the features.
                let dot = unsafe { self.line.dot::<V>(self.line.columns.start + i) };
                *y = dot * self.line.p.alpha + if beta == 0.0 { 0.0 } else { beta * *y };
            }
        }
    }
}

impl Line<'_> {
    /// y += alpha * a * B[.., first..], eight rows of B at a time.
    ///
    /// # Safety
    /// The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn add_rows<V: V16>(&self, first: usize, y: &mut [f32]) {
        let (k, row) = (self.p.k, self.p.b[0]);
        for k0 in (0..k).step_by(AT_ONCE) {
            let count = AT_ONCE.min(k - k0);
            let mut factors = [0.0; AT_ONCE];
            // Past the end a row is multiplied by 0; it is the last row again, so it exists (and 0 * inf is avoided
            // below by leaving it out).
            for (i, f) in factors.iter_mut().enumerate().take(count) {
                *f = self.a.data[(k0 + i) * self.a.stride] * self.p.alpha;
            }
            let rows = from(self.b, k0 * row + first);
            assert!(rows.len() >= (count - 1) * row + y.len());
            let mut j = 0;
            while j < y.len() {
                let width = (y.len() - j).min(16);
                // SAFETY: the assertion covers `count` rows of `y.len()` columns.
                unsafe {
                    let mut sum = V::load_up_to(y.as_ptr().add(j), width);
                    for (i, f) in factors.iter().enumerate() {
                        if i < count {
                            let from = rows.as_ptr().add(i * row + j);
                            let b = if width == 16 { V::load(from) } else { V::load_part(from, width, 0.0) };
                            sum = b.fma(V::splat(*f), sum);
                        }
                    }
                    if width == 16 {
                        sum.store(y.as_mut_ptr().add(j))
                    } else {
                        sum.store_part(y.as_mut_ptr().add(j), width)
                    }
                }
                j += 16;
            }
        }
    }

    /// The product with one contiguous column of B.
    ///
    /// # Safety
    /// The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn dot<V: V16>(&self, column: usize) -> f32 {
        const SUMS: usize = 4;
        let k = self.p.k;
        let b = &from(self.b, column * self.p.b[1])[..k];
        if self.a.stride != 1 {
            return b.iter().enumerate().map(|(i, b)| b * self.a.data[i * self.a.stride]).sum();
        }
        let a = &self.a.data[..k];
        let mut i = 0;
        // SAFETY: every access is below k.
        unsafe {
            let mut sums = [V::splat(0.0); SUMS];
            while i + SUMS * 16 <= k {
                for (s, sum) in sums.iter_mut().enumerate() {
                    let at = i + s * 16;
                    *sum = V::load(a.as_ptr().add(at)).fma(V::load(b.as_ptr().add(at)), *sum);
                }
                i += SUMS * 16;
            }
            let mut sum = sums[0].add(sums[1]).add(sums[2].add(sums[3]));
            while i < k {
                let width = (k - i).min(16);
                let av = V::load_part(a.as_ptr().add(i), width, 0.0);
                sum = av.fma(V::load_part(b.as_ptr().add(i), width, 0.0), sum);
                i += width;
            }
            sum.sum()
        }
    }
}

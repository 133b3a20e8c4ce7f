//! Reductions over the middle dimension of [outer][len][inner].

use serde::{Deserialize, Serialize};

use super::activation::parts_of;
use super::isa::{Kernel, dispatch};
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;
use super::sizes::product;

/// What a reduction computes; NaN where a NaN is among the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduce {
    /// Sum.
    Sum,
    /// Arithmetic mean.
    Mean,
    /// Largest.
    Max,
    /// Smallest.
    Min,
    /// Product.
    Prod,
    /// Sum of squares.
    SumSquare,
    /// Sum of magnitudes.
    L1,
    /// Root of the sum of squares.
    L2,
}

impl Reduce {
    pub(crate) fn start(self) -> f32 {
        match self {
            Reduce::Max => f32::NEG_INFINITY,
            Reduce::Min => f32::INFINITY,
            Reduce::Prod => 1.0,
            _ => 0.0,
        }
    }

    /// One more value into the accumulator.
    #[inline(always)]
    pub(crate) fn step<V: V16>(self, acc: V, x: V) -> V {
        match self {
            Reduce::Sum | Reduce::Mean => acc.add(x),
            // `max` and `min` return their second operand where one is NaN.
            Reduce::Max => acc.nan_or(acc.max(x)),
            Reduce::Min => acc.nan_or(acc.min(x)),
            Reduce::Prod => acc.mul(x),
            Reduce::SumSquare | Reduce::L2 => x.fma(x, acc),
            Reduce::L1 => acc.add(x.abs()),
        }
    }

    /// Two partial results into one, lane by lane.
    #[inline(always)]
    fn join<V: V16>(self, a: V, b: V) -> V {
        match self {
            Reduce::Max => a.nan_or(a.max(b)),
            Reduce::Min => a.nan_or(a.min(b)),
            Reduce::Prod => a.mul(b),
            _ => a.add(b),
        }
    }

    pub(crate) fn end(self, acc: f32, len: usize) -> f32 {
        match self {
            Reduce::Mean => acc / len as f32,
            Reduce::L2 => acc.sqrt(),
            _ => acc,
        }
    }
}

/// y[o][i] = op over l of x[o][l][i].
///
/// # Panics
/// If a length is wrong.
pub fn reduce(threads: &Threads, op: Reduce, outer: usize, len: usize, inner: usize, x: &[f32], y: &mut [f32]) {
    assert_eq!(Some(x.len()), product(&[outer, len, inner]));
    assert_eq!(Some(y.len()), product(&[outer, inner]));
    // Strips of 64 columns of one outer index, or whole rows.
    let width = if inner == 1 { 1 } else { inner.min(64) };
    let strips = inner.div_ceil(width.max(1));
    let total = outer * strips;
    let parts = parts_of(threads, x.len()).min(total.max(1));
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |i| {
        for at in part(total, parts, i) {
            let (o, start) = (at / strips, at % strips * width);
            let count = width.min(inner - start);
            // SAFETY: strips are disjoint.
            let y = unsafe { out.slice(o * inner + start, count) };
            let x = &x[o * len * inner..][..len * inner];
            if inner == 1 {
                y[0] = op.end(dispatch(threads.isa(), Row { op, x }), len);
            } else {
                dispatch(threads.isa(), Columns { op, x: &x[start.min(x.len())..], len, inner, y });
                y.iter_mut().for_each(|v| *v = op.end(*v, len));
            }
        }
    });
}

/// The reduction of a contiguous row, before [`Reduce::end`].
pub(crate) struct Row<'a> {
    pub(crate) op: Reduce,
    pub(crate) x: &'a [f32],
}

impl Kernel for Row<'_> {
    type Out = f32;

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> f32 {
        let op = self.op;
        // SAFETY: `dispatch` checked the features; chunks hold 16 values.
        unsafe {
            let mut acc = [V::splat(op.start()); 4];
            let mut chunks = self.x.chunks_exact(64);
            for chunk in &mut chunks {
                for (i, a) in acc.iter_mut().enumerate() {
                    *a = op.step(*a, V::load(chunk.as_ptr().add(i * 16)));
                }
            }
            let mut whole = chunks.remainder().chunks_exact(16);
            for chunk in &mut whole {
                acc[0] = op.step(acc[0], V::load(chunk.as_ptr()));
            }
            let rest = whole.remainder();
            if !rest.is_empty() {
                // The missing lanes change nothing.
                acc[1] = op.step(acc[1], V::load_part(rest.as_ptr(), rest.len(), op.start()));
            }
            let acc = op.join(op.join(acc[0], acc[1]), op.join(acc[2], acc[3]));
            let acc = op.join(acc, acc.upper::<8>());
            let acc = op.join(acc, acc.upper::<4>());
            let acc = op.join(acc, acc.upper::<2>());
            op.join(acc, acc.upper::<1>()).lanes()[0]
        }
    }
}

/// Rows that are summed by themselves, in four sums: one sum of many rows would round each time to the size of all of them.
const STRIP: usize = 256;

/// The reductions of up to 64 columns of a matrix, before [`Reduce::end`].
struct Columns<'a> {
    op: Reduce,
    x: &'a [f32],
    len: usize,
    inner: usize,
    y: &'a mut [f32],
}

impl Columns<'_> {
    /// The `width` values from column `at * 16` on of a row.
    ///
    /// # Safety
    /// They are there, and the processor has the features of `V`.
    #[inline(always)]
    unsafe fn load<V: V16>(&self, row: usize, at: usize, width: usize) -> V {
        // SAFETY: the caller says so.
        unsafe {
            let from = self.x.as_ptr().add(row * self.inner + at * 16);
            if width == 16 { V::load(from) } else { V::load_part(from, width, 0.0) }
        }
    }
}

impl Kernel for Columns<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let op = self.op;
        let columns = self.y.len();
        for at in 0..columns.div_ceil(16) {
            let width = (columns - at * 16).min(16);
            // SAFETY: `dispatch` checked the features; row l holds `width` values from `at * 16`.
            unsafe {
                let mut all = V::splat(op.start());
                for start in (0..self.len).step_by(STRIP) {
                    let mut acc = [V::splat(op.start()); 4];
                    let end = (start + STRIP).min(self.len);
                    let mut row = start;
                    while row + acc.len() <= end {
                        for (i, acc) in acc.iter_mut().enumerate() {
                            *acc = op.step(*acc, self.load(row + i, at, width));
                        }
                        row += acc.len();
                    }
                    for row in row..end {
                        acc[0] = op.step(acc[0], self.load(row, at, width));
                    }
                    all = op.join(all, op.join(op.join(acc[0], acc[1]), op.join(acc[2], acc[3])));
                }
                all.store_part(self.y[at * 16..].as_mut_ptr(), width);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;

    #[test]
    fn against_f64() {
        for (outer, len, inner) in [(1, 1, 1), (3, 100, 1), (2, 1000, 1), (5, 7, 3), (2, 9, 100), (40, 300, 2)] {
            let x: Vec<f32> = (0..outer * len * inner).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 1.0).collect();
            for op in [
                Reduce::Sum,
                Reduce::Mean,
                Reduce::Max,
                Reduce::Min,
                Reduce::Prod,
                Reduce::SumSquare,
                Reduce::L1,
                Reduce::L2,
            ] {
                for &isa in Isa::available() {
                    for count in [1, 2] {
                        let mut y = vec![0.0; outer * inner];
                        reduce(&Threads::with_isa(count, isa), op, outer, len, inner, &x, &mut y);
                        for (at, got) in y.iter().enumerate() {
                            let values: Vec<f64> =
                                (0..len).map(|l| f64::from(x[(at / inner * len + l) * inner + at % inner])).collect();
                            let sum: f64 = values.iter().sum();
                            let square: f64 = values.iter().map(|v| v * v).sum();
                            let want = match op {
                                Reduce::Sum => sum,
                                Reduce::Mean => sum / len as f64,
                                Reduce::Max => values.iter().fold(f64::MIN, |a, b| a.max(*b)),
                                Reduce::Min => values.iter().fold(f64::MAX, |a, b| a.min(*b)),
                                Reduce::Prod => values.iter().product(),
                                Reduce::SumSquare => square,
                                Reduce::L1 => values.iter().map(|v| v.abs()).sum(),
                                Reduce::L2 => square.sqrt(),
                            };
                            assert!((f64::from(*got) - want).abs() < 1e-5 * (1.0 + want.abs()), "{op:?} {got} {want}");
                        }
                    }
                }
            }
        }
    }

    /// Sums of equal numbers round in the same direction, again and again.
    #[test]
    fn sums_of_many_rows_stay_exact() {
        let len = 1 << 18;
        for inner in [1, 2, 16] {
            let x = vec![0.1; len * inner];
            for &isa in Isa::available() {
                let mut y = vec![0.0; inner];
                reduce(&Threads::with_isa(1, isa), Reduce::Mean, 1, len, inner, &x, &mut y);
                assert!(y.iter().all(|mean| (mean - 0.1).abs() < 1e-5), "{isa:?}, {inner}: {y:?}");
            }
        }
    }

    #[test]
    fn not_a_number_anywhere_in_a_row_is_the_result() {
        for at in 0..85 {
            let mut x: Vec<f32> = (0..85).map(|i| i as f32 - 40.0).collect();
            x[at] = f32::NAN;
            for op in [Reduce::Sum, Reduce::Max, Reduce::Min, Reduce::Prod, Reduce::L1, Reduce::L2] {
                for &isa in Isa::available() {
                    let mut y = [0.0];
                    reduce(&Threads::with_isa(1, isa), op, 1, 85, 1, &x, &mut y);
                    assert!(y[0].is_nan(), "{op:?} {isa:?} {at}: {}", y[0]);
                }
            }
        }
    }
}

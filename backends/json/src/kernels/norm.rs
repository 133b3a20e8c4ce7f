//! Softmax, layer normalisation and RMS normalisation.

use super::activation::parts_of;
use super::isa::{Kernel, dispatch};
use super::math;
use super::parallel::{SharedMut, Threads, part};
use super::reduce::{Reduce, Row};
use super::simd::V16;
use super::sizes::product;

/// Softmax (or its logarithm) over the middle dimension of [outer][len][inner], in place.
///
/// # Panics
/// If the length is wrong.
pub fn softmax(threads: &Threads, outer: usize, len: usize, inner: usize, log: bool, x: &mut [f32]) {
    assert_eq!(Some(x.len()), product(&[outer, len, inner]));
    let parts = parts_of(threads, x.len()).min((outer * inner).max(1));
    let out = SharedMut::new(x);
    if inner == 1 {
        threads.parallel_for(parts, |i| {
            for row in part(outer, parts, i) {
                // SAFETY: rows are disjoint.
                let row = unsafe { out.slice(row * len, len) };
                dispatch(threads.isa(), Softmax { row, log });
            }
        });
        return;
    }
    let strips = inner.div_ceil(STRIP);
    let parts = parts.min((outer * strips).max(1));
    threads.parallel_for(parts, |i| {
        for at in part(outer * strips, parts, i) {
            let first = at % strips * STRIP;
            let start = (at / strips) * len * inner + first;
            let x = out.as_ptr().wrapping_add(start);
            // SAFETY: the strips of columns are disjoint and in bounds.
            dispatch(threads.isa(), Columns { x, len, step: inner, width: STRIP.min(inner - first), log });
        }
    });
}

/// Columns at a time: they are read row by row, so that neighbours come together.
const STRIP: usize = 512;

/// Softmax of up to [`STRIP`] columns of `len` values, which are `step` apart.
struct Columns {
    x: *mut f32,
    len: usize,
    step: usize,
    width: usize,
    log: bool,
}

impl Kernel for Columns {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Columns { x, len, step, width, log } = self;
        let (mut largest, mut sums) = ([f32::NEG_INFINITY; STRIP], [0.0; STRIP]);
        // SAFETY: `dispatch` checked the features; every access is to `width` columns of the `len` rows, or to as many
        // elements of the two arrays.
        unsafe {
            for row in 0..len {
                for j in (0..width).step_by(16) {
                    let known = V::load(largest.as_ptr().add(j));
                    let v = V::load_up_to(x.add(row * step + j), width - j);
                    v.max(known).store(largest.as_mut_ptr().add(j));
                }
            }
            for row in 0..len {
                for j in (0..width).step_by(16) {
                    let at = x.add(row * step + j);
                    let e = math::exp(V::load_up_to(at, width - j).sub(V::load(largest.as_ptr().add(j))));
                    V::load(sums.as_ptr().add(j)).add(e).store(sums.as_mut_ptr().add(j));
                    if !log {
                        e.store_up_to(at, width - j);
                    }
                }
            }
            let mut j = 0;
            while j < width {
                sums[j] = if log { sums[j].ln() } else { 1.0 / sums[j] };
                j += 1;
            }
            for row in 0..len {
                for j in (0..width).step_by(16) {
                    let at = x.add(row * step + j);
                    let (v, with) = (V::load_up_to(at, width - j), V::load(sums.as_ptr().add(j)));
                    // One after the other: the sum of the two would round off what is small beside a large number.
                    let v = if log { v.sub(V::load(largest.as_ptr().add(j))).sub(with) } else { v.mul(with) };
                    v.store_up_to(at, width - j);
                }
            }
        }
    }
}

/// Softmax of one contiguous row.
pub(crate) struct Softmax<'a> {
    pub(crate) row: &'a mut [f32],
    pub(crate) log: bool,
}

impl Kernel for Softmax<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        // SAFETY: `dispatch` checked the features.
        unsafe {
            let largest = Row { op: Reduce::Max, x: self.row }.run::<V>();
            let sum = exp_sum::<V>(self.row, largest, !self.log);
            if self.log {
                let (largest, ln) = (V::splat(largest), V::splat(sum.ln()));
                for i in (0..self.row.len()).step_by(16) {
                    let (at, width) = (self.row.as_mut_ptr().add(i), self.row.len() - i);
                    V::load_up_to(at, width).sub(largest).sub(ln).store_up_to(at, width);
                }
            } else {
                let scale = 1.0 / sum;
                self.row.iter_mut().for_each(|v| *v *= scale);
            }
        }
    }
}

/// The exponentials of a contiguous row less its largest number, into places for 16 values each; returns one over their sum, by which
/// they are to be multiplied to be a softmax.
pub(crate) struct ExpInto<'a> {
    pub(crate) row: &'a [f32],
    pub(crate) to: *mut f32,
    /// From each 16 values to the next.
    pub(crate) step: usize,
    /// Places; those past the row become zeros.
    pub(crate) places: usize,
}

impl Kernel for ExpInto<'_> {
    type Out = f32;

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> f32 {
        let ExpInto { row, to, step, places } = self;
        let (whole, left) = (row.len() / 16, row.len() % 16);
        // SAFETY: `dispatch` checked the features; the maker of `ExpInto` vouches for the places.
        unsafe {
            let shift = V::splat(largest_number::<V>(row));
            let mut sum = V::splat(0.0);
            for place in 0..whole {
                let e = math::exp_of_negative(V::load(row.as_ptr().add(place * 16)).sub(shift));
                sum = sum.add(e);
                e.store(to.add(place * step));
            }
            let mut done = whole;
            if left > 0 {
                // e^-infinity is 0: the missing lanes do not count.
                let last = V::load_part(row.as_ptr().add(whole * 16), left, f32::NEG_INFINITY);
                let e = math::exp_of_negative(last.sub(shift));
                sum = sum.add(e);
                e.store(to.add(whole * step));
                done += 1;
            }
            (done..places).for_each(|place| V::splat(0.0).store(to.add(place * step)));
            1.0 / sum.sum()
        }
    }
}

/// The largest of a row, but for what is not a number.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
unsafe fn largest_number<V: V16>(row: &[f32]) -> f32 {
    // SAFETY: every access is within the row. `max` is its second operand where one is not a number.
    unsafe {
        let none = V::splat(f32::NEG_INFINITY);
        let (mut a, mut b, mut c, mut d) = (none, none, none, none);
        let mut at = 0;
        while at + 64 <= row.len() {
            let from = row.as_ptr().add(at);
            a = V::load(from).max(a);
            b = V::load(from.add(16)).max(b);
            c = V::load(from.add(32)).max(c);
            d = V::load(from.add(48)).max(d);
            at += 64;
        }
        while at < row.len() {
            a = V::load_part(row.as_ptr().add(at), (row.len() - at).min(16), f32::NEG_INFINITY).max(a);
            at += 16;
        }
        let mut lanes = [0.0; 16];
        a.max(b).max(c.max(d)).store(lanes.as_mut_ptr());
        lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
}

/// The sum of e^(x - shift) over a row, which is replaced by the exponentials if `store`.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
pub(crate) unsafe fn exp_sum<V: V16>(row: &mut [f32], shift: f32, store: bool) -> f32 {
    // SAFETY: every access is within the row.
    unsafe {
        let shift = V::splat(shift);
        let mut sum = V::splat(0.0);
        let mut chunks = row.chunks_exact_mut(16);
        for chunk in &mut chunks {
            let e = math::exp(V::load(chunk.as_ptr()).sub(shift));
            sum = sum.add(e);
            if store {
                e.store(chunk.as_mut_ptr());
            }
        }
        let rest = chunks.into_remainder();
        if !rest.is_empty() {
            // e^-infinity is 0: the missing lanes do not count.
            let x = V::load_part(rest.as_ptr(), rest.len(), f32::NEG_INFINITY);
            let e = math::exp(x.sub(shift));
            // Where the shift is not a number, or infinite, so is the sum.
            sum = sum.add(e);
            if store {
                e.store_part(rest.as_mut_ptr(), rest.len());
            }
        }
        sum.sum()
    }
}

/// The shape of a normalisation over rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormParams {
    /// Rows, each normalised alone.
    pub rows: usize,
    /// Values of a row.
    pub cols: usize,
    /// Added to the variance.
    pub eps: f32,
    /// RMS normalisation: the mean is taken as 0.
    pub rms: bool,
}

/// y = (s - mean) / sqrt(variance + eps) * scale + bias for each row of s = x + residual; `scale` and `bias` have one
/// value for each column, `sum_out` receives s.
///
/// # Panics
/// If a length is wrong.
#[expect(clippy::too_many_arguments, reason = "the operands of a normalisation")]
pub fn layer_norm(
    threads: &Threads,
    p: &NormParams,
    x: &[f32],
    residual: Option<&[f32]>,
    scale: Option<&[f32]>,
    bias: Option<&[f32]>,
    sum_out: Option<&mut [f32]>,
    y: &mut [f32],
) {
    let len = x.len();
    assert_eq!(Some(len), product(&[p.rows, p.cols]));
    assert_eq!(y.len(), len);
    assert!(residual.is_none_or(|r| r.len() == len));
    assert!(sum_out.as_ref().is_none_or(|s| s.len() == len));
    assert!(scale.is_none_or(|s| s.len() == p.cols) && bias.is_none_or(|b| b.len() == p.cols));
    let parts = parts_of(threads, len).min(p.rows.max(1));
    let (out, sums) = (SharedMut::new(y), sum_out.map(SharedMut::new));
    threads.parallel_for(parts, |i| {
        for row in part(p.rows, parts, i) {
            let at = row * p.cols;
            // SAFETY: rows are disjoint.
            let (y, sum) = unsafe { (out.slice(at, p.cols), sums.map(|s| s.slice(at, p.cols))) };
            match residual {
                Some(r) => {
                    let pairs = x[at..at + p.cols].iter().zip(&r[at..at + p.cols]);
                    y.iter_mut().zip(pairs).for_each(|(y, (x, r))| *y = x + r);
                }
                None => y.copy_from_slice(&x[at..at + p.cols]),
            }
            if let Some(sum) = sum {
                sum.copy_from_slice(y);
            }
            dispatch(threads.isa(), Norm { p, row: y, scale, bias });
        }
    });
}

/// Normalises one row in place.
struct Norm<'a> {
    p: &'a NormParams,
    row: &'a mut [f32],
    scale: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
}

impl Kernel for Norm<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let cols = self.p.cols;
        // SAFETY: `dispatch` checked the features; every access is within a row of `cols` values.
        unsafe {
            let mean = if self.p.rms { 0.0 } else { Row { op: Reduce::Sum, x: self.row }.run::<V>() / cols as f32 };
            // Two passes over a row in cache: the variance as a difference of squares would cancel.
            let m = V::splat(mean);
            let mut squares = V::splat(0.0);
            for at in (0..cols).step_by(16) {
                let width = (cols - at).min(16);
                let d = V::load_part(self.row.as_ptr().add(at), width, mean).sub(m);
                squares = d.fma(d, squares);
            }
            // Missing lanes are `mean`, so they add exactly 0.
            let factor = V::splat(1.0 / (squares.sum() / cols as f32 + self.p.eps).sqrt());
            for at in (0..cols).step_by(16) {
                let width = (cols - at).min(16);
                let v = V::load_part(self.row.as_ptr().add(at), width, mean).sub(m).mul(factor);
                let scale = self.scale.map_or(std::ptr::null(), |s| s.as_ptr().add(at));
                let bias = self.bias.map_or(std::ptr::null(), |b| b.as_ptr().add(at));
                let v = v.fma(column_values(scale, width, 1.0), column_values(bias, width, 0.0));
                v.store_up_to(self.row.as_mut_ptr().add(at), width);
            }
        }
    }
}

/// Up to 16 values from `p`, or `absent` if it is null.
///
/// # Safety
/// The CPU has the features of `V`; `p` is null or valid for `width` values.
#[inline(always)]
unsafe fn column_values<V: V16>(p: *const f32, width: usize, absent: f32) -> V {
    // SAFETY: the caller vouches for it.
    unsafe { if p.is_null() { V::splat(absent) } else { V::load_up_to(p, width) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;

    fn values(len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7919) % 211) as f32 / 20.0 - 5.0).collect()
    }

    #[test]
    fn softmax_against_f64() {
        for (outer, len, inner) in
            [(1, 1, 1), (3, 5, 1), (7, 128, 1), (200, 100, 1), (2, 9, 5), (1, 300, 40), (2, 3, 1100)]
        {
            let mut x = values(outer * len * inner);
            if outer > 1 {
                x[..len].fill(f32::NEG_INFINITY);
                x[0] = 100.0;
            }
            for log in [false, true] {
                for &isa in Isa::available() {
                    let mut y = x.clone();
                    softmax(&Threads::with_isa(2, isa), outer, len, inner, log, &mut y);
                    for (i, got) in y.iter().enumerate() {
                        let base = i / inner / len * len * inner + i % inner;
                        let row: Vec<f64> = (0..len).map(|l| f64::from(x[base + l * inner])).collect();
                        let largest = row.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
                        let sum: f64 = row.iter().map(|v| (v - largest).exp()).sum();
                        let v = f64::from(x[i]) - largest;
                        let want = if log { v - sum.ln() } else { v.exp() / sum };
                        let got = f64::from(*got);
                        // The logarithm of a sum that is almost 1 is as exact as that sum.
                        let least = if log { 1.2e-7 } else { 1e-37 };
                        let close = (got - want).abs() <= 2e-6 * want.abs() + least || got == want;
                        assert!(close, "{isa:?} {log} [{i}] {got} {want}");
                    }
                }
            }
        }
    }

    #[test]
    fn norms_against_f64() {
        for (rows, cols) in [(1, 1), (3, 16), (5, 77), (128, 768)] {
            let (x, r) = (values(rows * cols), values(rows * cols + 3)[3..].to_vec());
            let (scale, bias) = (values(cols + 1)[1..].to_vec(), values(cols));
            for (rms, full) in [(false, false), (true, true), (false, true)] {
                for &isa in Isa::available() {
                    let p = NormParams { rows, cols, eps: 1e-5, rms };
                    let (mut y, mut s) = (vec![0.0; x.len()], vec![0.0; x.len()]);
                    let some = |v: &'static str| full.then_some(v);
                    layer_norm(
                        &Threads::with_isa(2, isa),
                        &p,
                        &x,
                        some("r").map(|_| &r[..]),
                        some("s").map(|_| &scale[..]),
                        some("b").map(|_| &bias[..]),
                        Some(&mut s),
                        &mut y,
                    );
                    for row in 0..rows {
                        let sum: Vec<f64> = (0..cols)
                            .map(|c| row * cols + c)
                            .map(|i| f64::from(x[i]) + if full { f64::from(r[i]) } else { 0.0 })
                            .collect();
                        let mean = if rms { 0.0 } else { sum.iter().sum::<f64>() / cols as f64 };
                        let variance = sum.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / cols as f64;
                        for c in 0..cols {
                            let v = (sum[c] - mean) / (variance + 1e-5).sqrt();
                            let want = if full { v * f64::from(scale[c]) + f64::from(bias[c]) } else { v };
                            let got = f64::from(y[row * cols + c]);
                            assert!((got - want).abs() < 1e-5 * (1.0 + want.abs()), "{isa:?} {got} {want}");
                            assert!((f64::from(s[row * cols + c]) - sum[c]).abs() < 1e-5);
                        }
                    }
                }
            }
        }
    }
}

//! Layer normalisation and RMS normalisation.

use super::activation::parts_of;
use super::isa::{Kernel, dispatch};
use super::parallel::{SharedMut, Threads, part};
use super::reduce::{Reduce, Row};
use super::simd::V16;
use super::sizes::product;

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

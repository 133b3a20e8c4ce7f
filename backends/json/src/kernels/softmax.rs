//! Softmax.

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
                    let e = math::exp_up_to_88(V::load_up_to(at, width - j).sub(V::load(largest.as_ptr().add(j))));
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
                let e = math::exp_up_to_88(V::load(row.as_ptr().add(place * 16)).sub(shift));
                sum = sum.add(e);
                e.store(to.add(place * step));
            }
            let mut done = whole;
            if left > 0 {
                // e^-infinity is 0: the missing lanes do not count.
                let last = V::load_part(row.as_ptr().add(whole * 16), left, f32::NEG_INFINITY);
                let e = math::exp_up_to_88(last.sub(shift));
                sum = sum.add(e);
                e.store(to.add(whole * step));
                done += 1;
            }
            for place in done..places {
                V::splat(0.0).store(to.add(place * step));
            }
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
        while at + 16 <= row.len() {
            a = V::load(row.as_ptr().add(at)).max(a);
            at += 16;
        }
        if at < row.len() {
            b = V::load_part(row.as_ptr().add(at), row.len() - at, f32::NEG_INFINITY).max(b);
        }
        let a = a.max(b).max(c.max(d));
        let a = a.max(a.upper::<8>());
        let a = a.max(a.upper::<4>());
        let a = a.max(a.upper::<2>());
        a.max(a.upper::<1>()).lanes()[0]
    }
}

/// The sum of e^(x - shift) over a row, which is replaced by the exponentials if `store`; no number is above the shift.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
unsafe fn exp_sum<V: V16>(row: &mut [f32], shift: f32, store: bool) -> f32 {
    // SAFETY: every access is within the row.
    unsafe {
        let shift = V::splat(shift);
        let mut sum = V::splat(0.0);
        let mut chunks = row.chunks_exact_mut(16);
        for chunk in &mut chunks {
            let e = math::exp_up_to_88(V::load(chunk.as_ptr()).sub(shift));
            sum = sum.add(e);
            if store {
                e.store(chunk.as_mut_ptr());
            }
        }
        let rest = chunks.into_remainder();
        if !rest.is_empty() {
            // e^-infinity is 0: the missing lanes do not count.
            let x = V::load_part(rest.as_ptr(), rest.len(), f32::NEG_INFINITY);
            let e = math::exp_up_to_88(x.sub(shift));
            // Where the shift is not a number, or infinite, so is the sum.
            sum = sum.add(e);
            if store {
                e.store_part(rest.as_mut_ptr(), rest.len());
            }
        }
        sum.sum()
    }
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

    /// The exponentials as the product of an attention takes them: places that are apart, and zeros behind the row.
    #[test]
    fn exponentials_and_what_divides_them() {
        for (len, with) in (1..70_usize).flat_map(|len| {
            let with = [0.0, f32::NEG_INFINITY, -1e30, f32::INFINITY, f32::NAN];
            with.map(|with| (len, with))
        }) {
            let (places, step) = (len.div_ceil(16) + 1, 48);
            for &isa in Isa::available() {
                let mut row: Vec<f32> = values(len).iter().map(|v| v * 12.0).collect();
                row[len / 2] = with;
                let mut to = vec![9.0; places * step];
                let factor = dispatch(isa, ExpInto { row: &row, to: to.as_mut_ptr(), step, places });
                let largest = row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
                // The difference is rounded to f32, which is felt where it is large.
                let want: Vec<f64> = row.iter().map(|v| f64::from(*v - largest).exp()).collect();
                let sum: f64 = want.iter().sum();
                if !sum.is_finite() {
                    assert!(factor.is_nan(), "{isa:?} {len} {with}");
                    continue;
                }
                assert!((f64::from(factor) * sum - 1.0).abs() < 1e-6, "{isa:?} {len} {with}: {factor}");
                for (at, got) in to.iter().enumerate() {
                    let index = at / step * 16 + at % step;
                    let want = match (at % step < 16, want.get(index)) {
                        (false, _) => 9.0,
                        (true, want) => want.copied().unwrap_or(0.0),
                    };
                    let close = (f64::from(*got) - want).abs() <= 1e-6 * want + 1.2e-38;
                    assert!(close, "{isa:?} {len} {with} [{at}]: {got} for {want}");
                }
            }
        }
    }
}

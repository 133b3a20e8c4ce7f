//! `Softmax`, `LogSoftmax` and `Hardmax`, along one axis.

use super::array::{Array, Item};
use super::call::{Call, Outputs, around};
use super::reduce::first_best;
use super::{FLOAT, Kernel, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Hardmax", |call| rows(call, hardmax_row), &[FLOAT]),
    kernel("LogSoftmax", |call| rows(call, log_softmax_row), &[FLOAT]),
    kernel("Softmax", |call| rows(call, softmax_row), &[FLOAT]),
];

/// Changes each row along the axis in `f64`.
fn rows(call: &Call<'_, '_>, change: fn(&mut [f64])) -> Outputs {
    let x = call.input(0)?;
    let axis = call.axis("axis", -1, x.shape().len())?;
    let mut y = x.to_f64();
    let (outer, size, inner) = around(x.shape(), axis);
    let mut row = vec![0.0; size];
    if let Some(data) = y.as_slice_mut() {
        for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
            let at = |k: usize| (o * size + k) * inner + i;
            row.iter_mut().enumerate().for_each(|(k, value)| *value = data[at(k)]);
            change(&mut row);
            row.iter().enumerate().for_each(|(k, &value)| data[at(k)] = value);
        }
    }
    Ok(vec![Array::from_f64(x.dtype(), y)])
}

/// Softmax in place.
pub(crate) fn softmax_row(row: &mut [f64]) {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, Item::larger);
    row.iter_mut().for_each(|value| *value = (*value - largest).exp());
    let total: f64 = row.iter().sum();
    row.iter_mut().for_each(|value| *value /= total);
}

/// Its logarithm, also where that of a rounded 0 is infinite.
fn log_softmax_row(row: &mut [f64]) {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, Item::larger);
    let total = row.iter().map(|value| (value - largest).exp()).sum::<f64>().ln();
    row.iter_mut().for_each(|value| *value = *value - largest - total);
}

/// 1 for the first of the largest elements, 0 for the others.
fn hardmax_row(row: &mut [f64]) {
    let best = first_best(row, false, true);
    row.iter_mut().enumerate().for_each(|(place, value)| *value = if place as i64 == best { 1.0 } else { 0.0 });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{first, tensor};

    #[test]
    fn rows_of_logarithms_and_of_the_largest() {
        let x = || tensor(&[2, 3], &[0f32, 1000.0, 1000.0, 2.0, f32::NAN, 3.0]);
        assert_eq!(first("Hardmax", &[], vec![x()]).1, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
        let logarithms = first("LogSoftmax", &[], vec![x()]).1;
        assert_eq!(logarithms[..2], [-1000.0 - 2f64.ln(), -2f64.ln()].map(|value| f64::from(value as f32)));
        assert!(logarithms[3..].iter().all(|value| value.is_nan()));
        for op in ["Hardmax", "LogSoftmax"] {
            assert_eq!(first(op, &[], vec![tensor::<f32>(&[2, 0], &[])]).0, [2, 0]);
        }
    }
}

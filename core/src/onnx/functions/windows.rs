//! Windows of signal processing: sums of cosines over `size` points, computed in `f64`.

use byoc_plugin_api::DType;

use super::body::{Body, Value};
use super::call::Call;
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// `0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)`.
pub(super) fn blackman(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    cosines(body, call, &[0.42, -0.5, 0.08])
}

/// `25/46 - 21/46 cos(2 pi n / N)`.
pub(super) fn hamming(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    cosines(body, call, &[25.0 / 46.0, -21.0 / 46.0])
}

/// `0.5 - 0.5 cos(2 pi n / N)`.
pub(super) fn hann(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    cosines(body, call, &[0.5, -0.5])
}

/// The sum of `factors[k] * cos(2 pi k n / N)`. N is `size`, or one less where the window is symmetric.
fn cosines(body: &mut Body, call: &Call, factors: &[f64]) -> Result<Vec<Value>> {
    let size = call.input(0)?;
    let f64 = to_onnx(DType::F64);
    let [zero, one] = [0, 1].map(|value| body.integer(value, &size));
    let period = if call.int("periodic") == 0 { body.op("Sub", [&size, &one]) } else { size.clone() };
    let (points, period) = (body.op("Range", [&zero, &size, &one]), body.cast(&period, f64));
    let points = body.cast(&points, f64);
    let mut sum = None;
    for (k, &factor) in factors.iter().enumerate() {
        let turn = body.double(std::f64::consts::TAU * k as f64);
        let angle = body.op("Mul", [&points, &turn]);
        let angle = body.op("Div", [&angle, &period]);
        let (cosine, factor) = (body.op("Cos", [&angle]), body.double(factor));
        let term = body.op("Mul", [&cosine, &factor]);
        sum = Some(match sum {
            None => term,
            Some(sum) => body.op("Add", [&sum, &term]),
        });
    }
    let sum = sum.unwrap_or(points);
    Ok(vec![body.cast(&sum, call.int("output_datatype"))])
}

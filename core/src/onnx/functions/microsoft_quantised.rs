//! Quantised operators of onnxruntime's domain `com.microsoft`. What is quantised is dequantised, computed in floats and quantised again,
//! as backends find it in models with `QuantizeLinear` and `DequantizeLinear`; products are integer products, whose sums are scaled.
//!
//! What they mean is what onnxruntime documents (`docs/ContribOperators.md` in its sources) and its kernels do.

pub(super) mod attention;
pub(super) mod elementwise;
pub(super) mod embedding;
pub(super) mod products;
pub(super) mod space;

use super::body::{Body, Value};
use super::call::Call;
use crate::diagnostic::Result;

/// Input `at`, dequantised by the scale and the zero point behind it; without a zero point that is 0.
fn dequantised(body: &mut Body, call: &Call, at: usize) -> Result<Value> {
    let (x, scale) = (call.input(at)?, call.input(at + 1)?);
    Ok(dequantised_by(body, &x, &scale, call.optional(at + 2)))
}

/// The same of values.
fn dequantised_by(body: &mut Body, x: &Value, scale: &Value, zero: Option<Value>) -> Value {
    match zero {
        Some(zero) => body.op("DequantizeLinear", [x, scale, &zero]),
        None => body.op("DequantizeLinear", [x, scale]),
    }
}

/// `y` quantised by the scale at input `at` and the zero point behind it; without one it is the 0 of the type of `like`.
fn quantised(body: &mut Body, call: &Call, y: &Value, at: usize, like: &Value) -> Result<Value> {
    let scale = call.input(at)?;
    let zero = call.optional(at + 1).unwrap_or_else(|| body.integer(0, like));
    Ok(body.op("QuantizeLinear", [y, &scale, &zero]))
}

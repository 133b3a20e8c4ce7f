//! Normalisations.

use byoc_plugin_api::DType;

use super::body::{Body, Value};
use super::call::{Call, bad};
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// `scale * (x - mean) / sqrt(variance + epsilon) + bias`, with mean and variance of each group of channels. To operator set 20
/// `scale` and `bias` had one number a group, and everything was computed in the type of `X`.
pub(super) fn group(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let by_group = call.version < 21;
    let stash = match call.optional_int("stash_type") {
        Some(stash) if !by_group => body.cast(&x, stash),
        _ => x.clone(),
    };
    let grouped = body.reshape(&stash, &[0, call.int("num_groups"), -1]);
    let normal = normal_rows(body, &grouped, call.float("epsilon"));
    let mut y = body.op("CastLike", [&normal, &x]);
    if !by_group {
        // Each channel has a row.
        let (rows, rest) = (body.sizes(&x, 0, Some(2)), body.ints(&[-1]));
        let rows = body.concat(&[&rows, &rest], 0);
        y = body.op("Reshape", [&y, &rows]);
    }
    Ok(vec![scaled_rows(body, &y, &scale, &bias, &x)])
}

/// `x` without its mean over the axes, and the variance, which is the mean of the squares of that.
fn centred(body: &mut Body, x: &Value, axes: &Value) -> (Value, Value) {
    let mean = body.mean(x, axes);
    let centred = body.op("Sub", [x, &mean]);
    let squares = body.op("Mul", [&centred, &centred]);
    let variance = body.mean(&squares, axes);
    (centred, variance)
}

/// `(x - mean) / sqrt(variance + epsilon)` of each row of `x`, which is [N, rows, length].
fn normal_rows(body: &mut Body, x: &Value, epsilon: f32) -> Value {
    let axes = body.ints(&[2]);
    let (centred, variance) = centred(body, x, &axes);
    let epsilon = body.number(epsilon, x);
    let variance = body.op("Add", [&variance, &epsilon]);
    let deviation = body.op("Sqrt", [&variance]);
    body.op("Div", [&centred, &deviation])
}

/// `scale * rows + bias` with a number for each row, in the shape of `like`.
fn scaled_rows(body: &mut Body, rows: &Value, scale: &Value, bias: &Value, like: &Value) -> Value {
    let (scale, bias) = (body.unsqueeze(scale, 1), body.unsqueeze(bias, 1));
    let y = body.op("Mul", [rows, &scale]);
    let y = body.op("Add", [&y, &bias]);
    let shape = body.sizes(like, 0, None);
    body.op("Reshape", [&y, &shape])
}

/// `(x - mean) / (deviation + 1e-9)` over the axes, computed in `f64`.
pub(super) fn mean_variance(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = call.input(0)?;
    let axes = body.ints(call.ints("axes").unwrap_or_default());
    let wide = body.cast(&x, to_onnx(DType::F64));
    let (centred, variance) = centred(body, &wide, &axes);
    let deviation = body.op("Sqrt", [&variance]);
    let epsilon = body.number(1e-9, &wide);
    let deviation = body.op("Add", [&deviation, &epsilon]);
    let y = body.op("Div", [&centred, &deviation]);
    Ok(vec![body.op("CastLike", [&y, &x])])
}

/// As [`group`] with a group for each channel.
pub(super) fn instance(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let rows = body.reshape(&x, &[0, 0, -1]);
    let normal = normal_rows(body, &rows, call.float("epsilon"));
    Ok(vec![scaled_rows(body, &normal, &scale, &bias, &x)])
}

/// `x` divided by its norm along an axis, 0 where that is 0.
pub(super) fn lp(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = call.input(0)?;
    let axes = body.ints(&[call.int("axis")]);
    let norm = match call.int("p") {
        1 => body.op("ReduceL1", [&x, &axes]),
        2 => body.op("ReduceL2", [&x, &axes]),
        other => return Err(bad(format!("attribute 'p' is {other}, expected 1 or 2"))),
    };
    let zero = body.number(0.0, &x);
    let nothing = body.op("Equal", [&norm, &zero]);
    let y = body.op("Div", [&x, &norm]);
    Ok(vec![body.op("Where", [&nothing, &zero, &y])])
}

/// The sum of the inputs over their number.
pub(super) fn mean_of_all(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let inputs = call.inputs();
    let sum = body.variadic("Sum", inputs);
    let count = body.number(inputs.len() as f32, &sum);
    Ok(vec![body.op("Div", [&sum, &count])])
}

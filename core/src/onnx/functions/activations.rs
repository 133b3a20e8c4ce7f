//! Activations.

use super::body::{Body, Value};
use super::call::Call;
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.
pub(super) fn celu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = call.input(0)?;
    let [zero, one, alpha] = [0.0, 1.0, call.float("alpha")].map(|value| body.number(value, &x));
    let scaled = body.op("Div", [&x, &alpha]);
    let curve = body.op("Exp", [&scaled]);
    let curve = body.op("Sub", [&curve, &one]);
    let curve = body.op("Mul", [&alpha, &curve]);
    let (above, below) = (body.op("Max", [&zero, &x]), body.op("Min", [&zero, &curve]));
    Ok(vec![body.op("Add", [&above, &below])])
}

/// `x` from 0 on, `slope * x` below. To operator set 6, `slope` had one number or one for each channel.
pub(super) fn prelu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, mut slope) = (call.input(0)?, call.input(1)?);
    if call.version < 7 {
        slope = along_channels(body, &slope, &x);
    }
    let zero = body.number(0.0, &x);
    let (below, scaled) = (body.op("Less", [&x, &zero]), body.op("Mul", [&slope, &x]));
    Ok(vec![body.op("Where", [&below, &scaled, &x])])
}

/// A list with as many axes of size 1 behind it as `x` has behind its channels.
fn along_channels(body: &mut Body, list: &Value, x: &Value) -> Value {
    let sizes = body.sizes(x, 2, None);
    let behind = body.sizes(&sizes, 0, None);
    let (one, all) = (body.ints(&[1]), body.ints(&[-1]));
    let ones = body.op("Expand", [&one, &behind]);
    let shape = body.concat(&[&all, &ones], 0);
    body.op("Reshape", [list, &shape])
}

/// `gamma * x` above 0, `gamma * (alpha * exp(x) - alpha)` elsewhere.
pub(super) fn selu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = call.input(0)?;
    let numbers = [0.0, call.float("alpha"), call.float("gamma")];
    let [zero, alpha, gamma] = numbers.map(|value| body.number(value, &x));
    let curve = body.op("Exp", [&x]);
    let curve = body.op("Mul", [&alpha, &curve]);
    let curve = body.op("Sub", [&curve, &alpha]);
    let above = body.op("Greater", [&x, &zero]);
    let y = body.op("Where", [&above, &x, &curve]);
    Ok(vec![body.op("Mul", [&gamma, &y])])
}

/// `x + bias` below `-lambd`, `x - bias` above `lambd`, 0 between. Compared as `f64`, so that types without negative numbers have
/// the function, too.
pub(super) fn shrink(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = call.input(0)?;
    let (lambd, bias) = (call.float("lambd"), call.float("bias"));
    let exact = body.cast(&x, to_onnx(byoc_plugin_api::DType::F64));
    let [low, high] = [-lambd, lambd].map(|value| body.number(value, &exact));
    let [zero, bias] = [0.0, bias].map(|value| body.number(value, &x));
    let (below, above) = (body.op("Less", [&exact, &low]), body.op("Greater", [&exact, &high]));
    let (raised, lowered) = (body.op("Add", [&x, &bias]), body.op("Sub", [&x, &bias]));
    let rest = body.op("Where", [&above, &lowered, &zero]);
    Ok(vec![body.op("Where", [&below, &raised, &rest])])
}

/// `x / (1 + |x|)`.
pub(super) fn softsign(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = call.input(0)?;
    let (one, size) = (body.number(1.0, &x), body.op("Abs", [&x]));
    let divisor = body.op("Add", [&one, &size]);
    Ok(vec![body.op("Div", [&x, &divisor])])
}

/// `Swish(a) * b`.
pub(super) fn swiglu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (gate, linear) = (call.input(0)?, call.input(1)?);
    let alpha = byoc_plugin_api::Attribute::Float(call.float("alpha"));
    let gate = body.with("Swish", [&gate], &[("alpha", alpha)]);
    Ok(vec![body.op("Mul", [&gate, &linear])])
}

/// `x` above `alpha`, 0 elsewhere.
pub(super) fn thresholded_relu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = call.input(0)?;
    let [zero, alpha] = [0.0, call.float("alpha")].map(|value| body.number(value, &x));
    let above = body.op("Greater", [&x, &alpha]);
    Ok(vec![body.op("Where", [&above, &x, &zero])])
}

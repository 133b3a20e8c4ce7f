//! Functions of elements, and what moves them.

use byoc_plugin_api::{Attribute, DType};

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use super::{dequantised, quantised};
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// `A + B`.
pub(in super::super) fn add(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    binary(body, call, "Add")
}

/// `A * B`.
pub(in super::super) fn mul(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    binary(body, call, "Mul")
}

fn binary(body: &mut Body, call: &Call, op: &str) -> Result<Vec<Value>> {
    let (a, b) = (dequantised(body, call, 0)?, dequantised(body, call, 3)?);
    let y = body.op(op, [&a, &b]);
    Ok(vec![quantised(body, call, &y, 6, &call.input(0)?)?])
}

/// `LeakyRelu`.
pub(in super::super) fn leaky_relu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    unary(body, call, "LeakyRelu", &call.given(&["alpha"]))
}

/// `Sigmoid`.
pub(in super::super) fn sigmoid(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    unary(body, call, "Sigmoid", &[])
}

fn unary(body: &mut Body, call: &Call, op: &str, attributes: &[(&str, Attribute)]) -> Result<Vec<Value>> {
    let x = dequantised(body, call, 0)?;
    let y = body.with(op, [&x], attributes);
    Ok(vec![quantised(body, call, &y, 3, &call.input(0)?)?])
}

/// `Softmax` along the axis, or over all axes from it on where `opset` is older than 13. onnxruntime multiplies by the whole part of
/// one over the scale of the output, so that is the scale here, too.
pub(in super::super) fn softmax(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, axis) = (dequantised(body, call, 0)?, Attribute::Int(call.int("axis")));
    let y = if call.int("opset") < 13 {
        let rows = body.with("Flatten", [&x], &[("axis", axis)]);
        let rows = body.with("Softmax", [&rows], &[("axis", Attribute::Int(1))]);
        let shape = body.sizes(&x, 0, None);
        body.op("Reshape", [&rows, &shape])
    } else {
        body.with("Softmax", [&x], &[("axis", axis)])
    };
    let levels = body.op("Reciprocal", [&call.input(3)?]);
    let levels = body.op("Floor", [&levels]);
    let scale = body.op("Reciprocal", [&levels]);
    Ok(vec![body.op("QuantizeLinear", [&y, &scale, &call.input(4)?])])
}

/// `Concat` of tensors, each with its scale and its zero point.
pub(in super::super) fn concat(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let count = call.inputs().len();
    if count < 5 || !(count - 2).is_multiple_of(3) {
        let expected = "a scale and a zero point, and three for each tensor";
        return Err(bad(format!("has {count} inputs, expected {expected}")));
    }
    let parts = (2..count).step_by(3).map(|at| {
        call.input(at + 2)?;
        dequantised(body, call, at)
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let y = body.concat(&parts.iter().collect::<Vec<_>>(), call.int("axis"));
    Ok(vec![body.op("QuantizeLinear", [&y, &call.input(0)?, &call.input(1)?])])
}

/// `X` where the condition holds, `Y` elsewhere.
pub(in super::super) fn select(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let condition = call.input(0)?;
    let (x, y) = (dequantised(body, call, 1)?, dequantised(body, call, 4)?);
    let z = body.op("Where", [&condition, &x, &y]);
    Ok(vec![quantised(body, call, &z, 7, &call.input(1)?)?])
}

/// The mean over the axes, over all where there are none in the list.
pub(in super::super) fn reduce_mean(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = dequantised(body, call, 0)?;
    let axes = match call.ints("axes") {
        Some(axes) if !axes.is_empty() => body.ints(axes),
        _ => Body::absent(),
    };
    let y = body.with("ReduceMean", [&x, &axes], &call.given(&["keepdims"]));
    Ok(vec![quantised(body, call, &y, 3, &call.input(0)?)?])
}

/// ONNX's `QuantizeLinear`, with the quotient in `f32` whatever the types are.
pub(in super::super) fn quantize(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let scale = body.cast(&call.input(1)?, to_onnx(DType::F32));
    along_axis(body, call, "QuantizeLinear", &scale)
}

/// ONNX's `DequantizeLinear`.
pub(in super::super) fn dequantize(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    along_axis(body, call, "DequantizeLinear", &call.input(1)?)
}

fn along_axis(body: &mut Body, call: &Call, op: &str, scale: &Value) -> Result<Vec<Value>> {
    let (x, axis) = (call.input(0)?, call.given(&["axis"]));
    Ok(vec![match call.optional(2) {
        Some(zero) => body.with(op, [&x, scale, &zero], &axis),
        None => body.with(op, [&x, scale], &axis),
    }])
}

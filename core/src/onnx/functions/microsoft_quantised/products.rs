//! Products of matrices: of integers, and their sums scaled.

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// The integer product of two factors without their zero points, which are 0 where they are absent; as floats.
pub(super) fn sums(body: &mut Body, [a, b]: [&Value; 2], zeros: [Option<Value>; 2]) -> Value {
    let [a_zero, b_zero] = zeros;
    let sums = match (a_zero, b_zero) {
        (None, None) => body.op("MatMulInteger", [a, b]),
        (Some(a_zero), None) => body.op("MatMulInteger", [a, b, &a_zero]),
        (a_zero, Some(b_zero)) => body.op("MatMulInteger", [a, b, &a_zero.unwrap_or_else(Body::absent), &b_zero]),
    };
    body.cast(&sums, to_onnx(byoc_plugin_api::DType::F32))
}

/// `y + bias`, where there is one.
fn biased(body: &mut Body, y: Value, bias: Option<Value>) -> Value {
    match bias {
        Some(bias) => body.op("Add", [&y, &bias]),
        None => y,
    }
}

/// `A`, quantised by its own range, times `B`.
pub(in super::super) fn dynamic_matmul(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (a, b, b_scale) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let [a, a_scale, a_zero] = body.outputs("DynamicQuantizeLinear", [&a]);
    let sums = sums(body, [&a, &b], [Some(a_zero), call.optional(3)]);
    let scale = body.op("Mul", [&a_scale, &b_scale]);
    let y = body.op("Mul", [&sums, &scale]);
    Ok(vec![biased(body, y, call.optional(4))])
}

/// `A` times `B`, as floats of the type of the scales.
pub(in super::super) fn matmul_to_float(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (a, b, a_scale, b_scale) = (call.input(0)?, call.input(1)?, call.input(2)?, call.input(3)?);
    let sums = sums(body, [&a, &b], [call.optional(4), call.optional(5)]);
    let a_scale = by_row(body, &a_scale);
    let scale = body.op("Mul", [&a_scale, &b_scale]);
    // In f32, the sums fit; of f16 there are only the scales.
    let wide = body.op("CastLike", [&scale, &sums]);
    let y = body.op("Mul", [&sums, &wide]);
    let y = body.op("CastLike", [&y, &b_scale]);
    Ok(vec![biased(body, y, call.optional(6))])
}

/// One number for all as a list of one; one for each row as a column.
fn by_row(body: &mut Body, list: &Value) -> Value {
    let [zero, one, two] = [0, 1, 2].map(|value| body.ints(&[value]));
    let count = body.op("Size", [list]);
    let count = body.reshape(&count, &[1]);
    let single = body.op("Equal", [&count, &one]);
    let skipped = body.op("Where", [&single, &one, &zero]);
    let shape = body.concat(&[&count, &one], 0);
    let shape = body.op("Slice", [&shape, &skipped, &two]);
    body.op("Reshape", [list, &shape])
}

/// `alpha * A' * B' + C`, where `A'` and `B'` are `A` and `B` or their transposes: quantised where the output has a scale and a zero
/// point, else floats. `C` is of integers, with the scale of the product.
pub(in super::super) fn gemm(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (a, a_scale, a_zero) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (b, b_scale, b_zero) = (call.input(3)?, call.input(4)?, call.input(5)?);
    let (output, zero) = (call.optional(7), call.optional(8));
    if output.is_some() != zero.is_some() {
        return Err(bad(
            "has one of inputs 7 and 8, the scale and the zero point of its output, expected both or neither",
        ));
    }
    let mut turned = |x: &Value, name: &str| match call.int(name) {
        0 => x.clone(),
        _ => body.transpose(x, &[1, 0]),
    };
    let (a, b) = (turned(&a, "transA"), turned(&b, "transB"));
    let mut product = body.op("MatMulInteger", [&a, &b, &a_zero, &b_zero]);
    if let Some(c) = call.optional(6) {
        product = body.op("Add", [&product, &c]);
    }
    let product = body.cast(&product, to_onnx(byoc_plugin_api::DType::F32));
    let mut scale = body.op("Mul", [&a_scale, &b_scale]);
    if call.float("alpha") != 1.0 {
        let alpha = body.float(call.float("alpha"));
        scale = body.op("Mul", [&alpha, &scale]);
    }
    let y = body.op("Mul", [&product, &scale]);
    Ok(vec![match (output, zero) {
        (Some(scale), Some(zero)) => body.op("QuantizeLinear", [&y, &scale, &zero]),
        _ => y,
    }])
}

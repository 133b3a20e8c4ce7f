//! Normalisations that are fused with what comes before them.

use byoc_plugin_api::{Attribute, DType};

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// `LayerNormalization(input + skip + bias)`; the sum is the last output.
pub(in super::super) fn skip_layer(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let sum = skipped(body, call, 4)?;
    let inputs: Vec<_> = [sum.clone(), call.input(2)?].into_iter().chain(call.optional(3)).collect();
    let count = if call.wants(1) || call.wants(2) { 3 } else { 1 };
    let mut outputs = body.many("LayerNormalization", &inputs, &[epsilon(call)], count);
    outputs.resize(3, Body::absent());
    outputs.push(sum);
    Ok(outputs)
}

/// `RMSNormalization(input + skip + bias)`; the sum is the last output.
pub(in super::super) fn skip_rms(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    call.refuse_output(1, "mean")?;
    call.refuse_output(2, "inv_std_var")?;
    let sum = skipped(body, call, 3)?;
    let y = body.with("RMSNormalization", [&sum, &call.input(2)?], &[epsilon(call)]);
    Ok(vec![y, Body::absent(), Body::absent(), sum])
}

/// The sum of input and skip, and of a bias where there is one.
fn skipped(body: &mut Body, call: &Call, bias: usize) -> Result<Value> {
    let sum = body.op("Add", [&call.input(0)?, &call.input(1)?]);
    Ok(match call.optional(bias) {
        Some(bias) => body.op("Add", [&sum, &bias]),
        None => sum,
    })
}

/// `RMSNormalization`, which onnxruntime had before ONNX did, in ONNX's domain.
pub(in super::super) fn rms(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    call.refuse_output(1, "inv_std_var")?;
    let attributes = call.given(&["axis", "epsilon", "stash_type"]);
    Ok(vec![body.with("RMSNormalization", [&call.input(0)?, &call.input(1)?], &attributes)])
}

/// The normalised sum of the embeddings of words, positions and segments; the number of tokens that the mask leaves of each sample;
/// and the sum.
pub(in super::super) fn embed(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let ids = call.input(0)?;
    // It says which type the output has that no mask leaves, and is the same with both.
    call.flag("mask_index_type")?;
    let words = body.op("Gather", [&call.input(2)?, &ids]);
    let table = call.input(3)?;
    let positions = match call.optional(8) {
        Some(positions) => body.op("Gather", [&table, &positions]),
        None => {
            let (start, length) = (body.ints(&[0]), body.sizes(&ids, 1, Some(2)));
            body.op("Slice", [&table, &start, &length, &start])
        }
    };
    let mut sum = body.op("Add", [&words, &positions]);
    // Without segments their table is not read.
    if let Some(segments) = call.optional(1) {
        let segments = body.op("Gather", [&call.input(4)?, &segments]);
        sum = body.op("Add", [&sum, &segments]);
    }
    let y = body.with("LayerNormalization", [&sum, &call.input(5)?, &call.input(6)?], &[epsilon(call)]);
    let left = if call.wants(1) { tokens_left(body, call, &ids) } else { Body::absent() };
    Ok(vec![y, left, sum])
}

/// How many elements of each row of the mask are 1; none without a mask.
pub(in super::super) fn tokens_left(body: &mut Body, call: &Call, ids: &Value) -> Value {
    let number = to_onnx(DType::I32);
    match call.optional(7) {
        Some(mask) => {
            let one = body.integer(1, &mask);
            let left = body.op("Equal", [&mask, &one]);
            let (left, axis) = (body.cast(&left, number), body.ints(&[1]));
            body.with("ReduceSum", [&left, &axis], &[("keepdims", Attribute::Int(0))])
        }
        None => {
            let (zero, rows) = (body.int(0), body.sizes(ids, 0, Some(1)));
            let zero = body.cast(&zero, number);
            body.op("Expand", [&zero, &rows])
        }
    }
}

pub(in super::super) fn epsilon(call: &Call) -> (&'static str, Attribute) {
    ("epsilon", Attribute::Float(call.float("epsilon")))
}

/// `GroupNormalization` of an image whose channels may be last, in `f32`, and SiLU.
pub(in super::super) fn group(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = call.input(0)?;
    Ok(vec![grouped(body, call, &x)?])
}

/// [`group`] of `X + skip + bias`, and the sum.
pub(in super::super) fn skip_group(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, skip) = (call.input(0)?, call.input(3)?);
    let last = call.flag("channels_last")?;
    let axes: &[i64] = if last { &[1, 2] } else { &[2, 3] };
    // A skip without height and width is [N, C].
    let flat = body.has_rank(&skip, 2);
    let wide = |body: &mut Body| {
        let axes = body.ints(axes);
        body.op("Unsqueeze", [&skip, &axes])
    };
    let skip = body.either(&flat, wide, |_| skip.clone());
    let mut sum = body.op("Add", [&x, &skip]);
    if let Some(bias) = call.optional(4) {
        let bias = if last { bias } else { body.reshape(&bias, &[-1, 1, 1]) };
        sum = body.op("Add", [&sum, &bias]);
    }
    Ok(vec![grouped(body, call, &sum)?, sum])
}

fn grouped(body: &mut Body, call: &Call, x: &Value) -> Result<Value> {
    let (last, groups) = (call.flag("channels_last")?, call.count("groups")?);
    let f32 = to_onnx(DType::F32);
    let [wide, scale, bias] = [x, &call.input(1)?, &call.input(2)?].map(|value| body.cast(value, f32));
    let wide = if last { body.transpose(&wide, &[0, 3, 1, 2]) } else { wide };
    let attributes = [epsilon(call), ("num_groups", Attribute::Int(groups))];
    let mut y = body.with("GroupNormalization", [&wide, &scale, &bias], &attributes);
    match call.int("activation") {
        0 => {}
        1 => y = body.op("Swish", [&y]),
        other => return Err(bad(format!("attribute 'activation' is {other}, expected 0 (none) or 1 (SiLU)"))),
    }
    let y = if last { body.transpose(&y, &[0, 2, 3, 1]) } else { y };
    Ok(body.op("CastLike", [&y, x]))
}

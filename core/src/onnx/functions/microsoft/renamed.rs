//! Operators that onnxruntime had before ONNX did.

use byoc_plugin_api::DType;

use super::super::body::{Body, Value};
use super::super::call::Call;
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// `GatherND` without axes of a batch.
pub(in super::super) fn gather_nd(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let indices = body.cast(&call.input(1)?, to_onnx(DType::I64));
    Ok(vec![body.op("GatherND", [&call.input(0)?, &indices])])
}

/// `Trilu`.
pub(in super::super) fn trilu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let inputs: Vec<_> = std::iter::once(call.input(0)?).chain(call.optional(1)).collect();
    Ok(body.many("Trilu", &inputs, &call.given(&["upper"]), 1))
}

/// `Unsqueeze` by one axis.
pub(in super::super) fn expand_dims(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let axis = body.cast(&call.input(1)?, to_onnx(DType::I64));
    let axis = body.reshape(&axis, &[1]);
    Ok(vec![body.op("Unsqueeze", [&call.input(0)?, &axis])])
}

/// `Pad`, whose amounts may be one row.
pub(in super::super) fn pad(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let amounts = body.reshape(&call.input(1)?, &[-1]);
    let mut inputs = vec![call.input(0)?, amounts];
    if let Some(value) = call.optional(2) {
        inputs.push(body.reshape(&value, &[]));
    }
    Ok(body.many("Pad", &inputs, &call.given(&["mode"]), 1))
}

/// `Range`, whose bounds may be lists of one number and whose step is 1 where it is left out.
pub(in super::super) fn range(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (start, limit) = (call.input(0)?, call.input(1)?);
    let step = match call.optional(2) {
        Some(step) => step,
        None => body.integer(1, &start),
    };
    let [start, limit, step] = [start, limit, step].map(|bound| body.reshape(&bound, &[]));
    Ok(vec![body.op("Range", [&start, &limit, &step])])
}

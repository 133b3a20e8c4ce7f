//! Convolutions with an activation, and in another layout.

use super::super::body::{Body, Value};
use super::super::call::Call;
use super::activations;
use crate::diagnostic::Result;

/// Those that ONNX's convolutions have.
pub(in super::super) const ATTRIBUTES: [&str; 6] =
    ["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];

/// An activation of `Conv(X, W, B) + Z`.
pub(in super::super) fn fused(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let mut y = convolved(body, call, call.input(0)?, call.input(1)?);
    if let Some(added) = call.optional(3) {
        y = body.op("Add", [&y, &added]);
    }
    Ok(vec![activations::of_conv(body, call, &y)?])
}

/// `Conv` of an image with the channels last, by filters with the channels last.
pub(in super::super) fn channels_last(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let [x, filters] = [call.input(0)?, call.input(1)?].map(|value| body.transpose(&value, &[0, 3, 1, 2]));
    let y = convolved(body, call, x, filters);
    Ok(vec![body.transpose(&y, &[0, 2, 3, 1])])
}

fn convolved(body: &mut Body, call: &Call, x: Value, filters: Value) -> Value {
    let inputs: Vec<_> = [x, filters].into_iter().chain(call.optional(2)).collect();
    body.many("Conv", &inputs, &call.given(&ATTRIBUTES), 1).swap_remove(0)
}

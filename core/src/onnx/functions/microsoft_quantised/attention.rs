//! Attention whose query, keys and values are an integer product of one input.

use super::super::body::{Body, Value};
use super::super::call::Call;
use super::super::microsoft::attention::{Given, of_projections};
use super::products;
use crate::diagnostic::Result;

/// `Attention` of `input * weight + bias`, where input and weight are quantised.
pub(in super::super) fn attention(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (input, weight, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let sums = products::sums(body, [&input, &weight], [call.optional(6), call.optional(7)]);
    let scale = body.op("Mul", [&call.input(3)?, &call.input(4)?]);
    let wide = body.op("CastLike", [&scale, &sums]);
    let product = body.op("Mul", [&sums, &wide]);
    let product = body.op("CastLike", [&product, &bias]);
    let product = body.op("Add", [&product, &bias]);
    of_projections(body, call, product, Given { mask: call.optional(5), past: call.optional(8), bias: None })
}

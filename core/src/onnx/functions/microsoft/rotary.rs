//! Rotary position embedding.

use byoc_plugin_api::Attribute;

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use super::heads;
use crate::diagnostic::Result;

/// ONNX's `RotaryEmbedding` of [batch, length, hidden] or [batch, heads, length, size]. Without a number of heads a head is as large as
/// what the caches turn. One position is that of the first token of every sample.
pub(in super::super) fn rotary(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, ids, cos, sin) = (call.input(0)?, call.input(1)?, call.input(2)?, call.input(3)?);
    let (count, turned) = (call.int("num_heads"), call.int("rotary_embedding_dim"));
    if turned > 0 && count < 1 {
        return Err(bad(format!("attribute 'num_heads' is {count}, expected at least 1 with 'rotary_embedding_dim'")));
    }
    if call.float("scale") != 1.0 {
        return Err(bad(format!("attribute 'scale' is {}, and only 1 is supported", call.float("scale"))));
    }
    // It says that the rows of one sample may be of several, which turns none of them otherwise.
    call.flag("is_packed_batching")?;
    let positions = positions(body, &x, &ids);
    let mut attributes = call.given(&["interleaved", "rotary_embedding_dim"]);
    if count > 0 {
        attributes.push(("num_heads", Attribute::Int(count)));
        return Ok(vec![body.with("RotaryEmbedding", [&x, &cos, &sin, &positions], &attributes)]);
    }
    let apart = body.has_rank(&x, 4);
    let y = body.either(
        &apart,
        |body| body.with("RotaryEmbedding", [&x, &cos, &sin, &positions], &attributes),
        |body| {
            let (half, two) = (body.sizes(&cos, 1, Some(2)), body.ints(&[2]));
            let size = body.op("Mul", [&half, &two]);
            let (rows, rest) = (body.sizes(&x, 0, Some(2)), body.ints(&[-1]));
            let shape = body.concat(&[&rows, &rest, &size], 0);
            let split = body.op("Reshape", [&x, &shape]);
            let split = body.transpose(&split, &[0, 2, 1, 3]);
            let y = body.with("RotaryEmbedding", [&split, &cos, &sin, &positions], &attributes);
            heads::merged(body, &y)
        },
    );
    Ok(vec![y])
}

/// A position for each token of each sample.
fn positions(body: &mut Body, x: &Value, ids: &Value) -> Value {
    let each = body.has_rank(ids, 2);
    body.either(
        &each,
        |_| ids.clone(),
        |body| {
            // The length is the last axis but one with heads apart and without.
            let (batch, length) = (body.sizes(x, 0, Some(1)), body.sizes(x, -2, Some(-1)));
            let count = body.squeeze(&length, 0);
            let places = body.range(&count);
            let places = body.op("Add", [&places, ids]);
            let shape = body.concat(&[&batch, &length], 0);
            body.op("Expand", [&places, &shape])
        },
    )
}

/// [batch, heads, length, size], of each head turned as much as the caches are for.
pub(super) fn turned(body: &mut Body, x: &Value, caches: &[Value; 2], positions: &Value, interleaved: bool) -> Value {
    let [cos, sin] = caches;
    let interleaved = [("interleaved", Attribute::Int(i64::from(interleaved)))];
    let (size, half, two) = (body.sizes(x, 3, Some(4)), body.sizes(cos, 1, Some(2)), body.ints(&[2]));
    let part = body.op("Mul", [&half, &two]);
    let whole = body.op("Equal", [&size, &part]);
    let whole = body.squeeze(&whole, 0);
    body.either(
        &whole,
        |body| body.with("RotaryEmbedding", [x, cos, sin, positions], &interleaved),
        |body| {
            let (start, axis) = (body.ints(&[0]), body.ints(&[3]));
            let first = body.op("Slice", [x, &start, &part, &axis]);
            let rest = body.op("Slice", [x, &part, &size, &axis]);
            let first = body.with("RotaryEmbedding", [&first, cos, sin, positions], &interleaved);
            body.concat(&[&first, &rest], 3)
        },
    )
}

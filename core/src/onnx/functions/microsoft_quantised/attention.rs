//! Attention whose query, keys and values are an integer product of one input.

use byoc_plugin_api::{Attribute, DType};

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use super::products;
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// `Attention` of the thirds of `input * weight + bias`, behind the keys and values of `past`; and those with the new ones behind them. What the mask
/// hides has `mask_filter_value` added to its score.
pub(in super::super) fn attention(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    for name in ["do_rotary", "past_present_share_buffer"] {
        let value = call.int(name);
        if value != 0 {
            return Err(bad(format!("attribute '{name}' is {value}, which is not supported")));
        }
    }
    let heads = call.int("num_heads");
    if heads < 1 {
        return Err(bad(format!("attribute 'num_heads' is {heads}, expected at least 1")));
    }
    let [query, key, value] = thirds(body, call)?;
    let mut attributes = vec![("q_num_heads", Attribute::Int(heads)), ("kv_num_heads", Attribute::Int(heads))];
    // 0 stands for the usual scale.
    if let Some(scale) = call.optional_float("scale").filter(|&scale| scale != 0.0) {
        attributes.push(("scale", Attribute::Float(scale)));
    }
    // Later keys are hidden for good, whatever the mask adds to the others.
    attributes.push(("is_causal", Attribute::Int((call.int("unidirectional") != 0).into())));
    let past = call.optional(8);
    let mask = match call.optional(5) {
        Some(mask) => scores_mask(body, call, &mask, past.as_ref())?,
        None => Body::absent(),
    };
    let [output, key, value] = if let Some(past) = past {
        let [past_key, past_value] = [0, 1].map(|index| {
            let index = body.int(index);
            body.op("Gather", [&past, &index])
        });
        body.outputs_with("Attention", &[query, key, value, mask, past_key, past_value], &attributes)
    } else {
        let [output] = body.outputs_with("Attention", &[query, key.clone(), value.clone(), mask], &attributes);
        let by_head = |body: &mut Body, x: &Value| {
            let x = body.reshape(x, &[0, 0, heads, -1]);
            body.transpose(&x, &[0, 2, 1, 3])
        };
        [output, by_head(body, &key), by_head(body, &value)]
    };
    let (key, value) = (body.unsqueeze(&key, 0), body.unsqueeze(&value, 0));
    Ok(vec![output, body.concat(&[&key, &value], 0)])
}

/// Query, keys and values.
fn thirds(body: &mut Body, call: &Call) -> Result<[Value; 3]> {
    let (input, weight, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let sums = products::sums(body, [&input, &weight], [call.optional(6), call.optional(7)]);
    let scale = body.op("Mul", [&call.input(3)?, &call.input(4)?]);
    let wide = body.op("CastLike", [&scale, &sums]);
    let product = body.op("Mul", [&sums, &wide]);
    let product = body.op("CastLike", [&product, &bias]);
    let all = body.op("Add", [&product, &bias]);
    let thirds = [("axis", Attribute::Int(-1)), ("num_outputs", Attribute::Int(3))];
    Ok(body.outputs_with("Split", &[all], &thirds))
}

/// What is added to the scores [N, 1, queries, keys]. The mask has for each sample how many keys are seen ([N]), and behind that the
/// first one of each ([2 N]); or it is not 0 for a key that is seen, by all queries ([N, keys]), by each ([N, queries, keys]), or in
/// a square of all there may be ([N, 1, most, most]).
fn scores_mask(body: &mut Body, call: &Call, mask: &Value, past: Option<&Value>) -> Result<Value> {
    let input = call.input(0)?;
    let (batch, queries) = (body.sizes(&input, 0, Some(1)), body.sizes(&input, 1, Some(2)));
    let before = match past {
        Some(past) => body.sizes(past, 3, Some(4)),
        None => body.ints(&[0]),
    };
    let keys = body.op("Add", [&before, &queries]);
    let shape = body.sizes(mask, 0, None);
    let rank = body.op("Size", [&shape]);
    let [one, two, four] = [1, 2, 4].map(|rank| body.int(rank));
    let [is_list, is_table, is_square] = [one, two, four].map(|wanted| body.op("Equal", [&rank, &wanted]));
    let seen = body.either(
        &is_list,
        |body| within(body, mask, &batch, &keys),
        |body| {
            let shown = body.either(
                &is_square,
                |body| {
                    let (zero, axes) = (body.ints(&[0]), body.ints(&[2, 3]));
                    let (start, end) = (body.concat(&[&before, &zero], 0), body.concat(&[&keys, &keys], 0));
                    body.op("Slice", [mask, &start, &end, &axes])
                },
                |body| {
                    body.either(
                        &is_table,
                        |body| {
                            let axes = body.ints(&[1, 2]);
                            body.op("Unsqueeze", [mask, &axes])
                        },
                        |body| body.unsqueeze(mask, 1),
                    )
                },
            );
            let zero = body.integer(0, &shown);
            body.op("Greater", [&shown, &zero])
        },
    );
    let hidden = body.float(call.optional_float("mask_filter_value").unwrap_or(-10_000.0));
    let zero = body.float(0.0);
    let added = body.op("Where", [&seen, &zero, &hidden]);
    // A mask of one key stands for all of them.
    let ones = body.ints(&[1, 1, 1]);
    let shape = body.concat(&[&ones, &keys], 0);
    let added = body.op("Expand", [&added, &shape]);
    Ok(body.op("CastLike", [&added, &call.input(2)?]))
}

/// Which keys are before the end of their sample, and not before its start, which is 0 where the list has only ends.
fn within(body: &mut Body, list: &Value, batch: &Value, keys: &Value) -> Value {
    let (rest, one) = (body.ints(&[-1]), body.ints(&[1]));
    let (rows, row) = (body.concat(&[&rest, batch], 0), body.concat(&[&one, batch], 0));
    let rows = body.op("Reshape", [list, &rows]);
    let zero = body.integer(0, list);
    let zeros = body.op("Expand", [&zero, &row]);
    let rows = body.concat(&[&rows, &zeros], 0);
    let [end, start] = [0, 1].map(|row| {
        let row = body.int(row);
        let bounds = body.op("Gather", [&rows, &row]);
        body.reshape(&bounds, &[-1, 1, 1, 1])
    });
    let count = body.squeeze(keys, 0);
    let places = body.range(&count);
    let places = body.cast(&places, to_onnx(DType::I32));
    let (before, behind) = (body.op("Less", [&places, &end]), body.op("GreaterOrEqual", [&places, &start]));
    body.op("And", [&before, &behind])
}

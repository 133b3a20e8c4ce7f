//! `Attention` and `MultiHeadAttention`: with and without the projection, masks of padding, and past keys and values.

use byoc_plugin_api::Attribute;

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use super::heads::{self, Attention};
use super::masks::{self, Keys};
use crate::diagnostic::Result;

/// Attention of the projections `input * weights + bias`.
pub(in super::super) fn projected(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    if call.optional_int("rotary_embedding_dim").is_some_and(|size| size != 0) {
        return Err(bad("attribute 'rotary_embedding_dim' is not supported"));
    }
    call.refuse_input(6, "past_sequence_length")?;
    let mut product = body.op("MatMul", [&call.input(0)?, &call.input(1)?]);
    if let Some(bias) = call.optional(2) {
        product = body.op("Add", [&product, &bias]);
    }
    let given = Given { mask: call.optional(3), past: call.optional(4), bias: call.optional(5) };
    of_projections(body, call, product, given)
}

/// The inputs beside the projections.
pub(in super::super) struct Given {
    /// Which keys are padding.
    pub(in super::super) mask: Option<Value>,
    /// Keys and values that come before, as one tensor.
    pub(in super::super) past: Option<Value>,
    /// What is added to the scores.
    pub(in super::super) bias: Option<Value>,
}

/// Attention of projections whose columns are those of queries, keys and values. Past and present hold keys and values as one tensor.
pub(in super::super) fn of_projections(
    body: &mut Body,
    call: &Call,
    product: Value,
    given: Given,
) -> Result<Vec<Value>> {
    for name in ["do_rotary", "past_present_share_buffer"] {
        call.expect_int(name, 0)?;
    }
    let count = call.count("num_heads")?;
    let axis = ("axis", Attribute::Int(-1));
    let x = product.clone();
    let parts = match call.ints("qkv_hidden_sizes") {
        Some(sizes @ [_, _, _]) => {
            let sizes = body.ints(sizes);
            body.many("Split", &[product, sizes], &[axis], 3)
        }
        Some(sizes) => {
            return Err(bad(format!("attribute 'qkv_hidden_sizes' has {} numbers, expected 3", sizes.len())));
        }
        None => body.many("Split", &[product], &[axis, ("num_outputs", Attribute::Int(3))], 3),
    };
    let mut total = body.sizes(&x, 1, Some(2));
    let past = given.past.map(|both| {
        total = longer(body, &total, &both, 3);
        let both = body.many("Split", &[both], &[("num_outputs", Attribute::Int(2))], 2);
        [0, 1].map(|index| body.squeeze(&both[index], 0))
    });
    let mask = mask(body, call, [given.mask, given.bias], &x, &total);
    let [query, key, value] = [0, 1, 2].map(|index| parts[index].clone());
    let causal = call.flag("unidirectional")?;
    let wanted = Wanted { count, causal, scores: false, outputs: if call.wants(1) { 3 } else { 1 } };
    let mut found = attended(body, call, [query, key, value], past, mask, (&total, wanted));
    if call.wants(1) {
        let present = [1, 2].map(|index| body.unsqueeze(&found[index], 0));
        let present = body.concat(&[&present[0], &present[1]], 0);
        found.truncate(1);
        found.push(present);
    }
    Ok(found)
}

/// What a node asks for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// Heads.
    count: i64,
    /// Whether queries see only keys up to their own place.
    causal: bool,
    /// Whether the scores are an output.
    scores: bool,
    /// How many outputs there are.
    outputs: usize,
}

/// The result, keys and values with those of the past before them, and the scores. `total` are all keys. A past is put before the keys
/// by `Concat` and what comes later is hidden by a mask, since fewer kernels have a past.
fn attended(
    body: &mut Body,
    call: &Call,
    [query, key, value]: [Value; 3],
    past: Option<[Value; 2]>,
    mask: Option<Value>,
    (total, wanted): (&Value, Wanted),
) -> Vec<Value> {
    let mut attributes = heads::scale(call);
    if wanted.scores {
        attributes.push(("qk_matmul_output_mode", Attribute::Int(2)));
    }
    let hides = wanted.causal && (past.is_some() || wanted.scores);
    let mask = if hides { Some(later_hidden(body, &query, total, mask)) } else { mask };
    let causal = wanted.causal && !hides;
    let Some([past_key, past_value]) = past else {
        let attention = Attention { mask, causal, heads: Some([wanted.count; 2]), attributes };
        return attention.node(body, [&query, &key, &value], wanted.outputs);
    };
    let [query, key, value] = [query, key, value].map(|x| heads::split(body, &x, wanted.count));
    let (keys, values) = (body.concat(&[&past_key, &key], 2), body.concat(&[&past_value, &value], 2));
    let attention = Attention { mask, causal, heads: None, attributes };
    let found = attention.node(body, [&query, &keys, &values], if wanted.scores { 4 } else { 1 });
    let mut outputs = vec![heads::merged(body, &found[0]), keys, values];
    outputs.extend(found.get(3).cloned());
    outputs
}

/// A mask where keys behind the place of a query have the least number: the last key is in the place of the last query.
fn later_hidden(body: &mut Body, query: &Value, total: &Value, mask: Option<Value>) -> Value {
    let length = body.sizes(query, 1, Some(2));
    let before = body.op("Sub", [total, &length]);
    let [rows, keys] = [&length, total].map(|count| {
        let count = body.squeeze(count, 0);
        body.range(&count)
    });
    let rows = body.op("Add", [&rows, &before]);
    let rows = body.unsqueeze(&rows, 1);
    let seen = body.op("LessOrEqual", [&keys, &rows]);
    let least = body.number(f32::MIN, query);
    let mask = mask.unwrap_or_else(|| body.number(0.0, query));
    body.op("Where", [&seen, &mask, &least])
}

/// A length and that of a past, whose axis is given.
fn longer(body: &mut Body, length: &Value, past: &Value, axis: i64) -> Value {
    let past = body.sizes(past, axis, Some(axis + 1));
    body.op("Add", [&past, length])
}

/// What is added to the scores: a bias, a mask of `total` keys for each sample of `x`, or both.
fn mask(body: &mut Body, call: &Call, [padding, bias]: [Option<Value>; 2], x: &Value, total: &Value) -> Option<Value> {
    let (batch, queries) = (body.sizes(x, 0, Some(1)), body.sizes(x, 1, Some(2)));
    let keys =
        Keys { batch: &batch, queries: &queries, count: total, filter: call.float("mask_filter_value"), like: x };
    let padding = padding.map(|padding| masks::added(body, &padding, keys));
    match (padding, bias) {
        (Some(padding), Some(bias)) => Some(body.op("Add", [&bias, &padding])),
        (padding, bias) => padding.or(bias),
    }
}

/// Attention of projections that are given, apart or packed. Keys and values that have heads as a dimension are those of a cache, for
/// cross attention.
pub(in super::super) fn multi_head(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    call.refuse_input(8, "past_sequence_length")?;
    call.refuse_input(9, "cache_indirection")?;
    let count = call.count("num_heads")?;
    let [mut query, mut key, mut value] = unpacked(body, call)?;
    let past = match (call.optional(6), call.optional(7)) {
        (Some(keys), Some(values)) => Some([keys, values]),
        (None, None) => None,
        _ => return Err(bad("inputs 6 (past_key) and 7 (past_value) must both be given, or neither")),
    };
    let cross = call.optional(2).is_some() && past.is_none();
    if let Some(bias) = call.optional(3) {
        [query, key, value] = biased(body, [query, key, value], &bias, cross);
    }
    // The length is the last axis but one with heads apart and without.
    let mut total = body.sizes(&key, -2, Some(-1));
    if let Some([keys, _]) = &past {
        total = longer(body, &total, keys, 2);
    }
    let mask = mask(body, call, [call.optional(4), call.optional(5)], &query, &total);
    let outputs = (0..4).rposition(|index| call.wants(index)).map_or(1, |last| last + 1);
    let wanted = Wanted { count, causal: call.flag("unidirectional")?, scores: call.wants(3), outputs };
    if !cross {
        return Ok(attended(body, call, [query, key, value], past, mask, (&total, wanted)));
    }
    let apart = body.has_rank(&key, 4);
    let found = body.choose(
        &apart,
        |body| {
            let attention = Attention { mask: mask.clone(), attributes: heads::scale(call), ..Attention::default() };
            of_cache(body, [&query, &key, &value], attention, wanted)
        },
        |body| attended(body, call, [query.clone(), key.clone(), value.clone()], None, mask.clone(), (&total, wanted)),
    );
    Ok(found)
}

/// Attention of queries over keys and values that have heads as a dimension already.
fn of_cache(body: &mut Body, [query, key, value]: [&Value; 3], mut attention: Attention, wanted: Wanted) -> Vec<Value> {
    attention.causal = wanted.causal;
    if wanted.scores {
        attention.attributes.push(("qk_matmul_output_mode", Attribute::Int(2)));
    }
    let query = heads::split(body, query, wanted.count);
    let mut found = attention.node(body, [&query, key, value], wanted.outputs);
    found[0] = heads::merged(body, &found[0]);
    found
}

/// Queries, keys and values, [batch, length, hidden] each unless keys and values are those of a cache.
fn unpacked(body: &mut Body, call: &Call) -> Result<[Value; 3]> {
    let query = call.input(0)?;
    // [batch, length, heads, parts, size]
    let parts = |body: &mut Body, packed: &Value, count: i64| {
        let attributes = [("axis", Attribute::Int(3)), ("num_outputs", Attribute::Int(count))];
        let parts = body.many("Split", std::slice::from_ref(packed), &attributes, count as usize);
        parts.iter().map(|part| body.reshape(part, &[0, 0, -1])).collect::<Vec<_>>()
    };
    match (call.optional(1), call.optional(2)) {
        (Some(key), Some(value)) => Ok([query, key, value]),
        (Some(key), None) => {
            let both = parts(body, &key, 2);
            Ok([query, both[0].clone(), both[1].clone()])
        }
        (None, None) => {
            let all = parts(body, &query, 3);
            Ok([all[0].clone(), all[1].clone(), all[2].clone()])
        }
        (None, Some(_)) => Err(bad("input 1 (key) is missing, and input 2 (value) is there")),
    }
}

/// Each with its part of a bias. What comes out of a cache has it already.
fn biased(body: &mut Body, [query, key, value]: [Value; 3], bias: &Value, cross: bool) -> [Value; 3] {
    let (zero, end) = (body.ints(&[0]), body.ints(&[i64::MAX]));
    let hidden = body.sizes(&query, 2, Some(3));
    let twice = body.op("Add", [&hidden, &hidden]);
    let add = |body: &mut Body, x: &Value, start: &Value, end: &Value| {
        let part = body.op("Slice", [bias, start, end]);
        body.op("Add", [x, &part])
    };
    let query = add(body, &query, &zero, &hidden);
    let both = |body: &mut Body| {
        let key = add(body, &key, &hidden, &twice);
        vec![key, add(body, &value, &twice, &end)]
    };
    let mut found = if cross {
        let apart = body.has_rank(&key, 4);
        body.choose(&apart, |_| vec![key.clone(), value.clone()], both)
    } else {
        both(body)
    };
    let value = found.swap_remove(1);
    [query, found.swap_remove(0), value]
}

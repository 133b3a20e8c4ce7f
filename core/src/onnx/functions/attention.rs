//! Attention and what stands in its place in models that keep a state.

use byoc_plugin_api::{Attribute, DType};

use super::super::proto::{GraphProto, type_proto};
use super::body::{Body, Value};
use super::call::{Call, bad};
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// A depthwise convolution over `input` [N, C, L] behind `past_state` [N, C, K - 1], and the last K - 1 columns of that. The
/// convolution is a product with windows, since the number of channels may be known only when the model runs.
pub(super) fn causal_conv(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, weight) = (call.input(0)?, call.input(1)?);
    let activation = call.word("activation", &["none", "silu", "swish"])?;
    let [one, two, last] = [1, 2, i64::MAX].map(|value| body.ints(&[value]));
    let kernel = body.sizes(&weight, 2, Some(3));
    let past = body.op("Sub", [&kernel, &one]);
    let state = match call.optional(3) {
        Some(state) => state,
        None => {
            let rows = body.sizes(&x, 0, Some(2));
            let shape = body.concat(&[&rows, &past], 0);
            let zero = body.number(0.0, &x);
            body.op("Expand", [&zero, &shape])
        }
    };
    let padded = body.concat(&[&state, &x], 2);
    let places = [body.sizes(&x, 2, Some(3)), kernel].map(|count| {
        let count = body.squeeze(&count, 0);
        body.range(&count)
    });
    let starts = body.unsqueeze(&places[0], 1);
    let places = body.op("Add", [&starts, &places[1]]);
    let windows = body.with("Gather", [&padded, &places], &[("axis", Attribute::Int(2))]);
    // [N, C, L, K] times [C, K, 1]
    let column = body.transpose(&weight, &[0, 2, 1]);
    let sums = body.op("MatMul", [&windows, &column]);
    let mut y = body.squeeze(&sums, 3);
    if let Some(bias) = call.optional(2) {
        let bias = body.unsqueeze(&bias, 1);
        y = body.op("Add", [&y, &bias]);
    }
    if activation != "none" {
        y = body.op("Swish", [&y]);
    }
    let length = body.sizes(&padded, 2, Some(3));
    let start = body.op("Sub", [&length, &past]);
    let next = body.op("Slice", [&padded, &start, &last, &two]);
    Ok(vec![y, next])
}

/// Attention of `Q`, `K` and `V` [N, heads, length, size], with a graph that changes the scores, and one for the probabilities. Without
/// them it is `Attention`. With one, scores and probabilities are of the type that the graph declares for its input.
pub(super) fn flex(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (query, key, value) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (scores, probabilities) = (call.graph("score_mod")?, call.graph("prob_mod")?);
    let precision = call.optional_int("softmax_precision");
    let Some(graph) = scores.or(probabilities) else {
        let scale = call.optional_float("scale").map(|scale| ("scale", Attribute::Float(scale)));
        let precision = precision.map(|precision| ("softmax_precision", Attribute::Int(precision)));
        let attributes: Vec<_> = scale.into_iter().chain(precision).collect();
        return Ok(vec![body.with("Attention", [&query, &key, &value], &attributes)]);
    };
    let precision = precision.or_else(|| declared(graph)).unwrap_or(to_onnx(DType::F32));
    let (wide, columns) = (body.cast(&query, precision), body.cast(&key, precision));
    // [N, heads of keys, queries of each, length, size]
    let heads = body.sizes(&key, 1, Some(2));
    let (batch, rest, each) = (body.sizes(&query, 0, Some(1)), body.sizes(&query, 2, Some(4)), body.ints(&[-1]));
    let grouped = body.concat(&[&batch, &heads, &each, &rest], 0);
    let wide = body.op("Reshape", [&wide, &grouped]);
    let columns = body.transpose(&columns, &[0, 1, 3, 2]);
    let columns = body.unsqueeze(&columns, 2);
    let product = body.op("MatMul", [&wide, &columns]);
    let scale = match call.optional_float("scale") {
        Some(scale) => body.number(scale, &wide),
        None => {
            let size = body.sizes(&query, 3, Some(4));
            let size = body.op("CastLike", [&size, &wide]);
            let root = body.op("Sqrt", [&size]);
            body.op("Reciprocal", [&root])
        }
    };
    let product = body.op("Mul", [&product, &scale]);
    let (rows, length) = (body.sizes(&query, 0, Some(3)), body.sizes(&key, 2, Some(3)));
    let shape = body.concat(&[&rows, &length], 0);
    let mut weights = body.op("Reshape", [&product, &shape]);
    if let Some(graph) = scores {
        weights = body.graph_of(graph, &weights);
    }
    weights = body.with("Softmax", [&weights], &[("axis", Attribute::Int(-1))]);
    if let Some(graph) = probabilities {
        weights = body.graph_of(graph, &weights);
    }
    let weights = body.op("CastLike", [&weights, &value]);
    let (area, last) = (body.sizes(&weights, 2, Some(4)), body.sizes(&value, 3, Some(4)));
    let grouped = body.concat(&[&batch, &heads, &each, &area], 0);
    let weights = body.op("Reshape", [&weights, &grouped]);
    let value = body.unsqueeze(&value, 2);
    let y = body.op("MatMul", [&weights, &value]);
    let shape = body.concat(&[&rows, &last], 0);
    Ok(vec![body.op("Reshape", [&y, &shape])])
}

/// ONNX's number of the element type that a graph declares for its input.
fn declared(graph: &GraphProto) -> Option<i64> {
    match graph.input.first()?.r#type.as_ref()?.value.as_ref()? {
        type_proto::Value::TensorType(tensor) => tensor.elem_type.map(i64::from).filter(|&ty| ty != 0),
        _ => None,
    }
}

/// A state for each head that each token updates and reads, in `f32`:
/// `S = exp(g) S + beta k (v - (exp(g) S)^T k)^T`, `o = scale S^T q`; without `g` or `beta` and what is taken from `v`
/// where `update_rule` does not have them.
pub(super) fn linear(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let rule = call.word("update_rule", &["linear", "gated", "delta", "gated_delta"])?;
    let (gated, delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    let (queries, heads) = (call.int("q_num_heads"), call.int("kv_num_heads"));
    if heads < 1 || queries < 1 || queries % heads != 0 {
        return Err(bad(format!("attribute 'q_num_heads' is {queries}, not a multiple of 'kv_num_heads', {heads}")));
    }
    let (query, key, value) = (call.input(0)?, call.input(1)?, call.input(2)?);
    // Each with the tokens first: [T, N, heads, ...].
    let mut scanned = vec![by_token(body, &query, &[0, 0, heads, queries / heads, -1])];
    scanned.extend([&key, &value].map(|x| by_token(body, x, &[0, 0, heads, -1])));
    if gated {
        scanned.push(by_token(body, &call.input(4)?, &[0, 0, heads, -1]));
    }
    if delta {
        scanned.push(by_token(body, &call.input(5)?, &[0, 0, -1, 1]));
    }
    let f32 = to_onnx(DType::F32);
    let state = match call.optional(3) {
        Some(state) => body.cast(&state, f32),
        None => {
            let batch = body.sizes(&key, 0, Some(1));
            let widths = [1, 2].map(|index| body.sizes(&scanned[index], 3, Some(4)));
            let heads = body.ints(&[heads]);
            let shape = body.concat(&[&batch, &heads, &widths[0], &widths[1]], 0);
            let zero = body.float(0.0);
            body.op("Expand", [&zero, &shape])
        }
    };
    let scale = match call.float("scale") {
        0.0 => {
            let width = body.sizes(&scanned[1], 3, Some(4));
            let width = body.cast(&width, f32);
            let width = body.op("Sqrt", [&width]);
            body.op("Reciprocal", [&width])
        }
        scale => body.float(scale),
    };
    let (state, output) = body.scan(&state, &scanned, |body, state, now| {
        let now: Vec<_> = now.iter().map(|x| body.cast(x, f32)).collect();
        let state = update(body, state, &now, gated, delta);
        let read = body.op("MatMul", [&now[0], &state]);
        let read = body.op("Mul", [&read, &scale]);
        (state, read)
    });
    let output = body.transpose(&output, &[1, 0, 2, 3, 4]);
    let output = body.reshape(&output, &[0, 0, -1]);
    let kind = call.optional(3).unwrap_or_else(|| query.clone());
    Ok(vec![body.op("CastLike", [&output, &query]), body.op("CastLike", [&state, &kind])])
}

/// [N, T, ...] in that shape, with T before N.
fn by_token(body: &mut Body, x: &Value, shape: &[i64]) -> Value {
    let x = body.reshape(x, shape);
    let perm: Vec<_> = [1, 0].into_iter().chain(2..shape.len() as i64).collect();
    body.transpose(&x, &perm)
}

/// The state [N, heads, dk, dv] after a token.
fn update(body: &mut Body, state: &Value, now: &[Value], gated: bool, delta: bool) -> Value {
    let (key, value) = (body.unsqueeze(&now[1], 3), body.unsqueeze(&now[2], 2));
    let mut state = state.clone();
    if gated {
        let decay = body.op("Exp", [&now[3]]);
        let decay = body.unsqueeze(&decay, 3);
        state = body.op("Mul", [&state, &decay]);
    }
    let mut written = value;
    if delta {
        let row = body.unsqueeze(&now[1], 2);
        let known = body.op("MatMul", [&row, &state]);
        written = body.op("Sub", [&written, &known]);
        let rate = body.unsqueeze(&now[now.len() - 1], 3);
        written = body.op("Mul", [&written, &rate]);
    }
    let change = body.op("MatMul", [&key, &written]);
    body.op("Add", [&state, &change])
}

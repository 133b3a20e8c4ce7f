//! `GroupQueryAttention`: attention of a language model whose queries share keys, with a cache of them, samples of several
//! lengths, and rotary position embedding.

use byoc_plugin_api::{Attribute, DType};

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use super::heads::{self, Attention};
use super::rotary;
use crate::diagnostic::Result;
use crate::ops::cast::to_onnx;

/// Which keys there are: all lists of one number, or of one for each sample.
struct Lengths {
    /// Samples.
    batch: Value,
    /// Tokens of each that are new.
    new: Value,
    /// Keys of each that are new.
    new_keys: Value,
    /// Keys of each when the new ones are among them, [batch].
    total: Value,
    /// Those of the longest.
    longest: Value,
}

/// Attention of `query` [batch, length, hidden] over the past keys and the new ones, which come behind the past of each sample. The past
/// may have room for more keys than there are: present is as long as the longer of past and `total_sequence_length`, and 0 where
/// a sample has no keys.
pub(in super::super) fn grouped(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    check(call)?;
    let [mut query, mut key, value] = projections(body, call)?;
    let lengths = Lengths::new(body, call, [&query, &key])?;
    if let (Some(of_query), Some(of_key)) = (call.optional(14), call.optional(15)) {
        let attributes = [("epsilon", Attribute::Float(call.float("qk_norm_epsilon")))];
        query = body.with("RMSNormalization", [&query, &of_query], &attributes);
        key = body.with("RMSNormalization", [&key, &of_key], &attributes);
    }
    if call.flag("do_rotary")? {
        let caches = [call.input(7)?, call.input(8)?];
        let positions = match call.optional(9) {
            Some(positions) => positions,
            None => lengths.places(body, &lengths.new),
        };
        let interleaved = call.flag("rotary_interleaved")?;
        [query, key] = [query, key].map(|x| rotary::turned(body, &x, &caches, &positions, interleaved));
    }
    let [key, value] = match (call.optional(3), call.optional(4)) {
        (Some(past_key), Some(past_value)) => {
            let cache = Cache::new(body, &lengths, &past_key);
            [(past_key, key), (past_value, value)].map(|(past, new)| cache.present(body, &past, &new))
        }
        _ => [key, value],
    };
    let visible = lengths.visible(body, call, &key);
    let outputs = attended(body, call, [&query, &key, &value], &visible, &lengths);
    let [y, scores] = outputs?;
    Ok(vec![heads::merged(body, &y), key, value, scores])
}

/// Fails where something is asked for that is not carried.
fn check(call: &Call) -> Result<()> {
    for name in ["k_quant_type", "v_quant_type"] {
        if call.text(name) != "NONE" {
            return Err(bad(format!("attribute '{name}' is '{}', and only 'NONE' is supported", call.text(name))));
        }
    }
    for name in ["kv_cache_bit_width", "sliding_window_cache"] {
        call.expect_int(name, 0)?;
    }
    call.refuse_input(12, "k_scale")?;
    call.refuse_input(13, "v_scale")?;
    let window = call.int("local_window_size");
    if window != -1 && window < 1 {
        return Err(bad(format!("attribute 'local_window_size' is {window}, expected -1 or at least 1")));
    }
    if !call.flag("causal")? && window != -1 {
        return Err(bad(format!("attribute 'local_window_size' is {window}, expected -1 where 'causal' is 0")));
    }
    let smooth = call.int("smooth_softmax");
    if !(-1..=1).contains(&smooth) {
        return Err(bad(format!("attribute 'smooth_softmax' is {smooth}, expected 0 or 1")));
    }
    let (queries, keys) = (call.count("num_heads")?, call.count("kv_num_heads")?);
    if queries % keys != 0 {
        return Err(bad(format!("attribute 'num_heads' is {queries}, not a multiple of 'kv_num_heads', {keys}")));
    }
    let pairs = [
        (1, "key", 2, "value"),
        (3, "past_key", 4, "past_value"),
        (7, "cos_cache", 8, "sin_cache"),
        (14, "q_norm_weight", 15, "k_norm_weight"),
    ];
    for (first, name, second, other) in pairs {
        if call.optional(first).is_some() != call.optional(second).is_some() {
            return Err(bad(format!("inputs {first} ({name}) and {second} ({other}) must both be given, or neither")));
        }
    }
    let scores = call.int("qk_output");
    match (call.wants(3), scores) {
        (false, 0..=2) | (true, 1 | 2) => Ok(()),
        (true, _) => Err(bad(format!("attribute 'qk_output' is {scores}, expected 1 or 2 with output 3"))),
        (false, _) => Err(bad(format!("attribute 'qk_output' is {scores}, expected 0 to 2"))),
    }
}

/// Queries, keys and values with heads apart.
fn projections(body: &mut Body, call: &Call) -> Result<[Value; 3]> {
    let (query, queries, keys) = (call.input(0)?, call.int("num_heads"), call.int("kv_num_heads"));
    Ok(match (call.optional(1), call.optional(2)) {
        (Some(key), Some(value)) => {
            [(query, queries), (key, keys), (value, keys)].map(|(x, count)| heads::split(body, &x, count))
        }
        _ => {
            let all = heads::split(body, &query, queries + 2 * keys);
            let sizes = body.ints(&[queries, keys, keys]);
            let parts = body.many("Split", &[all, sizes], &[("axis", Attribute::Int(1))], 3);
            [0, 1, 2].map(|index| parts[index].clone())
        }
    })
}

impl Lengths {
    fn new(body: &mut Body, call: &Call, [query, key]: [&Value; 2]) -> Result<Lengths> {
        let integers = to_onnx(DType::I64);
        let [last, longest] = [call.input(5)?, call.input(6)?].map(|value| body.cast(&value, integers));
        let (last, longest, one) = (body.reshape(&last, &[-1]), body.reshape(&longest, &[1]), body.ints(&[1]));
        Ok(Lengths {
            batch: body.sizes(query, 0, Some(1)),
            new: body.sizes(query, 2, Some(3)),
            new_keys: body.sizes(key, 2, Some(3)),
            // `seqlens_k` is one less.
            total: body.op("Add", [&last, &one]),
            longest,
        })
    }

    /// The place of the first of as many new tokens in each sample, [batch, 1]: of a padded prompt, 0.
    fn start(&self, body: &mut Body, new: &Value) -> Value {
        let (start, zero) = (body.op("Sub", [&self.total, new]), body.ints(&[0]));
        let start = body.op("Max", [&start, &zero]);
        body.unsqueeze(&start, 1)
    }

    /// The places of as many new tokens, [batch, new].
    fn places(&self, body: &mut Body, new: &Value) -> Value {
        let (start, count) = (self.start(body, new), body.squeeze(new, 0));
        let places = body.range(&count);
        body.op("Add", [&start, &places])
    }

    /// Which keys each query sees, [batch, 1, new or 1, keys].
    fn visible(&self, body: &mut Body, call: &Call, key: &Value) -> Value {
        let count = body.sizes(key, 2, Some(3));
        let count = body.squeeze(&count, 0);
        let keys = body.range(&count);
        if call.int("causal") == 0 {
            let total = body.reshape(&self.total, &[-1, 1, 1, 1]);
            return body.op("Less", [&keys, &total]);
        }
        let (places, axes) = (self.places(body, &self.new), body.ints(&[1, 3]));
        let places = body.op("Unsqueeze", [&places, &axes]);
        let visible = body.op("LessOrEqual", [&keys, &places]);
        match call.int("local_window_size") {
            -1 => visible,
            window => {
                // The token itself is one of the window.
                let window = body.ints(&[window]);
                let first = body.op("Sub", [&places, &window]);
                let near = body.op("Greater", [&keys, &first]);
                body.op("And", [&visible, &near])
            }
        }
    }

    /// What is added to the scores [batch, heads, new, keys]: the bias where a key is seen, and minus infinity where it is not.
    fn added(&self, body: &mut Body, bias: Option<Value>, visible: &Value, key: &Value) -> Value {
        let [zero, hidden] = [0.0, f32::NEG_INFINITY].map(|value| body.number(value, key));
        let bias = match bias {
            // Of a past with room for more keys, the bias is as long as there are keys.
            Some(bias) => {
                let (room, length) = (body.sizes(key, 2, Some(3)), body.sizes(&bias, 3, Some(4)));
                let (more, before) = (body.op("Sub", [&room, &length]), body.ints(&[0; 7]));
                let pads = body.concat(&[&before, &more], 0);
                body.op("Pad", [&bias, &pads])
            }
            None => zero,
        };
        body.op("Where", [visible, &bias, &hidden])
    }
}

/// Where the past and the new keys go.
struct Cache {
    /// How many keys are put behind the past, as `Pad` takes it.
    pads: Value,
    /// Which places have keys of the past, [batch, 1, length, 1].
    kept: Value,
    /// The places of the new keys, [batch, 1, new, 1].
    places: Value,
}

impl Cache {
    fn new(body: &mut Body, lengths: &Lengths, past: &Value) -> Cache {
        let room = body.sizes(past, 2, Some(3));
        let length = body.op("Max", [&room, &lengths.longest]);
        let more = body.op("Sub", [&length, &room]);
        let (before, behind) = (body.ints(&[0, 0, 0, 0, 0, 0]), body.ints(&[0]));
        let pads = body.concat(&[&before, &more, &behind], 0);
        // What is behind the past of a sample is not of it.
        let (start, count) = (lengths.start(body, &lengths.new_keys), body.squeeze(&length, 0));
        let all = body.range(&count);
        let kept = body.op("Less", [&all, &start]);
        let count = body.squeeze(&lengths.new_keys, 0);
        let new = body.range(&count);
        let places = body.op("Add", [&start, &new]);
        let axes = body.ints(&[1, 3]);
        let [kept, places] = [kept, places].map(|rows| body.op("Unsqueeze", [&rows, &axes]));
        Cache { pads, kept, places }
    }

    /// The past with the new keys behind that of each sample, [batch, heads, length, size].
    fn present(&self, body: &mut Body, past: &Value, new: &Value) -> Value {
        let (long, zero) = (body.op("Pad", [past, &self.pads]), body.number(0.0, past));
        let kept = body.op("Where", [&self.kept, &long, &zero]);
        let shape = body.sizes(new, 0, None);
        let places = body.op("Expand", [&self.places, &shape]);
        body.with("ScatterElements", [&kept, &places, new], &[("axis", Attribute::Int(2))])
    }
}

/// The result and the scores, with heads apart.
fn attended(
    body: &mut Body,
    call: &Call,
    [query, key, value]: [&Value; 3],
    visible: &Value,
    lengths: &Lengths,
) -> Result<[Value; 2]> {
    let (bias, sink) = (call.optional(10), call.optional(11));
    let (wants, mode) = (call.wants(3), call.int("qk_output"));
    let mut attributes = heads::scale(call);
    attributes.extend(call.given(&["softcap"]));
    if wants {
        attributes.push(("qk_matmul_output_mode", Attribute::Int(if mode == 1 { 2 } else { 3 })));
    }
    let smooth = call.int("smooth_softmax") == 1 || sink.is_some();
    let (mut keys, mut values) = (key.clone(), value.clone());
    let mask = if smooth {
        // One more key of zeros, whose score is the sink's and whose value is 0.
        [keys, values] = [keys, values].map(|x| {
            let (front, one, size) = (body.sizes(&x, 0, Some(2)), body.ints(&[1]), body.sizes(&x, 3, Some(4)));
            let shape = body.concat(&[&front, &one, &size], 0);
            let zero = body.number(0.0, &x);
            let zeros = body.op("Expand", [&zero, &shape]);
            body.concat(&[&x, &zeros], 2)
        });
        let added = lengths.added(body, bias, visible, key);
        let sink = match sink {
            Some(sink) => body.reshape(&sink, &[1, -1, 1, 1]),
            None => body.number(0.0, key),
        };
        let (count, one) = (body.ints(&[call.int("num_heads")]), body.ints(&[1]));
        let shape = |body: &mut Body, last: &Value| body.concat(&[&lengths.batch, &count, &lengths.new, last], 0);
        let (wide, narrow) = (body.sizes(key, 2, Some(3)), shape(body, &one));
        let wide = shape(body, &wide);
        let (added, sink) = (body.op("Expand", [&added, &wide]), body.op("Expand", [&sink, &narrow]));
        body.concat(&[&added, &sink], 3)
    } else {
        lengths.added(body, bias, visible, key)
    };
    let attention = Attention { mask: Some(mask), attributes, ..Attention::default() };
    let outputs = attention.node(body, [query, &keys, &values], if wants { 4 } else { 1 });
    if !wants {
        return Ok([outputs[0].clone(), Body::absent()]);
    }
    // As many columns as there are keys; those that are not seen are 0.
    let (start, axis) = (body.ints(&[0]), body.ints(&[3]));
    let scores = body.op("Slice", [&outputs[3], &start, &lengths.longest, &axis]);
    let visible = body.op("Slice", [visible, &start, &lengths.longest, &axis]);
    let zero = body.number(0.0, key);
    Ok([outputs[0].clone(), body.op("Where", [&visible, &scores, &zero])])
}

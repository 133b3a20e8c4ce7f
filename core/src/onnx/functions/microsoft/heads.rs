//! Heads: [batch, length, hidden] and [batch, heads, length, size], and the attention of either.

use byoc_plugin_api::Attribute;

use super::super::body::{Body, Value};
use super::super::call::Call;

/// [batch, length, hidden] as [batch, heads, length, size].
pub(super) fn split(body: &mut Body, x: &Value, heads: i64) -> Value {
    // The size is told, since what is left of no elements is not known.
    let (hidden, count, front) = (body.sizes(x, 2, Some(3)), body.ints(&[heads]), body.ints(&[0, 0, heads]));
    let size = body.op("Div", [&hidden, &count]);
    let shape = body.concat(&[&front, &size], 0);
    let apart = body.op("Reshape", [x, &shape]);
    body.transpose(&apart, &[0, 2, 1, 3])
}

/// [batch, heads, length, size] as [batch, length, hidden].
pub(super) fn merged(body: &mut Body, x: &Value) -> Value {
    let apart = body.transpose(x, &[0, 2, 1, 3]);
    body.reshape(&apart, &[0, 0, -1])
}

/// What ONNX's `Attention` needs beside queries, keys and values.
#[derive(Debug, Default)]
pub(super) struct Attention {
    /// What is added to the scores, or which keys are seen.
    pub(super) mask: Option<Value>,
    /// Whether queries see only keys up to their own place.
    pub(super) causal: bool,
    /// The numbers of heads of queries and of keys, where these are not a dimension.
    pub(super) heads: Option<[i64; 2]>,
    /// More attributes.
    pub(super) attributes: Vec<(&'static str, Attribute)>,
}

impl Attention {
    /// Adds the node, which gives that many outputs: the result, keys and values with those before, and the scores.
    pub(super) fn node(&self, body: &mut Body, [query, key, value]: [&Value; 3], outputs: usize) -> Vec<Value> {
        let inputs: Vec<_> = [query, key, value].into_iter().chain(&self.mask).cloned().collect();
        let mut attributes = self.attributes.clone();
        if self.causal {
            attributes.push(("is_causal", Attribute::Int(1)));
        }
        if let Some([queries, keys]) = self.heads {
            attributes.extend([("q_num_heads", Attribute::Int(queries)), ("kv_num_heads", Attribute::Int(keys))]);
        }
        body.many("Attention", &inputs, &attributes, outputs)
    }
}

/// The attribute `scale`, where it is another than one over the root of a head's size: 0 stands for that.
pub(super) fn scale(call: &Call) -> Vec<(&'static str, Attribute)> {
    let scale = call.optional_float("scale").filter(|&scale| scale != 0.0);
    scale.map(|scale| ("scale", Attribute::Float(scale))).into_iter().collect()
}

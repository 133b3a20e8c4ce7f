//! Embeddings of words that are stored quantised.

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use super::super::microsoft::norm::{epsilon, tokens_left};
use super::dequantised_by;
use crate::diagnostic::Result;

/// The sum of the embeddings of each word, of its place and of its segment, normalised; and how many words of each text the mask shows. Rows
/// are picked before they are dequantised.
pub(in super::super) fn layer_normalization(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (ids, segments) = (call.input(0)?, call.optional(1));
    if segments.is_some() != call.optional(4).is_some() {
        return Err(bad("has one of inputs 1 and 4, the segments and their embeddings, expected both or neither"));
    }
    let words = body.op("Gather", [&call.input(2)?, &ids]);
    let words = dequantised_by(body, &words, &call.input(8)?, Some(call.input(13)?));
    let (start, length) = (body.ints(&[0]), body.sizes(&ids, 1, Some(2)));
    let places = body.op("Slice", [&call.input(3)?, &start, &length]);
    let places = dequantised_by(body, &places, &call.input(9)?, Some(call.input(14)?));
    let mut sum = body.op("Add", [&words, &places]);
    if let Some(segments) = segments {
        let segments = body.op("Gather", [&call.input(4)?, &segments]);
        let segments = dequantised_by(body, &segments, &call.input(10)?, Some(call.input(15)?));
        sum = body.op("Add", [&sum, &segments]);
    }
    let gamma = dequantised_by(body, &call.input(5)?, &call.input(11)?, Some(call.input(16)?));
    let beta = dequantised_by(body, &call.input(6)?, &call.input(12)?, Some(call.input(17)?));
    let y = body.with("LayerNormalization", [&sum, &gamma, &beta], &[epsilon(call)]);
    Ok(vec![y, tokens_left(body, call, &ids)])
}

//! Masks of padding, as what is added to the scores.

use byoc_plugin_api::DType;

use super::super::body::{Body, Value};
use crate::ops::cast::to_onnx;

/// What tells the form of a mask beside its rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys<'a> {
    /// How many samples there are, a list of one number.
    pub(super) batch: &'a Value,
    /// How many queries each has, a list of one number: they are in the places of the last keys.
    pub(super) queries: &'a Value,
    /// How many keys each has, a list of one number.
    pub(super) count: &'a Value,
    /// What is added to the scores of hidden keys.
    pub(super) filter: f32,
    /// The type of the scores.
    pub(super) like: &'a Value,
}

/// What a mask adds to the scores, [batch, 1, queries or 1, keys]. The mask has for each sample the number of keys that are seen
/// (with other numbers behind them), whether each key is seen, or whether each query sees each key, also in a square of all there may be
/// ([batch, 1, most, most]). A list that has two numbers for each sample has the first keys that are seen in the second half.
pub(super) fn added(body: &mut Body, mask: &Value, keys: Keys<'_>) -> Value {
    let rows = body.has_rank(mask, 2);
    body.either(
        &rows,
        |body| {
            let hidden = not_positive(body, mask);
            // A mask of one column is for all keys.
            let shape = body.concat(&[keys.batch, keys.count], 0);
            let hidden = body.op("Expand", [&hidden, &shape]);
            filtered(body, &hidden, &[1, 2], keys)
        },
        |body| {
            let list = body.has_rank(mask, 1);
            body.either(
                &list,
                |body| {
                    let hidden = outside(body, mask, keys);
                    filtered(body, &hidden, &[1, 2], keys)
                },
                |body| {
                    let square = body.has_rank(mask, 4);
                    let pairs =
                        body.either(&square, |body| part_of_square(body, mask, keys), |body| body.unsqueeze(mask, 1));
                    let hidden = not_positive(body, &pairs);
                    filtered(body, &hidden, &[], keys)
                },
            )
        },
    )
}

/// The rows of the queries and the columns of the keys.
fn part_of_square(body: &mut Body, mask: &Value, keys: Keys<'_>) -> Value {
    let (zero, axes) = (body.ints(&[0]), body.ints(&[2, 3]));
    let before = body.op("Sub", [keys.count, keys.queries]);
    let (start, end) = (body.concat(&[&before, &zero], 0), body.concat(&[keys.count, keys.count], 0));
    body.op("Slice", [mask, &start, &end, &axes])
}

fn not_positive(body: &mut Body, mask: &Value) -> Value {
    let zero = body.integer(0, mask);
    body.op("LessOrEqual", [mask, &zero])
}

fn filtered(body: &mut Body, hidden: &Value, axes: &[i64], keys: Keys<'_>) -> Value {
    let [filter, zero] = [keys.filter, 0.0].map(|value| body.number(value, keys.like));
    let added = body.op("Where", [hidden, &filter, &zero]);
    if axes.is_empty() {
        return added;
    }
    let axes = body.ints(axes);
    body.op("Unsqueeze", [&added, &axes])
}

/// Which keys are at or behind the end of each sample, or before its start.
fn outside(body: &mut Body, mask: &Value, keys: Keys<'_>) -> Value {
    let (mask, zero) = (body.cast(mask, to_onnx(DType::I64)), body.ints(&[0]));
    let count = body.squeeze(keys.count, 0);
    let places = body.range(&count);
    let ends = body.op("Slice", [&mask, &zero, keys.batch]);
    let ends = body.unsqueeze(&ends, 1);
    let behind = body.op("GreaterOrEqual", [&places, &ends]);
    // The starts are zeros unless there are two numbers for each sample.
    let twice = body.op("Add", [keys.batch, keys.batch]);
    let zeros = body.op("Expand", [&zero, keys.batch]);
    let long = body.concat(&[&mask, &zeros], 0);
    let starts = body.op("Slice", [&long, keys.batch, &twice]);
    let length = body.sizes(&mask, 0, None);
    let both = body.op("Equal", [&length, &twice]);
    let starts = body.op("Where", [&both, &starts, &zero]);
    let starts = body.unsqueeze(&starts, 1);
    let before = body.op("Less", [&places, &starts]);
    body.op("Or", [&behind, &before])
}

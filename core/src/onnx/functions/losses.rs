//! Losses of training.

use byoc_plugin_api::Attribute;

use super::body::{Body, Value};
use super::call::Call;
use crate::diagnostic::Result;

const REDUCTIONS: [&str; 3] = ["none", "sum", "mean"];

/// The negative log likelihood: `-weight[target] * input[target]` for each position, 0 where the target is `ignore_index`;
/// none, the sum, or the mean that counts each position with its weight.
pub(super) fn negative_log_likelihood(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let input = call.input(0)?;
    Ok(vec![loss(body, call, &input)?])
}

/// The same of the logarithms of the softmax of `scores`, which are output 1.
pub(super) fn softmax_cross_entropy(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let scores = call.input(0)?;
    let log_prob = body.with("LogSoftmax", [&scores], &[("axis", Attribute::Int(1))]);
    Ok(vec![loss(body, call, &log_prob)?, log_prob])
}

/// `input` is [N, C, ...], the targets are [N, ...].
fn loss(body: &mut Body, call: &Call, input: &Value) -> Result<Value> {
    let (target, weight) = (call.input(1)?, call.optional(2));
    let ignored = call.optional_int("ignore_index").map(|index| {
        let index = body.integer(index, &target);
        body.op("Equal", [&target, &index])
    });
    let zero = body.number(0.0, input);
    // An ignored target need not be a class.
    let target = match &ignored {
        Some(ignored) => {
            let first = body.integer(0, &target);
            body.op("Where", [ignored, &first, &target])
        }
        None => target,
    };
    let places = body.unsqueeze(&target, 1);
    let likelihood = body.with("GatherElements", [input, &places], &[("axis", Attribute::Int(1))]);
    let likelihood = body.squeeze(&likelihood, 1);
    let mut losses = body.op("Neg", [&likelihood]);
    let mut weights = weight.map(|weight| body.op("Gather", [&weight, &target]));
    if let Some(weights) = &weights {
        losses = body.op("Mul", [&losses, weights]);
    }
    if let Some(ignored) = &ignored {
        losses = body.op("Where", [ignored, &zero, &losses]);
        let counted = match &weights {
            Some(weights) => weights.clone(),
            None => body.number(1.0, input),
        };
        weights = Some(body.op("Where", [ignored, &zero, &counted]));
    }
    let reduction = call.word("reduction", &REDUCTIONS)?;
    Ok(match (reduction, weights) {
        ("none", _) => losses,
        ("sum", _) => body.reduce_all("ReduceSum", &losses),
        (_, None) => body.reduce_all("ReduceMean", &losses),
        (_, Some(weights)) => {
            let (sum, count) = (body.reduce_all("ReduceSum", &losses), body.reduce_all("ReduceSum", &weights));
            body.op("Div", [&sum, &count])
        }
    })
}

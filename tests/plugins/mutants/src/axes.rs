//! Operators that compute along axes.

mod normal;
mod reduce;
mod scan;

use byoc_plugin_api::{Attribute, CustomAttribute, Error, Node, Operator, OutputRule, Refusal, Region};

use crate::backend::{Mutant, host, no_types};
use crate::call::{Bugs, Call};
use crate::check;
use crate::tensor::Tensor;

const BUGS: Bugs = &[
    ("none", "Nothing is wrong"),
    ("softmax-axis-last", "Softmax goes along the last axis"),
    ("softmax-flat", "Softmax goes along all axes from its own on, as in old models"),
    ("softmax-overflow", "Softmax does not subtract the maximum"),
    ("softmax-sum-32", "Softmax adds up the first 32 elements"),
    ("softmax-tail-4", "Softmax gives 0 behind the last full 4 elements, where there are 4"),
    ("softmax-log", "LogSoftmax is the logarithm of Softmax, which may be 0"),
    ("log-softmax-axis-last", "LogSoftmax goes along the last axis"),
    ("reduce-first-axis", "Of several axes the first one alone is reduced"),
    ("reduce-last-axis", "Reductions go along the last axes, as many as there are"),
    ("reduce-negative-axis", "Negative axes of reductions are the first one"),
    ("reduce-keepdims", "Reductions without keepdims are given with them"),
    ("reduce-no-axes", "Reductions without axes go along the last one"),
    ("reduce-noop-ignored", "Reductions reduce everything where axes are empty and noop_with_empty_axes is set"),
    ("reduce-tail-4", "Elements behind the last full 4 are left out of reductions, where there are 4"),
    ("reduce-first-64", "Reductions are over the first 64 elements"),
    ("sum-twice", "ReduceSum adds the first element twice where there are two axes"),
    ("mean-last-size", "ReduceMean divides by the size of the last axis it goes along"),
    ("max-from-zero", "ReduceMax begins with 0"),
    ("max-nan", "ReduceMax leaves NaN out"),
    ("min-from-zero", "ReduceMin begins with 0"),
    ("min-nan", "ReduceMin leaves NaN out"),
    ("l2-no-root", "ReduceL2 is the sum of squares"),
    ("l2-signed", "ReduceL2 leaves out what is below 0"),
    ("arg-last-ignored", "ArgMax and ArgMin give the first of equal elements, whatever select_last_index says"),
    ("arg-last-always", "ArgMax and ArgMin give the last of equal elements"),
    ("arg-axis-last", "ArgMax and ArgMin go along the last axis"),
    ("arg-keepdims", "ArgMax and ArgMin without keepdims are given with them"),
    ("arg-flat", "ArgMax and ArgMin give the place in the whole tensor"),
    ("arg-min-absolute", "ArgMin compares absolute values"),
    ("arg-max-from-zero", "ArgMax begins with 0"),
    ("layer-epsilon", "LayerNormalization takes epsilon for 1e-5"),
    ("layer-last-axis", "LayerNormalization is over the last axis alone"),
    ("layer-bias-ignored", "LayerNormalization does not add the bias"),
    ("layer-variance-unbiased", "LayerNormalization divides the variance by one less"),
    ("layer-one-pass", "LayerNormalization takes the variance for the mean of squares less the square of the mean"),
    ("layer-epsilon-outside", "LayerNormalization adds epsilon to the deviation"),
    ("layer-scale-first", "LayerNormalization reads the scale by the row"),
    ("batch-epsilon", "BatchNormalization takes epsilon for 1e-5"),
    ("batch-channel-last", "BatchNormalization takes the last axis for that of channels"),
    ("batch-deviation", "BatchNormalization takes the variance for the deviation"),
    ("batch-mean-ignored", "BatchNormalization does not subtract the mean"),
    ("batch-scale-and-bias", "BatchNormalization exchanges scale and bias"),
    ("batch-channels-8", "BatchNormalization leaves channels from the ninth on as they are"),
    ("instance-epsilon", "InstanceNormalization takes epsilon for 1e-5"),
    ("instance-over-batch", "InstanceNormalization has the mean of the first image"),
    ("cumsum-exclusive-ignored", "CumSum has the element itself in its sum"),
    ("cumsum-reverse-ignored", "CumSum goes from the front"),
    ("cumsum-both", "CumSum that is both exclusive and reverse is only reverse"),
    ("cumsum-axis-last", "CumSum goes along the last axis"),
    ("cumsum-negative-axis", "A negative axis of CumSum is the first one"),
    ("strided-constant", "Constants are read as they lie in memory, whatever their strides"),
];

/// The backend.
pub(crate) const BACKEND: Mutant = Mutant {
    name: "mutant-axes",
    summary: "Operators along axes, with a bug if one is asked for",
    patterns: &[
        "(Softmax ?x)",
        "(LogSoftmax ?x)",
        "(ReduceSum ?x ?axes:const?)",
        "(ReduceMean ?x ?axes:const?)",
        "(ReduceMax ?x ?axes:const?)",
        "(ReduceMin ?x ?axes:const?)",
        "(ReduceL2 ?x ?axes:const?)",
        "(ArgMax ?x)",
        "(ArgMin ?x)",
        "(LayerNormalization ?x ?scale ?b?)",
        "(BatchNormalization ?x ?scale ?b ?mean ?var)",
        "(InstanceNormalization ?x ?scale ?b)",
        "(CumSum ?x ?axis:const)",
    ],
    bugs: BUGS,
    operators,
    infer: no_types,
    check,
    wants: host,
    kernel,
};

fn operators() -> Vec<Operator> {
    let attributes = vec![CustomAttribute::with_default("epsilon", Attribute::Float(1e-5))];
    let outputs = vec![OutputRule::like(0)];
    vec![Operator { name: "InstanceNormalization".into(), inputs: 3, attributes, outputs, ..Operator::default() }]
}

fn check(region: &Region, node: &Node) -> Result<(), Refusal> {
    check::one_output(node)?;
    match node.op.as_str() {
        "BatchNormalization" | "InstanceNormalization" => check::ranks(region, node, &[2, 3, 4, 5]),
        _ => Ok(()),
    }
}

fn kernel(call: &mut Call<'_>) -> Result<Vec<Tensor>, Error> {
    Ok(vec![match call.node.op.as_str() {
        "Softmax" | "LogSoftmax" => scan::softmax(call)?,
        "CumSum" => scan::cumulative(call)?,
        "ArgMax" | "ArgMin" => reduce::place(call)?,
        "LayerNormalization" => normal::layer(call)?,
        "BatchNormalization" => normal::batch(call)?,
        "InstanceNormalization" => normal::instance(call)?,
        op if op.starts_with("Reduce") => reduce::reduce(call)?,
        _ => return Err(call.unknown()),
    }])
}

//! What is known of a value's rank and element type before types are inferred: as much as old forms need, whose meaning
//! depends on it. Never a guess; `None` means not known.

use byoc_plugin_api::{Attribute, DType};

use super::builder::Builder;
use crate::ir::{Node, ValueId};

/// Rank and element type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) rank: Option<usize>,
    pub(super) dtype: Option<DType>,
}

/// Operators whose output has rank and type of input 0.
#[rustfmt::skip]
const LIKE_INPUT: &[&str] = &[
    "Abs", "AveragePool", "BatchNormalization", "Ceil", "Clip", "CumSum", "Dropout", "Elu", "Erf", "Exp", "Floor",
    "Gelu", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish", "Identity", "InstanceNormalization",
    "LRN", "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "MaxPool", "Neg", "PRelu", "Pad", "Reciprocal",
    "Relu", "Resize", "Selu", "Sigmoid", "Slice", "Softmax", "Softplus", "Sqrt", "Tanh", "Tile", "Transpose",
];

/// Operators whose inputs are broadcast to one rank.
const BROADCAST: &[&str] = &["Add", "Div", "Max", "Min", "Mul", "Pow", "Sub", "Sum"];

/// As [`BROADCAST`], with a boolean result.
const COMPARE: &[&str] = &["And", "Equal", "Greater", "Less", "Or", "Xor"];

/// What is known of the outputs of `node`.
pub(super) fn of_outputs(builder: &Builder<'_>, node: &Node) -> Vec<Fact> {
    let fact = |index: usize| node.input(index).map(|id| builder.fact(id)).unwrap_or_default();
    let all: Vec<Fact> = node.inputs.iter().flatten().map(|&id| builder.fact(id)).collect();
    let (rank, dtype) = (fact(0).rank, fact(0).dtype);
    let shift = |by: Option<usize>, op: fn(usize, usize) -> Option<usize>| op(rank?, by?);
    let rank = match node.op.as_str() {
        "Split" => return vec![fact(0); node.outputs.len()],
        op if LIKE_INPUT.contains(&op) => rank,
        op if BROADCAST.contains(&op) => widest(&all),
        op if COMPARE.contains(&op) => {
            return vec![Fact { rank: widest(&all), dtype: Some(DType::Bool) }];
        }
        op if op.starts_with("Reduce") && node.int("keepdims", 1) == 1 => rank,
        "Conv" => rank.or(fact(1).rank),
        "Concat" => all.iter().find_map(|fact| fact.rank),
        "Cast" => return vec![Fact { rank, dtype: None }],
        "Gemm" | "Flatten" => Some(2),
        "MatMul" => widest(&all).filter(|_| all.iter().all(|fact| fact.rank.is_some_and(|rank| rank >= 2))),
        "Reshape" => length(builder, node.input(1)),
        "Squeeze" => shift(length(builder, node.input(1)), usize::checked_sub),
        "Unsqueeze" => shift(length(builder, node.input(1)), usize::checked_add),
        "Gather" => shift(fact(1).rank, |data, indices| (data + indices).checked_sub(1)),
        "Shape" => {
            return vec![Fact { rank: Some(1), dtype: Some(DType::I64) }];
        }
        "ConstantOfShape" => {
            return vec![Fact { rank: length(builder, node.input(0)), dtype: fill_type(node) }];
        }
        _ => return vec![Fact::default()],
    };
    vec![Fact { rank, dtype }]
}

/// The rank after broadcasting, where every rank is known.
fn widest(facts: &[Fact]) -> Option<usize> {
    facts.iter().map(|fact| fact.rank).collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// How many elements a constant or typed vector has.
fn length(builder: &Builder<'_>, id: Option<ValueId>) -> Option<usize> {
    match builder.graph.value(id?).ty.as_ref()?.shape.as_slice() {
        [length] => length.fixed(),
        _ => None,
    }
}

/// The element type that ConstantOfShape makes.
fn fill_type(node: &Node) -> Option<DType> {
    match node.attributes.get("value") {
        Some(Attribute::Tensor { dtype, .. }) => Some(*dtype),
        Some(_) => None,
        None => Some(DType::F32),
    }
}

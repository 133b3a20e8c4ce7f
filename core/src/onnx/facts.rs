//! What is known of a value's rank and element type before types are inferred: as much as old forms need, whose meaning
//! depends on it. Never a guess; `None` means not known.

use byoc_plugin_api::{Attribute, DType};

use super::builder::Builder;
use crate::ir::{Node, ValueId};
use crate::ops::{self, Like};

/// Rank and element type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) rank: Option<usize>,
    pub(super) dtype: Option<DType>,
}

/// What is known of the outputs of `node`.
pub(super) fn of_outputs(builder: &Builder<'_>, node: &Node) -> Vec<Fact> {
    let fact = |index: usize| node.input(index).map(|id| builder.fact(id)).unwrap_or_default();
    let all: Vec<Fact> = node.inputs.iter().flatten().map(|&id| builder.fact(id)).collect();
    let (rank, dtype) = (fact(0).rank, fact(0).dtype);
    let shift = |by: Option<usize>, op: fn(usize, usize) -> Option<usize>| op(rank?, by?);
    let like = ops::find(&node.domain, &node.op).map_or(Like::Nothing, |def| def.like);
    let rank = match node.op.as_str() {
        _ if matches!(like, Like::First | Like::Rank) => rank,
        _ if like == Like::Broadcast => widest(&all),
        _ if like == Like::Compared => return vec![Fact { rank: widest(&all), dtype: Some(DType::Bool) }],
        "Split" => return vec![fact(0); node.outputs.len()],
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

//! Ranks and element types before type inference, as far as rewrites of old operator forms need them. Never a guess:
//! `None` means not known.

use byoc_plugin_api::{Attribute, DType};

use super::builder::Builder;
use crate::ir::{Node, ValueId};
use crate::ops::{self, Like, strings};

/// Rank and element type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EarlyType {
    pub(super) rank: Option<usize>,
    pub(super) dtype: Option<DType>,
}

/// The early types of the outputs of `node`; nothing is known of those that a backend brings.
pub(super) fn of_outputs(builder: &Builder<'_>, node: &Node) -> Vec<EarlyType> {
    if node.version.is_some() {
        return vec![EarlyType::default(); node.outputs.len()];
    }
    let early_type = |index: usize| node.input(index).map(|id| builder.early_type(id)).unwrap_or_default();
    let all: Vec<EarlyType> = node.inputs.iter().flatten().map(|&id| builder.early_type(id)).collect();
    let (rank, dtype) = (early_type(0).rank, early_type(0).dtype);
    let shift = |by: Option<usize>, op: fn(usize, usize) -> Option<usize>| op(rank?, by?);
    let like = ops::find(&node.domain, &node.op).map_or(Like::Nothing, |def| def.like);
    let rank = match node.op.as_str() {
        _ if matches!(like, Like::First | Like::Rank) => rank,
        _ if like == Like::Broadcast => widest(&all),
        _ if like == Like::Compared => return vec![EarlyType { rank: widest(&all), dtype: Some(DType::Bool) }],
        "Split" => return vec![early_type(0); node.outputs.len()],
        op if op.starts_with("Reduce") && node.int("keepdims", 1) == 1 => rank,
        "Conv" => rank.or(early_type(1).rank),
        "Concat" => all.iter().find_map(|early_type| early_type.rank),
        strings::DECODE => {
            return vec![EarlyType { rank: node.ints("shape").map(<[i64]>::len), dtype: Some(DType::String) }];
        }
        "Cast" => return vec![EarlyType { rank, dtype: None }],
        "Gemm" | "Flatten" => Some(2),
        "MatMul" => widest(&all).filter(|_| all.iter().all(|early_type| early_type.rank.is_some_and(|rank| rank >= 2))),
        "Reshape" => length(builder, node.input(1)),
        "Squeeze" => shift(length(builder, node.input(1)), usize::checked_sub),
        "Unsqueeze" => shift(length(builder, node.input(1)), usize::checked_add),
        "Gather" => shift(early_type(1).rank, |data, indices| (data + indices).checked_sub(1)),
        "Shape" => {
            return vec![EarlyType { rank: Some(1), dtype: Some(DType::I64) }];
        }
        "ConstantOfShape" => {
            return vec![EarlyType { rank: length(builder, node.input(0)), dtype: fill_type(node) }];
        }
        _ => return vec![EarlyType::default()],
    };
    vec![EarlyType { rank, dtype }]
}

/// The rank after broadcasting, where every rank is known.
fn widest(types: &[EarlyType]) -> Option<usize> {
    types.iter().map(|early_type| early_type.rank).collect::<Option<Vec<_>>>()?.into_iter().max()
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

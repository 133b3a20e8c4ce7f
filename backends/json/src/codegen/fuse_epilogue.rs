//! A bias, a residual and an activation go into the convolution, matrix product or sum before them.

use super::graph::{Graph, Rewrite, Search};
use super::lower::{Role, role};
use crate::kernels::{Activation, Binary, Unary};
use crate::program::{Op, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    graph.rewrite(fuse);
}

/// The step at `index` together with the one whose result it reads, if it is the only reader.
fn fuse(search: &Search<'_, '_>, index: usize) -> Option<Rewrite> {
    let step = &search.graph.steps[index];
    let before = |position: usize| {
        let value = step.input(position)?;
        search.reader(value)?;
        search.producer(value)
    };
    let (first, fused) = match &step.op {
        Op::Unary { function: Unary::Act(act) } => {
            let (at, first) = before(0)?;
            (at, with_act(first, *act, step)?)
        }
        Op::Binary { function: Binary::Add, act } => {
            // The later of two candidates: the other one is then there as a residual.
            let mut candidates: Vec<_> = (0..2).filter_map(|i| Some((before(i)?, i))).collect();
            candidates.sort_unstable_by_key(|((at, _), _)| std::cmp::Reverse(*at));
            candidates.into_iter().find_map(|((at, first), position)| {
                let other = step.input(1 - position)?;
                Some((at, with_sum(search.graph, first, other, *act, step)?))
            })?
        }
        _ => return None,
    };
    Some(Rewrite { at: index, step: fused, gone: vec![first] })
}

/// `first` followed by an activation, writing what `step` writes.
fn with_act(first: &Step, act: Activation, step: &Step) -> Option<Step> {
    let mut fused = first.clone();
    let place = match &mut fused.op {
        Op::Conv(conv) => &mut conv.act,
        Op::Gemm(gemm) => &mut gemm.act,
        Op::Affine { act } | Op::Binary { act, .. } => act,
        _ => return None,
    };
    if *place != Activation::None {
        return None;
    }
    *place = act;
    fused.outputs.clone_from(&step.outputs);
    Some(fused)
}

/// `act(first + other)`, writing what `step` writes.
fn with_sum(graph: &Graph<'_>, first: &Step, other: usize, act: Activation, step: &Step) -> Option<Step> {
    let (y, sum) = (first.output(0)?, step.output(0)?);
    if graph.shape(y) != graph.shape(sum) {
        return None;
    }
    let mut fused = first.clone();
    fused.inputs.resize(4, None);
    let position = match &mut fused.op {
        Op::Conv(conv) if conv.act == Activation::None && graph.shape(other) == graph.shape(y) => {
            conv.act = act;
            3
        }
        Op::Gemm(gemm) if gemm.act == Activation::None => {
            gemm.act = act;
            match role(graph, other, y)? {
                // A bias that is [M, 1] would be ambiguous on a batch of products; `role` gives it for one only.
                Role::Bias => 2,
                Role::Residual => 3,
            }
        }
        _ => return None,
    };
    if fused.inputs[position].is_some() {
        return None;
    }
    fused.inputs[position] = Some(other);
    fused.outputs.clone_from(&step.outputs);
    Some(fused)
}

//! Operators that only move elements: of any type whose elements have bytes of their own.

use byoc_plugin_api::{DType, Dim};

use super::super::graph::Graph;
use super::super::widen::is_narrow;
use super::{axis, is_index, with};
use crate::program::{Op, Step};

/// More dimensions than the copy kernels take.
const MAX_RANK: usize = 12;

pub(super) fn lower(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    if !fits(graph, step) {
        return None;
    }
    let x = step.input(0)?;
    let rank = graph.shape(x).len();
    match step.onnx()? {
        "Transpose" => Some(with(step, Op::Transpose { perm: permutation(step, rank)? }, 1)),
        "Concat" => {
            let axis = axis(step.int("axis", 0), rank)?;
            step.inputs.iter().all(Option::is_some).then(|| with(step, Op::Concat { axis }, usize::MAX))
        }
        "Split" => {
            let mut split = with(step, Op::Split { axis: axis(step.int("axis", 0), rank)? }, 1);
            split.outputs.clone_from(&step.outputs);
            (split.outputs.len() <= 64 && split.outputs.iter().all(Option::is_some)).then_some(split)
        }
        "Slice" => {
            let (starts, steps) = cut(graph, step, rank)?;
            Some(with(step, Op::Slice { starts, steps }, 1))
        }
        "Gather" => {
            let axis = axis(step.int("axis", 0), rank)?;
            is_index(graph, step.input(1)?).then(|| with(step, Op::Gather { axis }, 2))
        }
        "Expand" => Some(with(step, Op::Expand, 1)),
        "Cast" => {
            let dtype = |value: usize| graph.values[value].dtype;
            let (from, to) = (dtype(x), dtype(step.output(0)?));
            let between = from == DType::F32 && is_narrow(to) || is_narrow(from) && to == DType::F32;
            between.then(|| with(step, Op::Convert, 1))
        }
        "Where" => choose(graph, step),
        "ScatterElements" if step.text("reduction", "none") == "none" => {
            let axis = axis(step.int("axis", 0), rank)?;
            (is_index(graph, step.input(1)?) && fits_kernel(graph, x)).then(|| with(step, Op::Scatter { axis }, 3))
        }
        "Pad" => pad(graph, step, rank),
        _ => None,
    }
}

/// Whether the first input and output can be moved element by element: they have bytes of their own and no more axes than kernels take.
pub(in crate::codegen) fn fits(graph: &Graph<'_>, step: &Step) -> bool {
    [step.input(0), step.output(0)].iter().all(|value| {
        value.is_some_and(|value| !graph.values[value].dtype.shares_bytes() && graph.shape(value).len() <= MAX_RANK)
    })
}

/// Whether elements have a number of bytes that the kernels take.
fn fits_kernel(graph: &Graph<'_>, value: usize) -> bool {
    matches!(graph.values[value].dtype.element_bytes(), Some(1 | 2 | 4 | 8))
}

fn choose(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let (condition, a, b, y) = (step.input(0)?, step.input(1)?, step.input(2)?, step.output(0)?);
    let dtype = |value: usize| graph.values[value].dtype;
    let fits = dtype(condition) == DType::Bool && [a, b].iter().all(|&value| dtype(value) == dtype(y));
    (fits && fits_kernel(graph, y)).then(|| with(step, Op::Choose, 3))
}

/// Padding by one value. The widths may be known at the run only: shapes say how large the output is.
fn pad(graph: &Graph<'_>, step: &Step, rank: usize) -> Option<Step> {
    let (x, widths) = (step.input(0)?, step.input(1)?);
    let mut axes: Vec<usize> = match step.input(3) {
        Some(axes) => graph.ints(axes)?.into_iter().map(|value| axis(value, rank)).collect::<Option<_>>()?,
        None => (0..rank).collect(),
    };
    let op = Op::Pad { axes: axes.clone() };
    axes.sort_unstable();
    axes.dedup();
    let two_each = graph.shape(widths) == [Dim::Fixed(2 * axes.len())];
    let fits = step.text("mode", "constant") == "constant" && graph.values[widths].dtype == DType::I64 && two_each;
    (fits && fits_kernel(graph, x)).then(|| with(step, op, 3))
}

/// The axis of the input for each axis of the output of a `Transpose`.
pub(in crate::codegen) fn permutation(step: &Step, rank: usize) -> Option<Vec<usize>> {
    let perm: Vec<usize> = match step.ints("perm") {
        Some(perm) => perm.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<_>>()?,
        None => (0..rank).rev().collect(),
    };
    (perm.len() == rank && (0..rank).all(|axis| perm.contains(&axis))).then_some(perm)
}

/// The first element of each axis that a `Slice` takes, and how far the next one is.
pub(in crate::codegen) fn cut(graph: &Graph<'_>, step: &Step, rank: usize) -> Option<(Vec<i64>, Vec<i64>)> {
    let given = graph.ints(step.input(1)?)?;
    let axes = match step.input(3) {
        Some(axes) => graph.ints(axes)?.into_iter().map(|value| axis(value, rank)).collect::<Option<_>>()?,
        None => (0..given.len()).collect::<Vec<_>>(),
    };
    let distances = match step.input(4) {
        Some(steps) => graph.ints(steps)?,
        None => vec![1; given.len()],
    };
    if axes.len() != given.len() || distances.len() != given.len() || distances.contains(&0) {
        return None;
    }
    let (mut starts, mut steps) = (vec![0; rank], vec![1; rank]);
    for ((&axis, &start), &distance) in axes.iter().zip(&given).zip(&distances) {
        *starts.get_mut(axis)? = start;
        steps[axis] = distance;
    }
    Some((starts, steps))
}

//! Operators that choose elements by place or by value: `Resize`, `GridSample`, `TopK`.

use byoc_plugin_api::{Attribute, DType, Dim};

use super::super::graph::Graph;
use super::{axis, with};
use crate::kernels::{Beyond, Sampling};
use crate::program::{GridSample, Op, Step};

/// Of f32 tensors.
pub(super) fn lower(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    match step.onnx()? {
        "Resize" => resize(graph, step),
        "GridSample" => grid_sample(graph, step),
        "TopK" => top_k(graph, step),
        _ => None,
    }
}

/// With factors or sizes that are known.
fn resize(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let Op::Reference { attributes, .. } = &step.op else { return None };
    let mut attributes = attributes.clone();
    let floats = |input: usize| match step.input(input) {
        Some(value) if graph.values[value].dtype != DType::F32 => None,
        Some(value) if graph.shape(value) == [Dim::Fixed(0)] => Some(Vec::new()),
        Some(value) => graph.floats(value),
        None => Some(Vec::new()),
    };
    let sizes = match step.input(3) {
        Some(value) if graph.shape(value) == [Dim::Fixed(0)] => Vec::new(),
        Some(value) => graph.ints(value)?,
        None => Vec::new(),
    };
    let (roi, scales) = (floats(1)?, floats(2)?);
    if step.text("mode", "nearest") != "nearest" && !is_plane(graph, step, &scales, &sizes, roi.is_empty())? {
        return None;
    }
    for (name, list) in [("roi", roi), ("scales", scales)] {
        if !list.is_empty() {
            attributes.insert(name.into(), Attribute::Floats(list));
        }
    }
    if !sizes.is_empty() {
        attributes.insert("sizes".into(), Attribute::Ints(sizes));
    }
    Some(with(step, Op::Resize { attributes }, 1))
}

/// Whether no more than two axes change, and those are side by side.
fn is_plane(graph: &Graph<'_>, step: &Step, scales: &[f32], sizes: &[i64], whole: bool) -> Option<bool> {
    let shape = graph.shape(step.input(0)?);
    let axes: Vec<usize> = match step.ints("axes") {
        Some(axes) => axes.iter().map(|&value| axis(value, shape.len())).collect::<Option<_>>()?,
        None => (0..shape.len()).collect(),
    };
    let stretched = step.text("keep_aspect_ratio_policy", "stretch") == "stretch";
    let stays = |at: usize| match (scales.get(at), sizes.get(at)) {
        _ if !whole => false,
        (Some(&scale), _) => scale == 1.0,
        (None, Some(&size)) => stretched && shape[axes[at]].fixed() == usize::try_from(size).ok(),
        (None, None) => false,
    };
    let mut changed: Vec<usize> = (0..axes.len()).filter(|&at| !stays(at)).map(|at| axes[at]).collect();
    changed.sort_unstable();
    Some(match changed[..] {
        [] | [_] => true,
        [first, second] => shape[first + 1..second].iter().all(|size| *size == Dim::Fixed(1)),
        _ => false,
    })
}

/// Of images, by the nearest pixel or by four.
fn grid_sample(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let (x, grid) = (step.input(0)?, step.input(1)?);
    let sampling = match step.text("mode", "linear") {
        "nearest" => Sampling::Nearest,
        "linear" => Sampling::Linear,
        _ => return None,
    };
    let beyond = match step.text("padding_mode", "zeros") {
        "zeros" => Beyond::Zeros,
        "border" => Beyond::Border,
        "reflection" => Beyond::Reflection,
        _ => return None,
    };
    let images = [x, grid].iter().all(|&value| graph.is_fast(value) && graph.shape(value).len() == 4);
    let op = Op::GridSample(GridSample { sampling, beyond, align_corners: step.int("align_corners", 0) != 0 });
    images.then(|| with(step, op, 2))
}

/// Along the last axis. How many there are is a size of the output.
fn top_k(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let (x, k) = (step.input(0)?, graph.ints(step.input(1)?)?);
    let rank = graph.shape(x).len();
    let last = axis(step.int("axis", -1), rank)? + 1 == rank;
    let output = step.outputs.iter().flatten().next().and_then(|&output| graph.shape(output).last()?.fixed());
    let told = matches!(k[..], [k] if usize::try_from(k).ok() == output);
    let mut best = with(step, Op::TopK { smallest: step.int("largest", 1) == 0 }, 1);
    best.outputs.clone_from(&step.outputs);
    best.outputs.truncate(2);
    (last && told).then_some(best)
}

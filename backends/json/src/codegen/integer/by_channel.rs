//! Factors and offsets for each channel between `DequantizeLinear` and `QuantizeLinear`: normalisations, products and sums.
//!
//! Channels are the second axis of four, as of images, or the last one of two or three, as of rows of products.

use byoc_plugin_api::Dim;

use super::super::fold_norm;
use super::super::graph::{Graph, Search};
use super::{Dequantised, Scaling};
use crate::kernels::Activation;
use crate::program::integer::affine::{COUNT, FACTORS, OFFSETS, X, Y_SCALE};
use crate::program::{Op, Step};

/// Normalisations between dequantised and quantised images become a factor and an offset for each channel.
pub(super) fn norms(graph: &mut Graph<'_>) {
    let edges = graph.edges();
    for index in 0..graph.steps.len() {
        let step = &graph.steps[index];
        let writer = step.input(0).and_then(|x| edges.producer(x)).map(|writer| &graph.steps[writer]);
        let reader = step.output(0).and_then(|y| edges.reader(y)).map(|reader| &graph.steps[reader]);
        let dequantised = writer.is_some_and(|writer| Dequantised::of(graph, writer).is_some());
        let quantised = reader.is_some_and(|reader| matches!(reader.onnx(), Some("QuantizeLinear" | "Relu")));
        if step.onnx() == Some("BatchNormalization")
            && dequantised
            && quantised
            && let Some(affine) = fold_norm::affine(graph, &edges, index, false)
        {
            graph.steps[index] = affine.step;
        }
    }
}

/// The inputs of an [`Op::IntegerAffine`] that is the function of dequantised images that `step` is.
pub(super) fn inputs(search: &Search<'_, '_>, step: &Step, to: &Scaling) -> Option<Vec<Option<usize>>> {
    let y = step.output(0)?;
    let (x, from, factors, offsets) = match (&step.op, step.onnx()) {
        (Op::Affine { act: Activation::None }, _) => {
            let x = images(search, step.input(0)?, y)?;
            (x.0, x.1, step.input(1), step.input(2))
        }
        (_, Some("Mul")) => {
            let (x, from, factors) = beside(search, step, y)?;
            (x, from, Some(factors), None)
        }
        (_, Some("Add" | "Sum")) => {
            let (x, from, offsets) = beside(search, step, y)?;
            (x, from, None, Some(offsets))
        }
        _ => return None,
    };
    let mut inputs = vec![None; COUNT];
    inputs[X..FACTORS].clone_from_slice(&[Some(x), Some(from.scale), from.zero]);
    (inputs[FACTORS], inputs[OFFSETS]) = (factors, offsets);
    inputs[Y_SCALE..].clone_from_slice(&[Some(to.scale), to.zero]);
    Some(inputs)
}

/// The bytes behind images of the shape of `y`.
fn images(search: &Search<'_, '_>, value: usize, y: usize) -> Option<(usize, Scaling)> {
    let graph = search.graph;
    let given = Dequantised::of(graph, search.producer(value)?.1)?;
    let from = given.scaling().filter(|_| graph.shape(value) == graph.shape(y))?;
    Some((given.integers, from))
}

/// The images that a step takes, and the numbers by channel beside them.
fn beside(search: &Search<'_, '_>, step: &Step, y: usize) -> Option<(usize, Scaling, usize)> {
    let &[Some(a), Some(b)] = &step.inputs[..] else { return None };
    let with = |x: usize, numbers: usize| {
        let (x, from) = images(search, x, y)?;
        is_by_channel(search.graph, numbers, y).then_some((x, from, numbers))
    };
    with(a, b).or_else(|| with(b, a))
}

/// Whether a value has one number for each channel of the images, or of each of them.
fn is_by_channel(graph: &Graph<'_>, value: usize, images: usize) -> bool {
    let (shape, out) = (graph.shape(value), graph.shape(images));
    let channels = match out.len() {
        2 | 3 => out.len() - 1,
        4 => 1,
        _ => return false,
    };
    let one = Dim::Fixed(1);
    let of = |axis: usize| (shape.len() + axis).checked_sub(out.len()).map_or(&one, |at| &shape[at]);
    let by_axis = |axis: usize| match axis {
        0 => *of(0) == one || *of(0) == out[0] && out.len() > 2,
        _ if axis == channels => *of(axis) == out[axis],
        _ => *of(axis) == one,
    };
    let known = matches!(out[channels], Dim::Fixed(count) if count > 0);
    known && shape.len() <= out.len() && (0..out.len()).all(by_axis) && graph.is_fast(value)
}

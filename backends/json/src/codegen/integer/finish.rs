//! What follows an integer product goes into it: the scale, the bias, a clamp, and the way back to 8 bits.

use byoc_plugin_api::DType;

use super::super::graph::{Graph, Rewrite, Search};
use super::{Scaling, clamp, elements, is_bytes, is_scale};
use crate::kernels::{Activation, Binary};
use crate::program::integer::product::{A_SCALE, B_SCALE, BIAS, Y_SCALE, Y_ZERO};
use crate::program::{Op, Step};

/// Fuses wherever there is something to fuse.
pub(in super::super) fn run(graph: &mut Graph<'_>) {
    graph.rewrite(fuse);
}

/// The clamp of a product, if the step is one.
fn act(step: &Step) -> Option<Activation> {
    match &step.op {
        Op::IntegerGemm(gemm) => Some(gemm.act),
        Op::IntegerConv(conv) => Some(conv.act),
        _ => None,
    }
}

fn with_act(mut step: Step, act: Activation) -> Step {
    match &mut step.op {
        Op::IntegerGemm(gemm) => gemm.act = act,
        Op::IntegerConv(conv) => conv.act = act,
        _ => {}
    }
    step
}

fn is_scaled(step: &Step) -> bool {
    step.input(A_SCALE).or(step.input(B_SCALE)).is_some()
}

/// The step at `index` together with the product whose result it alone reads.
fn fuse(search: &Search<'_, '_>, index: usize) -> Option<Rewrite> {
    let step = &search.graph.steps[index];
    let (before, mut fused) = match &step.op {
        Op::Binary { function: Binary::Mul, act } if act.as_clamp().is_some() => scaled(search, step, *act),
        Op::Binary { function: Binary::Add, act } if act.as_clamp().is_some() => biased(search, step, *act),
        Op::Unary { .. } => {
            let (at, product) = open(search, step.input(0)?)?;
            let after = clamp(step).filter(|_| act(product) == Some(Activation::None))?;
            Some((vec![at], with_act(product.clone(), after)))
        }
        Op::Quantize => {
            let (at, product) = open(search, step.input(0)?)?;
            let scaling = Scaling::of(search.graph, step)
                .filter(|_| step.output(0).is_some_and(|y| is_bytes(search.graph, y)))?;
            let mut quantised = product.clone();
            (quantised.inputs[Y_SCALE], quantised.inputs[Y_ZERO]) = (Some(scaling.scale), scaling.zero);
            Some((vec![at], quantised))
        }
        _ => None,
    }?;
    // What follows must not broadcast the product.
    let shape = |value: Option<usize>| value.map(|value| search.graph.shape(value));
    if shape(fused.output(0)) != shape(step.output(0)) {
        return None;
    }
    fused.outputs.clone_from(&step.outputs);
    let gone = before.into_iter().chain([index]).collect();
    Some(Rewrite { at: index, step: fused, gone })
}

/// The product that writes a value, which one step reads.
fn product<'g>(search: &Search<'g, '_>, value: usize) -> Option<(usize, &'g Step)> {
    let (at, product) = search.producer(value).filter(|(_, step)| act(step).is_some())?;
    search.reader(value).map(|_| (at, product))
}

/// One that has its scales, and is not quantised yet.
fn open<'g>(search: &Search<'g, '_>, value: usize) -> Option<(usize, &'g Step)> {
    product(search, value).filter(|(_, product)| is_scaled(product) && product.input(Y_SCALE).is_none())
}

/// Sums that become numbers, times a scale or one for each column; and the steps before.
fn scaled(search: &Search<'_, '_>, step: &Step, after: Activation) -> Option<(Vec<usize>, Step)> {
    let with = |numbers: usize, other: usize| {
        let (cast_at, cast) = search.node(numbers, "Cast")?;
        let (at, product) = product(search, cast.input(0)?).filter(|(_, product)| !is_scaled(product))?;
        search.reader(numbers)?;
        let place = match () {
            () if is_scale(search.graph, other) => A_SCALE,
            () if by_column(search.graph, other, product) => B_SCALE,
            () => return None,
        };
        let mut scaled = with_act(product.clone(), after);
        scaled.inputs[place] = Some(other);
        Some((vec![at, cast_at], scaled))
    };
    let (a, b) = (step.input(0)?, step.input(1)?);
    with(a, b).or_else(|| with(b, a))
}

/// A product plus a number for each column.
fn biased(search: &Search<'_, '_>, step: &Step, after: Activation) -> Option<(Vec<usize>, Step)> {
    let with = |numbers: usize, other: usize| {
        let (at, product) = open(search, numbers)?;
        let free = act(product) == Some(Activation::None) && product.input(BIAS).is_none();
        let mut biased = with_act(product.clone(), after);
        biased.inputs[BIAS] = Some(other);
        (free && by_column(search.graph, other, product)).then_some((vec![at], biased))
    };
    let (a, b) = (step.input(0)?, step.input(1)?);
    with(a, b).or_else(|| with(b, a))
}

/// Whether a value has one number for each column of the product, or for each channel of the convolution.
fn by_column(graph: &Graph<'_>, value: usize, product: &Step) -> bool {
    let Some(y) = product.output(0) else { return false };
    let (Some(shape), out) = (graph.fixed_shape(value), graph.shape(y)) else { return false };
    // From behind.
    let axis = if matches!(product.op, Op::IntegerConv(_)) { out.len() - 1 } else { 1 };
    let Some(columns) = out.len().checked_sub(axis).and_then(|at| out.get(at)?.fixed()) else { return false };
    let place = shape.len().checked_sub(axis);
    let others = shape.iter().enumerate().all(|(at, &size)| Some(at) == place || size == 1);
    let fits = shape.len() <= out.len() && place.is_some_and(|at| shape[at] == columns);
    fits && others && elements(graph, value) == Some(columns) && graph.values[value].dtype == DType::F32
}

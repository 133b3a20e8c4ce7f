//! Groups of `DequantizeLinear`, an operator and `QuantizeLinear`.

use std::collections::HashMap;

use byoc_plugin_api::DType;

use super::super::graph::{Graph, Rewrite, Search};
use super::super::lower::{Role, role};
use super::super::window::Window;
use super::by_channel;
use super::products;
use super::table;
use super::{Dequantised, Scaling, elements, inputs, is_scale};
use crate::kernels::integer::combines;
use crate::kernels::{Activation, Binary};
use crate::program::integer::{combine, product};
use crate::program::{Combine, IntegerAverage, IntegerPool, Op, Step};

/// Finds groups in the nodes.
pub(in super::super) fn run(graph: &mut Graph<'_>) {
    // Steps change in place, so that what writes a value stays.
    let producers = graph.producers();
    for index in 0..graph.steps.len() {
        if let Some(step) = product_of_dequantised(graph, &producers, index) {
            graph.steps[index] = step;
        }
    }
    quantise_before_joining(graph);
    by_channel::norms(graph);
    graph.prune();
    graph.rewrite(step_of_bytes);
}

/// Tensors of different scales that are dequantised, concatenated and quantised again: each of them is quantised by itself, which a table
/// does, and bytes are concatenated.
fn quantise_before_joining(graph: &mut Graph<'_>) {
    let joined = joined(graph);
    for (index, mut step) in std::mem::take(&mut graph.steps).into_iter().enumerate() {
        if let Some((concat, dtype)) = joined.get(&index) {
            let mut bytes = concat.clone();
            for value in bytes.inputs.iter_mut().flatten() {
                let made = graph.add_value(*dtype, graph.shape(*value).to_vec(), false);
                let inputs = [Some(*value)].into_iter().chain(step.inputs[1..].iter().copied()).collect();
                graph.steps.push(Step { inputs, outputs: vec![Some(made)], ..step.clone() });
                *value = made;
            }
            bytes.outputs.clone_from(&step.outputs);
            step = bytes;
        }
        graph.steps.push(step);
    }
}

/// The concatenations of dequantised tensors that quantisations read, by those, and the types that these make.
fn joined(graph: &Graph<'_>) -> HashMap<usize, (Step, DType)> {
    let search = Search::new(graph);
    let concat = |index: usize| {
        let scaling = Scaling::quantising(graph, &graph.steps[index])?;
        let (at, concat) = search.node(graph.steps[index].input(0)?, "Concat")?;
        let mut alike = true;
        for &input in &concat.inputs {
            let from = Dequantised::of(graph, search.producer(input?)?.1)?.scaling()?;
            alike &= from.is(graph, &scaling);
        }
        let y = graph.steps[index].output(0)?;
        (!alike && search.hidden(&[at, index], y)).then(|| (concat.clone(), graph.values[y].dtype))
    };
    (0..graph.steps.len()).filter_map(|index| Some((index, concat(index)?))).collect()
}

/// A product or a convolution of two tensors that are dequantised, in integers.
fn product_of_dequantised(graph: &mut Graph<'_>, producers: &[Option<usize>], index: usize) -> Option<Step> {
    let step = &graph.steps[index];
    let op = step.onnx().filter(|op| ["MatMul", "Gemm", "Conv"].contains(op))?.to_owned();
    let step = step.clone();
    let (a, b, y) = (step.input(0)?, step.input(1)?, step.output(0)?);
    let left = Dequantised::writing(graph, producers, a).filter(|left| left.axis.is_none())?;
    let right = Dequantised::writing(graph, producers, b)?;
    if !graph.is_fast(y) {
        return None;
    }
    let (product, bias) = match op.as_str() {
        "Conv" => {
            if right.axis.is_some_and(|axis| axis != 0) {
                return None;
            }
            (products::conv(graph, &step, [left.integers, right.integers, y])?, step.input(2))
        }
        op => {
            let plain = step.int("transA", 0) == 0 && step.float("alpha", 1.0) == 1.0;
            let bias = step.input(2).filter(|_| op == "Gemm" && step.float("beta", 1.0) != 0.0);
            let as_it_is = bias.is_none() || step.float("beta", 1.0) == 1.0;
            let fits = bias.is_none_or(|bias| graph.is_fast(bias) && matches!(role(graph, bias, y), Some(Role::Bias)));
            let trans_b = op == "Gemm" && step.int("transB", 0) != 0;
            let columns = graph.shape(right.integers).len().checked_sub(if trans_b { 2 } else { 1 });
            if !plain || !as_it_is || !fits || right.axis.is_some_and(|axis| Some(axis) != columns) {
                return None;
            }
            (products::gemm(graph, [left.integers, right.integers, y], trans_b)?, bias)
        }
    };
    // A bias of one row, not of one column.
    if bias.is_some_and(|bias| elements(graph, bias) != Some(product.columns)) {
        return None;
    }
    let inputs = inputs(&[
        (product::A, Some(product.a)),
        (product::B, Some(product.b)),
        (product::A_ZERO, left.zero),
        (product::B_ZERO, right.zero),
        (product::A_SCALE, Some(left.scale)),
        (product::B_SCALE, Some(right.scale)),
        (product::BIAS, bias),
    ]);
    Some(Step { name: step.name.clone(), op: product.op, inputs, outputs: step.outputs[..1].to_vec() })
}

/// The operator that a step quantises the result of, in bytes, if everything before it is dequantised.
fn step_of_bytes(search: &Search<'_, '_>, index: usize) -> Option<Rewrite> {
    let graph = search.graph;
    let quantise = &graph.steps[index];
    let scaling = Scaling::quantising(graph, quantise)?;
    let (at, step) = search.producer(quantise.input(0)?)?;
    let dequantised = |value: usize| search.producer(value).and_then(|(_, step)| Dequantised::of(graph, step));
    let outputs = quantise.outputs.clone();
    let alone = |steps: &[usize]| search.hidden(steps, quantise.output(0).unwrap_or_default());
    let rewrite = |step: Step, gone: Vec<usize>| alone(&gone).then_some(Rewrite { at: index, step, gone });
    // The number itself.
    if let Some(x) = Dequantised::of(graph, step)
        && x.scaling().is_some_and(|from| from.is(graph, &scaling))
        && graph.values[x.integers].dtype == graph.values[outputs[0]?].dtype
    {
        let step = Step { name: quantise.name.clone(), op: Op::View, inputs: vec![Some(x.integers)], outputs };
        return Some(Rewrite { at: index, step, gone: vec![index] });
    }
    if let Some((bytes, op)) = table::of(search, index) {
        let step = Step { name: step.name.clone(), op, inputs: vec![Some(bytes)], outputs };
        return Some(Rewrite { at: index, step, gone: vec![index] });
    }
    if let Some(moved) = moved(search, step, &scaling, quantise) {
        return rewrite(moved, vec![at, index]);
    }
    if let Some((op, inputs)) = mean(search, step, &scaling) {
        return rewrite(Step { name: step.name.clone(), op, inputs, outputs }, vec![at, index]);
    }
    // A clamp between a sum and its quantisation.
    let (act, sum_at, sum) = match step.onnx() {
        Some("Relu") => {
            let (sum_at, sum) = search.producer(step.input(0)?)?;
            (Activation::Relu, sum_at, sum)
        }
        _ => (Activation::None, at, step),
    };
    let mut gone = vec![sum_at, at, index];
    gone.dedup();
    if let Some(function) = two(sum) {
        let (a, b) = (dequantised(sum.input(0)?), dequantised(sum.input(1)?));
        if let (Some(a), Some(b)) = (a, b)
            && let (Some(p), Some(q)) = (a.scaling(), b.scaling())
            && [a.integers, b.integers]
                .iter()
                .all(|&value| graph.shape(value) == graph.shape(outputs[0].unwrap_or(value)))
        {
            let mut inputs = vec![Some(a.integers), Some(p.scale), p.zero, Some(b.integers), Some(q.scale), q.zero];
            inputs.extend([Some(scaling.scale), scaling.zero]);
            debug_assert_eq!(inputs.len(), combine::COUNT);
            let op = Op::Combine(Combine { function, act });
            return rewrite(Step { name: sum.name.clone(), op, inputs, outputs }, gone);
        }
    }
    let inputs = by_channel::inputs(search, sum, &scaling)?;
    rewrite(Step { name: sum.name.clone(), op: Op::IntegerAffine { act }, inputs, outputs }, gone)
}

/// The windows of a pooling, and the padding below and to the right.
fn pool(graph: &Graph<'_>, step: &Step) -> Option<(IntegerPool, [usize; 2])> {
    let (x, y) = (graph.shape(step.input(0)?), graph.shape(step.output(0)?));
    let Window { kernel, strides, dilations, pads: [above, left, below, right] } = Window::of(step, x, y, None)?;
    Some((IntegerPool { kernel, strides, pads: [above, left], dilations }, [below, right]))
}

/// Means of dequantised images, of all pixels or of windows, and the inputs of such a step.
fn mean(search: &Search<'_, '_>, step: &Step, to: &Scaling) -> Option<(Op, Vec<Option<usize>>)> {
    let graph = search.graph;
    let x = Dequantised::of(graph, search.producer(step.input(0)?)?.1)?;
    let from = x.scaling()?;
    let op = match step.onnx()? {
        "GlobalAveragePool" if graph.shape(x.integers).len() == 4 => Op::IntegerMean,
        "AveragePool" => averaged(graph, step)?,
        _ => return None,
    };
    Some((op, vec![Some(x.integers), Some(from.scale), from.zero, Some(to.scale), to.zero]))
}

/// Means of windows.
fn averaged(graph: &Graph<'_>, step: &Step) -> Option<Op> {
    let (pool, ends) = pool(graph, step)?;
    let counted = (step.int("count_include_pad", 0) != 0).then_some(ends);
    Some(Op::IntegerAverage(IntegerAverage { pool, counted })).filter(|op| op.check().is_ok())
}

fn two(step: &Step) -> Option<Binary> {
    let function = match step.onnx()? {
        "Add" | "Sum" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        _ => return None,
    };
    Some(function).filter(|&function| combines(function) && step.inputs.len() == 2)
}

/// A step that moves elements of one scale and zero point, or takes the largest of them.
fn moved(search: &Search<'_, '_>, step: &Step, scaling: &Scaling, quantise: &Step) -> Option<Step> {
    let graph = search.graph;
    let y = quantise.output(0)?;
    let bytes = |value: usize| {
        let (_, step) = search.producer(value)?;
        let x = Dequantised::of(graph, step)?;
        let fits = x.scaling()?.is(graph, scaling) && graph.values[x.integers].dtype == graph.values[y].dtype;
        fits.then_some(x.integers)
    };
    let mut moved = step.clone();
    moved.outputs.clone_from(&quantise.outputs);
    match step.onnx() {
        None if step.op == Op::View => moved.inputs[0] = Some(bytes(step.input(0)?)?),
        Some("Transpose" | "Slice" | "Gather" | "Expand") => moved.inputs[0] = Some(bytes(step.input(0)?)?),
        Some("Concat") => {
            let given = step.inputs.iter().map(|&value| bytes(value?).map(Some));
            moved.inputs = given.collect::<Option<_>>()?;
        }
        Some("MaxPool") if step.outputs.get(1).copied().flatten().is_none() && step.int("storage_order", 0) == 0 => {
            let x = bytes(step.input(0)?)?;
            moved.op = Op::IntegerPool(pool(graph, step)?.0);
            moved.inputs = vec![Some(x)];
        }
        _ => return None,
    }
    debug_assert!(is_scale(graph, scaling.scale));
    Some(moved)
}

//! Recurrent layers with constant weights and ONNX's usual activation functions.

use byoc_plugin_api::DType;

use super::graph::Graph;
use crate::constants::Recipe;
use crate::kernels::{Activation, Cell};
use crate::program::{Op, Recurrent, Step};

/// Lowers every recurrent layer that has a fast kernel.
pub(super) fn run(graph: &mut Graph<'_>) {
    for index in 0..graph.steps.len() {
        if let Some(step) = lower(graph, index) {
            graph.steps[index] = step;
        }
    }
}

fn lower(graph: &mut Graph<'_>, index: usize) -> Option<Step> {
    let step = graph.steps[index].clone();
    if !matches!(step.onnx()?, "LSTM" | "GRU" | "RNN") || !takes(graph, &step) {
        return None;
    }
    let (w, r) = (step.input(1)?, step.input(2)?);
    let [weights, recurrence] = [w, r].map(|value| graph.constant(value).map(|constant| constant.id));
    let (&[_, _, k], &[directions, rows, hidden]) = (&*graph.fixed_shape(w)?, &*graph.fixed_shape(r)?) else {
        return None;
    };
    let cell = cell(&step, directions)?;
    let count = directions * cell.gates();
    if Some(rows) != cell.gates().checked_mul(hidden) || graph.fixed_shape(w)? != [directions, rows, k] {
        return None;
    }
    let layer = Recurrent {
        cell,
        directions,
        hidden,
        backwards: step.text("direction", "forward") == "reverse",
        by_batch: step.int("layout", 0) != 0,
    };
    Op::Recurrent(layer.clone()).check().ok()?;
    let w = graph.derive(Recipe::Gates { weights: weights?, count, k, n: hidden })?;
    let r = graph.derive(Recipe::Gates { weights: recurrence?, count, k: hidden, n: hidden })?;
    let mut inputs = vec![step.input(0), Some(w), Some(r)];
    inputs.extend((3..7).map(|index| step.input(index)));
    Some(Step { name: step.name, op: Op::Recurrent(layer), inputs, outputs: step.outputs })
}

/// Whether the kernel takes such tensors and attributes.
fn takes(graph: &Graph<'_>, step: &Step) -> bool {
    let fast = [0, 1, 2, 3, 5, 6]
        .into_iter()
        .filter_map(|index| step.input(index))
        .chain(step.outputs.iter().flatten().copied());
    let lengths = step.input(4).is_none_or(|lengths| graph.values[lengths].dtype == DType::I32);
    let plain = step.input(7).is_none() && !step.has("clip") && step.int("input_forget", 0) == 0;
    plain && lengths && fast.into_iter().all(|value| graph.is_fast(value))
}

/// The equations of the node; `None` where its activation functions are others than the kernel's.
fn cell(step: &Step, directions: usize) -> Option<Cell> {
    let names = step.texts("activations")?;
    let are = |usual: &[&str]| {
        let names = || names.chunks(usual.len());
        let alike = |names: &[String]| names.iter().zip(usual).all(|(name, usual)| name.eq_ignore_ascii_case(usual));
        names().len() == directions && names().all(|names| names.len() == usual.len() && alike(names))
    };
    let rnn = |act| Some(Cell::Rnn { act });
    match step.onnx()? {
        "LSTM" => are(&["Sigmoid", "Tanh", "Tanh"]).then_some(Cell::Lstm),
        "GRU" if !are(&["Sigmoid", "Tanh"]) => None,
        "GRU" => Some(Cell::Gru { linear_before_reset: step.int("linear_before_reset", 0) != 0 }),
        _ if are(&["Tanh"]) => rnn(Activation::Tanh),
        _ if are(&["Relu"]) => rnn(Activation::Relu),
        _ => None,
    }
}

//! Operators that move no data become views: reshapes, identities, and dropout as it is at inference.

use byoc_plugin_api::Dim;

use super::graph::Graph;
use crate::program::{Op, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    for index in 0..graph.steps.len() {
        mark_view(graph, index);
    }
    // A view of the same shape is the value itself. An output of the region needs a value of its own.
    let mut same_as: Vec<usize> = (0..graph.values.len()).collect();
    for index in 0..graph.steps.len() {
        let step = &mut graph.steps[index];
        step.inputs.iter_mut().flatten().for_each(|value| *value = same_as[*value]);
        let (Some(from), Some(to), true) = (step.input(0), step.output(0), step.op == Op::View) else { continue };
        if graph.shape(from) == graph.shape(to) && !graph.outputs.contains(&to) {
            same_as[to] = from;
        }
    }
    graph.prune();
}

fn mark_view(graph: &mut Graph<'_>, index: usize) {
    if is_view(graph, &graph.steps[index]) {
        let step = &mut graph.steps[index];
        step.op = Op::View;
        step.inputs.truncate(1);
        step.outputs.truncate(1);
    }
}

fn is_view(graph: &Graph<'_>, step: &Step) -> bool {
    let Op::Reference { op, .. } = &step.op else { return false };
    let (Some(input), Some(output)) = (step.input(0), step.output(0)) else { return false };
    match op.as_str() {
        "Identity" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => true,
        "Dropout" => {
            let training = step.input(2).is_some_and(|value| graph.ints(value) != Some(vec![0]));
            let mask = step.output(1).is_some_and(|mask| graph.is_read(mask));
            !training && !mask
        }
        "Cast" => graph.values[input].dtype == graph.values[output].dtype,
        "Pad" => {
            step.input(1).and_then(|widths| graph.ints(widths)).is_some_and(|all| all.iter().all(|&width| width == 0))
        }
        "Transpose" => moves_only_ones(step, &graph.values[input].shape),
        "Expand" => graph.values[input].shape == graph.values[output].shape,
        _ => false,
    }
}

/// Whether a transpose keeps the order of all dimensions that are not 1.
fn moves_only_ones(step: &Step, shape: &[Dim]) -> bool {
    let Op::Reference { attributes, .. } = &step.op else { return false };
    let Some(byoc_plugin_api::Attribute::Ints(perm)) = attributes.get("perm") else { return false };
    let real = perm.iter().filter(|&&axis| {
        usize::try_from(axis).ok().and_then(|axis| shape.get(axis)).is_some_and(|dim| dim.fixed() != Some(1))
    });
    real.is_sorted()
}

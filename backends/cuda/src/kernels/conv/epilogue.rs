//! Matches the epilogue of a convolution, which is fused into its kernel: a residual, and an activation.

use std::collections::BTreeSet;

use byoc_plugin_api::{Node, Refusal, RefusalCode, Region};

use super::{Activation, read};
use crate::kernels::{Kind, StandaloneKernel, only_reader};

/// The convolution at a node with its epilogue, of nodes that are not `taken`.
pub(crate) fn find(region: &Region, index: usize, taken: &BTreeSet<usize>) -> Result<StandaloneKernel, Refusal> {
    let node = &region.nodes[index];
    let mut spec = read(region, node)?;
    let output = node.output(0).ok_or_else(|| Refusal::new(RefusalCode::Other, "it has no result"))?;
    let mut found = StandaloneKernel {
        nodes: BTreeSet::from([index]),
        inputs: node.inputs.iter().take(3).flatten().copied().collect(),
        output,
        numbers: Vec::new(),
        kind: Kind::Conv(Box::new(spec.clone())),
    };
    let next = |value: usize| only_reader(region, value).filter(|(index, _)| !taken.contains(index));
    if let Some((index, sum, residual)) =
        next(output).and_then(|(index, node)| Some((index, node.output(0)?, addend(region, node, output)?)))
    {
        spec.residual = true;
        found.inputs.push(residual);
        (found.output, _) = (sum, found.nodes.insert(index));
    }
    let active = next(found.output).and_then(|(index, node)| {
        let (activation, numbers) = activation(region, node, found.output)?;
        Some((index, node.output(0)?, activation, numbers))
    });
    if let Some((index, output, activation, numbers)) = active {
        spec.activation = activation;
        (found.output, found.numbers, _) = (output, numbers, found.nodes.insert(index));
    }
    found.kind = Kind::Conv(Box::new(spec));
    Ok(found)
}

/// The residual that a node adds to `value`: a tensor of the same shape.
fn addend(region: &Region, node: &Node, value: usize) -> Option<usize> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let other = if a == value { b } else { a };
    let same = region.values[other].shape == region.values[value].shape && other != value;
    (node.op == "Add" && node.domain.is_empty() && same).then_some(other)
}

/// The activation that a node applies to `value`, and the constants that are its parameters.
fn activation(region: &Region, node: &Node, value: usize) -> Option<(Activation, Vec<usize>)> {
    if !node.domain.is_empty() || node.input(0) != Some(value) {
        return None;
    }
    let bound = |at: usize, default: f32| match node.input(at) {
        None => Some(default),
        Some(value) => {
            let found = region.constant_floats(value).filter(|found| found.len() == 1 && !found[0].is_nan());
            found.map(|found| found[0] as f32)
        }
    };
    match node.op.as_str() {
        "Relu" => Some((Activation::Relu, Vec::new())),
        "Clip" => {
            let clip = Activation::Clip { low: bound(1, f32::NEG_INFINITY)?, high: bound(2, f32::INFINITY)? };
            Some((clip, node.inputs.iter().skip(1).flatten().copied().collect()))
        }
        _ => None,
    }
}

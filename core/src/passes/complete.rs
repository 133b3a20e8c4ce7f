//! Completes nodes: default attributes, and those that follow from shapes, are written out, so that no backend needs ONNX's
//! defaults. `docs/operators.md` promises the form.

mod random;
mod recurrent;
mod windows;

use byoc_plugin_api::Attribute;

use crate::ir::{Model, Node, TensorType};
use crate::ops::{self, OpDef};

/// Completes every node of a model whose types are inferred. Nodes that are complete stay as they are; padding that depends on
/// sizes is added once they are known.
pub(crate) fn complete(model: &mut Model) {
    random::complete(model);
    for graph in &mut model.entries {
        for node in &mut graph.nodes {
            let types: Vec<_> = node.inputs.iter().map(|id| graph.values[(*id)?.0].ty.as_ref()).collect();
            if let Some(def) = ops::find(&node.domain, &node.op) {
                complete_node(def, node, &types);
            }
        }
    }
}

fn complete_node(def: &OpDef, node: &mut Node, inputs: &[Option<&TensorType>]) {
    if node.op == "CastLike"
        && let [_, Some(target)] = inputs
    {
        node.op = "Cast".into();
        node.inputs.truncate(1);
        node.attributes.insert("to".into(), Attribute::Int(ops::cast::to_onnx(target.dtype)));
    }
    for attribute in def.attributes.iter().filter(|attribute| attribute.until.is_none()) {
        if let Some(value) = attribute.default.value() {
            node.attributes.entry(attribute.name.to_owned()).or_insert(value);
        }
    }
    let Some(Some(x)) = inputs.first() else { return };
    let rank = x.shape.len();
    for (name, all) in [("axes", 0..rank as i64), ("perm", 0..rank as i64)] {
        if def.attribute(name).is_some() {
            let list = if name == "perm" { all.rev().collect() } else { all.collect() };
            node.attributes.entry(name.to_owned()).or_insert(Attribute::Ints(list));
        }
    }
    // With one scale for all elements no axis is meant.
    let one_scale = |ty: &TensorType| ty.shape.iter().all(|size| size.fixed() == Some(1));
    if def.attribute("block_size").is_some()
        && node.int("block_size", 0) == 0
        && inputs.get(1).copied().flatten().is_some_and(one_scale)
    {
        node.attributes.insert("axis".into(), Attribute::Int(0));
    }
    // The axis of OneHot is one that the input does not have yet.
    let rank = if node.op == "OneHot" { rank + 1 } else { rank };
    for name in ["axis", "axes", "perm"] {
        match node.attributes.get_mut(name) {
            Some(Attribute::Int(axis)) => from_front(axis, rank),
            Some(Attribute::Ints(axes)) => axes.iter_mut().for_each(|axis| from_front(axis, rank)),
            _ => {}
        }
    }
    if node.op == "Einsum"
        && let Some(equation) = ops::einsum::spelt_out(node, inputs)
    {
        node.attributes.insert("equation".into(), Attribute::String(equation));
    }
    if def.attribute("hidden_size").is_some() {
        recurrent::complete(node, inputs);
    }
    if def.attribute("strides").is_some() {
        // What else a quantised convolution reads are scales and zero points.
        let weights = inputs[1..].iter().copied().flatten().find(|ty| ty.shape.len() == x.shape.len());
        if node.op == "Col2Im" {
            windows::complete_image(node, inputs);
            return;
        }
        windows::complete(def, &mut node.attributes, &x.shape, weights);
    }
}

fn from_front(axis: &mut i64, rank: usize) {
    if *axis < 0 {
        *axis += rank as i64;
    }
}

#[cfg(test)]
mod tests;

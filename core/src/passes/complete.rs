//! Completes nodes: default attributes, and those that follow from shapes, are written out, so that no backend needs ONNX's
//! defaults. `docs/operators.md` promises the form.

use std::collections::BTreeMap;

use byoc_plugin_api::{Attribute, Dim, same_padding};

use crate::ir::{Model, Node, TensorType};
use crate::ops::{self, OpDef};

/// Completes every node of a model whose types are inferred. Nodes that are complete stay as they are; padding that depends on
/// sizes is added once they are known.
pub(crate) fn complete(model: &mut Model) {
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
    if def.attribute("kernel_shape").is_some() {
        // What else a quantised convolution reads are scales and zero points.
        let weights = inputs[1..].iter().copied().flatten().find(|ty| ty.shape.len() == x.shape.len());
        complete_window(def, &mut node.attributes, &x.shape, weights);
    }
}

fn from_front(axis: &mut i64, rank: usize) {
    if *axis < 0 {
        *axis += rank as i64;
    }
}

/// Writes kernel, strides, dilations and padding out. `auto_pad` stays, without `pads`, where it depends on a size that is
/// not known.
fn complete_window(
    def: &OpDef,
    attributes: &mut BTreeMap<String, Attribute>,
    x: &[Dim],
    weights: Option<&TensorType>,
) -> Option<()> {
    let sizes = |weights: &TensorType| {
        weights.shape.get(2..)?.iter().map(|size| Some(size.fixed()? as i64)).collect::<Option<Vec<_>>>()
    };
    let kernel = match (attributes.get("kernel_shape"), weights) {
        (Some(Attribute::Ints(kernel)), _) => kernel.clone(),
        (_, weights) => sizes(weights?)?,
    };
    let ones = Attribute::Ints(vec![1; kernel.len()]);
    attributes.insert("kernel_shape".into(), Attribute::Ints(kernel.clone()));
    let [strides, dilations] =
        ["strides", "dilations"].map(|name| attributes.entry(name.into()).or_insert_with(|| ones.clone()).clone());
    let none = Attribute::Ints(vec![0; 2 * kernel.len()]);
    let auto_pad = match attributes.remove("auto_pad") {
        Some(Attribute::String(auto_pad)) if auto_pad != "NOTSET" => auto_pad,
        _ => {
            attributes.entry("pads".into()).or_insert(none);
            return Some(());
        }
    };
    // It overrides these.
    attributes.remove("pads");
    if def.attribute("ceil_mode").is_some() {
        attributes.insert("ceil_mode".into(), Attribute::Int(0));
    }
    let pads = match (auto_pad.as_str(), strides, dilations) {
        ("VALID", ..) => Some(none),
        (same, Attribute::Ints(strides), Attribute::Ints(dilations)) => {
            same_pads(&x[2..], &kernel, &strides, &dilations, same == "SAME_UPPER")
        }
        _ => None,
    };
    match pads {
        Some(pads) => attributes.insert("pads".into(), pads),
        None => attributes.insert("auto_pad".into(), Attribute::String(auto_pad)),
    };
    Some(())
}

/// The padding of SAME_UPPER, or SAME_LOWER; `None` where it is not known.
fn same_pads(x: &[Dim], kernel: &[i64], strides: &[i64], dilations: &[i64], upper: bool) -> Option<Attribute> {
    let axis = |axis: usize| {
        let [kernel, stride, dilation] = [kernel, strides, dilations]
            .map(|list| usize::try_from(*list.get(axis)?).ok())
            .map(Option::unwrap_or_default);
        let span = kernel.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
        // Where every element has a window, all sizes are padded alike. An axis without elements has no window.
        let size = match x[axis].fixed() {
            None if stride == 1 => 1,
            size => size.filter(|&size| size > 0)?,
        };
        same_padding(size, stride, span, upper)
    };
    let pads: Option<Vec<_>> = (0..x.len()).map(axis).collect();
    let (begin, end): (Vec<_>, Vec<_>) = pads?.into_iter().unzip();
    let pads = begin.into_iter().chain(end).map(|pad| i64::try_from(pad).ok());
    pads.collect::<Option<_>>().map(Attribute::Ints)
}

#[cfg(test)]
mod tests;

//! Gives every value of a model its type: runs the rules of [`crate::ops`] over each graph, and follows the elements
//! of small integer tensors, so that shapes computed in the graph are known as well.

use std::collections::{HashMap, HashSet};

use byoc_plugin_api::{DType, Dim};

use crate::constants::{ConstantRef, ConstantTable};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;
use crate::ir::{CustomOperators, Graph, Model, Node, TensorType, ValueId};
use crate::ops::{self, ELEMENT_LIMIT, Infer, Scalar, elements};

/// Constant floats are read up to this many: scales and bounds of ranges are short, and weights shape nothing.
const FLOAT_LIMIT: usize = 16;

/// The elements of values, where they are known: numbers or symbolic sizes, in row-major order.
pub type KnownElements = HashMap<ValueId, Vec<Scalar>>;

/// Sets the type of every value of every entry, or reports the invalid node. Types that nodes' outputs already
/// have are replaced, so this can run again after inputs were fixed or nodes folded.
pub fn infer(model: &mut Model) -> Result<()> {
    for graph in &mut model.entries {
        infer_graph(graph, &model.constants, &model.custom)?;
    }
    Ok(())
}

/// As [`infer`], for one graph. Gives the elements that are known, constants' included: a node's output whose elements
/// are all numbers (`ops::elements::to_bytes` tells) may be replaced by a constant, whatever its inputs are.
pub fn infer_graph(graph: &mut Graph, constants: &ConstantTable, custom: &CustomOperators) -> Result<KnownElements> {
    settle_inputs(graph)?;
    let mut known = KnownElements::new();
    for (index, value) in graph.values.iter().enumerate() {
        let dtype = value.ty.as_ref().map(|ty| ty.dtype);
        if let (Some(constant), Some(dtype)) = (&value.constant, dtype)
            && let Some(values) = constant_elements(constants, constant, dtype)
        {
            known.insert(ValueId(index), values);
        }
    }
    let mut ready: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    ready.extend((0..graph.values.len()).map(ValueId).filter(|&id| graph.value(id).constant.is_some()));
    let taken = input_symbols(graph);
    let nodes = std::mem::take(&mut graph.nodes);
    let result: Result<()> = nodes.iter().try_for_each(|node| {
        let place = |error: Diagnostic| error.within(format!("node '{}' ({})", node.name, node.qualified_op()));
        infer_node(graph, node, custom, (&ready, &taken), &mut known).map_err(place)?;
        ready.extend(node.outputs.iter().flatten());
        Ok(())
    });
    graph.nodes = nodes;
    result?;
    match graph.outputs.iter().find(|id| !ready.contains(id)) {
        Some(&id) => {
            Err(Diagnostic::new(Code::BadGraph, format!("no node makes the output '{}'", graph.value(id).name)))
        }
        None => Ok(known),
    }
}

/// The symbols in the sizes of the graph's inputs.
pub(crate) fn input_symbols(graph: &Graph) -> HashSet<String> {
    let types = graph.inputs.iter().filter_map(|&input| graph.value(input).ty.as_ref());
    types.flat_map(|ty| dim::symbols(&ty.shape)).collect()
}

/// Brings the inputs' symbolic sizes into normal form.
fn settle_inputs(graph: &mut Graph) -> Result<()> {
    for id in &graph.inputs {
        let value = &mut graph.values[id.0];
        let Some(ty) = &mut value.ty else {
            let error =
                Diagnostic::new(Code::ShapeUnknown, format!("the input '{}' has no type and shape", value.name));
            return Err(error.hint(format!("Give its shape with --shape {}:<sizes>", value.name)));
        };
        for size in &mut ty.shape {
            if let Dim::Symbolic(text) = size {
                *size = dim::symbol(text);
            }
        }
        small_enough(ty).map_err(|error| error.within(format!("input '{}'", value.name)))?;
    }
    Ok(())
}

/// The elements of a small constant.
pub fn constant_elements(constants: &ConstantTable, constant: &ConstantRef, dtype: DType) -> Option<Vec<Scalar>> {
    let limit = if dtype.is_float() { FLOAT_LIMIT } else { ELEMENT_LIMIT };
    let count = constant.view.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
    if count > limit {
        return None;
    }
    elements::read(dtype, &constants.materialize(constant))
}

/// The elements of a small constant of an integer type, as [`ops::ViewRule`] takes them.
pub fn constant_ints(constants: &ConstantTable, constant: &ConstantRef) -> Option<Vec<i64>> {
    let dtype = constants.get(constant.base).dtype;
    if dtype.is_float() {
        return None;
    }
    constant_elements(constants, constant, dtype)?.iter().map(Scalar::as_i64).collect()
}

fn infer_node(
    graph: &mut Graph,
    node: &Node,
    custom: &CustomOperators,
    (ready, taken): (&HashSet<ValueId>, &HashSet<String>),
    known: &mut KnownElements,
) -> Result<()> {
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for id in &node.inputs {
        let Some(id) = id else {
            inputs.push(None);
            continue;
        };
        let value = graph.value(*id);
        match &value.ty {
            Some(ty) if ready.contains(id) => inputs.push(Some(ty.clone())),
            _ => {
                return Err(Diagnostic::new(
                    Code::BadGraph,
                    format!("it reads '{}', which is not computed before it", value.name),
                ));
            }
        }
    }
    let elements = node.inputs.iter().map(|id| known.get(id.as_ref()?).cloned()).collect();
    let mut infer = Infer { taken: Some(taken), ..Infer::new(node, inputs, elements) };
    ops::infer(&mut infer, custom)?;
    let results = infer.outputs.into_iter().zip(infer.output_elements);
    for (id, (ty, elements)) in node.outputs.iter().zip(results) {
        let Some(id) = id else { continue };
        if let Some(ty) = &ty {
            small_enough(ty)?;
        }
        graph.values[id.0].ty = ty;
        match elements {
            Some(elements) => known.insert(*id, elements),
            None => known.remove(id),
        };
    }
    Ok(())
}

/// The byte size of a tensor must not overflow, so later stages may multiply unchecked.
fn small_enough(ty: &TensorType) -> Result<()> {
    let mut bytes = ty.dtype.size();
    for size in ty.shape.iter().filter_map(Dim::fixed).filter(|&size| size != 0) {
        bytes = match bytes.checked_mul(size).filter(|&bytes| i64::try_from(bytes).is_ok()) {
            Some(bytes) => bytes,
            None => {
                return Err(Diagnostic::new(Code::ShapeMismatch, format!("a tensor of {ty} is too large")));
            }
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests;

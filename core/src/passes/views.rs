//! Folds without arithmetic: nodes that only rearrange a constant become views of it, and integer tensors that are known
//! from shapes become constants. No weight is moved or copied.

use std::collections::BTreeSet;

use byoc_plugin_api::{Attribute, DType, INLINE_BYTES, from_hex};
use bytes::Bytes;

use super::bodies;
use super::infer::{KnownElements, constant_ints, infer_partly};
use crate::constants::{BaseId, ConstantRef, ConstantTable};
use crate::diagnostic::{Diagnostic, Result};
use crate::ir::{Graph, Model, Node, ValueId};
use crate::ops::{self, elements};

/// What a round of inference and folding has found.
pub(crate) struct Round {
    /// Whether anything was folded.
    pub(crate) changed: bool,
    /// Why a branch of an `If` has no types: an error where it may run after all.
    pub(crate) failed: Option<Diagnostic>,
}

/// Infers types, then folds, and puts the branches that are known to run in the place of their nodes.
pub(crate) fn infer_and_fold_views(model: &mut Model) -> Result<Round> {
    let inferred = infer_partly(model)?;
    let mut changed = false;
    for (graph, known) in model.entries.iter_mut().zip(&inferred.known) {
        changed |= fold_graph(graph, &mut model.constants, &mut model.folded, known);
    }
    changed |= bodies::resolve(model, &inferred.known);
    Ok(Round { changed, failed: inferred.failed })
}

fn fold_graph(
    graph: &mut Graph,
    constants: &mut ConstantTable,
    sources: &mut BTreeSet<BaseId>,
    known: &KnownElements,
) -> bool {
    let nodes = std::mem::take(&mut graph.nodes);
    let before = nodes.len();
    for node in nodes {
        if fold_node(graph, constants, &node, known) {
            sources.extend(computed_from(graph, &node, known));
        } else {
            graph.nodes.push(node);
        }
    }
    graph.nodes.len() < before
}

/// The constants from whose elements a folded node's outputs were computed. One that they are a view of is not among
/// them.
fn computed_from(graph: &Graph, node: &Node, known: &KnownElements) -> Vec<BaseId> {
    let base = |id: &ValueId| graph.value(*id).constant.as_ref().map(|constant| constant.base);
    let viewed: Vec<_> = node.outputs.iter().flatten().filter_map(base).collect();
    let inputs = node.inputs.iter().flatten().filter(|&id| known.contains_key(id));
    inputs.filter_map(base).filter(|base| !viewed.contains(base)).collect()
}

/// Whether the node makes floats of integers that stand in the model in their place: of what a `DequantizeLinear` reads,
/// whatever its size, so that backends find the integers; and of a weight of 16 bits or less, which would be larger so. Those
/// of 8 bits or less that are no integers of Rust stay as they are also where wider integers would be made of them.
pub(crate) fn widens_weight(graph: &Graph, node: &Node) -> bool {
    let ty = |value: Option<ValueId>| value.and_then(|value| graph.value(value).ty.as_ref());
    let (Some(before), Some(after)) = (ty(node.input(0)), ty(node.output(0))) else { return false };
    let (from, to) = (before.dtype, after.dtype);
    let narrow = matches!(from, DType::I8 | DType::U8 | DType::I16 | DType::U16) && to.is_float();
    let grows = narrow || from.is_asked_for() && from.bits() < to.bits();
    let weight = before.fixed_shape().and_then(|shape| from.bytes_of(&shape)).is_some_and(|bytes| bytes > INLINE_BYTES);
    let widens = ops::find(&node.domain, &node.op).is_some_and(|def| def.widens);
    widens || (node.domain.is_empty() && node.op == "Cast" && grows && weight)
}

/// Makes every output of the node a constant, if that needs no arithmetic.
fn fold_node(graph: &mut Graph, constants: &mut ConstantTable, node: &Node, known: &KnownElements) -> bool {
    if node.outputs.iter().all(Option::is_none) || widens_weight(graph, node) {
        return false;
    }
    let mut folded = Vec::new();
    for &output in node.outputs.iter().flatten() {
        let Some(constant) = elements_constant(graph, constants, output, known)
            .or_else(|| single_output(node, || view_constant(graph, constants, node, output)))
            .or_else(|| single_output(node, || splat_constant(graph, constants, node, output)))
        else {
            return false;
        };
        folded.push((output, constant));
    }
    for (output, constant) in folded {
        graph.values[output.0].constant = Some(constant);
    }
    true
}

/// Views stand for output 0 only.
fn single_output<T>(node: &Node, make: impl FnOnce() -> Option<T>) -> Option<T> {
    if node.outputs.iter().skip(1).all(Option::is_none) { make() } else { None }
}

/// An integer tensor whose elements inference knows as numbers, such as the shape of a tensor of fixed shape.
fn elements_constant(
    graph: &Graph,
    constants: &mut ConstantTable,
    output: ValueId,
    known: &KnownElements,
) -> Option<ConstantRef> {
    let value = graph.value(output);
    let ty = value.ty.as_ref()?;
    let bytes = elements::to_bytes(ty.dtype, known.get(&output)?)?;
    Some(constants.insert(&value.name, ty.dtype, &ty.fixed_shape()?, Bytes::from(bytes)))
}

/// The constant at input 0, seen as the operator says.
fn view_constant(graph: &Graph, constants: &ConstantTable, node: &Node, output: ValueId) -> Option<ConstantRef> {
    let rule = ops::find(&node.domain, &node.op)?.view?;
    let constant = graph.value(node.input(0)?).constant.as_ref()?;
    let shape = graph.value(output).ty.as_ref()?.fixed_shape()?;
    let ints = |input: &Option<ValueId>| constant_ints(constants, graph.value((*input)?).constant.as_ref()?);
    let elements: Vec<_> = node.inputs.iter().map(ints).collect();
    let view = rule(node, &constant.view, &shape, &elements)?;
    // Elements that share bytes have to be moved; they must also be all that the bytes hold.
    let base = constants.get(constant.base);
    let whole = || view.suits(base.dtype) && view.bytes(base.dtype) == base.bytes.len();
    if base.dtype.shares_bytes() && !whole() {
        return None;
    }
    Some(ConstantRef { base: constant.base, view })
}

/// `ConstantOfShape`: one element seen everywhere, whatever the size.
fn splat_constant(graph: &Graph, constants: &mut ConstantTable, node: &Node, output: ValueId) -> Option<ConstantRef> {
    if node.op != "ConstantOfShape" || !node.domain.is_empty() {
        return None;
    }
    let value = graph.value(output);
    let ty = value.ty.as_ref()?;
    let element = match node.attributes.get("value") {
        Some(Attribute::Tensor { hex, .. }) => from_hex(hex)?,
        _ => vec![0; ty.dtype.unpacked_bytes()],
    };
    constants.insert_splat(&value.name, ty.dtype, &ty.fixed_shape()?, Bytes::from(element))
}

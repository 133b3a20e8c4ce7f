//! Gives every value of a model its type: runs the rules of [`crate::ops`] over each graph, and follows the elements
//! of small integer tensors, so that shapes computed in the graph are known as well.

mod control;
mod lists;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use byoc_plugin_api::{DType, Dim};

use crate::constants::{ConstantRef, ConstantTable};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;
use crate::ir::{CustomOperators, Graph, Model, Node, TensorType, ValueId};
use crate::ops::{self, ELEMENT_LIMIT, Infer, Scalar, elements};

/// Constant floats are read up to this many: scales and bounds of ranges are short, and weights shape nothing.
const FLOAT_LIMIT: usize = 16;

/// Most nodes of bodies that are inferred, each as often as it takes: nested loops whose sizes change take exponentially many.
const MOST_IN_BODIES: usize = 4_000_000;

/// The elements of values, where they are known: numbers or symbolic sizes, in row-major order.
pub type KnownElements = HashMap<ValueId, Vec<Scalar>>;

/// Sets the type of every value of every entry, or reports the invalid node. Types that nodes' outputs already
/// have are replaced, so this can run again after inputs were fixed or nodes folded.
///
/// Gives the elements that are known for each graph, constants' included: a node's output whose elements
/// are all numbers (`ops::elements::to_bytes` tells) may be replaced by a constant, whatever its inputs are.
pub fn infer(model: &mut Model) -> Result<Vec<KnownElements>> {
    let inferred = infer_partly(model)?;
    inferred.failed.map_or(Ok(inferred.known), Err)
}

/// The result of inference where branches may be left out.
pub(crate) struct Inferred {
    /// Of each graph.
    pub(crate) known: Vec<KnownElements>,
    /// Why a branch has no types, though it is not known that it never runs.
    pub(crate) failed: Option<Diagnostic>,
}

/// As [`infer`], where a branch of an `If` may have no types while the other one has: the condition may turn out to be a
/// constant when more is folded.
pub(crate) fn infer_partly(model: &mut Model) -> Result<Inferred> {
    let count = model.entries.len();
    let mut inference = Inference {
        graphs: &mut model.entries,
        constants: &model.constants,
        custom: &model.custom,
        taken: Rc::default(),
        left: MOST_IN_BODIES,
        known: vec![KnownElements::new(); count],
        failed: None,
    };
    for index in 0..count {
        // Bodies are inferred where a node runs them.
        if inference.graphs[index].body_of.is_none() {
            inference.taken = input_symbols(&inference.graphs[index]).into();
            inference.graph(index, KnownElements::new())?;
        }
    }
    Ok(Inferred { known: inference.known, failed: inference.failed })
}

/// The graphs of a model, while their types are found.
struct Inference<'a> {
    graphs: &'a mut [Graph],
    constants: &'a ConstantTable,
    custom: &'a CustomOperators,
    /// The symbols in the sizes of the entry's inputs.
    taken: Rc<HashSet<String>>,
    /// How many nodes of bodies may still be inferred.
    left: usize,
    /// What is known of each graph that was inferred.
    known: Vec<KnownElements>,
    failed: Option<Diagnostic>,
}

impl Inference<'_> {
    /// Infers one graph; `given` are elements of its inputs that are known.
    fn graph(&mut self, index: usize, given: KnownElements) -> Result<()> {
        // Out of the list meanwhile, for its nodes may run others of it.
        let mut graph = std::mem::take(&mut self.graphs[index]);
        let inferred = self.taken_out(&mut graph, given);
        self.graphs[index] = graph;
        self.known[index] = inferred?;
        Ok(())
    }

    fn taken_out(&mut self, graph: &mut Graph, given: KnownElements) -> Result<KnownElements> {
        settle_inputs(graph)?;
        if graph.body_of.is_some() {
            let left = self.left.checked_sub(graph.nodes.len());
            let many =
                || Diagnostic::new(Code::BadGraph, format!("the bodies of '{}' are nested too deeply", graph.entry()));
            self.left = left.ok_or_else(many)?;
        }
        let mut known = given;
        for (index, value) in graph.values.iter().enumerate() {
            let dtype = value.ty.as_ref().map(|ty| ty.dtype);
            if let (Some(constant), Some(dtype)) = (&value.constant, dtype)
                && let Some(values) = constant_elements(self.constants, constant, dtype)
            {
                known.insert(ValueId(index), values);
            }
        }
        let mut ready: HashSet<ValueId> = graph.inputs.iter().copied().collect();
        ready.extend((0..graph.values.len()).map(ValueId).filter(|&id| graph.value(id).constant.is_some()));
        let nodes = std::mem::take(&mut graph.nodes);
        let result: Result<()> = nodes.iter().try_for_each(|node| {
            let place = |error: Diagnostic| error.within(format!("node '{}' ({})", node.name, node.qualified_op()));
            self.node(graph, node, &ready, &mut known).map_err(place)?;
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

    fn node(
        &mut self,
        graph: &mut Graph,
        node: &Node,
        ready: &HashSet<ValueId>,
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
        let taken = Rc::clone(&self.taken);
        let mut infer = Infer { taken: Some(&taken), ..Infer::new(node, inputs, elements) };
        let given: Vec<_> = node.inputs.iter().map(|id| graph.value((*id)?).list.clone()).collect();
        let lists = match &node.bodies {
            Some(bodies) => self.control(&mut infer, bodies, &given)?,
            None if lists::takes(node, &given) => lists::infer(&mut infer, &given)?,
            None => {
                lists::none_given(node, &given)?;
                ops::infer(&mut infer, self.custom)?;
                Vec::new()
            }
        };
        let lists = lists.into_iter().chain(std::iter::repeat(None));
        let results = infer.outputs.into_iter().zip(infer.output_elements).zip(lists);
        for (id, ((ty, elements), list)) in node.outputs.iter().zip(results) {
            let Some(id) = id else { continue };
            if let Some(ty) = &ty {
                small_enough(ty)?;
            }
            (graph.values[id.0].ty, graph.values[id.0].list) = (ty, list);
            match elements {
                Some(elements) => known.insert(*id, elements),
                None => known.remove(id),
            };
        }
        Ok(())
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

/// The byte size of a tensor must not overflow, so later stages may multiply unchecked.
fn small_enough(ty: &TensorType) -> Result<()> {
    let sizes: Vec<usize> = ty.shape.iter().filter_map(Dim::fixed).filter(|&size| size != 0).collect();
    // Elements are counted as well: there are more of them than bytes where they share these.
    let elements = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    let bytes = elements.filter(|&count| i64::try_from(count).is_ok()).and_then(|count| ty.dtype.bytes_for(count));
    match bytes.filter(|&bytes| i64::try_from(bytes).is_ok()) {
        Some(_) => Ok(()),
        None => Err(Diagnostic::new(Code::ShapeMismatch, format!("a tensor of {ty} is too large"))),
    }
}

#[cfg(test)]
mod tests;

//! Finds the constants whose elements determine shapes: the artifact keeps those shapes even if the bytes are
//! replaced.

use std::collections::BTreeSet;

use super::infer::infer_graph;
use crate::constants::BaseId;
use crate::diagnostic::Result;
use crate::ir::{Model, ValueId};
use crate::ops::{self, Infer};

/// The constants without whose elements some node's outputs would have other types, or elements that are not known.
pub(crate) fn shaping(model: &Model) -> Result<BTreeSet<BaseId>> {
    let mut found = BTreeSet::new();
    for graph in &model.entries {
        let mut graph = graph.clone();
        let known = infer_graph(&mut graph, &model.constants, &model.custom)?;
        let decides = |id: &ValueId| graph.value(*id).constant.is_some() && known.contains_key(id);
        for node in graph.nodes.iter().filter(|node| node.inputs.iter().flatten().any(decides)) {
            let elements = node.inputs.iter().map(|id| known.get(id.as_ref()?).cloned()).collect();
            let types = node.inputs.iter().map(|id| graph.value((*id)?).ty.clone()).collect();
            let infer = Infer::new(node, types, elements);
            for (index, id) in node.inputs.iter().enumerate() {
                let constant = id.and_then(|id| graph.value(id).constant.as_ref());
                if let Some(constant) = constant.filter(|_| infer.elements[index].is_some()) {
                    let mut without = infer.clone();
                    without.elements[index] = None;
                    if outcome(model, infer.clone()) != outcome(model, without) {
                        found.insert(constant.base);
                    }
                }
            }
        }
    }
    Ok(found)
}

/// The result of the operator's rule; `None` where it fails.
fn outcome(model: &Model, mut infer: Infer<'_>) -> Option<impl PartialEq + use<>> {
    ops::infer(&mut infer, &model.custom).ok()?;
    Some((infer.outputs, infer.output_elements))
}

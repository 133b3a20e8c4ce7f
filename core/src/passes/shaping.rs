//! Finds the constants whose elements determine shapes: the artifact keeps those shapes even if the bytes are
//! replaced.

use std::collections::BTreeSet;

use super::infer::infer;
use crate::constants::BaseId;
use crate::diagnostic::Result;
use crate::ir::{Model, ValueId};
use crate::ops::{self, Infer};

/// The constants without whose elements some node's outputs would have other types, or elements that are not known.
pub(crate) fn shaping(model: &Model) -> Result<BTreeSet<BaseId>> {
    let mut found = BTreeSet::new();
    let mut typed = model.clone();
    let known = infer(&mut typed)?;
    for (graph, known) in typed.entries.iter().zip(known) {
        let decides = |id: &ValueId| graph.value(*id).constant.is_some() && known.contains_key(id);
        for node in graph.nodes.iter().filter(|node| node.inputs.iter().flatten().any(decides)) {
            if graph.is_run_by_core(node) {
                // How often a loop runs may be the size of what it gives, and so may the sizes of the parts of a sequence.
                let decisive = node.inputs.iter().take(2).flatten().filter(|id| decides(id));
                found
                    .extend(decisive.filter_map(|id| graph.value(*id).constant.as_ref()).map(|constant| constant.base));
                continue;
            }
            let elements = node.inputs.iter().map(|id| known.get(id.as_ref()?).cloned()).collect();
            let types = node.inputs.iter().map(|id| graph.value((*id)?).ty.clone()).collect();
            let whole = Infer::new(node, types, elements);
            for (index, id) in node.inputs.iter().enumerate() {
                let constant = id.and_then(|id| graph.value(id).constant.as_ref());
                if let Some(constant) = constant.filter(|_| whole.elements[index].is_some()) {
                    let mut without = whole.clone();
                    without.elements[index] = None;
                    if outcome(model, whole.clone()) != outcome(model, without) {
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

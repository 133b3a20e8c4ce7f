//! Element types that not every backend knows: one that does not name them is not asked about nodes that have them, since an
//! older plugin could not even read the question.

use std::collections::BTreeSet;

use byoc_plugin_api::{Attribute, DType, Refusal, RefusalCode};

use crate::ir::{Graph, Node};
use crate::plugin::Selected;

/// Why a backend does not get nodes with an element type that it does not know.
pub(super) fn refusal(graph: &Graph, nodes: &BTreeSet<usize>, selected: &Selected) -> Option<Refusal> {
    let description = &selected.registered.description;
    let (what, dtype) = nodes
        .iter()
        .flat_map(|&node| types(graph, &graph.nodes[node]))
        .find(|(_, dtype)| !description.knows(*dtype))?;
    Some(Refusal::new(RefusalCode::Type, format!("{what} is of {dtype}, which the backend does not know")))
}

/// What a node reads, writes and has as attributes, with its element type.
fn types<'a>(graph: &'a Graph, node: &'a Node) -> impl Iterator<Item = (String, DType)> + 'a {
    let values = node.inputs.iter().chain(&node.outputs).flatten().map(|&value| graph.value(value));
    let values = values.filter_map(|value| Some((format!("'{}'", value.name), value.ty.as_ref()?.dtype)));
    let attributes = node.attributes.iter().flat_map(|(name, attribute)| {
        let types: Vec<_> = match attribute {
            Attribute::Tensor { dtype, .. } => vec![*dtype],
            Attribute::Tensors(tensors) => tensors.iter().map(|tensor| tensor.dtype).collect(),
            _ => Vec::new(),
        };
        types.into_iter().map(move |dtype| (format!("attribute '{name}'"), dtype))
    });
    values.chain(attributes)
}

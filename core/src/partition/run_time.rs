//! Nodes that tell sizes: the size of an output is known only when the node has run. Each is a region by itself, so that every
//! other region has sizes that follow from its inputs'.

use std::collections::{BTreeSet, HashSet};

use byoc_plugin_api::{Refusal, RefusalCode};

use crate::dim;
use crate::ir::{Graph, ValueId};
use crate::passes::infer::input_symbols;
use crate::plugin::Selected;

/// For each node of a graph the first output that has such a size.
pub(super) fn sizing(graph: &Graph) -> Vec<Option<ValueId>> {
    let mut known: HashSet<String> = input_symbols(graph);
    let mut sizing = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let symbols = |value: &ValueId| graph.value(*value).ty.iter().flat_map(|ty| dim::symbols(&ty.shape));
        let mut outputs = node.outputs.iter().flatten().copied();
        let first = outputs.find(|value| symbols(value).any(|symbol| !known.contains(&symbol)));
        if first.is_some() {
            known.extend(node.outputs.iter().flatten().flat_map(symbols));
        }
        sizing.push(first);
    }
    sizing
}

/// Why a backend does not get nodes of which one tells a size.
pub(super) fn refusal(
    graph: &Graph,
    sizing: &[Option<ValueId>],
    nodes: &BTreeSet<usize>,
    selected: &Selected,
) -> Option<Refusal> {
    let (node, value) = nodes.iter().find_map(|&node| Some((node, sizing[node]?)))?;
    let name = &graph.value(value).name;
    let refusal = |cause: &str| {
        Some(Refusal::new(RefusalCode::Shape, format!("the size of '{name}' is known only at run time{cause}")))
    };
    let description = &selected.registered.description;
    if !description.run_time_sizes || description.domain.is_some() {
        return refusal("");
    }
    let reads = |other: &usize| {
        let mut made = graph.nodes[node].outputs.iter().flatten();
        made.any(|value| graph.nodes[*other].inputs.contains(&Some(*value)))
    };
    if nodes.iter().any(reads) {
        return refusal(", and another node of the match reads it");
    }
    None
}

//! The names of the values in a graph of a file.

use std::collections::{BTreeSet, HashSet};

use super::proto::GraphProto;

/// The names that a graph gives to values; those that its nodes make are among them while it has nodes.
pub(super) fn defined(graph: &GraphProto) -> impl Iterator<Item = &str> {
    let inputs = graph.input.iter().filter_map(|info| info.name.as_deref());
    let initializers = graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref());
    inputs.chain(initializers).chain(graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str)))
}

/// The names of all values in a graph and in the graphs of its nodes, and those that they read of what is around them.
pub(super) fn names(graph: &GraphProto) -> Vec<&str> {
    let mut names: Vec<_> = defined(graph).collect();
    names.extend(graph.output.iter().filter_map(|info| info.name.as_deref()));
    for node in &graph.node {
        names.extend(node.input.iter().map(String::as_str));
        let inner = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
        names.extend(inner.flat_map(self::names));
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The names of the values around a graph that it reads, or the graphs of its nodes do.
pub(super) fn free(graph: &GraphProto) -> BTreeSet<String> {
    let own: HashSet<&str> = defined(graph).collect();
    let mut read: BTreeSet<String> = graph.output.iter().filter_map(|info| info.name.clone()).collect();
    for node in &graph.node {
        read.extend(node.input.iter().cloned());
        read.extend(node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()).flat_map(free));
    }
    read.retain(|name| !name.is_empty() && !own.contains(name.as_str()));
    read
}

/// Whether tensors of a graph, or of the graphs and attributes of its nodes, are in files beside the model.
pub(super) fn has_files(graph: &GraphProto) -> bool {
    let attributes = || graph.node.iter().flat_map(|node| &node.attribute);
    let tensors = graph.initializer.iter().chain(attributes().flat_map(|it| it.t.iter().chain(&it.tensors)));
    let mut graphs = attributes().flat_map(|it| it.g.iter().chain(&it.graphs));
    tensors.into_iter().any(|tensor| !tensor.external_data.is_empty()) || graphs.any(has_files)
}

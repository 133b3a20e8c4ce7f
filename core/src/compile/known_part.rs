//! The part of a model that can be explained although some of its operators are known to nobody: behind such a node no type is
//! known, and no backend can be asked there. What is before it is a model of its own.

use std::collections::{BTreeSet, HashSet};

use super::{Request, Silent, partitioned};
use crate::diagnostic::Result;
use crate::ir::{CustomOperators, Graph, Model, Node, ValueId};
use crate::onnx;
use crate::partition::{self, NodeRow};
use crate::plugin::Selected;

/// The rows of a model with operators that neither core nor a backend of the list knows. Nodes that read nothing of theirs are as in
/// any model.
pub(super) fn explain(request: &Request) -> Result<Vec<NodeRow>> {
    let known = request.custom_operators();
    let sources: Vec<_> = request.sources.iter().map(|(name, path)| (name.clone(), path.as_path())).collect();
    let model = onnx::import(&sources, &request.import, &CustomOperators::any())?;
    let part = known_part(&model, &known);
    let asked: BTreeSet<(String, String)> =
        part.entries.iter().flat_map(|graph| graph.nodes.iter().map(|node| key(graph, node))).collect();
    let backends: Vec<_> = request.backends.iter().map(Selected::name).collect();
    let others = partition::nodes_of_unknown(&model, &known, &backends);
    let others = others.into_iter().filter(|row| !asked.contains(&(row.entry.clone(), row.node.clone())));
    let mut rows = if asked.is_empty() { Vec::new() } else { explained(request, part)? };
    rows.extend(others);
    // Entries one after another again; within each, what was asked is in front of what reads of it.
    let order: Vec<_> = model.entries.iter().map(Graph::entry).collect();
    rows.sort_by_key(|row| order.iter().position(|entry| *entry == row.entry));
    Ok(rows)
}

fn explained(request: &Request, part: Model) -> Result<Vec<NodeRow>> {
    let request = Request {
        model: Some(part),
        found: request.found.clone(),
        folding_backend: request.folding_backend.clone(),
        ..Request::new(Vec::new(), request.backends.clone())
    };
    Ok(partition::explain(&partitioned(&request, &mut Silent)?, &request.backends))
}

fn key(graph: &Graph, node: &Node) -> (String, String) {
    (graph.entry().to_owned(), node.name.clone())
}

/// The nodes that read neither directly nor through others what a node gives whose operator is not known. What they give to the
/// others becomes an output. Control flow and its bodies are left out: what is in a body may not be known either.
fn known_part(model: &Model, known: &CustomOperators) -> Model {
    let entries = model.entries.iter().filter(|graph| graph.body_of.is_none());
    Model { entries: entries.map(|graph| known_nodes(graph, known)).collect(), ..model.clone() }
}

fn known_nodes(graph: &Graph, known: &CustomOperators) -> Graph {
    let is_known = |node: &Node| {
        let has_operator = node.version.is_none_or(|at| known.find(&node.domain, &node.op, Some(at)).is_some());
        has_operator && !graph.is_run_by_core(node)
    };
    let mut part = Graph { nodes: Vec::new(), outputs: Vec::new(), declared: Vec::new(), ..graph.clone() };
    let (mut behind, mut read) = (HashSet::<ValueId>::new(), HashSet::<ValueId>::new());
    for node in &graph.nodes {
        let inputs = || node.inputs.iter().flatten();
        if is_known(node) && !inputs().any(|value| behind.contains(value)) {
            part.nodes.push(node.clone());
        } else {
            behind.extend(node.outputs.iter().flatten());
            read.extend(inputs());
        }
    }
    read.extend(&graph.outputs);
    let given = part.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    part.outputs = given.filter(|value| read.contains(value)).copied().collect();
    part.declared = vec![Default::default(); part.outputs.len()];
    part
}

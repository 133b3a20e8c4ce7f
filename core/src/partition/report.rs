//! The attempts for each node: the rows of `byoc explain`.

use std::collections::{BTreeSet, HashMap};

use byoc_plugin_api::{Refusal, RefusalCode};

use super::{Partitioned, Reason};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{CustomOperators, Graph, Model, Node};
use crate::plugin::Selected;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The backend takes the nodes.
    Taken,
    /// The backend refused them.
    Refused(Refusal),
    /// The region would have done no arithmetic.
    OnlyNoOps,
    /// The backend's policy does not allow the region, for the reason given.
    NoRegion(Reason),
}

/// A pattern of a backend matched some nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The entry.
    pub entry: usize,
    /// The backend's index in the user's list.
    pub backend: usize,
    /// The nodes.
    pub nodes: BTreeSet<usize>,
    /// The pattern's name.
    pub pattern: String,
    /// The outcome.
    pub outcome: Outcome,
}

/// One row of `byoc explain`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// The entry's name.
    pub entry: String,
    /// The node's name.
    pub node: String,
    /// The operator, with its domain.
    pub op: String,
    /// The region that holds the node, and its backend; `None` where no backend takes it.
    pub taken: Option<(String, String)>,
    /// For each backend before the one that took it: its name, and its reason.
    pub refused: Vec<(String, Reason)>,
    /// Whether core runs it and no backend is asked about it, as control flow and what reads or makes a sequence: then `taken` names the
    /// bodies that it runs, and `byoc`.
    pub control: bool,
    /// The values that it reads, those that are constants left out.
    pub reads: Vec<String>,
    /// The values that it gives.
    pub writes: Vec<String>,
    /// Whether it was the call of a function, which the function's nodes replace because no backend takes it whole.
    pub expanded: bool,
}

/// One row for each node of each entry, in topological order. Calls of functions that were expanded come before their nodes.
pub fn explain(partitioned: &Partitioned, backends: &[Selected]) -> Vec<NodeRow> {
    let places =
        partitioned.regions.iter().flat_map(|plan| plan.nodes.iter().map(move |&node| ((plan.entry, node), plan)));
    let regions: HashMap<_, _> = places.collect();
    let last = last_attempts(partitioned);
    let mut rows = Vec::new();
    for (entry, graph) in partitioned.model.entries.iter().enumerate() {
        for (index, node) in graph.nodes.iter().enumerate() {
            if graph.is_run_by_core(node) {
                rows.push(core_row(&partitioned.model, graph, node));
                continue;
            }
            let region = regions.get(&(entry, index));
            let tried = region.map_or(backends.len(), |plan| plan.backend);
            let reason = |backend: usize| reason(last.get(&(entry, backend, index)).copied());
            let refused = (0..tried).map(|backend| (backends[backend].name().to_owned(), reason(backend)));
            rows.push(NodeRow {
                entry: graph.entry().to_owned(),
                node: node.name.clone(),
                op: node.qualified_op(),
                taken: region.map(|plan| (plan.region.symbol.clone(), backends[plan.backend].name().to_owned())),
                refused: refused.collect(),
                control: false,
                reads: reads(graph, node),
                writes: writes(graph, node),
                expanded: false,
            });
        }
    }
    partitioned.expanded.iter().for_each(|call| insert(&mut rows, call.clone()));
    rows
}

/// A warning for each backend of the list that takes no node. A host backend that is left none is as it should be.
pub(crate) fn unused(partitioned: &Partitioned, backends: &[Selected]) -> Vec<Diagnostic> {
    let uses = |index: usize| partitioned.regions.iter().any(|plan| plan.backend == index);
    let is_left_some = |index: usize| {
        !partitioned.left_over.is_empty() || partitioned.regions.iter().any(|plan| plan.backend >= index)
    };
    let warning = |(index, selected): (usize, &Selected)| {
        let name = selected.name();
        if is_left_some(index) {
            let message = format!("backend '{name}' takes no node of the model");
            return Some(Diagnostic::new(Code::UnusedBackend, message).hint("See byoc explain for the reasons"));
        }
        if selected.registered.description.host {
            return None;
        }
        let before: Vec<_> = (0..index).filter(|&other| uses(other)).map(|other| backends[other].name()).collect();
        let before = before.join(" and ");
        let message = format!("backend '{name}' is left no node of the model: {before} takes every one");
        Some(Diagnostic::new(Code::UnusedBackend, message).hint(format!("Name it before {before} in --backend")))
    };
    // That is told by another warning.
    let crashed = |index: usize| {
        let crash = |outcome: &Outcome| {
            let crashed = [RefusalCode::Crashed, RefusalCode::Panicked];
            matches!(outcome, Outcome::Refused(refusal) if crashed.contains(&refusal.code))
        };
        partitioned.attempts.iter().any(|attempt| attempt.backend == index && crash(&attempt.outcome))
    };
    let unused = backends.iter().enumerate().filter(|(index, _)| !uses(*index) && !crashed(*index));
    unused.filter_map(warning).collect()
}

/// One row for each node of a model in which some operators are not among those that core has or that are `known`. None is
/// taken.
pub(crate) fn nodes_of_unknown(model: &Model, known: &CustomOperators, backends: &[&str]) -> Vec<NodeRow> {
    let row = |graph: &Graph, node: &Node| {
        let is_known = node.version.is_none_or(|version| known.find(&node.domain, &node.op, Some(version)).is_some());
        let reason = if is_known { Reason::NotAsked } else { Reason::UnknownOperator };
        NodeRow {
            entry: graph.entry().to_owned(),
            node: node.name.clone(),
            op: node.qualified_op(),
            taken: None,
            refused: backends.iter().map(|backend| ((*backend).to_owned(), reason.clone())).collect(),
            control: false,
            reads: reads(graph, node),
            writes: writes(graph, node),
            expanded: false,
        }
    };
    let rows = model.entries.iter().flat_map(|graph| graph.nodes.iter().map(move |node| row(graph, node)));
    rows.collect()
}

/// The row of a node that core runs: what is taken are its bodies, where it has some.
fn core_row(model: &Model, graph: &Graph, node: &Node) -> NodeRow {
    let bodies = node.bodies.iter().flat_map(|bodies| &bodies.graphs);
    let names: Vec<_> = bodies.map(|&body| model.entries[body].name.as_str()).collect();
    NodeRow {
        entry: graph.entry().to_owned(),
        node: node.name.clone(),
        op: node.qualified_op(),
        taken: Some((names.join(", "), "byoc".to_owned())),
        refused: Vec::new(),
        control: true,
        reads: reads(graph, node),
        writes: writes(graph, node),
        expanded: false,
    }
}

fn reads(graph: &Graph, node: &Node) -> Vec<String> {
    let values = node.inputs.iter().flatten().map(|&value| graph.value(value));
    values.filter(|value| value.constant.is_none()).map(|value| value.name.clone()).collect()
}

fn writes(graph: &Graph, node: &Node) -> Vec<String> {
    node.outputs.iter().flatten().map(|&value| graph.value(value).name.clone()).collect()
}

/// Puts the row of an expanded call before the first of its nodes; behind its entry, if none is left of them.
fn insert(rows: &mut Vec<NodeRow>, call: NodeRow) {
    let inner = format!("{}/", call.node);
    let first = rows.iter().position(|row| row.entry == call.entry && row.node.starts_with(&inner));
    let last = || rows.iter().rposition(|row| row.entry == call.entry);
    let place = first.or_else(|| Some(last()? + 1)).unwrap_or(rows.len());
    rows.insert(place, call);
}

/// The rows of calls of functions that no backend takes whole.
pub(crate) fn untaken_calls(partitioned: &Partitioned, backends: &[Selected]) -> Vec<NodeRow> {
    let mut calls = BTreeSet::new();
    for &(entry, node) in &partitioned.left_over {
        let graph = &partitioned.model.entries[entry];
        calls.extend(graph.calls.get(&graph.nodes[node].name).map(|call| (graph.entry(), call.as_str())));
    }
    if calls.is_empty() {
        return Vec::new();
    }
    let rows = explain(partitioned, backends).into_iter();
    let untaken = rows.filter(|row| calls.contains(&(row.entry.as_str(), row.node.as_str())));
    untaken.map(|row| NodeRow { expanded: true, ..row }).collect()
}

/// The last attempt for a node, by entry, backend and node.
fn last_attempts(partitioned: &Partitioned) -> HashMap<(usize, usize, usize), &Attempt> {
    let mut last = HashMap::new();
    for attempt in &partitioned.attempts {
        last.extend(attempt.nodes.iter().map(|&node| ((attempt.entry, attempt.backend, node), attempt)));
    }
    last
}

/// Why a backend did not take a node.
fn reason(attempt: Option<&Attempt>) -> Reason {
    let Some(Attempt { pattern, outcome, .. }) = attempt else { return Reason::NoPattern };
    let pattern = pattern.clone();
    match outcome {
        Outcome::Refused(refusal) => Reason::Refused { pattern, refusal: refusal.clone() },
        Outcome::OnlyNoOps => Reason::OnlyNoOps,
        Outcome::NoRegion(reason) => reason.clone(),
        Outcome::Taken => Reason::GivenBack { pattern },
    }
}

//! Which backend gets which nodes: in the user's order, each backend's patterns in its own order, the longest chains
//! first; then matches are merged where the backend wants that.

use std::collections::BTreeSet;

use byoc_plugin_api::{Expr, Pattern, Refusal, RefusalCode};

use super::groups::Groups;
use super::matcher::Matcher;
use super::outline::{self, Naming, Uses};
use super::report::{Attempt, Outcome};
use super::{Avoid, Crashes};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Graph, Model, ValueId};
use crate::ops;
use crate::plugin::Selected;

/// A backend's pattern, parsed.
struct Rule {
    pattern: Pattern,
    expr: Expr,
}

/// Takes what `backend` wants of the free nodes. Whatever it looked at and did not take is noted in `attempts`.
pub(super) fn choose(
    model: &Model,
    entry: usize,
    backends: &[Selected],
    backend: usize,
    crashes: &Crashes<'_>,
    groups: &mut Groups<'_>,
    attempts: &mut Vec<Attempt>,
) -> Result<()> {
    let selected = &backends[backend];
    let graph = &model.entries[entry];
    let rules = rules(selected)?;
    let matcher = Matcher::new(graph);
    let uses = Uses::of(graph);
    let mut taken = Vec::new();
    for rule in &rules {
        // From the end, so that a chain is met at its last node and not at a part of it.
        for root in (0..graph.nodes.len()).rev() {
            let Some(nodes) = matcher.find(&rule.expr, root, &|node| groups.free(node)) else { continue };
            let naming = Naming { entry: &graph.name, backend: selected.name(), number: 0 };
            let candidate = outline::outline(model, entry, backend, &nodes, &uses, naming)?;
            let answer = if avoided(crashes, entry, backend, &nodes) {
                Err(Refusal::new(RefusalCode::Crashed, "its process ended while it compiled these nodes"))
            } else {
                selected.registered.backend.check(&candidate.region, &selected.options)
            };
            let outcome = match answer {
                Ok(()) => {
                    taken.push(groups.take(&nodes, backend));
                    Outcome::Taken
                }
                Err(refusal) if is_no_answer(&refusal, crashes) => {
                    return Err(check_failed(selected, &nodes, graph, &refusal));
                }
                Err(refusal) => Outcome::Refused(refusal),
            };
            let pattern = rule.pattern.name.clone();
            attempts.push(Attempt { entry, backend, nodes, pattern, outcome });
        }
    }
    if selected.registered.description.regions.merge {
        merge(graph, selected, backend, groups);
    }
    if !selected.registered.description.host {
        release_no_ops(graph, entry, backend, groups, attempts);
    }
    Ok(())
}

fn avoided(crashes: &Crashes<'_>, entry: usize, backend: usize, nodes: &BTreeSet<usize>) -> bool {
    let same = |avoid: &&Avoid| avoid.entry == entry && avoid.backend == backend;
    crashes.avoid.iter().filter(same).any(|avoid| !avoid.nodes.is_disjoint(nodes))
}

fn is_no_answer(refusal: &Refusal, crashes: &Crashes<'_>) -> bool {
    match refusal.code {
        RefusalCode::Failed => true,
        RefusalCode::Crashed => !crashes.tolerated,
        _ => false,
    }
}

/// A backend that cannot say yes or no must not lose its nodes to the next one in silence.
fn check_failed(selected: &Selected, nodes: &BTreeSet<usize>, graph: &Graph, refusal: &Refusal) -> Diagnostic {
    let node = nodes.last().map_or("", |&node| graph.nodes[node].name.as_str());
    if refusal.code == RefusalCode::Crashed {
        let message = format!("backend '{}' {} while checking node '{node}'", selected.name(), refusal.message);
        return Diagnostic::new(Code::BackendCrashed, message)
            .hint("Report this to the backend's maker, or leave it out of --backend");
    }
    let message = format!("backend '{}' failed while it checked node '{node}': {}", selected.name(), refusal.message);
    Diagnostic::new(Code::BackendFailed, message)
        .hint("Report this to the backend's maker, or leave it out of --backend")
}

fn rules(selected: &Selected) -> Result<Vec<Rule>> {
    let failed = |error: byoc_plugin_api::Error| {
        if error.crashed {
            let message = format!("backend '{}' {} while it gave its patterns", selected.name(), error.message);
            return Diagnostic::new(Code::BackendCrashed, message).hint("Report this to the backend's maker");
        }
        Diagnostic::new(Code::PluginContract, format!("backend '{}': {error}", selected.name()))
            .hint("Report this to the plugin's maker")
    };
    let patterns = selected.registered.backend.patterns(&selected.options).map_err(failed)?;
    let parse = |pattern: Pattern| Ok(Rule { expr: pattern.parse().map_err(failed)?, pattern });
    patterns.into_iter().map(parse).collect()
}

/// Merges the backend's groups with each other as far as the graph of groups stays free of cycles: first along edges,
/// in topological order, then whatever else fits together.
fn merge(graph: &Graph, selected: &Selected, backend: usize, groups: &mut Groups<'_>) {
    let most = selected.registered.description.regions.max_inputs.unwrap_or(usize::MAX);
    for node in 0..graph.nodes.len() {
        let group = groups.group_of[node];
        if groups.groups[group].backend != Some(backend) {
            continue;
        }
        let near =
            groups.predecessors(group).into_iter().filter(|&other| groups.groups[other].backend == Some(backend));
        for other in near.collect::<Vec<_>>() {
            let group = groups.group_of[node];
            try_merge(groups, other, group, most);
        }
    }
    let own = |groups: &Groups<'_>| -> Vec<usize> {
        (0..groups.groups.len())
            .filter(|&group| groups.groups[group].backend == Some(backend) && !groups.groups[group].nodes.is_empty())
            .collect()
    };
    for group in own(groups) {
        for other in own(groups) {
            if other < group && !groups.groups[group].nodes.is_empty() {
                try_merge(groups, other, group, most);
            }
        }
    }
}

fn try_merge(groups: &mut Groups<'_>, into: usize, from: usize, most_inputs: usize) {
    if into == from || !groups.mergeable(into, from) {
        return;
    }
    if most_inputs < usize::MAX {
        let union: BTreeSet<_> = groups.inputs(into).into_iter().chain(groups.inputs(from)).collect();
        if union.len() > most_inputs {
            return;
        }
    }
    groups.merge(into, from);
}

/// Gives back groups that do no arithmetic: offloading a reshape costs a copy there and a copy back.
fn release_no_ops(graph: &Graph, entry: usize, backend: usize, groups: &mut Groups<'_>, attempts: &mut Vec<Attempt>) {
    for group in 0..groups.groups.len() {
        let nodes = &groups.groups[group].nodes;
        let idle = groups.groups[group].backend == Some(backend)
            && !nodes.is_empty()
            && nodes.iter().all(|&node| is_no_op(graph, node));
        if idle {
            let nodes = nodes.clone();
            attempts.push(Attempt { entry, backend, nodes, pattern: String::new(), outcome: Outcome::OnlyNoOps });
            groups.release(group);
        }
    }
}

fn is_no_op(graph: &Graph, node: usize) -> bool {
    let node = &graph.nodes[node];
    let ty = |value: Option<ValueId>| value.and_then(|value| graph.value(value).ty.as_ref());
    match (ops::find(&node.domain, &node.op), ty(node.input(0)), ty(node.output(0))) {
        (Some(def), Some(input), Some(output)) => def.is_no_op(node, input, output),
        _ => false,
    }
}

//! Assigns nodes to backends: in the user's order, each backend's patterns in its own order, the longest chains first;
//! then matches become regions, and nodes of invalid regions are released.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use byoc_plugin_api::{Backend, Description, Expr, Pattern, Refusal, RefusalCode};

use super::groups::Groups;
use super::matcher::Matcher;
use super::merge;
use super::outline::{self, Naming, Uses};
use super::report::{Attempt, Outcome};
use super::{Avoid, Crashes, quantized, run_time, types};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Graph, Model, ValueId};
use crate::ops;
use crate::plugin::Selected;

/// A backend's pattern, parsed.
struct Rule {
    pattern: Pattern,
    expr: Expr,
}

/// A backend with its patterns.
pub(super) struct BackendPatterns<'a> {
    selected: &'a Selected,
    /// Its index in the list.
    backend: usize,
    rules: Vec<Rule>,
}

impl BackendPatterns<'_> {
    /// Every backend of the list; an error where one cannot give its patterns.
    pub(super) fn all(backends: &[Selected]) -> Result<Vec<BackendPatterns<'_>>> {
        let asked = |(backend, selected)| Ok(BackendPatterns { selected, backend, rules: rules(selected)? });
        backends.iter().enumerate().map(asked).collect()
    }

    /// Whether a pattern of it has quantised operands.
    pub(super) fn takes_quantised(&self) -> bool {
        self.rules.iter().any(|rule| quantized::asks(&rule.expr))
    }
}

/// A backend that is asked about nodes of one entry.
pub(super) struct Asking<'a> {
    model: &'a Model,
    entry: usize,
    backend: usize,
    selected: &'a Selected,
    crashes: &'a Crashes<'a>,
    /// For each node the output whose size it tells.
    sizing: &'a [Option<ValueId>],
    uses: Uses,
}

impl Asking<'_> {
    /// The backend's `check` of these nodes as one region: `None`, or the refusal. Errors when `check`
    /// fails.
    pub(super) fn check(&self, nodes: &BTreeSet<usize>) -> Result<Option<Refusal>> {
        let Asking { model, entry, backend, selected, crashes, ref uses, .. } = *self;
        let graph = &model.entries[entry];
        let unasked = || types::refusal(graph, nodes, selected);
        if let Some(refusal) = run_time::refusal(graph, self.sizing, nodes, selected).or_else(unasked) {
            return Ok(Some(refusal));
        }
        let naming = Naming { entry: graph.entry(), backend: selected.name(), number: 0 };
        let candidate = outline::outline(model, entry, backend, nodes, uses, naming)?;
        let answer = if avoided(crashes, entry, backend, graph, nodes) {
            Err(Refusal::new(RefusalCode::Crashed, "its process ended while it compiled these nodes"))
        } else {
            selected.registered.backend.check(&candidate.region, &selected.options)
        };
        match answer {
            Err(refusal) if is_no_answer(&refusal, crashes) => Err(check_failed(selected, nodes, graph, &refusal)),
            answer => Ok(answer.err()),
        }
    }
}

/// Assigns free nodes to a backend. Refused matches are recorded in `attempts`.
pub(super) fn choose(
    model: &Model,
    entry: usize,
    asked: &BackendPatterns<'_>,
    crashes: &Crashes<'_>,
    groups: &mut Groups<'_>,
    attempts: &mut Vec<Attempt>,
) -> Result<()> {
    let &BackendPatterns { selected, backend, ref rules } = asked;
    let graph = &model.entries[entry];
    let matcher = Matcher::new(graph);
    let sizing = groups.sizing();
    let asking = Asking { model, entry, backend, selected, crashes, sizing: &sizing, uses: Uses::of(graph) };
    for rule in rules {
        // From the end, so that a chain is matched from its last node.
        for Reverse(root) in matcher.roots(&rule.expr) {
            let found = matcher.find(&rule.expr, root, &|node| groups.free(node), &mut |nodes| groups.is_convex(nodes));
            let Some(nodes) = found else { continue };
            let outcome = match asking.check(&nodes)? {
                None => {
                    groups.take(&nodes, backend);
                    Outcome::Taken
                }
                Some(refusal) => Outcome::Refused(refusal),
            };
            attempts.push(Attempt { entry, backend, nodes, pattern: rule.pattern.name.clone(), outcome });
        }
    }
    let policy = &selected.registered.description.regions;
    let given_back = merge::merge(groups, backend, policy, &mut |nodes| {
        let refusal = asking.check(nodes)?;
        if let Some(refusal) = refusal.clone() {
            let (nodes, outcome) = (nodes.clone(), Outcome::Refused(refusal));
            attempts.push(Attempt { entry, backend, nodes, pattern: "merged".into(), outcome });
        }
        Ok(refusal)
    })?;
    for (group, reason) in given_back {
        release(entry, backend, group, Outcome::NoRegion(reason), groups, attempts);
    }
    let Description { host, domain, .. } = &selected.registered.description;
    if !host && domain.is_none() {
        for group in no_ops(graph, backend, groups) {
            release(entry, backend, group, Outcome::OnlyNoOps, groups, attempts);
        }
    }
    Ok(())
}

/// Releases groups that would do no arithmetic on a device and have no neighbour there, after all of these backends.
pub(super) fn give_back_no_ops(
    graph: &Graph,
    entry: usize,
    backends: &[Selected],
    groups: &mut Groups<'_>,
    attempts: &mut Vec<Attempt>,
) {
    let domain = |backend: usize| backends.get(backend).and_then(|of| of.registered.description.domain.as_deref());
    let of = |groups: &Groups<'_>, group: usize| groups.groups[group].backend.and_then(domain).map(str::to_owned);
    let own = (0..backends.len()).filter(|&backend| domain(backend).is_some());
    let mut idle: BTreeSet<(usize, usize)> =
        own.flat_map(|backend| no_ops(graph, backend, groups).into_iter().map(move |group| (backend, group))).collect();
    let mut waiting: Vec<_> = idle.iter().copied().collect();
    while let Some((backend, group)) = waiting.pop() {
        let near = groups.neighbours(group).into_iter().filter(|&other| of(groups, other) == of(groups, group));
        let near: Vec<_> = near.filter_map(|other| Some((groups.groups[other].backend?, other))).collect();
        if near.iter().any(|other| !idle.contains(other)) && idle.remove(&(backend, group)) {
            // A group that stays is a neighbour for the next.
            waiting.extend(near.into_iter().filter(|other| idle.contains(other)));
        }
    }
    for (backend, group) in idle {
        release(entry, backend, group, Outcome::OnlyNoOps, groups, attempts);
    }
}

fn release(
    entry: usize,
    backend: usize,
    group: usize,
    outcome: Outcome,
    groups: &mut Groups<'_>,
    attempts: &mut Vec<Attempt>,
) {
    let nodes = groups.groups[group].nodes.clone();
    attempts.push(Attempt { entry, backend, nodes, pattern: String::new(), outcome });
    groups.release(group);
}

fn avoided(crashes: &Crashes<'_>, entry: usize, backend: usize, graph: &Graph, nodes: &BTreeSet<usize>) -> bool {
    let same = |avoid: &&Avoid| avoid.entry == entry && avoid.backend == backend;
    let names = |avoid: &Avoid| nodes.iter().any(|&node| avoid.nodes.contains(&graph.nodes[node].name));
    crashes.avoid.iter().filter(same).any(names)
}

fn is_no_answer(refusal: &Refusal, crashes: &Crashes<'_>) -> bool {
    match refusal.code {
        RefusalCode::Failed => true,
        RefusalCode::Crashed | RefusalCode::Panicked => !crashes.tolerated,
        _ => false,
    }
}

/// A failed `check` must not silently pass the nodes on to the next backend.
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
        let hint = error.hint.clone().unwrap_or_else(|| "Report this to the plugin's maker".into());
        Diagnostic::new(Code::PluginContract, format!("backend '{}': {}", selected.name(), error.message)).hint(hint)
    };
    let patterns = selected.registered.backend.patterns(&selected.options).map_err(failed)?;
    let parse = |pattern: Pattern| Ok(Rule { expr: pattern.parse().map_err(failed)?, pattern });
    patterns.into_iter().map(parse).collect()
}

/// Groups that do no arithmetic: by itself, offloading a reshape costs a copy there and a copy back.
fn no_ops(graph: &Graph, backend: usize, groups: &Groups<'_>) -> Vec<usize> {
    let idle = |group: &usize| groups.groups[*group].nodes.iter().all(|&node| is_no_op(graph, node));
    groups.of(backend).into_iter().filter(idle).collect()
}

fn is_no_op(graph: &Graph, node: usize) -> bool {
    let node = &graph.nodes[node];
    let ty = |value: Option<ValueId>| value.and_then(|value| graph.value(value).ty.as_ref());
    match (ops::find(&node.domain, &node.op), ty(node.input(0)), ty(node.output(0))) {
        (Some(def), Some(input), Some(output)) => def.is_no_op(node, input, output),
        _ => false,
    }
}

//! Backends that are to have the whole model, as one region.

use byoc_plugin_api::OptionKind;

use super::{broken, description, elsewhere, is_taken_by};
use crate::diagnostic::Result;
use crate::ir::Graph;
use crate::partition::{Attempt, NodeRow, Outcome, Partitioned, RegionPlan};
use crate::plugin::Selected;

/// A boolean option of this name says the same for every backend that declares it: the region of each entry is to be all of
/// the entry. A backend cannot see that by itself, as nobody asks it where no node of a model is its.
const OPTION: &str = "require-whole-model";

/// Indices of the backends that are to have the whole model.
pub(super) fn wanted(backends: &[Selected]) -> Vec<usize> {
    let declares = |selected: &Selected| {
        description(selected).options.iter().any(|spec| spec.name == OPTION && spec.kind == OptionKind::Bool)
    };
    let wants = |selected: &Selected| declares(selected) && selected.options.bool(OPTION);
    (0..backends.len()).filter(|&backend| wants(&backends[backend])).collect()
}

/// Errors with the first node that is in the way, and why.
pub(super) fn check(partitioned: &Partitioned, rows: &[NodeRow], backends: &[Selected], backend: usize) -> Result<()> {
    let name = backends[backend].name();
    let entries = partitioned.model.entries.iter().enumerate().filter(|(_, graph)| graph.body_of.is_none());
    for (entry, graph) in entries {
        let of_entry = |row: &&NodeRow| row.entry == graph.entry() && !row.expanded;
        let Some(problem) = missed(rows.iter().filter(of_entry), graph, backends, backend)
            .or_else(|| second(partitioned, entry, graph, backend))
        else {
            continue;
        };
        return broken(format!("{name}.{OPTION}: {problem}")).map_err(|error| {
            error.hint(format!(
                "byoc explain has the reason for each node; without {OPTION} the rest runs on the other backends of the list"
            ))
        });
    }
    Ok(())
}

/// The first node that another backend, or core, runs.
fn missed<'a>(
    mut rows: impl Iterator<Item = &'a NodeRow>,
    graph: &Graph,
    backends: &[Selected],
    backend: usize,
) -> Option<String> {
    if graph.nodes.is_empty() {
        return Some(format!("entry '{}' has no nodes", graph.entry()));
    }
    let name = backends[backend].name();
    let row = rows.find(|row| !is_taken_by(row, name))?;
    let earlier = row.taken.as_ref().filter(|(_, taken)| backends[..backend].iter().any(|other| other.name() == taken));
    let order = earlier.map(|_| format!(", which is before {name} in the list")).unwrap_or_default();
    Some(format!("{}{order}", elsewhere(row, name)))
}

/// The first node that is not in the same region as the first one of all, and why the two regions stay apart.
fn second(partitioned: &Partitioned, entry: usize, graph: &Graph, backend: usize) -> Option<String> {
    let own: Vec<_> = partitioned.regions.iter().filter(|plan| plan.entry == entry).collect();
    let region_of = |node: usize| own.iter().copied().find(|plan| plan.nodes.contains(&node));
    let first = region_of(0)?;
    let node = (0..graph.nodes.len()).find(|node| !first.nodes.contains(node))?;
    let second = region_of(node)?;
    let apart =
        |attempt: &&Attempt| (attempt.entry, attempt.backend) == (entry, backend) && spans(attempt, first, second);
    let reason = partitioned.attempts.iter().rev().filter(apart).find_map(|attempt| match &attempt.outcome {
        Outcome::Refused(refusal) => Some(format!(": {refusal}")),
        _ => None,
    });
    Some(format!(
        "node '{}' ({}) is in another region than '{}' ({}){}",
        graph.nodes[node].name,
        graph.nodes[node].qualified_op(),
        graph.nodes[0].name,
        graph.nodes[0].qualified_op(),
        reason.unwrap_or_default()
    ))
}

fn spans(attempt: &Attempt, first: &RegionPlan, second: &RegionPlan) -> bool {
    !attempt.nodes.is_disjoint(&first.nodes) && !attempt.nodes.is_disjoint(&second.nodes)
}

//! What a page shows of a model: each node, who takes it, and why others do not.

use std::collections::HashMap;

use byoc_core::compile::explain;
use byoc_core::diagnostic::Result;
use byoc_core::partition::{NodeRow, Reason};
use serde_json::json;

use super::Args;
use super::layout::places;
use super::page::{Backend, Node, Page};
use crate::commands::explain::Summary;
use crate::progress::Progress;
use crate::{compile_request, report};

/// The page.
pub(super) fn page(args: &Args) -> Result<Page> {
    let registry = compile_request::isolated_registry(&args.plugins, &args.backends.backend)?;
    let sources = vec![("main".to_owned(), args.file.clone())];
    let mut request = compile_request::request(&registry, &args.backends, sources, &args.shapes)?;
    // No file that the model takes weights from is overwritten.
    request.also_written = vec![args.output.clone()];
    let rows = explain(&request, &mut Progress::new(None))?;
    let summary = Summary::of(&rows);
    let mut page = Page::of(&args.file);
    page.facts = vec![format!("ONNX model, {}", report::count(rows.len(), "node"))];
    page.backends = backends(&summary, &rows);
    page.reasons = json!(summary.reasons());
    page.regions = summary.regions;
    page.edges = edges(&rows);
    let at = places(rows.len(), &page.edges);
    page.nodes = rows.iter().zip(at).map(|(row, at)| node(row, at)).collect();
    Ok(page)
}

fn backends(summary: &Summary, rows: &[NodeRow]) -> Vec<Backend> {
    let not_asked = rows.iter().filter(|row| is_not_asked(row)).count();
    let backend = |(name, nodes, regions): (Option<&str>, usize, usize)| match name {
        Some(name) => Backend { name: name.to_owned(), nodes, regions },
        None => Backend { name: "unassigned".to_owned(), nodes: nodes.saturating_sub(not_asked), regions },
    };
    let rest = (not_asked > 0).then(|| Backend { name: NOT_ASKED.to_owned(), nodes: not_asked, regions: 0 });
    summary.counts().map(backend).filter(|backend| backend.nodes > 0).chain(rest).collect()
}

/// What the page calls nodes without a backend that may find one: another node of the model is not known, so that nobody was asked.
const NOT_ASKED: &str = "not asked";

fn is_not_asked(row: &NodeRow) -> bool {
    row.taken.is_none() && !row.refused.is_empty() && row.refused.iter().all(|(_, reason)| *reason == Reason::NotAsked)
}

/// Who writes what a node reads, in its own entry.
fn edges(rows: &[NodeRow]) -> Vec<(usize, usize)> {
    let mut writers: HashMap<(&str, &str), usize> = HashMap::new();
    let mut edges = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let from = row.reads.iter().filter_map(|value| writers.get(&(row.entry.as_str(), value.as_str())));
        let mut from: Vec<_> = from.copied().collect();
        from.sort_unstable();
        from.dedup();
        edges.extend(from.into_iter().map(|from| (from, index)));
        writers.extend(row.writes.iter().map(|value| ((row.entry.as_str(), value.as_str()), index)));
    }
    edges
}

fn node(row: &NodeRow, at: super::layout::Place) -> Node {
    let (region, backend) = match &row.taken {
        Some((region, backend)) => (region.clone(), backend.clone()),
        None if row.expanded => (String::new(), "expanded".into()),
        None if is_not_asked(row) => (String::new(), NOT_ASKED.into()),
        None => (String::new(), "unassigned".into()),
    };
    let list = |what: &str, values: &[String]| (!values.is_empty()).then(|| (what.to_owned(), values.join(", ")));
    let details = [list("reads", &row.reads), list("writes", &row.writes)].into_iter().flatten().collect();
    let refused = row.refused.iter().map(|(backend, reason)| (backend.clone(), reason.to_string())).collect();
    let (name, op) = (row.node.clone(), row.op.clone());
    Node { name, op, backend, region, refused, details, at }
}

//! Which operators a model may use, with how many inputs and outputs. The only place that decides it.

use super::canonical;
use super::flatten::FlatNode;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::CustomOperators;
use crate::ops::{self, lists};

/// Fails if neither core nor a backend knows the operator of some node; names the first such node, and every other such
/// operator. Then fails if one has more inputs or outputs than its operator.
pub(super) fn check(nodes: &[FlatNode], custom: &CustomOperators) -> Result<()> {
    let nodes = &with_bodies(nodes);
    let known = |node: &&FlatNode| {
        is_canonical(&node.domain, &node.op)
            || !node.bodies.is_empty()
            || lists::find(&node.domain, &node.op).is_some()
            || custom.keeps_unknown()
            || custom.find(&node.domain, &node.op, Some(node.version)).is_some()
    };
    let mut unknown = nodes.iter().copied().filter(|node| !known(node));
    let Some(first) = unknown.next() else { return nodes.iter().try_for_each(|node| check_counts(node, custom)) };
    let operator = qualified(first);
    let cause =
        format!("node '{}': operator {operator} version {} {}", first.name, first.version, not_known(first, custom));
    let error = Diagnostic::new(Code::UnknownOperator, cause);
    let mut others: Vec<_> = unknown.map(qualified).filter(|other| *other != operator).collect();
    others.sort();
    others.dedup();
    Err(match remedy(first, custom) {
        _ if !others.is_empty() => error.hint(format!("Nor are: {}", others.join(", "))),
        Some(remedy) => error.hint(remedy),
        None => error,
    })
}

/// The nodes, each with those of its bodies behind it.
fn with_bodies(nodes: &[FlatNode]) -> Vec<&FlatNode> {
    let mut all = Vec::with_capacity(nodes.len());
    for node in nodes {
        all.push(node);
        node.bodies.iter().for_each(|body| all.extend(with_bodies(&body.nodes)));
    }
    all
}

/// Whether core knows the operator, so that its nodes get the canonical form.
pub(super) fn is_canonical(domain: &str, op: &str) -> bool {
    domain.is_empty() && op == "Constant" || ops::find(domain, canonical::name_of_today(op)).is_some()
}

/// Who was asked about an operator that nobody knows.
fn not_known(node: &FlatNode, custom: &CustomOperators) -> String {
    let versions = custom.versions(&node.domain, &node.op).map(|brought| {
        let (since, backend) = (brought.operator.since, &brought.backend);
        match brought.operator.until {
            Some(until) if until == since => format!("{backend} knows version {since}"),
            Some(until) => format!("{backend} knows versions {since} to {until}"),
            None => format!("{backend} knows it from version {since} on"),
        }
    });
    let versions: Vec<_> = versions.collect();
    if versions.is_empty() {
        match custom.backends() {
            [] => "is not known".into(),
            asked => format!("is not known, neither to byoc nor to {}", asked.join(", ")),
        }
    } else {
        format!("is not known: {}", versions.join(", "))
    }
}

fn check_counts(node: &FlatNode, custom: &CustomOperators) -> Result<()> {
    let count = |names: &[String]| names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    let (inputs, outputs) = (count(&node.inputs), count(&node.outputs));
    let checked = if !is_canonical(&node.domain, &node.op) {
        let Some(brought) = custom.find(&node.domain, &node.op, Some(node.version)) else { return Ok(()) };
        let present = node.inputs[..inputs].iter().map(|name| !name.is_empty());
        ops::custom::check_counts(brought, present, outputs)
    } else if let Some(def) = ops::find_any(&node.op) {
        def.check_counts(node.version, inputs, outputs)
    } else {
        return Ok(());
    };
    checked.map_err(|error| error.within(format!("node '{}' ({})", node.name, qualified(node))))
}

/// Remedies for common unsupported operators.
fn remedy(node: &FlatNode, custom: &CustomOperators) -> Option<String> {
    if let Some(backend) = custom.brought_elsewhere(&node.domain, &node.op, node.version) {
        return Some(format!("The backend '{backend}' brings it: add it to --backend"));
    }
    if custom.versions(&node.domain, &node.op).next().is_some() {
        return Some("Update the backend, or export the model with a version that it knows".into());
    }
    let known = match (node.domain.as_str(), node.op.as_str()) {
        ("", _) => None,
        ("com.microsoft", _) => Some("Take the model as it was before ONNX Runtime optimised it"),
        _ => Some("Add a backend that brings it to --backend, and its plugin with --plugin"),
    };
    known.map(str::to_owned)
}

fn qualified(node: &FlatNode) -> String {
    if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) }
}

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
    let why = not_known(first, custom);
    let cause = format!("node '{}': operator {operator} version {} {why}", first.name, first.version);
    let error = Diagnostic::new(Code::UnknownOperator, cause);
    let mut others: Vec<_> = unknown.map(qualified).filter(|other| *other != operator).collect();
    others.sort();
    others.dedup();
    Err(match remedy(first, custom) {
        _ if !others.is_empty() && ops::reason(&first.domain, &first.op).is_none() => {
            error.hint(format!("Nor are: {}", others.join(", ")))
        }
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
    if let (true, Some(reason)) = (versions.is_empty(), ops::reason(&node.domain, &node.op)) {
        reason.cause.to_owned()
    } else if versions.is_empty() {
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
    } else if let Some(def) = ops::find_any(&node.domain, &node.op) {
        check_version(node)?;
        def.check_counts(node.version, inputs, outputs)
    } else {
        return Ok(());
    };
    checked.map_err(|error| error.within(format!("node '{}' ({})", node.name, qualified(node))))
}

/// Fails where the operator set of a node is newer than this build knows; that of ONNX's own domain was looked at before.
fn check_version(node: &FlatNode) -> Result<()> {
    let Some(domain) = ops::domain(&node.domain).filter(|domain| !(1..=domain.newest).contains(&node.version)) else {
        return Ok(());
    };
    let (version, name, newest) = (node.version, domain.name, domain.newest);
    let cause =
        format!("node '{}': operator set {version} of {name} is not known; this build knows 1 to {newest}", node.name);
    Err(Diagnostic::new(Code::UnknownOperator, cause)
        .hint(format!("Export the model with version {newest} or lower of it, or update byoc")))
}

/// Remedies for common unsupported operators.
fn remedy(node: &FlatNode, custom: &CustomOperators) -> Option<String> {
    if let Some(backend) = custom.brought_elsewhere(&node.domain, &node.op, node.version) {
        return Some(format!("The backend '{backend}' brings it: add it to --backend"));
    }
    if custom.versions(&node.domain, &node.op).next().is_some() {
        return Some("Update the backend, or export the model with a version that it knows".into());
    }
    if let Some(reason) = ops::reason(&node.domain, &node.op) {
        return Some(reason.remedy.to_owned());
    }
    let remedy = match (node.domain.as_str(), node.op.as_str()) {
        ("", _) => "docs/operators.md lists those that byoc knows; a plugin may bring others (--plugin, --backend)",
        ("com.microsoft", _) => "Take the model as it was before ONNX Runtime optimised it",
        _ => "Add a backend that brings it to --backend, and its plugin with --plugin",
    };
    Some(remedy.to_owned())
}

fn qualified(node: &FlatNode) -> String {
    if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) }
}

//! Which operators a model may use, with how many inputs and outputs. The only place that decides it.

use super::canonical;
use super::flatten::FlatNode;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ops;

/// Fails if some node's operator is not known; names the first such node, and every other such operator. Then fails if one
/// has more inputs or outputs than its operator.
pub(super) fn check(nodes: &[FlatNode]) -> Result<()> {
    let mut unknown = nodes.iter().filter(|node| !supported(&node.domain, &node.op));
    let Some(first) = unknown.next() else { return nodes.iter().try_for_each(check_counts) };
    let operator = qualified(first);
    let cause = format!("node '{}': operator {operator} version {} is not known", first.name, first.version);
    let error = Diagnostic::new(Code::UnknownOperator, cause);
    let mut others: Vec<_> = unknown.map(qualified).filter(|other| *other != operator).collect();
    others.sort();
    others.dedup();
    Err(match remedy(first) {
        _ if !others.is_empty() => error.hint(format!("Nor are: {}", others.join(", "))),
        Some(remedy) => error.hint(remedy),
        None => error,
    })
}

fn check_counts(node: &FlatNode) -> Result<()> {
    let Some(def) = ops::find_any(&node.op) else { return Ok(()) };
    let count = |names: &[String]| names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    let place = |error: Diagnostic| error.within(format!("node '{}' ({})", node.name, node.op));
    def.check_counts(node.version, count(&node.inputs), count(&node.outputs)).map_err(place)
}

/// Remedies for common unsupported operators.
fn remedy(node: &FlatNode) -> Option<&'static str> {
    match (node.domain.as_str(), node.op.as_str()) {
        ("", "If" | "Loop" | "Scan") => Some("Export the model for one fixed path, without control flow"),
        ("com.microsoft", _) => Some("Take the model as it was before ONNX Runtime optimised it"),
        _ => None,
    }
}

fn supported(domain: &str, op: &str) -> bool {
    domain.is_empty() && op == "Constant" || ops::find(domain, canonical::name_of_today(op)).is_some()
}

fn qualified(node: &FlatNode) -> String {
    if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) }
}

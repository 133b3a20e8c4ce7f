//! Where nodes go, as JSON: what `byoc explain --json` prints for each, and what the Python module reads.

use byoc_core::partition::{NodeRow, Reason};
use serde_json::{Value, json};

/// A node with its backend and its region, and why the backends before that one do not take it.
pub fn json(row: &NodeRow) -> Value {
    let refused = |(backend, reason): &(String, Reason)| json!({ "backend": backend, "code": reason.code(), "reason": reason.to_string() });
    json!({
        "entry": row.entry,
        "node": row.node,
        "op": row.op,
        "backend": row.taken.as_ref().map(|(_, backend)| backend),
        "region": row.taken.as_ref().map(|(region, _)| region),
        "refused": row.refused.iter().map(refused).collect::<Vec<_>>(),
        "expanded": row.expanded,
    })
}

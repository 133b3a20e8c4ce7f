//! A row for each node, for people.

use byoc_core::partition::NodeRow;

use super::summary::Summary;
use crate::report::{Table, Tone};

/// The rows as a table, and the sums over all nodes.
pub(super) fn text(rows: &[&NodeRow], summary: &Summary) -> String {
    let several = rows.iter().any(|row| row.entry != rows[0].entry);
    let table = Table::new(&["node", "operator", "backend", "?region", "not taken by"]);
    let mut table = table.tone("backend", |backend| (backend == "unassigned").then_some(Tone::Bad));
    for row in rows {
        let (region, backend) = match &row.taken {
            // Core runs it, and it has no bodies.
            Some((region, backend)) if region.is_empty() => ("-", backend.as_str()),
            Some((region, backend)) => (region.as_str(), backend.as_str()),
            None if row.expanded => ("-", "expanded"),
            None => ("-", "unassigned"),
        };
        let refused: Vec<_> = row.refused.iter().map(|(backend, reason)| format!("{backend}: {reason}")).collect();
        let node = if several { format!("{}/{}", row.entry, row.node) } else { row.node.clone() };
        table.row([&node, &row.op, backend, region, &refused.join("; ")]);
    }
    format!("{}\n{}\n", table.text(), summary.sentence())
}

#[cfg(test)]
mod tests {
    use byoc_core::partition::Reason;
    use byoc_plugin_api::RefusalCode;

    use super::super::summary::tests::{refused, row};
    use super::*;

    #[test]
    fn nodes_with_reasons_and_counts() {
        let mut rows = [
            row("a", Some(("byoc_main_gpu_0", "gpu")), &[]),
            row("b", Some(("byoc_main_host_0", "host")), &[("gpu", refused(RefusalCode::Type, "f64 is not f32"))]),
            row("c", None, &[("gpu", Reason::NoPattern), ("host", Reason::NoPattern)]),
            row("f", None, &[("gpu", refused(RefusalCode::Type, "f64 is not f32"))]),
        ];
        rows[3].expanded = true;
        let expected = "node  operator  backend     region            not taken by\n\
                        a     Add       gpu         byoc_main_gpu_0\n\
                        b     Add       host        byoc_main_host_0  gpu: add: type: f64 is not f32\n\
                        c     Add       unassigned  -                 gpu: no pattern matches; host: no pattern matches\n\
                        f     Add       expanded    -                 gpu: add: type: f64 is not f32\n\
                        \n\
                        gpu: 1 node in 1 region; host: 1 node in 1 region; unassigned: 1 node\n";
        assert_eq!(text(&rows.iter().collect::<Vec<_>>(), &Summary::of(&rows)), expected);
    }
}

//! `byoc explain`: for each node the backend that takes it, and the refusals of the others.

use std::process::ExitCode;

use byoc_core::compile::explain;
use byoc_core::diagnostic::Result;
use byoc_core::partition::NodeRow;
use serde_json::{Value, json};

use crate::args::{Backends, ModelArg, Plugins, Shapes, name_value};
use crate::compile_request;
use crate::file_kind;
use crate::progress::Progress;
use crate::report::{self, Table, count};

/// Show for each node of a model which backend takes it, and why the others do not
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Models
    #[arg(required = true, value_name = "[NAME=]MODEL.onnx", value_parser = name_value::model)]
    models: Vec<ModelArg>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Which backends may take nodes.
    #[command(flatten)]
    backends: Backends,
    /// Where plugins are.
    #[command(flatten)]
    plugins: Plugins,
    /// Sizes that are left open.
    #[command(flatten)]
    shapes: Shapes,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let registry = compile_request::isolated_registry(&args.plugins)?;
    let sources = compile_request::sources(&args.models);
    let request = compile_request::request(&registry, &args.backends, sources, &args.shapes)?;
    let rows = explain(&request, &mut Progress::new(None))
        .map_err(|error| file_kind::of_models(error, &args.models, &args.plugins))?;
    if args.json {
        report::print_json(&json(&rows))?;
    } else {
        report::print(&text(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How many regions and nodes each backend has, in order of appearance; `None` for those that no backend takes. What was
/// expanded is no node any more, and what core runs itself is in no region.
fn counts(rows: &[NodeRow]) -> Vec<(Option<&str>, usize, usize)> {
    let mut counts: Vec<(Option<&str>, Vec<&str>, usize)> = Vec::new();
    for row in rows.iter().filter(|row| !row.expanded && !row.control) {
        let (region, backend) = match &row.taken {
            Some((region, backend)) => (Some(region.as_str()), Some(backend.as_str())),
            None => (None, None),
        };
        let at = counts.iter().position(|(known, ..)| *known == backend).unwrap_or_else(|| {
            counts.push((backend, Vec::new(), 0));
            counts.len() - 1
        });
        let (_, regions, nodes) = &mut counts[at];
        *nodes += 1;
        if let Some(region) = region.filter(|region| !regions.contains(region)) {
            regions.push(region);
        }
    }
    counts.into_iter().map(|(backend, regions, nodes)| (backend, regions.len(), nodes)).collect()
}

fn text(rows: &[NodeRow]) -> String {
    let several = rows.iter().any(|row| row.entry != rows[0].entry);
    let mut table = Table::new(&["node", "operator", "backend", "region", "not taken by"]);
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
    let counts = counts(rows).into_iter().map(|(backend, regions, nodes)| match backend {
        Some(backend) => format!("{backend}: {} in {}", count(nodes, "node"), count(regions, "region")),
        None => format!("unassigned: {}", count(nodes, "node")),
    });
    let control = rows.iter().filter(|row| row.control).count();
    let control = (control > 0).then(|| format!("byoc itself: {}", count(control, "node")));
    format!("{}\n{}\n", table.text(), counts.chain(control).collect::<Vec<_>>().join("; "))
}

fn json(rows: &[NodeRow]) -> Value {
    let node = |row: &NodeRow| {
        let refused = |(backend, reason): &(String, String)| json!({ "backend": backend, "reason": reason });
        json!({
            "entry": row.entry,
            "node": row.node,
            "op": row.op,
            "backend": row.taken.as_ref().map(|(_, backend)| backend),
            "region": row.taken.as_ref().map(|(region, _)| region),
            "refused": row.refused.iter().map(refused).collect::<Vec<_>>(),
            "expanded": row.expanded,
        })
    };
    let count = |(backend, regions, nodes)| json!({ "backend": backend, "regions": regions, "nodes": nodes });
    json!({
        "nodes": rows.iter().map(node).collect::<Vec<_>>(),
        "backends": counts(rows).into_iter().map(count).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_reasons_and_counts() {
        let row = |node: &str, taken: Option<(&str, &str)>, refused: &[(&str, &str)]| NodeRow {
            entry: "main".into(),
            node: node.into(),
            op: "Add".into(),
            taken: taken.map(|(region, backend)| (region.into(), backend.into())),
            refused: refused.iter().map(|(backend, reason)| ((*backend).into(), (*reason).into())).collect(),
            control: false,
            expanded: node == "f",
        };
        let rows = [
            row("a", Some(("byoc_main_gpu_0", "gpu")), &[]),
            row("b", Some(("byoc_main_host_0", "host")), &[("gpu", "add: type: f64 is not f32")]),
            row("c", None, &[("gpu", "no pattern matches"), ("host", "no pattern matches")]),
            row("f", None, &[("gpu", "add: type: f64 is not f32")]),
        ];
        let expected = "node  operator  backend     region            not taken by\n\
                        a     Add       gpu         byoc_main_gpu_0\n\
                        b     Add       host        byoc_main_host_0  gpu: add: type: f64 is not f32\n\
                        c     Add       unassigned  -                 gpu: no pattern matches; host: no pattern matches\n\
                        f     Add       expanded    -                 gpu: add: type: f64 is not f32\n\
                        \n\
                        gpu: 1 node in 1 region; host: 1 node in 1 region; unassigned: 1 node\n";
        assert_eq!(text(&rows), expected);
    }
}

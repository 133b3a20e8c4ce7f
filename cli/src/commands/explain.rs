//! `byoc explain`: which backend takes how much of a model, and why the others do not; node by node where that is wanted.

mod reasons;
mod rows;
mod summary;

use std::process::ExitCode;

use byoc_core::compile::explain;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::partition::NodeRow;
use byoc_core::plugin::Selected;
use byoc_plugin_api::Precision;
use byoc_tools::node_rows;
use serde_json::json;

pub(super) use self::summary::{Region, Summary};
use crate::args::{Backends, ModelArg, Plugins, Shapes, name_value};
use crate::compile_request;
use crate::file_kind;
use crate::progress::Progress;
use crate::report;

/// Show which backend takes which nodes of a model, and why the others do not
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc explain model.onnx --backend acme,cpu\n  byoc explain model.onnx --backend acme,cpu --op Conv --refused"
)]
pub(crate) struct Args {
    /// Models
    #[arg(required = true, value_name = "[NAME=]MODEL.onnx", value_parser = name_value::model)]
    models: Vec<ModelArg>,
    /// Show every node
    #[arg(long)]
    nodes: bool,
    /// Show the nodes that a backend refused
    #[arg(long)]
    refused: bool,
    /// Show the nodes of this operator (repeatable), such as Conv or com.acme.Scale
    #[arg(long, value_name = "OPERATOR")]
    op: Vec<String>,
    /// Show the nodes of this region (repeatable)
    #[arg(long, value_name = "SYMBOL")]
    region: Vec<String>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Which backends may take nodes.
    #[command(flatten)]
    backends: Backends,
    /// Sizes that are left open.
    #[command(flatten)]
    shapes: Shapes,
    /// Where plugins are.
    #[command(flatten)]
    plugins: Plugins,
}

/// Runs the verb. Its exit code is that of a compile where no backend takes a node.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let registry = compile_request::isolated_registry(&args.plugins, &args.backends.backend)?;
    let sources = compile_request::sources(&args.models);
    let request = compile_request::request(&registry, &args.backends, sources, &args.shapes)?;
    let rows = explain(&request, &mut Progress::new(None))
        .map_err(|error| file_kind::of_models(error, &args.models, &args.plugins))?;
    let shown = selected(args, &rows)?;
    let summary = Summary::of(&rows);
    if args.json {
        report::print_json(&json!({
            "nodes": shown.iter().map(|row| node_rows::json(row)).collect::<Vec<_>>(),
            "backends": summary.shares,
            "reasons": summary.reasons,
            "regions": summary.regions,
            "precision": precision(&request.backends).map(|(name, row)| json!({ "backend": name, "of": row })).collect::<Vec<_>>(),
        }))?;
    } else if args.nodes || args.refused || !args.op.is_empty() || !args.region.is_empty() {
        report::print(&rows::text(&shown, &summary))?;
    } else {
        let declared = precision(&request.backends).map(|(name, row)| format!("{name} is precise to {row}\n"));
        report::print(&(summary.text() + &declared.collect::<String>()))?;
    }
    Ok(if summary.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(Code::NoBackend.exit()) })
}

/// What the backends of the list declare of their precision, row by row.
fn precision(backends: &[Selected]) -> impl Iterator<Item = (&str, &Precision)> {
    backends.iter().flat_map(|selected| {
        let rows = &selected.registered.description.precision;
        rows.iter().map(|row| (selected.name(), row))
    })
}

/// The rows that the flags select; all where none does.
fn selected<'a>(args: &Args, rows: &'a [NodeRow]) -> Result<Vec<&'a NodeRow>> {
    let missing = |kind: &str, name: &str, hint: String| {
        Err(Diagnostic::new(Code::UnknownName, format!("the model has no {kind} '{name}'")).hint(hint))
    };
    let of_region = |row: &NodeRow, wanted: &String| row.taken.as_ref().is_some_and(|(region, _)| region == wanted);
    if let Some(op) = args.op.iter().find(|&op| !rows.iter().any(|row| row.op == *op)) {
        return missing("node of the operator", op, "`byoc inspect MODEL` lists its operators".into());
    }
    if let Some(region) = args.region.iter().find(|&region| !rows.iter().any(|row| of_region(row, region))) {
        return missing("region", region, "`byoc explain MODEL` without --region lists them".into());
    }
    let wanted = |row: &&NodeRow| {
        (args.op.is_empty() || args.op.contains(&row.op))
            && (args.region.is_empty() || args.region.iter().any(|region| of_region(row, region)))
            && (!args.refused || !row.refused.is_empty())
    };
    Ok(rows.iter().filter(wanted).collect())
}

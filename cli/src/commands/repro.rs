//! `byoc repro`: one region of a model as an ONNX model.

use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::compile::repro;
use byoc_core::diagnostic::Result;

use crate::args::{Backends, ModelArg, Plugins, Shapes, name_value};
use crate::compile_request;
use crate::file_kind;
use crate::guard::{Guard, Written};
use crate::progress::Progress;
use crate::report;

/// Write one region as an ONNX model, for the maker of a backend
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc explain m.onnx --backend acme,cpu --nodes  # the names of regions\n  byoc repro m.onnx --backend acme,cpu --region byoc_main_acme_0 -o m.repro.onnx"
)]
pub(crate) struct Args {
    /// Models, as for compile
    #[arg(required = true, value_name = "[NAME=]MODEL.onnx", value_parser = name_value::model)]
    models: Vec<ModelArg>,
    /// The region, by its name; see `byoc explain MODEL --nodes`
    #[arg(long, value_name = "SYMBOL")]
    region: String,
    /// The model to write; '.repro.onnx' is a good ending
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Put made-up elements in the place of the weights
    #[arg(long)]
    strip_weights: bool,
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

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    Guard::of(Written::Model, [&args.output]).models(&args.models).plugins(&args.plugins).check()?;
    let registry = compile_request::isolated_registry(&args.plugins, &args.backends.backend)?;
    let sources = compile_request::sources(&args.models);
    let request = compile_request::request(&registry, &args.backends, sources, &args.shapes)?;
    repro(&request, &args.region, args.strip_weights, &args.output, &mut Progress::new(None))
        .map_err(|error| file_kind::of_models(error, &args.models, &args.plugins))?;
    report::print(&report::written(&args.output)?)?;
    Ok(ExitCode::SUCCESS)
}

//! `byoc plugin bench`: the regions that a plugin takes of models, each timed beside a host backend.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use byoc_core::compile::{Request, explain, repro};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::{Origin, Registry};
use byoc_core::runtime::{LoadOptions, Session};
use byoc_tools::execution::Loaded;
use byoc_tools::fill::Fill;
use byoc_tools::inputs::{Inputs, OpenSizes};
use byoc_tools::side_by_side::side_by_side;
use serde::Serialize;
use serde_json::json;

use crate::args::{Backends, ModelArg, Plugins, Shapes, name_value, number};
use crate::artifact::compile_for_now;
use crate::compile_request;
use crate::progress::Progress;
use crate::report::{self, Table, duration};

/// Time the regions that a plugin takes of models, each beside a host backend
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc plugin bench libbyoc_acme.so model.onnx\n  byoc plugin bench libbyoc_acme.so model.onnx --threads 1 --dim batch=8 --json"
)]
pub(crate) struct Args {
    /// The plugin file
    file: PathBuf,
    /// Models, as for compile
    #[arg(required = true, value_name = "[NAME=]MODEL.onnx", value_parser = name_value::model)]
    models: Vec<ModelArg>,
    /// Only these backends of the plugin (repeatable) [default: all of them]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    backend: Vec<String>,
    /// An option of a backend (repeatable); see `byoc plugin info NAME`
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    backend_opt: Vec<(String, String)>,
    /// The host backend that is timed beside it
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = name_value::backend)]
    beside: String,
    /// Least time to measure each region for, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = number::seconds)]
    duration: f64,
    /// Most threads to use; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Sizes that are left open.
    #[command(flatten)]
    shapes: Shapes,
}

/// A region and its times.
#[derive(Serialize)]
struct Row {
    region: String,
    backend: String,
    nodes: Vec<String>,
    seconds: f64,
    beside_seconds: f64,
    ratio: f64,
    runs: usize,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let registry = compile_request::isolated_registry(&Plugins::of_file(&args.file), &[])?;
    let bench = Bench { args, own: backends(args, &registry)?, registry };
    let request = bench.request(compile_request::sources(&args.models), &args.shapes, &bench.own)?;
    let regions = regions(&request, &bench.own)?;
    if regions.is_empty() {
        let message = format!("'{}' takes no node of the model", args.file.display());
        return Err(Diagnostic::new(Code::UnusedBackend, message).hint("byoc explain says why"));
    }
    let folder =
        tempfile::tempdir().map_err(|error| Diagnostic::io(&std::env::temp_dir(), "make a folder in", &error))?;
    let path = folder.path().join("region.onnx");
    let mut rows = Vec::new();
    for (region, backend, nodes) in regions {
        repro(&request, &region, false, &path, &mut Progress::new(None))?;
        let (seconds, beside_seconds, runs) = bench.times(&region, &path)?;
        rows.push(Row { region, backend, nodes, seconds, beside_seconds, ratio: seconds / beside_seconds, runs });
    }
    if args.json {
        report::print_json(&json!({ "beside": args.beside, "regions": rows }))?;
    } else {
        report::print(&text(args, &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The backends of the plugin that are meant.
fn backends(args: &Args, registry: &Registry) -> Result<Vec<String>> {
    let of_file = |origin: &Origin| matches!(origin, Origin::File(path) if *path == args.file);
    let own = registry.backends.iter().filter(|registered| of_file(&registered.origin));
    let own: Vec<String> = own.map(|registered| registered.description.name.clone()).collect();
    if let Some(name) = args.backend.iter().find(|name| !own.contains(name)) {
        let message = format!("'{}' has no backend '{name}'", args.file.display());
        return Err(Diagnostic::new(Code::UnknownBackend, message).hint(format!("It has {}", own.join(", "))));
    }
    if own.contains(&args.beside) {
        let message = format!("'{}' is a backend of the plugin itself", args.beside);
        return Err(Diagnostic::new(Code::Usage, message).hint("Name another one with --beside"));
    }
    Ok(if args.backend.is_empty() { own } else { args.backend.clone() })
}

/// What everything is made from.
struct Bench<'a> {
    args: &'a Args,
    /// The plugin's backends that are meant.
    own: Vec<String>,
    registry: Registry,
}

impl Bench<'_> {
    /// What to compile: for these backends, and the host backend behind them.
    fn request(&self, sources: Vec<(String, PathBuf)>, shapes: &Shapes, backends: &[String]) -> Result<Request> {
        let backend = [backends, std::slice::from_ref(&self.args.beside)].concat();
        let chosen = Backends { backend, backend_opt: self.args.backend_opt.clone() };
        compile_request::request(&self.registry, &chosen, sources, shapes)
    }

    /// The model, compiled for these backends and loaded, and another backend that has nodes of it, if there is one.
    fn loaded(&self, model: &Path, backends: &[String]) -> Result<(Loaded, Option<String>)> {
        let request = self.request(vec![("main".into(), model.to_owned())], &Shapes::default(), backends)?;
        let (artifact, _) = compile_for_now(&request, model)?;
        let (_, run_options) = self.registry.part_settings(&self.args.backend_opt);
        let options = LoadOptions { threads: self.args.threads, run_options, ..LoadOptions::default() };
        let used = artifact.manifest().backends();
        let session = Session::load(artifact, &self.registry, &options)?;
        let inputs = Inputs { fill: Some(Fill::Random), ..Inputs::default() };
        let loaded = Loaded::new(session, &inputs, &OpenSizes::default(), &mut |warning| report::warning(&warning))?;
        Ok((loaded, used.into_iter().find(|backend| !backends.contains(backend))))
    }

    /// The median seconds of a run of the region, which is a model of its own, and of the host backend's, and how many runs there were.
    fn times(&self, region: &str, model: &Path) -> Result<(f64, f64, usize)> {
        let (mut own, others) = self.loaded(model, &self.own)?;
        if let Some(backend) = others {
            let message = format!("region {region}, as a model of its own, is compiled for '{backend}' as well");
            return Err(
                Diagnostic::new(Code::PlacementPolicy, message).hint("byoc repro writes it, and byoc explain says why")
            );
        }
        let (mut other, _) = self.loaded(model, &[])?;
        let [own, other] = side_by_side([&mut own, &mut other], Duration::from_secs_f64(self.args.duration))?;
        Ok((own.median, other.median, own.runs))
    }
}

/// The regions of these backends in their order: name, backend, and the operators in it.
fn regions(request: &Request, backends: &[String]) -> Result<Vec<(String, String, Vec<String>)>> {
    let mut regions: Vec<(String, String, Vec<String>)> = Vec::new();
    for row in explain(request, &mut Progress::new(None))? {
        let Some((region, backend)) = row.taken.filter(|(_, backend)| backends.contains(backend)) else { continue };
        match regions.iter_mut().find(|(known, ..)| *known == region) {
            Some((.., nodes)) => nodes.push(row.op),
            None => regions.push((region, backend, vec![row.op])),
        }
    }
    Ok(regions)
}

fn text(args: &Args, rows: &[Row]) -> String {
    /// Operators that are listed by name.
    const SHOWN: usize = 4;
    let beside = format!(">{}", args.beside);
    let mut table = Table::new(&["region", "operators", ">plugin", &beside, ">ratio"]);
    for row in rows {
        let more = row.nodes.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let nodes = row.nodes.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ") + &more;
        let [own, other] = [row.seconds, row.beside_seconds].map(|seconds| duration(Duration::from_secs_f64(seconds)));
        table.row([&row.region, &nodes, &own, &other, &format!("{:.2}", row.ratio)]);
    }
    table.text()
}

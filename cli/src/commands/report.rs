//! `byoc report`: a page that shows a model or an artifact. It is one file, which loads nothing from anywhere.

mod artifact;
mod layout;
mod model;
mod page;
mod treemap;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use byoc_core::atomic_file;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use serde_json::Value;

use crate::args::{Backends, Plugins, Shapes};
use crate::artifact::{Compiled, find, is_model};
use crate::guard::Guard;
use crate::report;

/// Write a page that shows a model or an artifact: the graph, who takes what and why not, and where the bytes are
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// An artifact, or an .onnx model
    file: PathBuf,
    /// The page to write
    #[arg(short, long, value_name = "PAGE.html")]
    output: PathBuf,
    /// Times to show: what `run --profile --json` or `bench --profile --json` has printed
    #[arg(long, value_name = "PROFILE.json")]
    profile: Option<PathBuf>,
    /// Which backends may take nodes of a model.
    #[command(flatten)]
    backends: Backends,
    /// Where plugins are.
    #[command(flatten)]
    plugins: Plugins,
    /// Sizes that a model leaves open.
    #[command(flatten)]
    shapes: Shapes,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let profile = args.profile.iter().map(|path| byoc_core::overwrite::Input::new("a profile", path));
    let guard = Guard::of([&args.output]).reads("the file to show", &args.file).plugins(&args.plugins);
    guard.reads_all(profile).check()?;
    let times = args.profile.as_deref().map(times).transpose()?;
    let mut page = if is_model(&args.file) { model::page(args)? } else { of_artifact(args)? };
    page.times = times.unwrap_or_default();
    atomic_file::write(&args.output, page.html()?.as_bytes())?;
    report::print(&format!("{}\n", args.output.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn of_artifact(args: &Args) -> Result<page::Page> {
    if !args.backends.backend.is_empty() {
        let message = format!("'{}' is compiled already, so it takes no --backend", args.file.display());
        return Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the .onnx model"));
    }
    match find(&args.file, &args.plugins)? {
        Compiled::Artifact(artifact) => {
            Guard::of([&args.output]).reads_all(artifact.constant_files(None)).check()?;
            Ok(artifact::page(&args.file, &artifact))
        }
        Compiled::File(_) => {
            let message = format!("'{}' is a file of a backend's own, of which there is no page", args.file.display());
            Err(Diagnostic::new(Code::Usage, message).hint("`byoc inspect` shows it"))
        }
    }
}

/// The times in what a profile printed: of its steps where it tells them, else of its regions.
fn times(path: &Path) -> Result<Vec<page::Time>> {
    let bad = |cause: String| {
        let error = Diagnostic::new(Code::BadInput, format!("'{}' is not a profile: {cause}", path.display()));
        error.hint("Give what `byoc bench FILE --profile --json` prints")
    };
    let bytes = std::fs::read(path).map_err(|error| Diagnostic::io(path, "read", &error))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| bad(format!("it is not JSON: {error}")))?;
    let regions = value["regions"].as_array().ok_or_else(|| bad("it has no list 'regions'".into()))?;
    let mut times = Vec::new();
    for region in regions {
        let (symbol, backend) = (region["region"].as_str(), region["backend"].as_str());
        let (Some(symbol), Some(backend), Some(seconds)) = (symbol, backend, region["seconds"].as_f64()) else {
            return Err(bad("a region has no name, backend or seconds".into()));
        };
        let steps = region["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
        for step in steps {
            let nodes = step["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
            let nodes: Vec<_> = nodes.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let kernel = step["kernel"].as_str().unwrap_or("?");
            let name = if nodes.is_empty() { kernel.to_owned() } else { format!("{kernel}: {}", nodes.join(", ")) };
            let Some(seconds) = step["seconds"].as_f64() else { return Err(bad("a step has no seconds".into())) };
            times.push(page::Time { name, backend: backend.into(), region: symbol.into(), nodes, seconds });
        }
        if steps.is_empty() {
            let (name, region) = (symbol.to_owned(), symbol.to_owned());
            times.push(page::Time { name, backend: backend.into(), region, nodes: Vec::new(), seconds });
        }
    }
    times.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Ok(times)
}

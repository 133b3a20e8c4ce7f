//! `byoc report`: a page that shows a model or an artifact. It is one file, which loads nothing from anywhere.

mod artifact;
mod layout;
mod model;
mod page;
mod times;
mod treemap;

use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::atomic_file;
use byoc_core::diagnostic::{Code, Diagnostic, Result};

use crate::args::{Backends, Plugins, Shapes};
use crate::artifact::{Compiled, find, is_model};
use crate::guard::{Guard, Written};
use crate::report;

/// Write a page that shows a model or an artifact: the graph, who takes what and why not, and where the bytes are
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc report model.onnx --backend acme,cpu -o page.html\n  byoc report model.byoc --profile profile.json -o page.html"
)]
pub(crate) struct Args {
    /// An artifact, or an .onnx model
    file: PathBuf,
    /// The page to write
    #[arg(short, long, value_name = "PAGE.html")]
    output: PathBuf,
    /// Times to show: what `run --profile --json` or `bench --profile --json` has printed
    #[arg(long, value_name = "PROFILE.json")]
    profile: Option<PathBuf>,
    /// The variant to show, of a file that has several
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Which backends may take nodes of a model.
    #[command(flatten)]
    backends: Backends,
    /// Sizes that a model leaves open.
    #[command(flatten)]
    shapes: Shapes,
    /// Where plugins are.
    #[command(flatten)]
    plugins: Plugins,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let profile = args.profile.iter().map(|path| byoc_core::overwrite::Input::new("a profile", path));
    let guard = Guard::of(Written::Page, [&args.output]).reads("the file to show", &args.file).plugins(&args.plugins);
    guard.reads_all(profile).check()?;
    let measured = args.profile.as_deref().map(|path| times::read(path, &args.file)).transpose()?;
    if let (true, Some(_)) = (is_model(&args.file), &args.variant) {
        let message = format!("'{}' is a model, so it takes no --variant", args.file.display());
        return Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the artifact"));
    }
    let mut page = if is_model(&args.file) { model::page(args)? } else { of_artifact(args)? };
    if let (Some(path), Some(times)) = (&args.profile, measured) {
        times::check(path, &times, &args.file, &page.regions)?;
        page.times = times;
    }
    atomic_file::write(&args.output, page.html()?.as_bytes())?;
    report::print(&report::written(&args.output)?)?;
    Ok(ExitCode::SUCCESS)
}

fn of_artifact(args: &Args) -> Result<page::Page> {
    if !args.backends.backend.is_empty() {
        let message = format!("'{}' is compiled already, so it takes no --backend", args.file.display());
        return Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the .onnx model"));
    }
    match find(&args.file, &args.plugins)? {
        Compiled::Artifact(file) => {
            let artifact = args.variant.as_ref().map_or_else(|| file.only(), |name| file.variant(name))?;
            Guard::of(Written::Page, [&args.output]).reads_all(artifact.constant_files(None)).check()?;
            artifact::page(&args.file, &artifact)
        }
        Compiled::File(_) => {
            let message = format!("'{}' is a file of a backend's own, of which there is no page", args.file.display());
            Err(Diagnostic::new(Code::Usage, message).hint("`byoc inspect` shows it"))
        }
    }
}

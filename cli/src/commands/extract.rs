//! `byoc extract`: some variants of a file as a file of their own.

use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::artifact::ArtifactFile;
use byoc_core::compile::Observer;
use byoc_core::diagnostic::Result;
use byoc_core::merge::extract;
use serde_json::json;

use crate::compile_request::embedded_registry;
use crate::file_kind::told_by_backends;
use crate::guard::{Guard, Written};
use crate::progress::Progress;
use crate::report::{self, VariantsOverview};

/// Write some variants of an artifact into a file of their own, with the weights and the code that they need
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  byoc extract model.byoc --variant cpu -o small.byoc")]
pub(crate) struct Args {
    /// An artifact with variants
    file: PathBuf,
    /// A variant to write (repeatable), the most wanted first
    #[arg(long, value_name = "NAME", required = true)]
    variant: Vec<String>,
    /// The artifact to write, another file than FILE
    #[arg(short, long, value_name = "OUT.byoc")]
    output: PathBuf,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    Guard::of(Written::Artifact, [&args.output]).reads("the artifact", &args.file).check()?;
    let mut progress = Progress::new(None);
    let extracted = extract(&args.file, &args.variant, &args.output, &mut |done, total, next| {
        progress.progress(done, total, next);
    });
    let extracted = extracted.map_err(|error| told_by_backends(error, &[&args.file], embedded_registry))?;
    drop(progress);
    let file = ArtifactFile::open(&args.output)?;
    let overview = VariantsOverview::of(&file, &file.all()?)?;
    if args.json {
        let (path, source) = (args.output.display().to_string(), extracted.source_bytes);
        report::print_json(&json!({ "file": path, "source_bytes": source, "overview": overview }))?;
    } else {
        let source = format!("{} before\n", report::size(extracted.source_bytes));
        report::print(&format!("{}{}{source}", report::written(&args.output)?, overview.text()))?;
    }
    Ok(ExitCode::SUCCESS)
}

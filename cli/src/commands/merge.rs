//! `byoc merge`: artifacts of one model as variants of one file.

use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::artifact::{ArtifactFile, check_variant_name};
use byoc_core::compile::Observer;
use byoc_core::diagnostic::Result;
use byoc_core::merge::{Source, merge};
use byoc_core::overwrite::Input;
use serde_json::json;

use crate::args::SELDOM;
use crate::compile_request::embedded_registry;
use crate::file_kind::told_by_backends;
use crate::guard::{Guard, Written};
use crate::progress::Progress;
use crate::report::{self, VariantsOverview};

/// Join artifacts of one model as variants of one file, in which equal weights and equal code are once
///
/// Nothing is compiled, and no backend is needed: a vendor adds a variant to a file that somebody else has compiled. The variants
/// of the first file are the most wanted. Files of different weights are refused.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc merge npu=acme.byoc cpu=model.byoc -o both.byoc\n  byoc merge acme.byoc variants.byoc -o all.byoc"
)]
pub(crate) struct Args {
    /// Artifacts, the most wanted first. NAME names the variant of one that was compiled without --variant
    #[arg(required = true, value_name = "[NAME=]FILE", value_parser = source)]
    files: Vec<Source>,
    /// The artifact to write, another file than those
    #[arg(short, long, value_name = "OUT.byoc")]
    output: PathBuf,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Store a constant although another variant's code holds its bytes too: a warning in place of an error
    #[arg(long, hide_short_help = true, help_heading = SELDOM)]
    allow_duplicates: bool,
}

/// Parses one file. What is before the first equals sign is a name if it can be one, else part of the path.
fn source(text: &str) -> std::result::Result<Source, String> {
    match text.split_once('=') {
        Some((name, path)) if check_variant_name(name).is_ok() && !path.is_empty() => {
            Ok(Source { name: Some(name.into()), path: path.into() })
        }
        _ if text.is_empty() => Err("expected a file".into()),
        _ => Ok(Source { name: None, path: text.into() }),
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let inputs = args.files.iter().map(|source| Input::new("an artifact", &source.path));
    Guard::of(Written::Artifact, [&args.output]).reads_all(inputs).check()?;
    let mut progress = Progress::new(None);
    let merged = merge(&args.files, &args.output, args.allow_duplicates, &mut |done, total, next| {
        progress.progress(done, total, next);
    });
    let files: Vec<_> = args.files.iter().map(|source| source.path.as_path()).collect();
    let merged = merged.map_err(|error| told_by_backends(error, &files, embedded_registry))?;
    drop(progress);
    merged.warnings.iter().for_each(report::warning);
    let file = ArtifactFile::open(&args.output)?;
    let overview = VariantsOverview::of(&file, &file.all()?)?;
    if args.json {
        let (path, sources) = (args.output.display().to_string(), merged.source_bytes);
        return report::print_json(&json!({ "file": path, "source_bytes": sources, "overview": overview }))
            .map(|()| ExitCode::SUCCESS);
    }
    let sources = format!("{} in {} before\n", report::size(merged.source_bytes), report::count(files.len(), "file"));
    report::print(&format!("{}{}{sources}", report::written(&args.output)?, overview.text()))?;
    Ok(ExitCode::SUCCESS)
}

//! `byoc swap`: other weights in an artifact, without compiling.

use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::compile::Observer;
use byoc_core::diagnostic::Result;
use byoc_core::overwrite::Input;
use byoc_core::swap::{Report, swap};
use serde_json::json;

use crate::compile_request::embedded_registry;
use crate::file_kind::told_by_backends;
use crate::guard::{Guard, Written};
use crate::progress::Progress;
use crate::report::{self, count, size};

/// Put other weights into an artifact without compiling
///
/// That takes an artifact whose weights are as the model has them. The CPU backend packs weights of convolutions and products,
/// unless the artifact was compiled with --backend-opt cpu.pack=false.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc compile model.onnx -o model.byoc --backend-opt cpu.pack=false\n  byoc swap model.byoc --from retrained.onnx -o retrained.byoc"
)]
pub(crate) struct Args {
    /// An artifact
    file: PathBuf,
    /// The model to take constants from, by name; its operators are not looked at. Repeat it for an artifact of several
    /// models
    #[arg(long, value_name = "MODEL.onnx", required = true)]
    from: Vec<PathBuf>,
    /// The artifact to write, another file than FILE
    #[arg(short, long, value_name = "OUT.byoc")]
    output: PathBuf,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let models = args.from.iter().map(|path| Input::new("a model", path));
    Guard::of(Written::Artifact, [&args.output]).reads("the artifact", &args.file).reads_all(models).check()?;
    let mut progress = Progress::new(None);
    let swapped = swap(&args.file, &args.from, &args.output, &mut |done, total, next| {
        progress.progress(done, total, next);
    });
    let files: Vec<_> = std::iter::once(&args.file).chain(&args.from).map(PathBuf::as_path).collect();
    let swapped = swapped.map_err(|error| told_by_backends(error, &files, embedded_registry))?;
    drop(progress);
    if args.json {
        report::print_json(&json(args, &swapped))?;
    } else {
        report::print(&text(args, &swapped))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(args: &Args, swapped: &Report) -> String {
    let replaced = format!("{} replaced, {}", count(swapped.replaced.len(), "constant"), size(bytes(swapped)));
    let merged = match swapped.merged {
        0 => String::new(),
        merged => {
            format!("; {merged} became equal to another and {} stored with it", if merged == 1 { "is" } else { "are" })
        }
    };
    format!("{}: {replaced}{merged}\n", args.output.display())
}

fn json(args: &Args, swapped: &Report) -> serde_json::Value {
    let replaced = swapped.replaced.iter().map(|constant| json!({ "names": constant.names, "bytes": constant.bytes }));
    json!({
        "file": args.output,
        "replaced": replaced.collect::<Vec<_>>(),
        "bytes": bytes(swapped),
        "merged": swapped.merged,
        "file_bytes": swapped.file_bytes,
    })
}

fn bytes(swapped: &Report) -> u64 {
    swapped.replaced.iter().map(|constant| constant.bytes).sum()
}

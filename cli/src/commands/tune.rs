//! `byoc tune`: the fastest of the kernels that backends have for each region, found on a device.

use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::artifact::{Artifact, ArtifactFile};
use byoc_core::compile::Observer;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::overwrite::Input;
use byoc_core::runtime::{DeviceName, unused_device};
use byoc_core::tune::rewrite;
use byoc_tools::tune::{Found, LeftOut, Outcome, Request, Tuned, kept_files, tune};
use serde_json::json;

use crate::args::{Plugins, SELDOM, dim, name_value};
use crate::guard::{Guard, Written};
use crate::progress::Progress;
use crate::report::{self, Table, count, seconds, size};
use crate::{artifact, compile_request};

/// Try the kernels that backends have for each region on a device, and write the artifact with the fastest
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc tune model.byoc --device cuda:0 -o tuned.byoc\n  byoc tune model.byoc --device cuda:0 --backend acme -o tuned.byoc"
)]
pub(crate) struct Args {
    /// An artifact
    file: PathBuf,
    /// The device to try kernels on, such as cuda:0
    #[arg(long, value_name = "KIND:N")]
    device: DeviceName,
    /// The artifact to write, another file than FILE
    #[arg(short, long, value_name = "OUT.byoc")]
    output: PathBuf,
    /// Only regions of these backends (repeatable) [default: all that run on the device]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    backend: Vec<String>,
    /// The variant to tune, of a file that has some [default: the first one with regions that run on the device]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// An option of a backend about the machine that runs its regions (repeatable); see `byoc plugin info NAME`
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    backend_opt: Vec<(String, String)>,
    /// The size of a dimension that the model has a name for (repeatable): batch=4. Kernels are chosen for these sizes, and run for all
    #[arg(long, value_name = "NAME=SIZE", value_parser = dim::parse)]
    dim: Vec<(String, usize)>,
    /// How often the time of each kernel is taken; the median counts
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Try every kernel again and ignore cached choices
    #[arg(long)]
    again: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Where plugins are.
    #[command(flatten)]
    places: Plugins,
    /// The folder of the files that the artifact takes constants from
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = SELDOM)]
    constants_from: Option<PathBuf>,
    /// Read every byte of the artifact first, and compare it with the digests
    #[arg(long, hide_short_help = true, help_heading = SELDOM)]
    verify_digests: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let guard = Guard::of(Written::Artifact, [&args.output]).reads("the artifact", &args.file).plugins(&args.places);
    let guard = guard.reads_all(kept_files().into_iter().map(|path| Input::new("a choice of before", path)));
    guard.check()?;
    let file = artifact::open_artifact(&args.file, &args.places)?;
    if args.verify_digests {
        file.verify_digests()?;
    }
    let mut artifact = variant_of(args, &file)?;
    let guard = guard.reads_all(artifact.constant_files(args.constants_from.as_deref()));
    guard.check()?;
    artifact.attach(args.constants_from.as_deref())?;
    // Trying kernels takes long: what can be known before it is.
    artifact.check_output(&args.output)?;
    let registry = compile_request::isolated_registry_for(&args.places, &artifact)?;
    let settings = artifact::run_options(&registry, &args.backend_opt)?;
    let request = Request {
        device: args.device.clone(),
        backends: args.backend.clone(),
        dims: args.dim.clone(),
        repeat: args.repeat,
        again: args.again,
    };
    let mut progress = Progress::new(None);
    let mut tell = |done: usize, total: usize, next: &str| progress.progress(done, total, next);
    let found = tune(&artifact, &registry, settings, &request, &mut tell)?;
    guard.check()?;
    let file_bytes = rewrite(&file, &artifact, &found.choices, &args.output, &mut tell)?;
    drop(progress);
    if args.json {
        report::print_json(&json(args, &found, file_bytes))?;
    } else {
        report::print(&text(args, &found, file_bytes))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The variant that is named, or the first one that has regions of the device.
fn variant_of(args: &Args, file: &ArtifactFile) -> Result<Artifact> {
    if let Some(name) = &args.variant {
        return file.variant(name);
    }
    if file.variants().len() < 2 {
        return file.only();
    }
    let device = std::slice::from_ref(&args.device);
    let found = file.all()?.into_iter().find(|artifact| unused_device(artifact, device).is_none());
    found.ok_or_else(|| {
        let message = format!("no variant of '{}' has regions that run on {}", args.file.display(), args.device);
        Diagnostic::new(Code::UnknownName, message).hint("byoc inspect shows the variants")
    })
}

fn text(args: &Args, found: &Found, file_bytes: u64) -> String {
    let mut table = Table::new(&["region", "backend", ">kernels", "chosen", ">before", ">after", ">ratio"]);
    let mut notes = String::new();
    for Tuned { symbols, backend, outcome, .. } in &found.tuned {
        let more = if symbols.len() > 1 { format!(" and {} more", symbols.len() - 1) } else { String::new() };
        let Outcome { candidate, candidates, before, after, .. } = outcome;
        table.row([
            format!("{}{more}", symbols[0]),
            backend.clone(),
            candidates.to_string(),
            candidate.clone(),
            seconds(*before),
            seconds(*after),
            format!("{:.2}", before / after),
        ]);
        for LeftOut { candidate, reason } in &outcome.left_out {
            notes += &format!("{}: '{candidate}' is left out: {reason}\n", symbols[0]);
        }
    }
    let (output, title, size) = (args.output.display(), &found.title, size(file_bytes));
    if found.tuned.is_empty() {
        return format!("no region has kernels to choose from\n{output}: as it was; {size}\n");
    }
    let other = found.tuned.iter().filter(|tuned| tuned.outcome.code.is_some());
    let other = count(other.map(|tuned| tuned.symbols.len()).sum(), "region");
    let known = match found.tuned.iter().filter(|tuned| tuned.known).count() {
        0 => String::new(),
        known => format!(", {known} of {} known from before", found.tuned.len()),
    };
    let table = table.text();
    format!("{table}{notes}{output}: other code in {other}, tuned on {title}{known}; {size}\n")
}

fn json(args: &Args, found: &Found, file_bytes: u64) -> serde_json::Value {
    let tuned = |tuned: &Tuned| {
        json!({
            "regions": tuned.symbols, "backend": tuned.backend, "known": tuned.known,
            "changed": tuned.outcome.code.is_some(), "outcome": tuned.outcome,
        })
    };
    json!({
        "file": args.output,
        "device": args.device.to_string(),
        "title": found.title,
        "tuned": found.tuned.iter().map(tuned).collect::<Vec<_>>(),
        "file_bytes": file_bytes,
    })
}

//! `byoc run`: one run, with its outputs.

use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::diagnostic::Result;
use byoc_core::overwrite::Input;
use byoc_tools::file;
use byoc_tools::labels::Labels;
use byoc_tools::npz;
use byoc_tools::outputs::{self, Summary};
use byoc_tools::trace;
use serde_json::json;

use crate::args::{Execution, FIRST, SECOND};
use crate::artifact::Digests;
use crate::execution::{self, Need, Ready, Variant};
use crate::guard::{Guard, Written};
use crate::region_log;
use crate::report;

/// Run an artifact, a model, or a file that a backend opens, once
#[derive(clap::Args, Debug)]
#[command(next_display_order = SECOND, after_help = "Examples:\n  byoc run model.byoc -i photo.png --print-top 5 --labels labels.txt\n  byoc run model.byoc -i inputs.npz -o outputs.npz")]
pub(crate) struct Args {
    /// Write the outputs into this file
    #[arg(short, long, value_name = "OUT.npz", display_order = FIRST)]
    output: Option<PathBuf>,
    /// Print the N largest elements of each output
    #[arg(long, value_name = "N")]
    print_top: Option<usize>,
    /// Labels of classes, one on each line, for --print-top
    #[arg(long, value_name = "FILE", requires = "print_top")]
    labels: Option<PathBuf>,
    /// Print the time of each region, and of the steps in it where its backend tells them, with sums by operator and backend
    #[arg(long, conflicts_with = "sync_each")]
    profile: bool,
    /// Write what happened when into this file, for Perfetto and chrome://tracing: regions, the steps in them, copies
    #[arg(long, value_name = "TRACE.json", conflicts_with = "sync_each")]
    trace: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// What to run.
    #[command(flatten)]
    execution: Execution,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let labels = args.labels.iter().map(|path| Input::new("labels", path));
    let guard = Guard::of(Written::Arrays, &args.output)
        .writes(Written::Text, &args.trace)
        .execution(&args.execution)
        .reads_all(labels);
    guard.check()?;
    let labels = args.labels.as_deref().map(Labels::read).transpose()?;
    let need =
        Need { fill: None, profile: args.profile || args.trace.is_some(), digests: Digests::AsAsked, streams: 1 };
    let Ready { mut loaded, found, variant, .. } = execution::load(&args.execution, need)?;
    let guard = guard.reads_all(found);
    guard.check()?;
    let time = loaded.run()?;
    let tensors = outputs::collect(&loaded.session)?;
    let top = args.print_top.unwrap_or(0);
    let summaries = tensors.iter().map(|(name, tensor)| Summary::of(name, tensor, top));
    let mut summaries: Vec<_> = summaries.chain(outputs::empty(&loaded.session)?).collect();
    if let Some(labels) = labels {
        labels.apply(&mut summaries)?;
    }
    if let Some(path) = &args.output {
        guard.check()?;
        npz::write(path, &tensors)?;
    }
    if let Some(path) = &args.trace {
        guard.check()?;
        trace::write(path, &loaded.session.spans())?;
    }
    let profile = args.profile.then(|| loaded.profile());
    let devices = loaded.session.devices();
    if args.json {
        let seconds = time.as_secs_f64();
        let sums = profile.as_ref().map(|profile| (profile.operators(), profile.backends()));
        let (regions, copies) = profile.map(|it| (it.regions, it.copies)).unzip();
        let log = region_log::take();
        let mut answer = json!({ "outputs": summaries, "seconds": seconds, "regions": regions, "log": log.lines, "log_left_out": log.left_out });
        Variant::add_to(variant.as_ref(), &mut answer);
        if let Some((operators, backends)) = sums {
            (answer["operators"], answer["backends"]) = (json!(operators), json!(backends));
            answer["file"] = json!(args.execution.file.display().to_string());
            // Of a pipe, which can be read only once, there is none.
            answer["file_blake3"] = json!(file::digest(&args.execution.file).ok());
        }
        if !devices.is_empty() {
            answer["copies"] = json!(copies);
            answer["devices"] = json!(devices);
        }
        report::print_json(&answer)?;
    } else {
        let mut text = report::outputs(&summaries);
        if let Some(profile) = profile {
            text += &format!("\n{}{}", report::profile(&profile), report::devices(&devices));
        }
        report::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

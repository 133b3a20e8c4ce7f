//! `byoc compile`: models into one artifact.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use byoc_core::artifact::Artifact;
use byoc_core::compile::{Policy, Request, Stage, compile, compile_unnamed, compile_until};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use serde::Serialize;

use crate::args::Compile;
use crate::compile_request;
use crate::dataset::Files;
use crate::guard::Guard;
use crate::progress::{Progress, dump_files};
use crate::report::{self, Overview};

#[derive(Serialize)]
struct Report {
    file: String,
    #[serde(flatten)]
    overview: Overview,
    seconds: f64,
}

/// Runs the verb.
pub(crate) fn run(args: &Compile) -> Result<ExitCode> {
    let start = Instant::now();
    let dumps = args.debug.dump_ir.as_deref().map(dump_files).unwrap_or_default();
    let outputs = args.output.iter().chain(&dumps);
    Guard::of(outputs).models(&args.models).plugins(&args.plugins).dataset(&args.data).check()?;
    let request = Request { also_written: dumps, ..request(args)? };
    let stop = args.debug.stop_after.filter(|&stage| stage != Stage::Artifact);
    if let Some(stage) = stop {
        stop_after(args, &request, stage)?;
        return Ok(ExitCode::SUCCESS);
    }
    let output = args.output.as_deref().ok_or_else(|| {
        Diagnostic::new(Code::Usage, "the stage 'artifact' writes a file").hint("Name it with --output FILE")
    })?;
    let mut progress = Progress::new(args.debug.dump_ir.clone());
    let done = compile(&request, output, &mut progress);
    progress.check()?;
    done?;
    drop(progress);
    if args.check_reproducible {
        check_reproducible(&request, output)?;
    }
    let overview = Overview::of(&Artifact::open(output)?);
    print(args, output, overview, start.elapsed())?;
    Ok(ExitCode::SUCCESS)
}

fn request(args: &Compile) -> Result<Request> {
    let registry = compile_request::isolated_registry(&args.plugins)?;
    let sources = compile_request::sources(&args.models);
    let mut request = compile_request::request(&registry, &args.backends, sources, &args.shapes)?;
    request.import.no_mmap = args.no_mmap;
    request.fallback_on_crash = args.fallback_on_crash;
    request.allow_duplicates = args.allow_duplicates;
    request.external_constants = args.external_constants;
    if let Some(path) = &args.data.dataset {
        request.calibration = Some(Box::new(Files::find(path, &args.data.input_mean, &args.data.input_std)?));
    }
    request.policy = Policy {
        require: args.policy.require.clone(),
        no_fallback: args.policy.no_fallback,
        max_host_nodes: args.policy.max_host_nodes,
    };
    Ok(request)
}

fn stop_after(args: &Compile, request: &Request, stage: Stage) -> Result<()> {
    let keep = args.debug.print.then_some(stage);
    let mut progress = Progress::new(args.debug.dump_ir.clone()).keep_text(keep);
    let done = compile_until(request, stage, &mut progress);
    progress.check()?;
    done?;
    if let Some(text) = progress.text() {
        return report::print(text);
    }
    report::note(&format!("stopped after the stage '{}'; no file is written", stage.name()));
    Ok(())
}

/// Compiles once more beside the output, so that a full disk shows where it would anyway and paths from its folder are
/// the same, and compares the two.
fn check_reproducible(request: &Request, output: &Path) -> Result<()> {
    let again = compile_unnamed(request, Some(output), &mut Progress::new(None).without_warnings())?;
    let (first, second) = (Artifact::open(output)?, Artifact::from_bytes(output, again.bytes)?);
    match first_difference(&first, &second) {
        None => Ok(()),
        Some(section) => {
            let message = format!("a second compile gave another '{section}' than '{}' has", output.display());
            Err(Diagnostic::new(Code::NotReproducible, message).hint("Report this to the maker of the backend"))
        }
    }
}

/// The name of the first section in which the files differ. Both were written just now, so their digests are right.
fn first_difference(first: &Artifact, second: &Artifact) -> Option<String> {
    let (mut left, mut right) = (first.sections(), second.sections());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return a.or(b).map(|section| section.name.to_owned()),
        }
    }
}

fn print(args: &Compile, output: &Path, overview: Overview, time: Duration) -> Result<()> {
    if args.json {
        let file = output.display().to_string();
        return report::print_json(&Report { file, overview, seconds: time.as_secs_f64() });
    }
    let again = if args.check_reproducible { ", twice with the same bytes" } else { "" };
    let took = report::duration(time);
    report::print(&format!("{}\n{}compiled in {took}{again}\n", output.display(), overview.text()))
}

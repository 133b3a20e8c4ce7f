//! `byoc repro`: one region of a model as a model of its own.

use std::process::ExitCode;

use byoc_core::compile::repro;
use byoc_core::diagnostic::Result;

use crate::args::Repro;
use crate::compile_request;
use crate::guard::Guard;
use crate::progress::Progress;
use crate::report;

/// Runs the verb.
pub(crate) fn run(args: &Repro) -> Result<ExitCode> {
    Guard::of([&args.output]).models(&args.models).plugins(&args.plugins).check()?;
    let registry = compile_request::isolated_registry(&args.plugins)?;
    let sources = compile_request::sources(&args.models);
    let request = compile_request::request(&registry, &args.backends, sources, &args.shapes)?;
    repro(&request, &args.region, args.strip_weights, &args.output, &mut Progress::new(None))?;
    report::print(&format!("{}\n", args.output.display()))?;
    Ok(ExitCode::SUCCESS)
}

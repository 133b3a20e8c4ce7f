//! `byoc run`: one run, and what came out.

use std::process::ExitCode;

use byoc_core::diagnostic::Result;
use serde_json::json;

use crate::args::Run;
use crate::outputs::{self, Summary};
use crate::{execution, npz, report};

/// Runs the verb.
pub(crate) fn run(args: &Run) -> Result<ExitCode> {
    let mut loaded = execution::load(&args.execution, &args.execution.inputs)?;
    let time = loaded.run()?;
    let tensors = outputs::collect(&loaded.session)?;
    if let Some(path) = &args.output {
        npz::write(path, &tensors)?;
    }
    let top = args.print_top.unwrap_or(0);
    let summaries: Vec<_> = tensors.iter().map(|(name, tensor)| Summary::of(name, tensor, top)).collect();
    let times = args.profile.then(|| loaded.region_times());
    if args.json {
        let seconds = time.as_secs_f64();
        report::print_json(&json!({ "outputs": summaries, "seconds": seconds, "regions": times }))?;
    } else {
        let mut text = outputs::table(&summaries);
        if let Some(times) = times {
            text += &format!("\n{}", execution::profile_table(&times));
        }
        report::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

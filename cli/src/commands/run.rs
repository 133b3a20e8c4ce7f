//! `byoc run`: one run, and what came out.

use std::process::ExitCode;

use byoc_core::diagnostic::Result;
use byoc_tools::npz;
use serde_json::json;

use crate::args::Run;
use crate::artifact::Digests;
use crate::guard::Guard;
use crate::outputs::{self, Summary};
use crate::{execution, report};

/// Runs the verb.
pub(crate) fn run(args: &Run) -> Result<ExitCode> {
    let guard = Guard::of(&args.output).execution(&args.execution);
    guard.check()?;
    let mut loaded = execution::load(&args.execution, &args.execution.inputs, args.profile, Digests::AsAsked)?;
    let guard = guard.reads_all(std::mem::take(&mut loaded.found));
    guard.check()?;
    let time = loaded.run()?;
    let tensors = outputs::collect(&loaded.session)?;
    if let Some(path) = &args.output {
        guard.check()?;
        npz::write(path, &tensors)?;
    }
    let top = args.print_top.unwrap_or(0);
    let summaries: Vec<_> = tensors.iter().map(|(name, tensor)| Summary::of(name, tensor, top)).collect();
    let profile = args.profile.then(|| loaded.profile());
    let devices = loaded.devices();
    if args.json {
        let seconds = time.as_secs_f64();
        let (regions, copies) = profile.map(|it| (it.regions, it.copies)).unzip();
        let mut answer = json!({ "outputs": summaries, "seconds": seconds, "regions": regions });
        if !devices.is_empty() {
            answer["copies"] = json!(copies);
            answer["devices"] = json!(devices);
        }
        report::print_json(&answer)?;
    } else {
        let mut text = outputs::table(&summaries);
        if let Some(profile) = profile {
            text += &format!("\n{}{}", profile.table(), execution::devices_text(&devices));
        }
        report::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

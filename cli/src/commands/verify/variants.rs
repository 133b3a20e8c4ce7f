//! `verify` of a file with variants: every one that can run here.

use std::process::ExitCode;

use byoc_core::artifact::ArtifactFile;
use byoc_core::diagnostic::{Code, Result};
use byoc_core::runtime::{PassedOver, is_about_the_machine, none_can_be_loaded};
use byoc_tools::compare::{Comparison, Tolerances};
use serde_json::json;

use super::{Args, Compared, compare, load};
use crate::args::Execution;
use crate::artifact::{Digests, is_model};
use crate::{execution, report};

/// The names of the variants of what is to be run; none where it is something else, or cannot be read.
pub(super) fn of(execution: &Execution) -> Vec<String> {
    let file = || ArtifactFile::open(&execution.file).ok();
    if is_model(&execution.file) { Vec::new() } else { file().map_or_else(Vec::new, |file| file.variants().to_vec()) }
}

/// Compares each of them. What cannot be loaded here is told, and no mismatch; it is an error where none can be.
pub(super) fn run(args: &Args, variants: &[String], tolerances: &Tolerances) -> Result<ExitCode> {
    let (mut text, mut rows, mut matches, mut passed_over) = (String::new(), Vec::new(), true, Vec::new());
    for (index, name) in variants.iter().enumerate() {
        let execution = Execution { variant: Some(name.clone()), ..args.execution.clone() };
        // The file is read as a whole once.
        let digests = if index == 0 { Digests::Always } else { Digests::AsAsked };
        match load(args, &execution, digests) {
            Ok(ready) => {
                let Compared { comparisons, made_up, hint, .. } = compare(args, &execution, ready, tolerances)?;
                let holds = comparisons.iter().all(Comparison::holds);
                matches &= holds;
                let hint_text = hint.as_ref().map(|hint| format!("{hint}\n")).unwrap_or_default();
                let made_up_text = execution::made_up(&execution, &made_up);
                text += &format!("variant {name}\n{}{made_up_text}{hint_text}\n", report::comparisons(&comparisons));
                rows.push(json!({
                    "variant": name, "matches": holds, "made_up_inputs": made_up, "outputs": comparisons, "hint": hint,
                }));
            }
            Err(error) if is_about_the_machine(error.code) => {
                text += &format!("variant {name}\nnot compared: {}\n\n", error.message);
                rows.push(json!({ "variant": name, "not_compared": error.message, "code": error.code.id() }));
                passed_over.push(PassedOver { variant: name.clone(), reason: error });
            }
            Err(error) => return Err(error),
        }
    }
    if passed_over.len() == variants.len() {
        return Err(none_can_be_loaded(&args.execution.file, &passed_over));
    }
    if args.json {
        report::print_json(&json!({ "matches": matches, "variants": rows }))?;
    } else {
        report::print(text.trim_end_matches('\n').to_owned().as_str())?;
    }
    Ok(if matches { ExitCode::SUCCESS } else { ExitCode::from(Code::Mismatch.exit()) })
}

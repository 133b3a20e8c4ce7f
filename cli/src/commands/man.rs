//! `byoc man`: the manual pages.

use std::process::ExitCode;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use clap_mangen::Man;

use crate::{args, report};

/// Print a page of the manual, such as `byoc man compile | man -l -`
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The verb, as in `byoc man plugin new` [default: the page that lists them]
    verb: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut command = args::command().disable_help_subcommand(true);
    // Usage lines begin with the whole command.
    command.build();
    let mut page = &command;
    for verb in &args.verb {
        page = page.find_subcommand(verb).ok_or_else(|| {
            let verbs: Vec<_> = page.get_subcommands().map(clap::Command::get_name).collect();
            let error = Diagnostic::new(Code::Usage, format!("'{verb}' is not a verb of {}", page.get_name()));
            error.hint(if verbs.is_empty() {
                "Leave it out".to_owned()
            } else {
                format!("There is {}", verbs.join(", "))
            })
        })?;
    }
    let mut text = Vec::new();
    let failed = |error| Diagnostic::new(Code::Io, format!("cannot write the page: {error}"));
    Man::new(page.clone()).render(&mut text).map_err(failed)?;
    report::print_unfitted(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

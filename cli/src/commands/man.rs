//! `byoc man`: the manual pages.

use std::process::ExitCode;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use clap_mangen::Man;

use crate::{args, report};

/// Print a page of the manual, such as `byoc man compile | man -l -`
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  byoc man compile | man -l -\n  byoc man plugin new | man -l -")]
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
    let source = format!("{} {}", command.get_name(), command.get_version().unwrap_or_default());
    Man::new(page.clone()).source(source).render(&mut text).map_err(failed)?;
    // The page has a heading for what is behind the options, and there are examples.
    let text = String::from_utf8_lossy(&text).replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
    report::print_unfitted(&text)?;
    Ok(ExitCode::SUCCESS)
}

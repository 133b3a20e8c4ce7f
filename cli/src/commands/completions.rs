//! `byoc completions`: what a shell needs to complete this command line.

use std::process::ExitCode;

use byoc_core::diagnostic::Result;
use clap_complete::{Shell, generate};

use crate::{args, report};

/// Print the completions of this command for a shell
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc completions bash > ~/.local/share/bash-completion/completions/byoc\n  byoc completions fish > ~/.config/fish/completions/byoc.fish"
)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut script = Vec::new();
    generate(args.shell, &mut args::command(), "byoc", &mut script);
    report::print_unfitted(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

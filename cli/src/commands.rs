//! The verbs, one file each.

mod bench;
mod check;
mod compile;
mod explain;
mod inspect;
mod plugin;
mod quickstart;
mod repro;
mod run;
mod swap;
mod tune;
mod verify;

use std::process::ExitCode;

use byoc_core::diagnostic::Diagnostic;

use crate::args::Command;

/// Runs a verb. An error becomes the exit code of its kind.
pub(crate) fn run(command: &Command) -> Result<ExitCode, Diagnostic> {
    match command {
        Command::Compile(args) => compile::run(args),
        Command::Run(args) => run::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Swap(args) => swap::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Repro(args) => repro::run(args),
        Command::Check(args) => check::run(args),
        Command::Plugin(args) => plugin::run(args),
        Command::Quickstart(args) => quickstart::run(args),
    }
}

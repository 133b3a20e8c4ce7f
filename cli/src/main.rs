//! The `byoc` command: parses the command line, runs one verb, and turns its outcome into an exit code.

mod args;
mod artifact;
mod commands;
mod compile_request;
mod cut_file;
#[cfg(test)]
mod docs;
mod embed;
mod execution;
mod guard;
mod progress;
mod quickstart;
mod report;
mod trace;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cut_file::watch();
    if std::env::args_os().nth(1).is_some_and(|argument| argument == compile_request::WORKER) {
        byoc_core::plugin::serve();
    }
    // Its message is part of the one-line error.
    byoc_core::plugin::quiet_panics();
    let cli = args::Cli::parse();
    cli.command.run().unwrap_or_else(|diagnostic| {
        report::error(&diagnostic);
        ExitCode::from(diagnostic.code.exit())
    })
}

//! The `byoc` command: parses the command line, runs one verb, and turns its outcome into an exit code.

mod args;
mod artifact;
mod commands;
mod compile_request;
mod crash;
mod cut_file;
#[cfg(test)]
mod docs;
mod embed;
mod execution;
mod file_kind;
mod first_argument;
mod guard;
mod kept;
mod progress;
mod quickstart;
mod region_log;
mod report;
mod threads;
mod trace;

use std::process::ExitCode;

use byoc_core::diagnostic::Diagnostic;

fn main() -> ExitCode {
    cut_file::watch();
    byoc_core::plugin::serve_where_asked();
    // Its message is part of the one-line error.
    byoc_core::plugin::quiet_panics();
    if std::env::args_os().any(|argument| argument == "--json") {
        report::errors_as_json();
    }
    first_argument::check().and_then(|()| args::parse()).and_then(run).unwrap_or_else(|diagnostic| {
        report::error(&diagnostic);
        ExitCode::from(diagnostic.code.exit())
    })
}

fn run(args::Cli { command, terminal }: args::Cli) -> Result<ExitCode, Diagnostic> {
    terminal.use_it();
    if !command.runs_cases() {
        // Backends may run in this process, whose code may print, and may crash.
        report::keep_stdout();
        crash::watch();
        region_log::watch();
    }
    command.run()
}

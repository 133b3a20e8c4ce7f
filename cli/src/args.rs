//! The command line as types: what several verbs share. A verb's own flags are in its file in `commands/`. `docs/cli.md` is
//! generated from the texts of both.

pub(crate) mod dim;
mod fault;
pub(crate) mod input;
pub(crate) mod name_value;
pub(crate) mod number;
pub(crate) mod shape;
mod shared;
pub(crate) mod tolerance;

use clap::{CommandFactory, FromArgMatches};

pub(crate) use name_value::ModelArg;
pub(crate) use shared::{Backends, Execution, Plugins, Shapes};

use byoc_core::diagnostic::Diagnostic;

use crate::report::Terminal;

/// Compile ONNX models with plugin backends into one artifact in which every weight is stored once
#[derive(clap::Parser, Debug)]
#[command(name = "byoc", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: crate::commands::Command,
    /// How it is shown.
    #[command(flatten)]
    pub(crate) terminal: Terminal,
}

/// The whole command line, as clap knows it.
pub(crate) fn command() -> clap::Command {
    numbers_may_be_negative(Cli::command())
}

/// `-1` as the value of an option is refused by the option, which says what it takes, and not taken for another option.
fn numbers_may_be_negative(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_action() {
        clap::ArgAction::Set | clap::ArgAction::Append if !arg.is_positional() => arg.allow_negative_numbers(true),
        _ => arg,
    });
    command.mut_subcommands(numbers_may_be_negative)
}

/// Reads the command line. Where help or the version is asked for, it is printed and the program ends.
pub(crate) fn parse() -> Result<Cli, Diagnostic> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let matches = command().try_get_matches_from(&arguments);
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    cli.map_err(|error| fault::diagnostic(&error, &arguments))
}

//! The command line as types: what several verbs share. A verb's own flags are in its file in `commands/`. `docs/cli.md` is
//! generated from the texts of both.

mod companion;
pub(crate) mod dim;
mod elsewhere;
mod fault;
pub(crate) mod input;
pub(crate) mod name_value;
pub(crate) mod number;
mod range;
pub(crate) mod shape;
pub(crate) mod shard;
mod shared;
pub(crate) mod tolerance;

use clap::{CommandFactory, FromArgMatches};

pub(crate) use name_value::ModelArg;
pub(crate) use shared::{Backends, Execution, FIRST, Inputs, Plugins, SECOND, Shapes, hide_limits};

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

/// The heading of the options that few people need. They come last, and `-h` leaves them out.
pub(crate) const SELDOM: &str = "Seldom needed";

/// The whole command line, as clap knows it.
pub(crate) fn command() -> clap::Command {
    defaults_in_the_text(numbers_may_be_negative(Cli::command()))
}

/// `-1` as the value of an option is refused by the option, which says what it takes, and not taken for another option.
fn numbers_may_be_negative(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_action() {
        clap::ArgAction::Set | clap::ArgAction::Append if !arg.is_positional() => arg.allow_negative_numbers(true),
        _ => arg,
    });
    command.mut_subcommands(numbers_may_be_negative)
}

/// Defaults stand in the text of help, also those that no parser knows: `[default: 3]`, never as a paragraph of its own.
fn defaults_in_the_text(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if defaults.is_empty() || arg.is_hide_default_value_set() {
            return arg;
        }
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let help = format!("{help} [default: {}]", defaults.join(","));
        arg.help(help).hide_default_value(true)
    });
    command.mut_subcommands(defaults_in_the_text)
}

/// Reads the command line. Where help or the version is asked for, it is printed and the program ends.
pub(crate) fn parse() -> Result<Cli, Diagnostic> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let matches = command().try_get_matches_from(&arguments);
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    cli.map_err(|error| fault::diagnostic(&error, &arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verbs(command: clap::Command) -> Vec<clap::Command> {
        let parts: Vec<_> = command.get_subcommands().cloned().collect();
        if parts.is_empty() { vec![command] } else { parts.into_iter().flat_map(verbs).collect() }
    }

    /// Each verb has examples at the end of its help, and what they show is a command line.
    #[test]
    fn examples_are_command_lines() {
        for verb in verbs(command()) {
            let text = verb.get_after_help().unwrap_or_else(|| panic!("{} has no examples", verb.get_name()));
            let text = text.to_string();
            assert!(text.contains(&format!(" {} ", verb.get_name())) || text.ends_with(verb.get_name()), "{text}");
            for line in text.strip_prefix("Examples:\n").expect("a heading").lines() {
                assert!(line.chars().count() <= 80, "{line}");
                let line = line.split(['|', '>']).next().and_then(|line| line.split("  #").next()).expect("one part");
                let words = shlex::split(line).expect("words");
                if let Err(error) = command().try_get_matches_from(words) {
                    panic!("{line}: {error}");
                }
            }
        }
    }

    #[test]
    fn options_that_are_seldom_needed_are_left_out_of_short_help() {
        for verb in verbs(command()) {
            let seldom = verb.get_arguments().filter(|arg| arg.get_help_heading() == Some(SELDOM));
            for arg in seldom {
                assert!(arg.is_hide_short_help_set(), "{} of {}", arg.get_id(), verb.get_name());
            }
        }
    }
}

//! The verbs, one file each, with flags, implementation and output.

mod bench;
mod check;
mod compile;
mod completions;
mod explain;
mod extract;
mod inspect;
mod man;
mod merge;
mod plugin;
mod quickstart;
mod report;
mod repro;
mod run;
mod swap;
mod tune;
mod verify;

use std::process::ExitCode;

use byoc_core::diagnostic::Diagnostic;

/// Makes the enum of verbs, and gives each to the function of its module.
macro_rules! verbs {
    ($($(#[$attribute:meta])* $verb:ident: $module:ident,)*) => {
        /// The verbs.
        #[derive(clap::Subcommand, Debug)]
        pub(crate) enum Command {
            $($(#[$attribute])* $verb($module::Args),)*
        }

        impl Command {
            /// Whether this process runs the cases of the conformance kit, and another one looks after it.
            pub(crate) fn runs_cases(&self) -> bool {
                matches!(self, Command::Plugin(verb) if verb.runs_cases())
            }

            /// Runs the verb. An error becomes the exit code of its kind.
            pub(crate) fn run(&self) -> Result<ExitCode, Diagnostic> {
                match self {
                    $(Command::$verb(args) => $module::run(args),)*
                }
            }
        }
    };
}

// The only list of them, in the order in which help shows them.
verbs! {
    Compile: compile,
    Run: run,
    Bench: bench,
    Verify: verify,
    Inspect: inspect,
    Explain: explain,
    Report: report,
    Merge: merge,
    Extract: extract,
    Swap: swap,
    Tune: tune,
    Repro: repro,
    Check: check,
    #[command(subcommand)]
    Plugin: plugin,
    Quickstart: quickstart,
    Completions: completions,
    Man: man,
}

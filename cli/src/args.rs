//! The command line as types: what several verbs share. A verb's own flags are in its file in `commands/`. `docs/cli.md` is
//! generated from the texts of both.

pub(crate) mod dim;
pub(crate) mod input;
pub(crate) mod name_value;
pub(crate) mod number;
pub(crate) mod shape;
mod shared;
pub(crate) mod tolerance;

pub(crate) use name_value::ModelArg;
pub(crate) use shared::{Backends, Execution, Plugins, Shapes};

/// Compile ONNX models with plugin backends into one artifact in which every weight is stored once
#[derive(clap::Parser, Debug)]
#[command(name = "byoc", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: crate::commands::Command,
}

//! The command line as types: clap parses into these, and nothing here does anything else. `docs/cli.md` is generated
//! from the texts in this module and below it.

mod artifact;
mod compile;
pub(crate) mod dim;
mod execute;
pub(crate) mod input;
pub(crate) mod name_value;
mod plugin_new;
pub(crate) mod shape;
mod shared;
mod tune;

pub(crate) use artifact::{Check, Inspect, Plugin, PluginInfo, PluginList, PluginTest, Quickstart, Swap};
pub(crate) use compile::{Compile, Data, Explain, Repro};
pub(crate) use execute::{Bench, Run, Verify};
pub(crate) use input::InputArg;
pub(crate) use name_value::ModelArg;
pub(crate) use plugin_new::{Language, PluginNew};
pub(crate) use shared::{Backends, Execution, FillMode, Inputs, Plugins, Shapes};
pub(crate) use tune::Tune;

/// Compile ONNX models with plugin backends into one artifact in which every weight stands once
#[derive(clap::Parser, Debug)]
#[command(name = "byoc", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs. The only list of them.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    /// Compile models into one artifact
    Compile(Compile),
    /// Run an artifact, a model, or a file that a backend opens, once
    Run(Run),
    /// Measure how long an artifact, or a model, takes
    Bench(Bench),
    /// Compare the outputs of an artifact, or of a model, with a reference
    Verify(Verify),
    /// Show what is in an artifact, in a model, or in a file that a backend opens
    Inspect(Inspect),
    /// Show for each node of a model which backend takes it, and why the others do not
    Explain(Explain),
    /// Put other weights into an artifact without compiling
    Swap(Swap),
    /// Try the kernels that backends have for each region on a device, and write the artifact with the fastest
    Tune(Tune),
    /// Write one region as a model of its own, for the maker of a backend
    Repro(Repro),
    /// Tell whether this machine can run an artifact
    Check(Check),
    /// Show backends and where they come from
    #[command(subcommand)]
    Plugin(Plugin),
    /// Write a model, compile, run and verify it: the whole tour in one go
    Quickstart(Quickstart),
}

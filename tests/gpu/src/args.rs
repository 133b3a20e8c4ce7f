//! The command line.

use std::path::PathBuf;

use byoc_core::runtime::DeviceName;
use clap::{Parser, ValueEnum};

/// Shows that byoc's regions on a GPU are right and leave nothing behind, and how fast they are.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// A plugin with one of the backends `cublas`, `cutlass` and `cuda` [default: those of libbyoc_cublas.so,
    /// libbyoc_cutlass.so and libbyoc_cuda.so beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) plugin: Vec<PathBuf>,
    /// The device
    #[arg(long, value_name = "NAME", default_value = "cuda:0")]
    pub(crate) device: DeviceName,
    /// Only these parts
    #[arg(long, value_name = "PART")]
    pub(crate) only: Vec<Part>,
    /// Small sizes: for stand-ins, and for a first look
    #[arg(long)]
    pub(crate) quick: bool,
    /// Makes the same inputs as the run that printed this number [default: from the time]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Instead of all that: opens, runs and drops sessions of this artifact, for the suite's own use
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) reopen: Option<PathBuf>,
    /// Instead of all that: writes the encoder of BERT-large in f16 as ONNX, a sequence of 128, for a compile anywhere
    #[arg(long, value_name = "FILE")]
    pub(crate) write_model: Option<PathBuf>,
    /// Prints what was found as JSON at the end, and the lines to the standard error
    #[arg(long)]
    pub(crate) json: bool,
}

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// What the machine has
    Environment,
    /// Products of every kind against sums in f64
    Correctness,
    /// Products that are compiled for them, against sums in f64
    Kernels,
    /// What the conformance kit finds of the backends that generate kernels
    Operators,
    /// Recorded work against work that is queued in every run
    Replay,
    /// Memory of the device, and that it does not leak
    Memory,
    /// What is said when something cannot be
    Errors,
    /// How long it all takes
    Times,
    /// The parts `correctness` and `kernels` under NVIDIA's memory checker
    Checker,
}

impl Part {
    /// The name, as `--only` takes it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Args {
    /// The parts to do, in their order.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let wanted = |part: &Part| self.only.is_empty() || self.only.contains(part);
        Part::value_variants().iter().copied().filter(wanted).collect()
    }
}

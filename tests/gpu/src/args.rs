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
    /// Only checks whose names have one of these texts
    #[arg(long, value_name = "TEXT")]
    pub(crate) case: Vec<String>,
    /// Lists the checks in place of doing them
    #[arg(long)]
    pub(crate) list: bool,
    /// Small sizes: for stand-ins, and for a first look
    #[arg(long)]
    pub(crate) quick: bool,
    /// Makes the same inputs as the run that printed this number [default: from the time]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// How many checks are done at once where nothing is timed [default: one for each processor, 12 at most]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) jobs: Option<usize>,
    /// The most seconds of a check [default: 60, and more for those that need it]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) limit: Option<u64>,
    /// Only compiles the kernels of all checks for an architecture such as `sm_90a`, into the folder of BYOC_CACHE_DIR; needs
    /// no device
    #[arg(long, value_name = "ARCH")]
    pub(crate) prepare: Option<String>,
    /// Instead of all that: opens, runs and drops sessions of this artifact, for the suite's own use
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) reopen: Option<PathBuf>,
    /// Does the one check of this name in this process, for the suite's own use
    #[arg(long, hide = true, value_name = "NAME")]
    pub(crate) alone: Option<String>,
    /// A file that whoever times holds locked, for the suite's own use
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) turn: Option<PathBuf>,
    /// Instead of all that: writes the encoder of BERT-large in f16 as ONNX, a sequence of 128, for a compile anywhere
    #[arg(long, value_name = "FILE")]
    pub(crate) write_model: Option<PathBuf>,
    /// Prints what is found as JSON, a line for each check, row of a table, figure and note
    #[arg(long)]
    pub(crate) json: bool,
}

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// What the machine has
    Environment,
    /// A launch, a copy by TMA, and the smallest products by tensor cores
    Probes,
    /// Products of every kind against sums in f64
    Correctness,
    /// Every tile of `cutlass` at its edges
    Tiles,
    /// Products and convolutions that are compiled for them, against sums in f64
    Kernels,
    /// The kernels of attention against loops in f64
    Attention,
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
    /// How long products take by each tile
    Choices,
    /// Some checks of each kind under NVIDIA's memory and race checkers
    Checker,
}

impl Part {
    /// The name, as `--only` takes it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether its checks call cublasLt.
    pub(crate) fn needs_cublaslt(self) -> bool {
        matches!(self, Part::Correctness | Part::Replay | Part::Memory | Part::Errors | Part::Times | Part::Choices)
    }

    /// Whether it has kernels that can be compiled before a device is there.
    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, Part::Probes | Part::Tiles | Part::Kernels | Part::Attention | Part::Times | Part::Choices)
    }
}

impl Args {
    /// The parts to do, in their order.
    pub(crate) fn parts(&self) -> Vec<Part> {
        // What is for choosing tiles is only done where it is asked for.
        let wanted = |part: &Part| self.only.contains(part) || self.only.is_empty() && *part != Part::Choices;
        let wanted = |part: &Part| wanted(part) && (self.prepare.is_none() || part.is_prepared());
        Part::value_variants().iter().copied().filter(wanted).collect()
    }
}

//! The flags of `compile` and `explain`.

use std::path::PathBuf;

use byoc_core::compile::Stage;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{Backends, ModelArg, Plugins, Shapes, name_value};

/// `byoc compile`.
#[derive(clap::Args, Debug)]
pub(crate) struct Compile {
    /// Models; several become entries of one artifact that share constants. NAME names the entry
    #[arg(required = true, value_name = "[NAME=]MODEL.onnx", value_parser = name_value::model)]
    pub(crate) models: Vec<ModelArg>,
    /// The artifact to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "stop_after")]
    pub(crate) output: Option<PathBuf>,
    /// Refer to the models' constants in their own files, which the artifact then needs, in place of copying them
    #[arg(long)]
    pub(crate) external_constants: bool,
    /// Store a constant although a backend's code holds its bytes too: a warning in place of an error
    #[arg(long)]
    pub(crate) allow_duplicates: bool,
    /// Give the nodes of a region in which a backend crashes to the next backend: a warning in place of an error
    #[arg(long)]
    pub(crate) fallback_on_crash: bool,
    /// Read the models into memory; for files on a network or ones that may change meanwhile
    #[arg(long)]
    pub(crate) no_mmap: bool,
    /// Compile a second time and compare the files
    #[arg(long, conflicts_with = "stop_after")]
    pub(crate) check_reproducible: bool,
    /// Report as JSON
    #[arg(long, conflicts_with = "print")]
    pub(crate) json: bool,
    /// Which backends may take nodes.
    #[command(flatten)]
    pub(crate) backends: Backends,
    /// Where plugins are.
    #[command(flatten)]
    pub(crate) plugins: Plugins,
    /// Sizes that are left open.
    #[command(flatten)]
    pub(crate) shapes: Shapes,
    /// Samples of the inputs.
    #[command(flatten)]
    pub(crate) data: Data,
    /// Where nodes may go.
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Looking inside.
    #[command(flatten)]
    pub(crate) debug: Debugging,
}

/// Samples of the inputs, and how images become some.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Data set (for backends that choose number ranges from samples)")]
pub(crate) struct Data {
    /// Samples of the inputs: a folder of images (.png, .jpg, .bmp), .npy and .npz files, one a sample; or an .npz file with
    /// an array for each input, or an .npy file for the only one, in which the samples are the first dimension
    #[arg(long, value_name = "PATH")]
    pub(crate) dataset: Option<PathBuf>,
    /// What is taken from each pixel of an image, where 0 is black and 1 is white: one number, or one a channel [default: 0]
    #[arg(long, value_name = "MEAN,...", value_delimiter = ',', allow_hyphen_values = true)]
    #[arg(requires = "dataset", value_parser = finite)]
    pub(crate) input_mean: Vec<f32>,
    /// What each pixel is divided by after that: one number, or one a channel [default: 1]
    #[arg(long, value_name = "STD,...", value_delimiter = ',', allow_hyphen_values = true)]
    #[arg(requires = "dataset", value_parser = positive)]
    pub(crate) input_std: Vec<f32>,
}

fn finite(text: &str) -> Result<f32, String> {
    let number = text.trim().parse().ok().filter(|number: &f32| number.is_finite());
    number.ok_or_else(|| "expected a number, such as 0.485".into())
}

fn positive(text: &str) -> Result<f32, String> {
    finite(text).ok().filter(|&number| number > 0.0).ok_or_else(|| "expected a number above 0, such as 0.229".into())
}

/// Rules for the placement of nodes.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Placement policy (exit code 4 where it does not hold)")]
pub(crate) struct PolicyFlags {
    /// Nodes of that operator must go to that backend (repeatable): 'gpu=Conv*'
    #[arg(long, value_name = "NAME=PATTERN", value_parser = name_value::require)]
    pub(crate) require: Vec<(String, String)>,
    /// No node may go to a host backend, unless the list has no other
    #[arg(long)]
    pub(crate) no_fallback: bool,
    /// Most nodes that may go to host backends
    #[arg(long, value_name = "N")]
    pub(crate) max_host_nodes: Option<usize>,
}

/// Flags that show what the compiler does.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Looking inside")]
pub(crate) struct Debugging {
    /// Stop after a stage
    #[arg(long, value_name = "STAGE", value_parser = stages())]
    pub(crate) stop_after: Option<Stage>,
    /// Print the text form of the stage to stop after
    #[arg(long, requires = "stop_after")]
    pub(crate) print: bool,
    /// Write the text form of every stage into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dump_ir: Option<PathBuf>,
}

fn stages() -> impl TypedValueParser<Value = Stage> {
    let stage = |name: String| Stage::ALL.into_iter().find(|stage| stage.name() == name);
    PossibleValuesParser::new(Stage::ALL.map(Stage::name))
        .try_map(move |name| stage(name).ok_or("not the name of a stage"))
}

/// `byoc explain`.
#[derive(clap::Args, Debug)]
pub(crate) struct Explain {
    /// Models
    #[arg(required = true, value_name = "[NAME=]MODEL.onnx", value_parser = name_value::model)]
    pub(crate) models: Vec<ModelArg>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Which backends may take nodes.
    #[command(flatten)]
    pub(crate) backends: Backends,
    /// Where plugins are.
    #[command(flatten)]
    pub(crate) plugins: Plugins,
    /// Sizes that are left open.
    #[command(flatten)]
    pub(crate) shapes: Shapes,
}

/// `byoc repro`.
#[derive(clap::Args, Debug)]
pub(crate) struct Repro {
    /// Models, as for compile
    #[arg(required = true, value_name = "[NAME=]MODEL.onnx", value_parser = name_value::model)]
    pub(crate) models: Vec<ModelArg>,
    /// The region, by its symbol; see `byoc compile --stop-after partition --print`
    #[arg(long, value_name = "SYMBOL")]
    pub(crate) region: String,
    /// The model to write; '.repro.onnx' is a good ending
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Put made-up elements in the place of the weights
    #[arg(long)]
    pub(crate) strip_weights: bool,
    /// Which backends may take nodes.
    #[command(flatten)]
    pub(crate) backends: Backends,
    /// Where plugins are.
    #[command(flatten)]
    pub(crate) plugins: Plugins,
    /// Sizes that are left open.
    #[command(flatten)]
    pub(crate) shapes: Shapes,
}

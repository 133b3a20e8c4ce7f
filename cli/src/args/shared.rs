//! Flags that several verbs share.

use std::path::{Path, PathBuf};

use byoc_core::runtime::{DeviceName, Queueing};
use byoc_tools::fill::Fill;
use byoc_tools::inputs::{self, OpenSizes, Source};
use clap::builder::TypedValueParser as _;

use super::range::{self, OfInput};
use super::{SELDOM, dim, input, name_value, number, shape};

/// The places in help: of what is read and written, of the other options of a verb, and of what comes behind them.
pub(crate) const FIRST: usize = 1;
/// See [`FIRST`].
pub(crate) const SECOND: usize = 20;
/// See [`FIRST`].
const LAST: usize = 100;

/// Where plugins are looked for.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Plugins")]
pub(crate) struct Plugins {
    /// A plugin file (repeatable); it must load
    #[arg(long, value_name = "PATH")]
    pub(crate) plugin: Vec<PathBuf>,
    /// A folder of plugins (repeatable), before BYOC_PLUGIN_PATH, the user's plugin folder and the program's own
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub(crate) plugin_dir: Vec<PathBuf>,
    /// Compile in this process and not in a worker process for each plugin; for debugging a plugin
    #[arg(long, hide_short_help = true, help_heading = SELDOM)]
    pub(crate) in_process: bool,
    /// Seconds that a plugin may be silent before it is ended
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(hide_short_help = true, help_heading = SELDOM)]
    pub(crate) plugin_timeout: u64,
    /// Memory that a plugin's worker process may take; 0: what the machine has
    #[arg(long, value_name = "MIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    #[arg(hide_short_help = true, help_heading = SELDOM)]
    pub(crate) plugin_memory: u64,
    /// Limit of a region's code, and of its packed constants; 0: 1 GiB and eight times the bytes of the region's constants
    #[arg(long, value_name = "MIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    #[arg(hide_short_help = true, help_heading = SELDOM)]
    pub(crate) plugin_output: u64,
    /// Whether regions run in the worker processes too.
    #[arg(skip)]
    pub(crate) isolate: bool,
}

/// Seconds that a plugin may be silent where nothing else is said.
const TIMEOUT: u64 = 300;

impl Plugins {
    /// One plugin file, and the usual places.
    pub(crate) fn of_file(file: &Path) -> Plugins {
        Plugins { plugin: vec![file.to_owned()], plugin_timeout: TIMEOUT, ..Plugins::default() }
    }
}

/// For verbs that compile nothing: the limits hold there too, for backends that describe themselves, but nobody looks for them.
pub(crate) fn hide_limits(arg: clap::Arg) -> clap::Arg {
    let limits = ["in_process", "plugin_timeout", "plugin_memory", "plugin_output"];
    if limits.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg }
}

/// Parses a folder that is there.
fn folder() -> impl clap::builder::TypedValueParser<Value = PathBuf> {
    clap::builder::PathBufValueParser::new().try_map(|path| match path.is_dir() {
        true => Ok(path),
        false => Err("there is no such folder"),
    })
}

/// Which backends may take nodes.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Backends")]
pub(crate) struct Backends {
    /// Backends, the most wanted first (repeatable); `cpu` is the embedded one for the host [default: cpu]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = name_value::backend)]
    pub(crate) backend: Vec<String>,
    /// An option of a backend (repeatable); see `byoc plugin info NAME`
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    pub(crate) backend_opt: Vec<(String, String)>,
}

/// The devices that regions run on.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Devices")]
pub(crate) struct Devices {
    /// A device, such as cuda:0 (repeatable, one of each kind) [default: the first of each kind that regions run on]
    #[arg(long, value_name = "KIND:N")]
    pub(crate) device: Vec<DeviceName>,
    /// Whether regions that follow one another on a device are recorded in the second run and replayed from then on, as CUDA
    /// graphs are
    #[arg(long, visible_alias = "cuda-graph", value_name = "on|off", default_value = "on", hide_short_help = true)]
    pub(crate) replay: Switch,
    /// Wait for each region on a device, so that an error names the region that made it
    #[arg(long, hide_short_help = true)]
    pub(crate) sync_each: bool,
}

/// On or off.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Switch {
    /// On
    #[default]
    On,
    /// Off
    Off,
}

impl Devices {
    /// Execution on devices.
    pub(crate) fn queueing(&self, profile: bool) -> Queueing {
        match self.replay {
            _ if self.sync_each => Queueing::Waiting,
            _ if profile => Queueing::Timed,
            Switch::On => Queueing::Recorded,
            Switch::Off => Queueing::Direct,
        }
    }
}

/// Sizes that the model leaves open.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Shapes")]
pub(crate) struct Shapes {
    /// The shape of an input (repeatable): in:1x3x224x224, in=1x3x224x224 or 'in:[1,3,224,224]'
    #[arg(long, value_name = "INPUT:SHAPE", value_parser = shape::parse)]
    pub(crate) shape: Vec<(String, Vec<usize>)>,
    /// The size of a dimension that the model has a name for (repeatable): batch=4; `byoc inspect MODEL` shows the names
    #[arg(long, value_name = "NAME=SIZE", value_parser = dim::parse)]
    pub(crate) dim: Vec<(String, usize)>,
}

/// Where the values of inputs come from. Their options are the first ones of each verb.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Inputs {
    /// Inputs from a file (repeatable): in.npz, whose arrays have the names of inputs (tensors of a sequence x are called x.0, x.1
    /// and so on); x.npy, a tensor of ONNX (.pb) or an image (.png, .jpg, .bmp), for the only input or as NAME=FILE; a folder of
    /// ONNX's test data, with input_0.pb and so on; or - for a file on standard input
    #[arg(short, long = "input", value_name = "[NAME=]FILE", value_parser = input::parse, display_order = FIRST)]
    pub(crate) input: Vec<Source>,
    /// Fill inputs that no file gives; random is uniform in [0,1) for floats, 0 to 255 for u8, 0 or 1 for other types
    #[arg(long, value_name = "MODE", display_order = FIRST + 1)]
    pub(crate) fill: Option<FillMode>,
    /// The range of random inputs, of all or of one (repeatable): of floats, or of whole numbers with both ends, as in
    /// --fill-range ids=0,30521
    #[arg(long, value_name = "[INPUT=]LOW,HIGH", value_parser = range::parse, allow_hyphen_values = true)]
    #[arg(display_order = FIRST + 1)]
    pub(crate) fill_range: Vec<OfInput>,
    /// The seed of random inputs; the same seed and input name give the same values
    #[arg(long, value_name = "N", default_value_t = 0, display_order = FIRST + 2)]
    pub(crate) seed: u64,
    /// What is subtracted from each pixel of an image, where 0 is black and 1 is white: one number, or one for each channel
    /// [default: 0]
    #[arg(long, value_name = "MEAN,...", value_delimiter = ',', allow_hyphen_values = true, value_parser = number::finite)]
    #[arg(display_order = FIRST + 3)]
    pub(crate) input_mean: Vec<f32>,
    /// What each pixel is divided by after that: one number, or one for each channel [default: 1]
    #[arg(long, value_name = "STD,...", value_delimiter = ',', allow_hyphen_values = true, value_parser = number::positive)]
    #[arg(display_order = FIRST + 4)]
    pub(crate) input_std: Vec<f32>,
}

impl Shapes {
    /// The same, as the library takes them.
    pub(crate) fn sizes(&self) -> OpenSizes {
        OpenSizes { shapes: self.shape.clone(), dims: self.dim.clone() }
    }
}

impl Inputs {
    /// The same, as the library takes them; filled with `otherwise` where the user does not say.
    pub(crate) fn given(&self, otherwise: Option<Fill>) -> inputs::Inputs {
        let fill = self.fill.map(|mode| match mode {
            FillMode::Random => Fill::Random,
            FillMode::Zeros => Fill::Zeros,
            FillMode::Ones => Fill::Ones,
        });
        let fill = fill.or(otherwise).or((!self.fill_range.is_empty()).then_some(Fill::Random));
        inputs::Inputs {
            sources: self.input.clone(),
            fill,
            ranges: self.fill_range.clone(),
            seed: self.seed,
            mean: self.input_mean.clone(),
            std: self.input_std.clone(),
        }
    }
}

/// What inputs are filled with.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillMode {
    /// Random values
    Random,
    /// Zeros
    Zeros,
    /// Ones
    Ones,
}

/// What is executed, and how.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Execution {
    /// An artifact, an .onnx model, which is compiled into a temporary file first, or a file that a backend opens
    pub(crate) file: PathBuf,
    /// Where the inputs come from.
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// The entry to run, where the file has several
    #[arg(long, value_name = "NAME", display_order = LAST)]
    pub(crate) entry: Option<String>,
    /// The variant to run, of a file that has some [default: the best one that can be loaded here]
    #[arg(long, value_name = "NAME", display_order = LAST)]
    pub(crate) variant: Option<String>,
    /// Most threads to use; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0, display_order = LAST)]
    pub(crate) threads: usize,
    /// For a model. Options about the machine that runs it are for artifacts as well.
    #[command(flatten)]
    pub(crate) backends: Backends,
    /// Sizes that are left open.
    #[command(flatten)]
    pub(crate) shapes: Shapes,
    /// Where regions run that do not run on the host.
    #[command(flatten)]
    pub(crate) devices: Devices,
    /// Where plugins are.
    #[command(flatten)]
    pub(crate) plugins: Plugins,
    /// Run the regions of plugins in a worker process for each plugin: one that crashes or hangs ends that and is told
    #[arg(long, hide_short_help = true, help_heading = SELDOM, conflicts_with = "in_process")]
    pub(crate) isolate: bool,
    /// The folder of the files that the artifact takes constants from
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = SELDOM)]
    pub(crate) constants_from: Option<PathBuf>,
    /// Read every byte of the artifact first, and compare it with the digests
    #[arg(long, hide_short_help = true, help_heading = SELDOM)]
    pub(crate) verify_digests: bool,
    /// Most iterations of loops and scans in a run, all of them added up [default: as many as the model wants]
    #[arg(long, value_name = "N", hide_short_help = true, help_heading = SELDOM)]
    pub(crate) max_iterations: Option<u64>,
}

impl Execution {
    /// Where plugins are, and in which processes they run.
    pub(crate) fn places(&self) -> Plugins {
        Plugins { isolate: self.isolate, ..self.plugins.clone() }
    }
}

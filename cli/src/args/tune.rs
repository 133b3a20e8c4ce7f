//! The flags of `tune`.

use std::path::PathBuf;

use byoc_core::runtime::DeviceName;

use super::{Plugins, dim, name_value};

/// `byoc tune`.
#[derive(clap::Args, Debug)]
pub(crate) struct Tune {
    /// An artifact
    pub(crate) file: PathBuf,
    /// The device to try kernels on, such as cuda:0
    #[arg(long, value_name = "KIND:N")]
    pub(crate) device: DeviceName,
    /// The artifact to write, another file than FILE
    #[arg(short, long, value_name = "FILE2")]
    pub(crate) output: PathBuf,
    /// Only regions of these backends (repeatable) [default: all that run on the device]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) backend: Vec<String>,
    /// An option of a backend about the machine that runs its regions (repeatable); see `byoc plugin info NAME`
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    pub(crate) backend_opt: Vec<(String, String)>,
    /// The size of a symbolic dimension (repeatable): batch=4. Kernels are chosen for these sizes, and run for all
    #[arg(long, value_name = "NAME=SIZE", value_parser = dim::parse)]
    pub(crate) dim: Vec<(String, usize)>,
    /// How often the time of each kernel is taken; the median counts
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Try everything anew, whatever was found on this device before
    #[arg(long)]
    pub(crate) again: bool,
    /// The folder of the files that the artifact takes constants from
    #[arg(long, value_name = "DIR")]
    pub(crate) constants_from: Option<PathBuf>,
    /// Read every byte of the artifact first, and compare it with the digests
    #[arg(long)]
    pub(crate) verify_digests: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Where plugins are.
    #[command(flatten)]
    pub(crate) places: Plugins,
}

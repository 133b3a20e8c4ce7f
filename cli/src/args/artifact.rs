//! The flags of `inspect`, `swap`, `check`, `plugin` and `quickstart`.

use std::path::PathBuf;

use byoc_core::runtime::DeviceName;

use super::{PluginNew, Plugins, Shapes, name_value};

/// `byoc inspect`.
#[derive(clap::Args, Debug)]
pub(crate) struct Inspect {
    /// An artifact, an .onnx model, or a file that a backend opens
    pub(crate) file: PathBuf,
    /// The ledger: for every constant who reads it, who owns it and what became of it
    #[arg(long)]
    pub(crate) constants: bool,
    /// Every region with its backend, code, inputs and outputs
    #[arg(long)]
    pub(crate) regions: bool,
    /// Every section of the file
    #[arg(long)]
    pub(crate) sections: bool,
    /// The backends that the artifact needs
    #[arg(long)]
    pub(crate) plugins: bool,
    /// What its backend says is in the code of this region
    #[arg(long, value_name = "SYMBOL", conflicts_with_all = ["constants", "regions", "sections", "plugins", "verify_digests"])]
    pub(crate) region: Option<String>,
    /// Write the file that is in the code of that region
    #[arg(long, value_name = "OUT", requires = "region")]
    pub(crate) extract: Option<PathBuf>,
    /// Read every byte and compare it with the digests
    #[arg(long)]
    pub(crate) verify_digests: bool,
    /// The folder of the files that the artifact takes constants from
    #[arg(long, value_name = "DIR", requires = "verify_digests")]
    pub(crate) constants_from: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Sizes that a model leaves open.
    #[command(flatten)]
    pub(crate) shapes: Shapes,
    /// Where plugins are, for code and files that backends open.
    #[command(flatten)]
    pub(crate) places: Plugins,
}

/// `byoc swap`.
#[derive(clap::Args, Debug)]
pub(crate) struct Swap {
    /// An artifact
    pub(crate) file: PathBuf,
    /// The model to take constants from, by name; its operators are not looked at. Repeat it for an artifact of several
    /// models
    #[arg(long, value_name = "MODEL.onnx", required = true)]
    pub(crate) from: Vec<PathBuf>,
    /// The artifact to write, another file than FILE
    #[arg(short, long, value_name = "FILE2")]
    pub(crate) output: PathBuf,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `byoc check`.
#[derive(clap::Args, Debug)]
pub(crate) struct Check {
    /// An artifact
    #[arg(required_unless_present = "device")]
    pub(crate) file: Option<PathBuf>,
    /// A device to look at, and to load the artifact on, such as cuda:0 (repeatable, one of each kind)
    #[arg(long, value_name = "KIND:N")]
    pub(crate) device: Vec<DeviceName>,
    /// An option of a backend about the machine that runs its regions (repeatable); see `byoc plugin info NAME`
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    pub(crate) backend_opt: Vec<(String, String)>,
    /// The folder of the files that the artifact takes constants from
    #[arg(long, value_name = "DIR")]
    pub(crate) constants_from: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Where plugins are.
    #[command(flatten)]
    pub(crate) places: Plugins,
}

/// `byoc plugin`.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Plugin {
    /// List every backend that is found, and files that were not loaded
    List(PluginList),
    /// Show what a backend says of itself, and its options
    Info(PluginInfo),
    /// Start a backend: write a project that builds by itself
    New(PluginNew),
    /// Test a plugin, given nothing but its file
    Test(PluginTest),
}

/// `byoc plugin list`.
#[derive(clap::Args, Debug)]
pub(crate) struct PluginList {
    /// List the plugin files and what each says of itself, and run no code of any of them
    #[arg(long)]
    pub(crate) no_load: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Where plugins are.
    #[command(flatten)]
    pub(crate) places: Plugins,
}

/// `byoc plugin info`.
#[derive(clap::Args, Debug)]
pub(crate) struct PluginInfo {
    /// The backend
    pub(crate) name: String,
    /// An option of the backend, for what it looks for on this machine (repeatable)
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    pub(crate) backend_opt: Vec<(String, String)>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Where plugins are.
    #[command(flatten)]
    pub(crate) places: Plugins,
}

/// `byoc plugin test`.
#[derive(clap::Args, Debug)]
pub(crate) struct PluginTest {
    /// The plugin file
    pub(crate) file: PathBuf,
    /// Only these backends of the plugin (repeatable) [default: all of them]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) backend: Vec<String>,
    /// An option of a backend (repeatable); see `byoc plugin info NAME`
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    pub(crate) backend_opt: Vec<(String, String)>,
    /// Further cases and expected failures: a TOML file, or a folder of them (repeatable)
    #[arg(long, value_name = "DIR|FILE.toml")]
    pub(crate) case: Vec<PathBuf>,
    /// The longest that a case may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
    /// Most memory that the tests may take; 0 for what the machine has
    #[arg(long, value_name = "MIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    pub(crate) memory: u64,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Run the cases in this process, from this number on; how the verb calls itself.
    #[arg(long, hide = true)]
    pub(crate) child: Option<usize>,
}

/// `byoc quickstart`.
#[derive(clap::Args, Debug)]
pub(crate) struct Quickstart {
    /// The folder to write the model and the artifact into; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "byoc-quickstart")]
    pub(crate) dir: PathBuf,
}

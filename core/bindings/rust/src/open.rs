//! How artifacts are opened.

use std::path::{Path, PathBuf};

use byoc_core::artifact::{Artifact, ArtifactFile};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::{Registry, Settings, option_named};
use byoc_core::runtime::{DeviceName, LoadOptions, Queueing, Session, Wanted, load_best, settings_for};

use crate::plugins::Plugins;

/// How an artifact is opened. All is at its default where nothing is said.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(crate) plugins: Plugins,
    settings: Settings,
    entry: Option<String>,
    pub(crate) variant: Option<String>,
    threads: usize,
    devices: Vec<String>,
    pub(crate) constants_from: Option<PathBuf>,
    max_iterations: Option<u64>,
    timed: bool,
}

impl OpenOptions {
    /// Everything at its default.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// The entry to run, where the file has several.
    #[must_use]
    pub fn entry(mut self, name: impl Into<String>) -> OpenOptions {
        self.entry = Some(name.into());
        self
    }

    /// The variant to load, of a file that has some; the best one that can be loaded here where nothing is said.
    #[must_use]
    pub fn variant(mut self, name: impl Into<String>) -> OpenOptions {
        self.variant = Some(name.into());
        self
    }

    /// Most threads to use; 0, the default, is one for each core.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> OpenOptions {
        self.threads = threads;
        self
    }

    /// A device such as `cuda:0`, one of each kind; else the first of each kind that the artifact needs.
    #[must_use]
    pub fn device(mut self, name: impl Into<String>) -> OpenOptions {
        self.devices.push(name.into());
        self
    }

    /// A backend's option about the machine that runs the artifact, as `acme.key` and its value.
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl ToString) -> OpenOptions {
        self.settings.push((key.into(), value.to_string()));
        self
    }

    /// The folder of the files that the artifact takes constants from, where they are not where they were.
    #[must_use]
    pub fn constants_from(mut self, folder: impl Into<PathBuf>) -> OpenOptions {
        self.constants_from = Some(folder.into());
        self
    }

    /// Most iterations of loops in a run; as many as the model wants where nothing is said.
    #[must_use]
    pub fn max_iterations(mut self, most: u64) -> OpenOptions {
        self.max_iterations = Some(most);
        self
    }

    /// Takes the time of each step of a run, for [`Session::times`]. On devices every region is then queued by itself.
    #[must_use]
    pub fn timed(mut self, timed: bool) -> OpenOptions {
        self.timed = timed;
        self
    }

    /// A plugin file.
    #[must_use]
    pub fn plugin(mut self, file: impl Into<PathBuf>) -> OpenOptions {
        self.plugins.files.push(file.into());
        self
    }

    /// Where plugins are, in place of what was said of them.
    #[must_use]
    pub fn plugins(mut self, plugins: Plugins) -> OpenOptions {
        self.plugins = plugins;
        self
    }

    /// Opens the artifact at `path`. The file is mapped: no constant is copied, and sessions of one file share its pages. Of a file with
    /// variants it is the first that can be loaded here; [`Session::variant`] and [`Session::passed_over`] tell.
    ///
    /// Errors where it is not an artifact, is damaged, or needs what is not there: a plugin, a device, a feature of the processor.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Session> {
        self.open_file(&ArtifactFile::open(path.as_ref())?)
    }

    /// Opens an artifact that is mapped or in memory already.
    pub fn open_file(&self, file: &ArtifactFile) -> Result<Session> {
        let (settings, devices) = (self.named_settings()?, self.devices()?);
        let wanted = Wanted { variant: self.variant.as_deref(), devices: &devices, settings: &settings };
        let best = load_best(file, wanted, &mut |artifact, elsewhere| {
            let registry = self.plugins.for_running(&artifact.manifest().backends())?;
            let options = of_running(&registry, &settings_for(&registry, &settings, elsewhere))?;
            self.load(artifact, &registry, options)
        })?;
        Ok(best.into_session())
    }

    /// The options. Errors where one is not about the machine that runs an artifact.
    #[cfg(feature = "compiler")]
    pub(crate) fn options_of_running(&self, registry: &Registry) -> Result<Settings> {
        of_running(registry, &self.named_settings()?)
    }

    /// The options, where the embedded backend has its own name.
    fn named_settings(&self) -> Result<Settings> {
        let embedded = byoc_plugin_api::registered();
        self.settings.iter().map(|(key, value)| Ok((option_named(key, &embedded)?, value.clone()))).collect()
    }

    fn devices(&self) -> Result<Vec<DeviceName>> {
        self.devices.iter().map(|name| device(name)).collect()
    }

    /// Loads an entry by backends that are found already.
    pub(crate) fn load(&self, artifact: Artifact, registry: &Registry, run_options: Settings) -> Result<Session> {
        let options = LoadOptions {
            entry: self.entry.clone(),
            threads: self.threads,
            constants_from: self.constants_from.clone(),
            devices: self.devices()?,
            run_options,
            max_iterations: self.max_iterations,
            queueing: if self.timed { Queueing::Timed } else { Queueing::default() },
        };
        Session::load(artifact, registry, &options)
    }
}

fn of_running(registry: &Registry, settings: &[(String, String)]) -> Result<Settings> {
    registry.options_of_running(settings).map_err(|error| error.hint("Give it where the model is compiled"))
}

fn device(name: &str) -> Result<DeviceName> {
    name.parse().map_err(|cause| {
        Diagnostic::new(Code::Usage, format!("'{name}' is not the name of a device: {cause}"))
            .hint("A device is called KIND:N, such as cuda:0")
    })
}

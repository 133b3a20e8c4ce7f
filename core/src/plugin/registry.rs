//! Every backend that was found, and the ordered list that the user chose from them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byoc_plugin_api::host::{self, Cause, LoadError, LoadedBackend, Manifest};
use byoc_plugin_api::{
    ABI_VERSION, Backend, Candidate, Description, Error, OptionSpec, Options, Pattern, Tool, closest,
};

use super::SearchPath;
use super::search::file_is_for;
use super::worker::{self, Isolation};
use crate::diagnostic::{Code, Diagnostic, Result};

/// Where a backend comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is part of this program.
    Embedded,
    /// A plugin file.
    File(PathBuf),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Embedded => f.write_str("embedded"),
            Origin::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Origin {
    /// The BLAKE3 digest of the plugin file in hex, as `BYOC_PLUGIN_ALLOW` takes it; `None` without a file.
    pub fn digest(&self) -> Result<Option<String>> {
        match self {
            Origin::Embedded => Ok(None),
            Origin::File(path) => digest(path).map(Some),
        }
    }
}

/// A file that is named like a plugin, with its manifest; none of its code was run.
pub struct PluginFile {
    /// The file.
    pub path: PathBuf,
    /// Its manifest, if it has one.
    pub manifest: Result<Option<Manifest>>,
}

/// Every plugin file in these places. None of them is opened as a library.
pub fn plugin_files(search: &SearchPath) -> Vec<PluginFile> {
    let paths = search.files.iter().cloned().chain(search.candidates());
    let file = |path: PathBuf| {
        let manifest = Manifest::read(&path).map_err(|error| refusal(&path, error));
        PluginFile { path, manifest }
    };
    paths.map(file).collect()
}

/// The BLAKE3 digest of a file in hex.
pub fn digest(path: &Path) -> Result<String> {
    let failed = |error: std::io::Error| Diagnostic::io(path, "read", &error);
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(std::io::Error::other("it is not a regular file")));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

/// A backend and where it comes from.
#[derive(Clone)]
pub struct Registered {
    /// Its description.
    pub description: Description,
    /// Where it comes from.
    pub origin: Origin,
    /// The ABI version it speaks.
    pub abi_version: u32,
    /// Its implementation.
    pub backend: Arc<LoadedBackend>,
}

impl Registered {
    /// What the backend uses on this machine, with settings `(backend.key, value)` of its options of either kind.
    pub fn tools(&self, settings: &[(String, String)]) -> Result<Vec<Tool>> {
        let Description { name, options, run_options, .. } = &self.description;
        let options = self.resolve(&[&options[..], run_options].concat(), settings)?;
        self.backend.tools(&options).map_err(|error| {
            if error.crashed {
                let message = format!("backend '{name}' {} while it looked for its tools", error.message);
                return Diagnostic::new(Code::BackendCrashed, message).hint("Report this to the backend's maker");
            }
            let message = format!("backend '{name}' cannot report what it uses: {}", error.message);
            Diagnostic { code: Code::BackendFailed, message, hint: error.hint }
        })
    }

    /// What the backend takes, with settings `(backend.key, value)` of its options of either kind.
    pub fn patterns(&self, settings: &[(String, String)]) -> Result<Vec<Pattern>> {
        let Description { name, options, run_options, .. } = &self.description;
        let options = self.resolve(&[&options[..], run_options].concat(), settings)?;
        self.backend.patterns(&options).map_err(|error| {
            let message = format!("backend '{name}' cannot list its patterns: {}", error.message);
            let code = if error.crashed { Code::BackendCrashed } else { Code::BackendFailed };
            Diagnostic { code, message, hint: error.hint }
        })
    }

    /// The code of a region with whatever else computes the same, its own first; empty where there is nothing to
    /// choose.
    pub fn candidates(&self, code: &[u8], options: &Options) -> std::result::Result<Vec<Candidate>, Error> {
        match self.description.candidates {
            true => self.backend.candidates(code, options),
            false => Ok(Vec::new()),
        }
    }

    /// The options about the machine that runs its regions, from settings `(backend.key, value)`; those of other
    /// backends are passed over.
    pub fn run_options(&self, settings: &[(String, String)]) -> Result<Options> {
        self.resolve(&self.description.run_options, settings)
    }

    fn resolve(&self, specs: &[OptionSpec], settings: &[(String, String)]) -> Result<Options> {
        let name = &self.description.name;
        let own = settings.iter().filter_map(|(key, value)| {
            let (backend, key) = key.split_once('.')?;
            (backend == name).then_some((key, value.as_str()))
        });
        Options::resolve(specs, own).map_err(|error| {
            let message = format!("backend '{name}': {}", error.message);
            Diagnostic { code: Code::BadOption, message, hint: error.hint }
        })
    }
}

/// A backend that is hidden by an earlier one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// The name.
    pub name: String,
    /// Where the hidden one is.
    pub origin: Origin,
}

/// A file that is named like a plugin and was not loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: Diagnostic,
}

/// A backend as the user chose it: with the value of each of its options.
#[derive(Clone)]
pub struct Selected {
    /// The backend.
    pub registered: Registered,
    /// Its options, those about the machine included.
    pub options: Options,
}

impl Selected {
    /// The backend's name.
    pub fn name(&self) -> &str {
        &self.registered.description.name
    }

    /// The options that an artifact keeps: those that are not about the machine.
    pub fn kept_options(&self) -> Options {
        self.options.only(&self.registered.description.options)
    }

    /// Whether it runs on the host and computes in the model's own precision, so that it may fold constants and be
    /// watched while it runs a model.
    pub fn is_exact_host(&self) -> bool {
        let description = &self.registered.description;
        description.host && !description.calibration
    }
}

/// Settings of backends' options, as `(backend.key, value)`.
pub type Settings = Vec<(String, String)>;

/// Every backend that was found, the most wanted of each name first.
#[derive(Clone, Default)]
pub struct Registry {
    /// The backends.
    pub backends: Vec<Registered>,
    /// Backends hidden by an earlier one of the same name.
    pub shadowed: Vec<Shadowed>,
    /// Files in plugin folders that were not loaded.
    pub refused: Vec<Refused>,
    /// Places that were passed over, see [`SearchPath::ignored`].
    pub ignored: Vec<PathBuf>,
}

/// A backend that is linked into the program.
pub fn embedded(backend: &'static dyn Backend) -> Result<Arc<LoadedBackend>> {
    let failed = |error: Error| {
        let message = format!("an embedded backend cannot describe itself: {}", error.message);
        Diagnostic { code: Code::BackendFailed, message, hint: error.hint }
    };
    LoadedBackend::linked(backend).map(Arc::new).map_err(failed)
}

impl Registry {
    /// Looks in every place of `search`, then takes the backends that are linked into the program. A file that the
    /// user named must load; a file in a folder that does not is noted in [`Registry::refused`]. With `isolation` each
    /// plugin is opened in a process of its own, and in this one only when something that it compiled is run.
    pub fn discover(
        search: &SearchPath,
        embedded: &[&'static dyn Backend],
        isolation: Option<&Isolation>,
    ) -> Result<Registry> {
        let mut registry = Registry::of_files(search, isolation)?;
        for path in search.candidates() {
            registry.try_open(path, isolation);
        }
        registry.add_embedded(all_embedded(embedded)?);
        Ok(registry)
    }

    /// Takes those of these backends that are not here yet from files beside the program, where a file is named after one.
    pub fn add_from_beside(&mut self, search: &SearchPath, wanted: &[String], isolation: Option<&Isolation>) {
        let missing: Vec<_> = self.missing(wanted, &[]).cloned().collect();
        for path in missing.iter().filter_map(|name| search.beside(name)) {
            self.try_open(path, isolation);
        }
    }

    /// What is needed for these backends: the files that the user named, then files in the folders that
    /// are named after a backend that is still missing, and only then files whose manifest names one, or
    /// that have none. Nothing else is opened. A name is looked for as a name: it never becomes a path. With
    /// `isolation` as in [`Registry::discover`].
    pub fn discover_wanted(
        search: &SearchPath,
        embedded: &[&'static dyn Backend],
        wanted: &[String],
        isolation: Option<&Isolation>,
    ) -> Result<Registry> {
        let mut registry = Registry::of_files(search, isolation)?;
        let embedded = all_embedded(embedded)?;
        let (named, others): (Vec<_>, Vec<_>) =
            search.candidates().into_iter().partition(|path| wanted.iter().any(|name| file_is_for(path, name)));
        for path in named {
            if registry.missing(wanted, &[]).any(|name| file_is_for(&path, name)) {
                registry.try_open(path, isolation);
            }
        }
        for path in others {
            let missing: Vec<_> = registry.missing(wanted, &embedded).cloned().collect();
            if missing.is_empty() {
                break;
            }
            match Manifest::read(&path) {
                Ok(Some(manifest)) if !manifest.may_hold(&missing) => {}
                Ok(_) => registry.try_open(path, isolation),
                Err(error) => registry.refused.push(Refused { reason: refusal(&path, error), path }),
            }
        }
        registry.add_embedded(embedded);
        registry.add_from_beside(search, wanted, isolation);
        Ok(registry)
    }

    fn of_files(search: &SearchPath, isolation: Option<&Isolation>) -> Result<Registry> {
        let mut registry = Registry { ignored: search.ignored.clone(), ..Registry::default() };
        search.files.iter().try_for_each(|path| registry.open(path, isolation))?;
        Ok(registry)
    }

    fn add_embedded(&mut self, embedded: Vec<Arc<LoadedBackend>>) {
        for backend in embedded {
            self.add(backend, Origin::Embedded, ABI_VERSION);
        }
    }

    /// Those of `wanted` that are neither here nor among `embedded`.
    fn missing<'a>(&self, wanted: &'a [String], embedded: &[Arc<LoadedBackend>]) -> impl Iterator<Item = &'a String> {
        let here = self.backends.iter().map(|registered| registered.description.name.clone());
        let here: Vec<_> = here.chain(embedded.iter().map(|backend| backend.describe().name)).collect();
        wanted.iter().filter(move |name| !here.contains(name))
    }

    /// Opens a file that was found by a search.
    fn try_open(&mut self, path: PathBuf, isolation: Option<&Isolation>) {
        if let Err(reason) = self.open(&path, isolation) {
            self.refused.push(Refused { path, reason });
        }
    }

    fn open(&mut self, path: &Path, isolation: Option<&Isolation>) -> Result<()> {
        let plugin = match isolation {
            Some(isolation) => worker::open(path, isolation),
            None => host::open(path),
        };
        let plugin = plugin.map_err(|error| refusal(path, error))?;
        for backend in plugin.backends {
            self.add(Arc::new(backend), Origin::File(path.to_owned()), plugin.identity.abi_version);
        }
        Ok(())
    }

    fn add(&mut self, backend: Arc<LoadedBackend>, origin: Origin, abi_version: u32) {
        let description = backend.describe();
        let known = self.backends.iter().find(|known| known.description.name == description.name);
        match known {
            None => self.backends.push(Registered { description, origin, abi_version, backend }),
            Some(known) if known.origin == origin => {}
            Some(_) => self.shadowed.push(Shadowed { name: description.name, origin }),
        }
    }

    /// The backend of that name.
    pub fn get(&self, name: &str) -> Result<&Registered> {
        if let Some(found) = self.backends.iter().find(|registered| registered.description.name == name) {
            return Ok(found);
        }
        let error = Diagnostic::new(Code::UnknownBackend, format!("there is no backend '{name}'"));
        let names = || self.backends.iter().map(|registered| registered.description.name.as_str());
        let refused = self.refused.iter().find(|refused| file_is_for(&refused.path, name));
        Err(match (refused, closest(name, names()), self.ignored.first()) {
            (Some(refused), ..) => error.hint(format!("Its plugin was not loaded: {}", refused.reason.message)),
            (None, Some(near), _) => error.hint(format!("Did you mean '{near}'?")),
            (None, None, Some(ignored)) => error.hint(format!(
                "The entry '{}' of BYOC_PLUGIN_PATH is not used: write it as an absolute path",
                ignored.display()
            )),
            (None, None, None) => error.hint(format!(
                "There is {}; name further plugins with --plugin or --plugin-dir; -v shows where they are looked for",
                names().collect::<Vec<_>>().join(", ")
            )),
        })
    }

    /// The ordered list of backends the user named, with options of either kind given as `(backend.key, value)`.
    pub fn select(&self, names: &[String], settings: &[(String, String)]) -> Result<Vec<Selected>> {
        for (key, _) in settings {
            let backend = key.split_once('.').map_or("", |(backend, _)| backend);
            let listed = names.iter().any(|name| name == backend);
            // Options about the machine may be for the backend that opens the device.
            if !(listed || self.is_of_run(key) && self.shares_a_domain(backend, names)) {
                let message = format!("option '{key}' belongs to no backend of the list {}", names.join(","));
                return Err(Diagnostic::new(Code::BadOption, message).hint("Write --backend-opt BACKEND.KEY=VALUE"));
            }
        }
        names.iter().map(|name| self.select_one(name, settings)).collect()
    }

    fn select_one(&self, name: &str, settings: &[(String, String)]) -> Result<Selected> {
        let registered = self.get(name)?.clone();
        let Description { options, run_options, .. } = &registered.description;
        let options = registered.resolve(&[&options[..], run_options].concat(), settings)?;
        Ok(Selected { registered, options })
    }

    /// The settings for something that is compiled already. Errors where one is not about the machine that runs it.
    pub fn options_of_running(&self, settings: &[(String, String)]) -> Result<Settings> {
        let (others, run_options) = self.part_settings(settings);
        match others.first() {
            None => Ok(run_options),
            Some((key, _)) => {
                Err(Diagnostic::new(Code::BadOption, format!("option '{key}' is not an option of running")))
            }
        }
    }

    /// Splits settings `(backend.key, value)` into those of compiling and those of running, by the backends' declarations.
    /// Unknown ones count as those of compiling.
    pub fn part_settings(&self, settings: &[(String, String)]) -> (Settings, Settings) {
        settings.iter().cloned().partition(|(key, _)| !self.is_of_run(key))
    }

    /// Whether a backend may open the device that one of the named backends runs on.
    fn shares_a_domain(&self, backend: &str, names: &[String]) -> bool {
        let domain = |name: &str| self.get(name).ok().and_then(|found| found.description.domain.clone());
        let own = domain(backend);
        own.is_some() && names.iter().any(|name| domain(name) == own)
    }

    /// Whether `backend.key` is an option about the machine.
    fn is_of_run(&self, key: &str) -> bool {
        let Some((backend, key)) = key.split_once('.') else { return false };
        let found = self.backends.iter().find(|registered| registered.description.name == backend);
        found.is_some_and(|found| found.description.run_options.iter().any(|spec| spec.name == key))
    }
}

fn all_embedded(backends: &[&'static dyn Backend]) -> Result<Vec<Arc<LoadedBackend>>> {
    backends.iter().copied().map(embedded).collect()
}

/// What to do about a file that is not a plugin. Of one that is not there nothing more can be said.
fn remedy(cause: Cause) -> Option<String> {
    let text = match cause {
        Cause::Missing => return None,
        Cause::Damaged => "A plugin is a dynamic library; byoc plugin new writes one to start from",
        Cause::Library => {
            "A library that it needs is not found: put it beside the plugin and link with -Wl,-rpath,'$ORIGIN', or name its folder \
             in LD_LIBRARY_PATH"
        }
        Cause::Symbol => {
            "Link the plugin with the library that has the symbol, which -Wl,--no-undefined finds when it is built; or a library \
             here is older than the one that it was built with"
        }
        Cause::Exports => {
            "In Rust a plugin ends with export_plugin!; in C it defines byoc_plugin_info and byoc_plugin_table, as byoc_plugin.h says"
        }
    };
    Some(text.to_owned())
}

fn refusal(path: &Path, error: LoadError) -> Diagnostic {
    let file = path.display();
    match error {
        LoadError::Process(error) if error.crashed => {
            Diagnostic::new(Code::BackendCrashed, format!("plugin '{file}' {} while it was opened", error.message))
                .hint("Report this to the plugin's maker")
        }
        LoadError::Process(error) => Diagnostic { hint: error.hint, ..Diagnostic::new(Code::Io, error.message) },
        LoadError::NotAPlugin { reason, cause } => {
            let hint = remedy(cause);
            let message = format!("'{file}' cannot be loaded as a plugin: {reason}");
            Diagnostic { hint, ..Diagnostic::new(Code::NotAPlugin, message) }
        }
        LoadError::Incompatible { message, hint } => {
            Diagnostic::new(Code::AbiMismatch, format!("'{file}': {message}")).hint(hint)
        }
        LoadError::NotAllowed(reason) => {
            Diagnostic::new(Code::PluginNotAllowed, format!("'{file}' is not allowed: {reason}"))
                .hint("If you trust the file, add its digest to the list")
        }
        LoadError::Contract(reason) => {
            let message = format!("'{file}' breaks the plugin contract: {reason}");
            Diagnostic::new(Code::PluginContract, message).hint("Report this to the plugin's maker")
        }
    }
}

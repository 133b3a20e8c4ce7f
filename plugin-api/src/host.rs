//! The host's side of the wire: opens a plugin file, here or in another process, shakes hands, and makes each of its
//! backends look like any other [`crate::Backend`]. Libraries stay open for the life of the process: nothing of a plugin can dangle.

use std::path::Path;
use std::sync::Arc;

use libloading::os::unix::{RTLD_LOCAL, RTLD_NOW};
use serde::{Deserialize, Serialize};

use self::answer::one_line;
pub use self::backend::{LoadedBackend, NO_REASON};
pub use self::events::{on_events, pass_event};
use self::handshake::{Info, check_version, functions, read_info};
pub use self::lists::checked_candidates;
pub use self::manifest::Manifest;
pub use self::wire::{Ending, Library, Wire};
use crate::backend::Description;
pub use crate::call::{Answer, Call, Part};
use crate::error::Error;
pub use crate::panics::quiet_panics;

mod allow;
mod answer;
mod backend;
mod code_file;
mod device;
mod domain;
mod events;
mod executable;
mod handshake;
mod lists;
mod manifest;
mod operators;
mod texts;
mod wire;

pub use allow::allow_lists;

/// Why a file was not loaded. Each text is one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadError {
    /// The file cannot be opened as a library, or it is not a plugin.
    NotAPlugin {
        /// What was found.
        reason: String,
        /// What kind of thing is wrong.
        cause: Cause,
    },
    /// The plugin speaks another ABI.
    Incompatible {
        /// What each side speaks.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The plugin broke a rule of the contract.
    Contract(String),
    /// `BYOC_PLUGIN_ALLOW` does not name the file's digest.
    NotAllowed(String),
    /// The process that it was opened in has failed or ended.
    Process(Error),
}

/// What is wrong with a file that is not a plugin: each has a remedy of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// There is no file.
    Missing,
    /// It is no library, or a damaged one.
    Damaged,
    /// A library that it needs is not found.
    Library,
    /// A symbol that it needs is not found.
    Symbol,
    /// It does not export what plugins export.
    Exports,
}

impl LoadError {
    fn not_a_plugin(cause: Cause, reason: impl Into<String>) -> LoadError {
        LoadError::NotAPlugin { reason: reason.into(), cause }
    }

    /// What kept the file from being read.
    fn unreadable(error: &std::io::Error) -> LoadError {
        let is_missing = error.kind() == std::io::ErrorKind::NotFound;
        LoadError::not_a_plugin(if is_missing { Cause::Missing } else { Cause::Damaged }, error.to_string())
    }

    /// What the system says of a library that it does not open. It tells what is missing in words alone.
    fn unopened(error: &libloading::Error) -> LoadError {
        let reason = reason(error);
        let cause = match () {
            () if reason.contains("cannot open shared object file") => Cause::Library,
            () if reason.contains("undefined symbol") => Cause::Symbol,
            () => Cause::Damaged,
        };
        LoadError::not_a_plugin(cause, reason)
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::NotAPlugin { reason: text, .. } | LoadError::Contract(text) | LoadError::NotAllowed(text) => {
                f.write_str(text)
            }
            LoadError::Incompatible { message, .. } => f.write_str(message),
            LoadError::Process(error) => error.fmt(f),
        }
    }
}

/// What a plugin that is open says of itself before any of its backends is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The plugin's name, from its package.
    pub name: String,
    /// The plugin's version, from its package.
    pub version: String,
    /// The ABI version it speaks.
    pub abi_version: u32,
    /// How many backends it has.
    pub backends: usize,
    /// What its file says.
    pub manifest: Option<Manifest>,
}

/// An open plugin.
pub struct Plugin {
    /// What it says of itself.
    pub identity: Identity,
    /// Its backends.
    pub backends: Vec<LoadedBackend>,
}

/// Opens the plugin file at `path` in this process. Where `BYOC_PLUGIN_ALLOW` is set, its digest must be among those listed
/// there.
pub fn open(path: &Path) -> Result<Plugin, LoadError> {
    let (identity, library) = Library::open(path)?;
    Plugin::over(Arc::new(library), identity)
}

impl Library {
    /// Opens the plugin file at `path`, and calls none of its backends.
    ///
    /// What is checked are the bytes read right before the file is opened by its path. It is not opened by way of the
    /// descriptor they were read from: the plugin would not find the libraries beside it (`$ORIGIN`), nor its own folder.
    pub fn open(path: &Path) -> Result<(Identity, Library), LoadError> {
        let bytes = read_file(path)?;
        allow::check(&bytes)?;
        crate::elf::check_library(&bytes).map_err(|reason| LoadError::not_a_plugin(Cause::Damaged, reason))?;
        let manifest = Manifest::find(&bytes)?;
        if let Some(Manifest { name, version, abi, .. }) = &manifest {
            // Before anything of an incompatible plugin can run.
            check_version(&Info { name: name.clone(), version: version.clone(), abi: *abi })?;
        }
        drop(bytes);
        // The system looks for a bare file name in its own folders, and not here.
        let path = &std::path::absolute(path).map_err(|error| LoadError::unreadable(&error))?;
        // SAFETY: opening runs the library's constructors. The file is whole and its user chose it as a plugin.
        let library = unsafe { libloading::os::unix::Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| LoadError::unopened(&error))?;
        let info = read_info(&library)?;
        // Never unloaded: executables, static texts and threads of the plugin may live on.
        let library = std::mem::ManuallyDrop::new(library);
        check_version(&info)?;
        let table = functions(&library, path, &info)?;
        let Info { name, version, abi } = info;
        let identity = Identity { name, version, abi_version: abi, backends: (table.count)(), manifest };
        let library = Library { table };
        library.lend_events();
        Ok((identity, library))
    }
}

impl Plugin {
    /// The plugin of that identity, open at the other end of a wire.
    pub fn over(wire: Arc<dyn Wire>, identity: Identity) -> Result<Plugin, LoadError> {
        let backends = (0..identity.backends)
            .map(|index| LoadedBackend::of_plugin(wire.clone(), index))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| match error.crashed {
                true => LoadError::Process(error),
                false => LoadError::Contract(format!("describe failed: {error}")),
            })?;
        if backends.is_empty() {
            return Err(LoadError::Contract("it registers no backend".into()));
        }
        backends.iter().try_for_each(|backend| judge(&backend.description))?;
        if let Some(manifest) = &identity.manifest {
            let names: Vec<_> = backends.iter().map(|backend| backend.description.name.as_str()).collect();
            manifest.agrees(&identity.name, &identity.version, &names)?;
        }
        Ok(Plugin { identity, backends })
    }
}

/// What a description may not say.
fn judge(description: &Description) -> Result<(), LoadError> {
    let Description { name, files, options, run_options, host, domain, .. } = description;
    let broken = |what: String| Err(LoadError::Contract(what));
    let names = "are lower-case letters, digits and '-'";
    if !is_name(name) {
        return broken(format!("its backend is called '{}'; names {names}", one_line(name)));
    }
    if let Some(bad) = files.iter().map(|format| &format.extension).find(|name| !is_name(name)) {
        let bad = one_line(bad);
        return broken(format!("its backend '{name}' has files that end with '.{bad}'; extensions {names}"));
    }
    if let Some(bad) = domain.as_deref().filter(|kind| !is_name(kind)) {
        let bad = one_line(bad);
        return broken(format!("its backend '{name}' runs in memory of the kind '{bad}'; kinds {names}"));
    }
    if let Some(bad) = description.precision.iter().find(|row| !row.is_valid()) {
        let bad = one_line(&bad.to_string());
        return broken(format!("its backend '{name}' declares a precision that nothing can be held to: {bad}"));
    }
    if let (true, Some(kind)) = (host, domain) {
        return broken(format!("its backend '{name}' is a host backend and runs in memory of the kind '{kind}'"));
    }
    let mut named = options.iter().chain(run_options).map(|option| option.name.as_str());
    if let Some(bad) =
        named.find(|name| name.is_empty() || name.contains(|char: char| char.is_control() || char == '='))
    {
        let bad = one_line(bad);
        return broken(format!("its backend '{name}' has an option '{bad}', which nobody can set"));
    }
    if let Some(what) = operators::wrong(&description.operators) {
        return broken(format!("its backend '{name}' {what}"));
    }
    match run_options.iter().find(|one| options.iter().any(|other| other.name == one.name)) {
        Some(twice) => {
            let twice = one_line(&twice.name);
            broken(format!("its backend '{name}' has the option '{twice}' both of compiling and of running"))
        }
        None => Ok(()),
    }
}

/// The bytes of a plugin file. What is not a regular file is not read: that might never end.
fn read_file(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |error: std::io::Error| LoadError::unreadable(&error);
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(LoadError::not_a_plugin(Cause::Damaged, "it is not a regular file"));
    }
    std::fs::read(path).map_err(failed)
}

/// Names stand in symbols, section names and on the command line.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(allowed)
}

/// The whole chain of causes: libloading's own text says only that `dlopen` failed.
fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    one_line(&innermost.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{OptionKind, OptionSpec};

    type Change = fn(&mut Description);

    fn option(name: &str) -> OptionSpec {
        OptionSpec { name: name.into(), kind: OptionKind::Bool, default: "false".into(), help: String::new() }
    }

    #[test]
    fn descriptions_that_nobody_can_use() {
        let sound = Description { name: "b".into(), options: vec![option("arch")], ..Description::default() };
        assert_eq!(judge(&sound), Ok(()));
        let cases: &[(Change, &str)] = &[
            (
                |it| it.name = "../a\n".into(),
                "its backend is called '../a'; names are lower-case letters, digits and '-'",
            ),
            (|it| it.options.push(option("")), "its backend 'b' has an option '', which nobody can set"),
            (|it| it.options.push(option("a\u{1b}b")), "its backend 'b' has an option 'a b', which nobody can set"),
            (|it| it.run_options.push(option("a=b")), "its backend 'b' has an option 'a=b', which nobody can set"),
            (
                |it| it.run_options.push(option("arch")),
                "its backend 'b' has the option 'arch' both of compiling and of running",
            ),
        ];
        for (change, cause) in cases {
            let mut description = sound.clone();
            change(&mut description);
            assert_eq!(judge(&description), Err(LoadError::Contract((*cause).into())));
        }
    }
}

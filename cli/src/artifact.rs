//! The input of a verb: an artifact, a model to compile, or a file in a backend's own format.

use std::path::Path;
use std::time::{Duration, Instant};

use byoc_core::artifact::{Artifact, ArtifactFile};
use byoc_core::compile::{Request, compile_unnamed};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::FileKind;
use byoc_core::overwrite::Input;
use byoc_core::plugin::{Registry, Settings};
use byoc_core::runtime::{
    self, Best, LoadOptions, PassedOver, Session, Wanted, load_best, open_by_content, open_file, settings_for,
};
use byoc_tools::process_memory::reset_peak;

use serde::Serialize;

use crate::args::{Execution, Plugins, Shapes};
use crate::compile_request;
use crate::file_kind;
use crate::progress::Progress;
use crate::report::{self, count};

/// A compiled file: an artifact, or a backend's own format.
pub(crate) enum Compiled {
    /// An artifact, with or without variants.
    Artifact(ArtifactFile),
    /// A file in a backend's own format.
    File(Box<runtime::Opened>),
}

/// What is loaded of a compiled file.
enum Part {
    Artifact(Box<Artifact>),
    File(Box<runtime::Opened>),
}

/// How many sections of an artifact were compared with their digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Compared {
    sections: usize,
    of: usize,
}

impl Compared {
    /// What showing a file with variants does: the list of them, their graphs and their ledgers.
    pub(crate) fn by_showing(file: &ArtifactFile) -> Compared {
        Compared { sections: 1 + 2 * file.variants().len(), of: file.sections().count() }
    }

    /// What showing one artifact does: its graph and its ledger, and the list of variants where there is one.
    pub(crate) fn by_showing_one(file: &ArtifactFile) -> Compared {
        Compared { sections: 2 + file.variants().len().min(1), of: file.sections().count() }
    }

    /// All of them.
    pub(crate) fn all(file: &ArtifactFile) -> Compared {
        let of = file.sections().count();
        Compared { sections: of, of }
    }

    /// The same as a line.
    pub(crate) fn text(self) -> String {
        let Compared { sections, of } = self;
        match sections == of {
            true => format!("digests ok: all {}\n", count(of, "section")),
            false => {
                format!(
                    "checked: the header, the graph and the ledger; --verify-digests reads all {}\n",
                    count(of, "section")
                )
            }
        }
    }
}

/// When all bytes of an artifact are compared with their digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digests {
    /// Where the command line asks for it.
    AsAsked,
    /// Always.
    Always,
}

/// Something that can be loaded.
pub(crate) struct Opened {
    part: Part,
    /// The backends that it needs, and maybe more.
    registry: Registry,
    /// Symbolic sizes; none for a model, where they were used for compiling.
    pub(crate) open_sizes: Shapes,
    /// Files that belong to it though the command line does not name them.
    pub(crate) found: Vec<Input>,
    /// How it is loaded.
    pub(crate) options: LoadOptions,
    /// What opening an artifact took, without looking for plugins and comparing digests: a part of loading it.
    opening: Duration,
    /// A session that was loaded to see whether the variant can be, and how long that took.
    first: Option<(Session, Duration)>,
    /// Better variants that cannot be loaded here.
    pub(crate) passed_over: Vec<PassedOver>,
}

impl Opened {
    fn new(part: Part, registry: Registry, options: LoadOptions) -> Opened {
        let (open_sizes, found, passed_over) = (Shapes::default(), Vec::new(), Vec::new());
        Opened { part, registry, open_sizes, found, options, opening: Duration::ZERO, first: None, passed_over }
    }

    /// The artifact, unless it is a file in a backend's own format.
    pub(crate) fn artifact(&self) -> Option<&Artifact> {
        match &self.part {
            Part::Artifact(artifact) => Some(artifact),
            Part::File(_) => None,
        }
    }

    /// The backends that it needs, and maybe more.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The variant that it is, if its file has some.
    pub(crate) fn variant(&self) -> Option<&str> {
        self.artifact()?.variant()
    }

    /// A session of it, and how long loading took, from the file on; `path` is the file.
    pub(crate) fn load(&mut self, path: &Path) -> Result<(Session, Duration)> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let start = Instant::now();
        let session = match &self.part {
            Part::Artifact(artifact) => Session::load(Artifact::clone(artifact), &self.registry, &self.options),
            Part::File(opened) => Session::of_file(opened, path, &self.options),
        }?;
        Ok((session, self.opening + start.elapsed()))
    }
}

/// Whether the file is a model: by its contents, or by its name where they do not tell what it is.
pub(crate) fn is_model(path: &Path) -> bool {
    match FileKind::of_file(path) {
        Ok(FileKind::Model) => true,
        Ok(FileKind::Artifact) => false,
        _ => has_extension(path, "onnx"),
    }
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

/// Opens an artifact, or another file by the backend that declares its file ending, or that can read it.
pub(crate) fn find(path: &Path, places: &Plugins) -> Result<Compiled> {
    let error = match ArtifactFile::open(path) {
        Ok(file) => return Ok(Compiled::Artifact(file)),
        Err(error) => error,
    };
    if error.code != Code::DamagedArtifact || has_extension(path, "byoc") {
        return Err(error);
    }
    let registry = compile_request::isolated_registry(places, &[])?;
    if let Some(opened) = open_file(path, &registry)? {
        return Ok(Compiled::File(Box::new(opened)));
    }
    // Other kinds need no backend to be told.
    if !matches!(FileKind::of_file(path)?, FileKind::Unknown | FileKind::Text | FileKind::Other(..)) {
        return Err(error);
    }
    match open_by_content(path, &registry)? {
        Some(opened) => Ok(Compiled::File(Box::new(opened))),
        None => Err(with_extensions(error, &registry)),
    }
}

/// Opens an artifact and no other file.
pub(crate) fn open_artifact(path: &Path, places: &Plugins) -> Result<ArtifactFile> {
    let registry = || compile_request::isolated_registry(places, &[]);
    ArtifactFile::open(path).map_err(|error| file_kind::told_by_backends(error, &[path], registry))
}

/// Adds to the hint which other files there are.
fn with_extensions(error: Diagnostic, registry: &Registry) -> Diagnostic {
    let extensions = registry.backends.iter().flat_map(|backend| {
        let name = &backend.description.name;
        backend.description.files.iter().map(move |format| format!("'.{}' ({name})", format.extension))
    });
    let extensions: Vec<_> = extensions.collect();
    if extensions.is_empty() {
        return error;
    }
    let known = format!("Files of backends end with {}", extensions.join(", "));
    let hint = error.hint.as_ref().map_or(known.clone(), |hint| format!("{hint}. {known}"));
    error.hint(hint)
}

/// Opens the file, or compiles the model into a temporary file and opens that. Of a file with variants it is the best one that can
/// be loaded here, or the one that is named. With `profile` the times of regions are taken.
pub(crate) fn open(execution: &Execution, digests: Digests, profile: bool) -> Result<Opened> {
    let options = |run_options| LoadOptions {
        entry: execution.entry.clone(),
        threads: execution.threads,
        constants_from: execution.constants_from.clone(),
        devices: execution.devices.device.clone(),
        run_options,
        queueing: execution.devices.queueing(profile),
        max_iterations: execution.max_iterations,
    };
    if is_model(&execution.file) {
        return open_model(execution, &options);
    }
    reset_peak();
    let path = execution.file.display();
    if !execution.backends.backend.is_empty() {
        let message = format!("'{path}' is compiled already, so it takes no --backend");
        return Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the .onnx model"));
    }
    let start = Instant::now();
    let opened = match find(&execution.file, &execution.places())? {
        Compiled::Artifact(file) => {
            let opening = start.elapsed();
            if execution.verify_digests || digests == Digests::Always {
                file.verify_digests()?;
            }
            best(execution, &file, opening, &options)?
        }
        Compiled::File(opened) => {
            no_flags_of_artifacts(execution, "a file of a backend's own")?;
            let registry = Registry { backends: vec![opened.backend.clone()], ..Registry::default() };
            let options = options(run_options(&registry, &execution.backends.backend_opt)?);
            Opened::new(Part::File(opened), registry, options)
        }
    };
    Ok(Opened { open_sizes: execution.shapes.clone(), ..opened })
}

/// Compiles the model for now.
fn open_model(execution: &Execution, options: &dyn Fn(Settings) -> LoadOptions) -> Result<Opened> {
    no_flags_of_artifacts(execution, "a model")?;
    let registry = compile_request::isolated_registry(&execution.places(), &execution.backends.backend)?;
    let sources = vec![("main".to_owned(), execution.file.clone())];
    let (_, run_options) = registry.part_settings(&execution.backends.backend_opt);
    let request = compile_request::request(&registry, &execution.backends, sources, &execution.shapes)?;
    let (artifact, found) = compile_for_now(&request, &execution.file)?;
    // What compiling took is not part of running.
    reset_peak();
    let opened = Opened::new(Part::Artifact(Box::new(artifact)), registry, options(run_options));
    Ok(Opened { found, ..opened })
}

/// Errors where a flag is given that is for artifacts only.
fn no_flags_of_artifacts(execution: &Execution, kind: &str) -> Result<()> {
    let flags = [
        ("--constants-from", execution.constants_from.is_some()),
        ("--verify-digests", execution.verify_digests),
        ("--variant", execution.variant.is_some()),
    ];
    let Some((flag, _)) = flags.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    let message = format!("'{}' is {kind}, so it takes no {flag}", execution.file.display());
    Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the artifact"))
}

/// The variant that is named, or else the best one that can be loaded; tells which.
fn best(
    execution: &Execution,
    file: &ArtifactFile,
    opening: Duration,
    options: &dyn Fn(Settings) -> LoadOptions,
) -> Result<Opened> {
    let settings = &execution.backends.backend_opt;
    let wanted = Wanted { variant: execution.variant.as_deref(), devices: &execution.devices.device, settings };
    let choice = !file.variants().is_empty() && wanted.variant.is_none();
    let mut start = Instant::now();
    let Best { loaded, passed_over } = load_best(file, wanted, &mut |artifact, elsewhere| {
        let of_variant = start.elapsed();
        let registry = compile_request::registry_for(&execution.places(), &artifact)?;
        let settings = settings_for(&registry, settings, elsewhere);
        let options = options(run_options(&registry, &settings)?);
        let found = artifact.constant_files(execution.constants_from.as_deref());
        let mut opened = Opened::new(Part::Artifact(Box::new(artifact)), registry, options);
        (opened.found, opened.opening) = (found, opening + of_variant);
        let first = if choice { Some(opened.load(&execution.file)) } else { None };
        start = Instant::now();
        opened.first = first.transpose()?;
        Ok(opened)
    })?;
    if let Some(name) = loaded.variant().filter(|_| choice) {
        report::note(&chosen(name, &passed_over));
    }
    Ok(Opened { passed_over, ..loaded })
}

/// `variant cpu; not gpu: there is no backend 'acme'`.
fn chosen(name: &str, passed_over: &[PassedOver]) -> String {
    let reasons = passed_over.iter().map(|it| format!("; not {}: {}", it.variant, it.reason.message));
    format!("variant {name}{}", reasons.collect::<String>())
}

/// The settings for something that is compiled already: only those about the machine that runs it are of use then.
pub(crate) fn run_options(registry: &Registry, settings: &[(String, String)]) -> Result<Settings> {
    let options = registry.options_of_running(settings);
    options.map_err(|error| error.hint("Give it to byoc compile, or name the .onnx model"))
}

/// Compiles a model into a file without a name, which is gone when the process ends; also gives the files that were read.
pub(crate) fn compile_for_now(request: &Request, model: &Path) -> Result<(Artifact, Vec<Input>)> {
    let unnamed = compile_unnamed(request, None, &mut Progress::new(None))?;
    Ok((Artifact::from_bytes(model, unnamed.bytes)?, unnamed.inputs))
}

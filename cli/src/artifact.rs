//! The input of a verb: an artifact, a model to compile, or a file in a backend's own format.

use std::path::Path;

use byoc_core::artifact::Artifact;
use byoc_core::compile::{Request, compile_unnamed};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::FileKind;
use byoc_core::overwrite::Input;
use byoc_core::plugin::{Registry, Settings};
use byoc_core::runtime::{self, LoadOptions, Session, open_by_content, open_file};

use serde::Serialize;

use crate::args::{Execution, Plugins, Shapes};
use crate::compile_request;
use crate::file_kind;
use crate::progress::Progress;
use crate::report::count;

/// A compiled file: an artifact, or a backend's own format.
pub(crate) enum Compiled {
    /// An artifact.
    Artifact(Box<Artifact>),
    /// A file in a backend's own format.
    File(Box<runtime::Opened>),
}

/// How many sections of an artifact were compared with their digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Compared {
    sections: usize,
    of: usize,
}

impl Compared {
    /// What opening does: the graph.
    pub(crate) fn on_opening(artifact: &Artifact) -> Compared {
        Compared { sections: 1, of: artifact.sections().count() }
    }

    /// All of them.
    pub(crate) fn all(artifact: &Artifact) -> Compared {
        let of = artifact.sections().count();
        Compared { sections: of, of }
    }

    /// The same as a line.
    pub(crate) fn text(self) -> String {
        let Compared { sections, of } = self;
        match sections == of {
            true => format!("digests ok: all {}\n", count(of, "section")),
            false => {
                format!("checked: the header and the graph; --verify-digests reads all {}\n", count(of, "section"))
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

/// Something that is ready to be loaded.
pub(crate) struct Opened {
    compiled: Compiled,
    /// The backends that it needs, and maybe more.
    registry: Registry,
    /// Symbolic sizes; none for a model, where they were used for compiling.
    pub(crate) open_sizes: Shapes,
    /// Files that belong to it though the command line does not name them.
    pub(crate) found: Vec<Input>,
    /// Settings of backends' options about the machine that runs it.
    pub(crate) run_options: Settings,
}

impl Opened {
    /// The artifact, unless it is a file in a backend's own format.
    pub(crate) fn artifact(&self) -> Option<&Artifact> {
        match &self.compiled {
            Compiled::Artifact(artifact) => Some(artifact),
            Compiled::File(_) => None,
        }
    }

    /// The backends that it needs, and maybe more.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Loads it; `path` is the file.
    pub(crate) fn load(&self, path: &Path, options: &LoadOptions) -> Result<Session> {
        match &self.compiled {
            Compiled::Artifact(artifact) => Session::load(Artifact::clone(artifact), &self.registry, options),
            Compiled::File(opened) => Session::of_file(opened, path, options),
        }
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
    let error = match Artifact::open(path) {
        Ok(artifact) => return Ok(Compiled::Artifact(Box::new(artifact))),
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
pub(crate) fn open_artifact(path: &Path, places: &Plugins) -> Result<Artifact> {
    let registry = || compile_request::isolated_registry(places, &[]);
    Artifact::open(path).map_err(|error| file_kind::told_by_backends(error, &[path], registry))
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

/// Opens the file, or compiles the model into a temporary file and opens that.
pub(crate) fn open(execution: &Execution, digests: Digests) -> Result<Opened> {
    let path = execution.file.display();
    let no_digests = |kind: &str| {
        let message = format!("'{path}' is {kind}, so it takes no --verify-digests");
        Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the artifact"))
    };
    if is_model(&execution.file) {
        if execution.constants_from.is_some() {
            let message = format!("'{path}' is a model, so it takes no --constants-from");
            return Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the artifact"));
        }
        if execution.verify_digests {
            return no_digests("a model");
        }
        let registry = compile_request::isolated_registry(&execution.plugins, &execution.backends.backend)?;
        let sources = vec![("main".to_owned(), execution.file.clone())];
        let (_, run_options) = registry.part_settings(&execution.backends.backend_opt);
        let request = compile_request::request(&registry, &execution.backends, sources, &execution.shapes)?;
        let (artifact, found) = compile_for_now(&request, &execution.file)?;
        let compiled = Compiled::Artifact(Box::new(artifact));
        return Ok(Opened { compiled, registry, open_sizes: Shapes::default(), found, run_options });
    }
    if !execution.backends.backend.is_empty() {
        let message = format!("'{path}' is compiled already, so it takes no --backend");
        return Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the .onnx model"));
    }
    let compiled = find(&execution.file, &execution.plugins)?;
    let registry = match &compiled {
        Compiled::Artifact(artifact) => {
            if execution.verify_digests || digests == Digests::Always {
                artifact.verify_digests()?;
            }
            compile_request::registry_for(&execution.plugins, artifact)?
        }
        Compiled::File(_) if execution.verify_digests => return no_digests("a file of a backend's own"),
        Compiled::File(_) if execution.constants_from.is_some() => {
            let message = format!("'{path}' has its constants in it, so it takes no --constants-from");
            return Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out"));
        }
        Compiled::File(opened) => Registry { backends: vec![opened.backend.clone()], ..Registry::default() },
    };
    let run_options = run_options(&registry, &execution.backends.backend_opt)?;
    let found = match &compiled {
        Compiled::Artifact(artifact) => artifact.constant_files(execution.constants_from.as_deref()),
        Compiled::File(_) => Vec::new(),
    };
    Ok(Opened { compiled, registry, open_sizes: execution.shapes.clone(), found, run_options })
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

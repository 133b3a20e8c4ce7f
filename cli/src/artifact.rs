//! The artifact that a verb works on: the file itself, or what the model there compiles to.

use std::path::Path;

use byoc_core::artifact::Artifact;
use byoc_core::compile::{Request, compile};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Registry;

use crate::args::{Execution, Shapes};
use crate::compile_request;
use crate::progress::Progress;

/// An artifact that is ready to be loaded.
pub(crate) struct Opened {
    /// The artifact.
    pub(crate) artifact: Artifact,
    /// The backends that it needs, and maybe more.
    pub(crate) registry: Registry,
    /// Sizes that the artifact leaves open. None are left for a model: they went into compiling it.
    pub(crate) open_sizes: Shapes,
}

/// Whether the file is a model and not an artifact, going by its name.
pub(crate) fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// Opens the artifact, or compiles the model into a temporary file and opens that.
pub(crate) fn open(execution: &Execution) -> Result<Opened> {
    if is_model(&execution.file) {
        if execution.constants_from.is_some() {
            let message = format!("'{}' is a model, so it takes no --constants-from", execution.file.display());
            return Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the artifact"));
        }
        let registry = compile_request::isolated_registry(&execution.plugins)?;
        let sources = vec![("main".to_owned(), execution.file.clone())];
        let request = compile_request::request(&registry, &execution.backends, sources, &execution.shapes)?;
        let artifact = compile_for_now(&request)?;
        return Ok(Opened { artifact, registry, open_sizes: Shapes::default() });
    }
    if !(execution.backends.backend.is_empty() && execution.backends.backend_opt.is_empty()) {
        let message = format!("'{}' is compiled already, so it takes no --backend", execution.file.display());
        return Err(Diagnostic::new(Code::Usage, message).hint("Leave the flag out, or name the .onnx model"));
    }
    let artifact = Artifact::open(&execution.file)?;
    let registry = compile_request::registry_for(&execution.plugins, &artifact)?;
    Ok(Opened { artifact, registry, open_sizes: execution.shapes.clone() })
}

/// Compiles into a temporary file, which is gone when the process ends.
pub(crate) fn compile_for_now(request: &Request) -> Result<Artifact> {
    let folder = tempfile::tempdir().map_err(|error| Diagnostic::io(&std::env::temp_dir(), "write to", &error))?;
    let path = folder.path().join("model.byoc");
    compile(request, &path, &mut Progress::new(None))?;
    // The mapping keeps the bytes after the folder is removed.
    Artifact::open(&path)
}

//! Files in formats of backends, where an artifact or a model is read: core knows no such format, but the backends that declare
//! them can be asked.

use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::FileKind;
use byoc_core::plugin::Registry;
use byoc_core::runtime::open_by_content;

use crate::args::{ModelArg, Plugins};
use crate::compile_request;

/// The error, or a better one where it is about one of these files and a backend can read it. `registry` is called only where
/// core does not know what the file is.
pub(crate) fn told_by_backends(
    error: Diagnostic,
    files: &[&Path],
    registry: impl FnOnce() -> Result<Registry>,
) -> Diagnostic {
    let Some(file) = unknown(&error, files) else { return error };
    let Ok(Some(opened)) = registry().and_then(|registry| open_by_content(file, &registry)) else { return error };
    let (path, backend, format) = (file.display(), &opened.backend.description.name, &opened.contents.format);
    let wanted = if error.code == Code::NotOnnx { "an ONNX model" } else { "an artifact" };
    let message = format!("'{path}' is not {wanted}: it is a file of the backend '{backend}', {format}");
    Diagnostic::new(error.code, message).hint("It is compiled already: byoc run and byoc inspect take it as it is")
}

/// The same for models.
pub(crate) fn of_models(error: Diagnostic, models: &[ModelArg], places: &Plugins) -> Diagnostic {
    let files: Vec<_> = models.iter().map(|model| model.path.as_path()).collect();
    told_by_backends(error, &files, || compile_request::isolated_registry(places, &[]))
}

/// The file that the error is about, if it is of a kind that core does not know.
fn unknown<'a>(error: &Diagnostic, files: &[&'a Path]) -> Option<&'a Path> {
    if !matches!(error.code, Code::NotOnnx | Code::DamagedArtifact) {
        return None;
    }
    let named = files.iter().find(|file| error.message.contains(&format!("'{}' is ", file.display())))?;
    (FileKind::of_file(named) == Ok(FileKind::Unknown)).then_some(*named)
}

//! The name of an artifact that the user does not name: that of the model, in the current folder.

use std::path::{Path, PathBuf};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::{FileKind, Wanted, mistaken_for};

use crate::args::ModelArg;

/// The file to write. Errors where there are several models, where the model is an artifact, which the output would be named
/// after, and where a file of that name is there that is not an artifact.
pub(super) fn of(models: &[ModelArg]) -> Result<PathBuf> {
    let usage = |message: String| Diagnostic::new(Code::Usage, message).hint("Name the artifact with --output FILE");
    let [model] = models else {
        return Err(usage(format!("{} models become one artifact, which has no name", models.len())));
    };
    if FileKind::of_file(&model.path) == Ok(FileKind::Artifact) {
        return Err(mistaken_for(&model.path, FileKind::Artifact, Wanted::Model));
    }
    let name = Path::new(model.path.file_stem().unwrap_or_default()).with_added_extension("byoc");
    // A link that leads nowhere is there as well.
    if std::fs::symlink_metadata(&name).is_err() || FileKind::of_file(&name) == Ok(FileKind::Artifact) {
        return Ok(name);
    }
    Err(usage(format!("'{}' is there already, and is not an artifact", name.display())))
}

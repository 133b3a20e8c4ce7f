//! Models of failing cases, kept as files: a model is there while its cases run, so that it is left behind by a crash, and
//! taken away when all of them passed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use byoc_core::diagnostic::{Diagnostic, Result};

use crate::onnx::Model;

/// Most bytes of a case's name in that of a file.
const LONGEST: usize = 120;

/// The file of one model, if such files are wanted.
pub(crate) struct Saved(Option<PathBuf>);

impl Saved {
    /// Writes the model into the folder, under a name made of the case's.
    pub(crate) fn write(folder: Option<&Path>, backend: &str, case: &str, model: &Model) -> Result<Saved> {
        let Some(folder) = folder else { return Ok(Saved(None)) };
        std::fs::create_dir_all(folder).map_err(|error| Diagnostic::io(folder, "make the folder", &error))?;
        let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
        let words: String = format!("{backend} {case}").chars().map(plain).collect();
        let words: Vec<_> = words.split('-').filter(|word| !word.is_empty()).collect();
        let mut name = words.join("-");
        name.truncate(LONGEST);
        // Names that differ in signs alone are told apart, and long ones.
        let mut hasher = DefaultHasher::new();
        case.hash(&mut hasher);
        let saved = Saved(Some(folder.join(format!("{name}-{:08x}.onnx", hasher.finish() as u32))));
        saved.replace(model)?;
        Ok(saved)
    }

    /// Puts another model in its place.
    pub(crate) fn replace(&self, model: &Model) -> Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        std::fs::write(path, model.finish()).map_err(|error| Diagnostic::io(path, "write", &error))
    }

    /// Keeps the file of a case that failed, and takes away any other.
    pub(crate) fn settle(&self, failed: bool) -> Result<()> {
        match &self.0 {
            Some(path) if !failed => std::fs::remove_file(path).map_err(|error| Diagnostic::io(path, "remove", &error)),
            _ => Ok(()),
        }
    }
}

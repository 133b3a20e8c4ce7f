//! External constants: they stay in a file that the model was read from, and the artifact refers to them by path, range
//! and digest.

use std::path::{Component, Path};

use super::storage::{Storage, StoredConstant};
use crate::artifact;
use crate::artifact::manifest::{ConstantFile, External};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::SourceFile;

/// Constants of fewer bytes are stored all the same: a reference takes much of the space that it saves, and each
/// is verified at load.
const LEAST_BYTES: usize = 4096;

/// The other files, and where in them each stored constant is.
#[derive(Default)]
pub(super) struct References {
    pub(super) files: Vec<ConstantFile>,
    /// By stored constant; all absent where nothing is referred to.
    constants: Vec<Option<External>>,
}

impl References {
    /// The reference in place of the bytes of that stored constant, if it has one.
    pub(super) fn of(&self, index: usize) -> Option<&External> {
        self.constants.get(index)?.as_ref()
    }

    /// The index of the file, which is added where it is new.
    fn file(&mut self, source: &SourceFile, dir: &Path) -> Result<usize> {
        let path = relative(&source.path, dir).ok_or_else(|| {
            let message = format!("the artifact cannot refer to '{}': its path is not UTF-8", source.path.display());
            Diagnostic::new(Code::ConstantSource, message).hint("Rename the file, or leave out --external-constants")
        })?;
        if let Some(index) = self.files.iter().position(|file| file.path == path) {
            return Ok(index);
        }
        if !source.path.is_file() {
            // Such as a pipe, which is gone once it is read.
            let message = format!("the artifact cannot refer to '{}': it is not a regular file", source.path.display());
            return Err(Diagnostic::new(Code::ConstantSource, message).hint("Leave out --external-constants"));
        }
        self.files.push(ConstantFile { path, bytes: source.bytes.len() as u64 });
        Ok(self.files.len() - 1)
    }
}

/// Finds each stored constant in `sources`. Paths are seen from `folder`, that of the artifact.
pub(super) fn refer(storage: &Storage, sources: &[SourceFile], dir: &Path) -> Result<References> {
    let dir = dir.canonicalize().map_err(|error| Diagnostic::io(dir, "find", &error))?;
    let mut references = References::default();
    let mut pieces = Vec::new();
    for stored in &storage.constants {
        let external = match find(stored, sources) {
            Some((source, offset)) => {
                pieces.push(stored.bytes.clone());
                Some(External { file: references.file(source, &dir)?, offset, digest: String::new() })
            }
            None => None,
        };
        references.constants.push(external);
    }
    let digests = artifact::digests(&pieces);
    references.constants.iter_mut().flatten().zip(digests).for_each(|(external, digest)| external.digest = digest);
    Ok(references)
}

/// The file that the bytes are a slice of, and where they start there. Packed forms and computed constants are
/// in no such file; what a reader wants aligned needs a section.
fn find<'a>(stored: &StoredConstant, sources: &'a [SourceFile]) -> Option<(&'a SourceFile, u64)> {
    if stored.bytes.len() < LEAST_BYTES || stored.alignment != 0 || stored.layout.is_some() {
        return None;
    }
    sources.iter().find_map(|source| Some((source, source.offset_of(&stored.bytes)?)))
}

/// The way from `folder` to `path`, both absolute and without `..`, with `/` between the parts; `path` itself where there
/// is no way, as between two drives. `None` where a part is not UTF-8.
fn relative(path: &Path, dir: &Path) -> Option<String> {
    let shared = path.components().zip(dir.components()).take_while(|(to, from)| to == from).count();
    if shared == 0 {
        return path.to_str().map(str::to_owned);
    }
    let up = dir.components().skip(shared).map(|_| Component::ParentDir);
    let parts = up.chain(path.components().skip(shared)).map(|part| part.as_os_str().to_str());
    Some(parts.collect::<Option<Vec<_>>>()?.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn paths_are_seen_from_the_folder_of_the_artifact() {
        let cases = [
            ("/a/b/m.onnx", "/a/b", "m.onnx"),
            ("/a/b/m.onnx", "/a", "b/m.onnx"),
            ("/a/b/m.onnx", "/a/c/d", "../../b/m.onnx"),
            ("/m.onnx", "/", "m.onnx"),
            ("/m.onnx", "/a", "../m.onnx"),
            ("/ab/m.onnx", "/a", "../ab/m.onnx"),
        ];
        for (path, dir, expected) in cases {
            assert_eq!(relative(Path::new(path), Path::new(dir)).as_deref(), Some(expected), "{path} from {dir}");
        }
    }
}

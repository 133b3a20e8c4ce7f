//! The place of an output: a folder that is there, and no file of another kind, which would be lost.

use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic, Result, dir_of};
use byoc_core::file_kind::FileKind;

/// What is written into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// An artifact.
    Artifact,
    /// Arrays with names.
    Arrays,
    /// An ONNX model.
    Model,
    /// JSON, CSV or another text.
    Text,
    /// A text in a folder that is made for it.
    TextInFolder,
    /// A page in HTML.
    Page,
    /// A file in a backend's own format, or one around it.
    Code,
}

impl Written {
    fn name(self) -> &'static str {
        match self {
            Written::Artifact => "an artifact",
            Written::Arrays => "an .npz file",
            Written::Model => "an ONNX model",
            Written::Text | Written::TextInFolder => "a text",
            Written::Page => "a page",
            Written::Code => "the code of a region",
        }
    }

    /// Whether it may take the place of a file of that kind: one that a run before has left there, mostly.
    fn may_replace(self, kind: FileKind) -> bool {
        let markup = FileKind::of(b"<html>");
        match kind {
            FileKind::Empty | FileKind::Unknown => true,
            FileKind::Artifact => self == Written::Artifact,
            FileKind::Npz => self == Written::Arrays,
            FileKind::Model => self == Written::Model,
            FileKind::Text => matches!(self, Written::Text | Written::TextInFolder | Written::Code),
            FileKind::Other(..) if kind == markup => self == Written::Page,
            FileKind::Other(..) => self == Written::Code,
            FileKind::Safetensors | FileKind::Tensor | FileKind::Sequence | FileKind::Npy | FileKind::Image => false,
        }
    }
}

/// Errors where a file of another kind is in the place of an output, or where its folder is not there.
pub fn check(written: Written, path: &Path) -> Result<()> {
    let folder = dir_of(path);
    if written != Written::TextInFolder && !folder.is_dir() {
        let message = format!("cannot write '{}': there is no folder '{}'", path.display(), folder.display());
        return Err(Diagnostic::new(Code::Io, message).hint("Make the folder first, or name another one"));
    }
    match FileKind::of_file(path) {
        Ok(kind) if !written.may_replace(kind) => {
            let message = format!("'{}' is {}, which {} would replace", path.display(), kind.name(), written.name());
            Err(Diagnostic::new(Code::Usage, message).hint("Name another file, or remove that one first"))
        }
        // What is not there is not lost, and writing tells what is wrong with the rest.
        _ => Ok(()),
    }
}

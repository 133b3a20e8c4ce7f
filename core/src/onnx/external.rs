//! Tensors that are in files beside the model. Their paths come from the file and are checked: nothing outside
//! the model's folder is ever opened.

use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use indexmap::IndexMap;

use super::proto::StringStringEntryProto;
use crate::diagnostic::{Code, Diagnostic, Result, dir_of};
use crate::ir::SourceFile;
use crate::map;

/// The files beside one model, each mapped once.
pub(super) struct ExternalFiles {
    dir: PathBuf,
    no_mmap: bool,
    /// By real path.
    open: IndexMap<PathBuf, SourceFile>,
}

/// The entries of `external_data`.
#[derive(Default)]
struct Reference {
    location: String,
    offset: usize,
    length: Option<usize>,
}

impl ExternalFiles {
    /// The files beside `model`.
    pub(super) fn beside(model: &Path, no_mmap: bool) -> ExternalFiles {
        let dir = dir_of(model);
        ExternalFiles { dir: dir.to_owned(), no_mmap, open: IndexMap::new() }
    }

    /// The `length` bytes that `entries` refer to. `what` names the tensor in messages.
    pub(super) fn load(&mut self, what: &str, entries: &[StringStringEntryProto], length: usize) -> Result<Bytes> {
        let reference = parse(what, entries)?;
        if let Some(stated) = reference.length.filter(|&stated| stated != length) {
            let cause = format!("it needs {length} bytes, but its external data says {stated}");
            return Err(Diagnostic::new(Code::BadTensor, format!("{what}: {cause}")));
        }
        let file = self.open(what, &reference.location)?;
        match reference.offset.checked_add(length).filter(|&end| end <= file.len()) {
            Some(end) => Ok(file.slice(reference.offset..end)),
            None => {
                let (location, size, offset) = (&reference.location, file.len(), reference.offset);
                let cause = format!("'{location}' has {size} bytes, but {length} at offset {offset} are referenced");
                Err(bad(what, cause).hint("Is the file complete, and does it belong to this model?"))
            }
        }
    }

    /// Opens a file of the model's folder, or finds it open.
    fn open(&mut self, what: &str, location: &str) -> Result<Bytes> {
        let path = self.locate(what, location)?;
        if let Some(file) = self.open.get(&path) {
            return Ok(file.bytes.clone());
        }
        let bytes = if self.no_mmap { map::read_file(&path) } else { map::map_file(&path) };
        let bytes = bytes.map_err(|error| error.within(what))?;
        let place = map::real_place(&self.dir.join(location)).map_err(|error| error.within(what))?;
        self.open.insert(path, SourceFile { path: place, bytes: bytes.clone(), role: "data of a model" });
        Ok(bytes)
    }

    /// Every file that was opened, in that order.
    pub(super) fn into_sources(self) -> impl Iterator<Item = SourceFile> {
        self.open.into_values()
    }

    /// The real path of `location`, with every rule checked.
    fn locate(&self, what: &str, location: &str) -> Result<PathBuf> {
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || !Path::new(location).components().all(plain) {
            let cause = format!("external data '{location}' is not a relative path without '..'");
            return Err(bad(what, cause).hint("Export the model with its data in one folder"));
        }
        let missing = |error: &std::io::Error| {
            bad(what, format!("external data '{location}' cannot be opened: {error}"))
                .hint("The file belongs in the model's folder, under the name that it had at the export")
        };
        let dir = self.dir.canonicalize().map_err(|error| missing(&error))?;
        let path = dir.join(location).canonicalize().map_err(|error| missing(&error))?;
        if !path.starts_with(&dir) {
            let cause = format!("external data '{location}' is a link to outside the model's folder");
            return Err(bad(what, cause).hint("Copy the file in place of the link ('cp -L')"));
        }
        if !path.metadata().map_err(|error| missing(&error))?.is_file() {
            return Err(bad(what, format!("external data '{location}' is not a regular file")));
        }
        Ok(path)
    }
}

/// Reads the entries; others (`checksum`, `basepath`) are ignored.
fn parse(what: &str, entries: &[StringStringEntryProto]) -> Result<Reference> {
    let mut reference = Reference::default();
    for entry in entries {
        let value = entry.value.as_deref().unwrap_or_default();
        let text = std::str::from_utf8(value).map_err(|_| bad(what, "external data has a value that is not UTF-8"))?;
        let number = |key: &str| {
            text.trim().parse::<usize>().map_err(|_| bad(what, format!("external data has the {key} '{text}'")))
        };
        match entry.key.as_deref() {
            Some(b"location") => reference.location = text.to_owned(),
            Some(b"offset") => reference.offset = number("offset")?,
            Some(b"length") => reference.length = Some(number("length")?),
            _ => {}
        }
    }
    Ok(reference)
}

fn bad(what: &str, cause: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::ExternalData, format!("{what}: {cause}"))
}

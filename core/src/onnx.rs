//! ONNX files as [`Model`]s: every node in its newest form, every weight a slice of the mapped file.

use std::path::Path;

use bytes::Bytes;
use prost::Message;

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{CustomOperators, Model, SourceFile};
use crate::map;

mod attribute;
mod bodies;
mod builder;
mod canonical;
mod early_types;
mod export;
mod external;
mod flatten;
pub mod functions;
mod graph;
mod info;
mod inputs;
mod list_type;
mod lists;
mod names;
mod supported_ops;
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, reason = "generated code")]
pub mod proto;
mod sort;
mod tensor;
#[cfg(test)]
mod tests;
mod values;
pub mod write;

pub(crate) use self::export::region_model;
pub use self::export::{REPRO_BACKEND, REPRO_OPTIONS};
pub use self::flatten::NEWEST_OPSET;
pub use self::info::{FileInfo, file_info};

/// What the user says about a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportOptions {
    /// Shapes that replace the declared ones, by input name.
    pub shapes: Vec<(String, Vec<usize>)>,
    /// Sizes of symbolic dimensions, by name.
    pub dims: Vec<(String, usize)>,
    /// Read files into memory in place of mapping them.
    pub no_mmap: bool,
}

/// Reads one model file an entry, as (entry name, path). All share one constant table. `custom` are the operators beside
/// those that core knows.
pub fn import(sources: &[(String, &Path)], options: &ImportOptions, custom: &CustomOperators) -> Result<Model> {
    let mut model = Model { custom: custom.clone(), ..Model::default() };
    let mut shapes = inputs::ShapeOptions::new(options);
    for (index, (entry, path)) in sources.iter().enumerate() {
        if sources[..index].iter().any(|(other, _)| other == entry) {
            return Err(Diagnostic::new(Code::Usage, format!("two entries are called '{entry}'"))
                .hint("Give each model a name of its own, as in NAME=model.onnx"));
        }
        let bytes = if options.no_mmap { map::read_file(path)? } else { map::map_file(path)? };
        model.sources.push(SourceFile { path: map::real_place(path)?, bytes: bytes.clone(), role: "a model" });
        let proto = decode(path, bytes)?;
        let mut files = external::ExternalFiles::beside(path, options.no_mmap);
        let graphs =
            graph::build((model.entries.len(), entry), proto, custom, &mut shapes, &mut files, &mut model.constants);
        // With one model no name is needed.
        let place = |error: Diagnostic| {
            if sources.len() > 1 { error.within(format!("'{}'", path.display())) } else { error }
        };
        model.entries.extend(graphs.map_err(place)?);
        model.sources.extend(files.into_sources());
    }
    shapes.check_all_used()?;
    Ok(model)
}

/// Decodes a model file. Its weights stay slices of `bytes`; `path` is for messages.
fn decode(path: &Path, bytes: Bytes) -> Result<proto::ModelProto> {
    let fail = |cause: &str| {
        let message = format!("'{}' is not an ONNX model: {cause}", path.display());
        Diagnostic::new(Code::NotOnnx, message)
    };
    if bytes.is_empty() {
        return Err(fail("the file is empty"));
    }
    for (magic, kind, remedy) in OTHER_FORMATS {
        if bytes.starts_with(magic) {
            return Err(fail(&format!("it is {kind}")).hint(*remedy));
        }
    }
    let hint = "Is the file complete, and was it exported as ONNX?";
    let model = proto::ModelProto::decode(bytes).map_err(|error| {
        let cause = error.to_string();
        // The text names every level.
        let deep = cause.ends_with("recursion limit reached");
        fail(if deep { "its graphs or its types are nested too deeply" } else { &cause }).hint(hint)
    })?;
    if model.graph.is_none() {
        return Err(fail("it has no graph").hint(hint));
    }
    Ok(model)
}

/// Files that are mistaken for ONNX models: first bytes, format, remedy.
const OTHER_FORMATS: &[(&[u8], &str, &str)] = &[
    (b"version https://git-lfs", "a pointer of Git LFS", "Fetch the file itself with 'git lfs pull'"),
    (b"PK\x03\x04", "a zip archive", "Unpack it; a PyTorch checkpoint is exported with torch.onnx.export"),
    (b"<", "a text in HTML or XML", "Download the raw file"),
    (b"GGUF", "a GGUF file", "Export the original model as ONNX"),
    (b"\x89HDF", "an HDF5 file", "Export the original model as ONNX"),
];

//! ONNX files as [`Model`]s: every node in its newest form, every weight a slice of the mapped file.

use std::path::Path;

use bytes::Bytes;
use prost::Message;

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::file_kind::{Wanted, mistaken, model_cut};
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
mod tensor_file;
#[cfg(test)]
mod tests;
mod values;
pub mod write;

pub(crate) use self::export::region_model;
pub use self::export::{REPRO_BACKEND, REPRO_OPTIONS};
pub use self::flatten::NEWEST_OPSET;
pub use self::info::{FileInfo, file_info};
pub use self::tensor_file::{FileTensor, read_tensor};

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
    let fail = |cause: &str, hint: &str| {
        let message = format!("'{}' is not an ONNX model: {cause}", path.display());
        Diagnostic::new(Code::NotOnnx, message).hint(hint)
    };
    // What can be decoded is a model, whatever it looks like.
    let decoded = proto::ModelProto::decode(bytes.clone()).map_err(|error| error.to_string());
    let cause = match decoded {
        Ok(model) if model.graph.is_some() => return Ok(model),
        Ok(_) => "it has no graph".to_owned(),
        // The text names every level.
        Err(cause) if cause.ends_with("recursion limit reached") => {
            "its graphs or its types are nested too deeply".to_owned()
        }
        Err(cause) => match model_cut(&bytes) {
            Some(cut) => return Err(fail(&cut, "Is the file complete? Copy or export it again")),
            None => cause,
        },
    };
    let other = mistaken(path, &bytes, Wanted::Model);
    Err(other.unwrap_or_else(|| fail(&cause, "Is the file complete, and was it exported as ONNX?")))
}

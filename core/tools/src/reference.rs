//! What a model computes by the reference kernels: plain and slow, to compare with.

use std::path::Path;

use byoc_core::artifact::Artifact;
use byoc_core::compile::{Observer, compile_unnamed};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::onnx::ImportOptions;
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, Session};

use crate::execution::Loaded;
use crate::outputs;
use crate::request::{self, Chosen, Embedded};
use crate::tensor::Tensor;

/// The outputs of the model on the inputs of an entry that was compiled from it.
///
/// Errors where the model has other inputs than the entry, or cannot be compiled.
pub fn outputs_of(
    model: &Path,
    registry: &Registry,
    embedded: Embedded<'_>,
    loaded: &Loaded,
    observer: &mut dyn Observer,
) -> Result<Vec<(String, Tensor)>> {
    let (name, setting) = request::reference_backend(embedded)?;
    let chosen = Chosen { backends: vec![name], options: vec![setting] };
    let import = ImportOptions { shapes: loaded.shapes(), ..ImportOptions::default() };
    let sources = vec![("main".to_owned(), model.to_owned())];
    let request = request::request(registry, embedded, &chosen, sources, import)?;
    let compiled = compile_unnamed(&request, None, observer).map_err(|error| of_another_model(error, model))?;
    let artifact = Artifact::from_bytes(model, compiled.bytes)?;
    let mut session = Session::load(artifact, registry, &LoadOptions::default())?;
    loaded.run_on(&mut session)?;
    outputs::collect(&session)
}

/// The error where the shapes of the inputs do not fit the model: nobody has given them for it, so it is another model.
fn of_another_model(error: Diagnostic, model: &Path) -> Diagnostic {
    if error.code != Code::ShapeOption {
        return error;
    }
    let message = format!("'{}' has other inputs than what is verified: {}", model.display(), error.message);
    Diagnostic::new(Code::BadInput, message).hint("Is it the model that the artifact was compiled from?")
}

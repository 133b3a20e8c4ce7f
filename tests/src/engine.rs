//! The compiler and the runtime in this process, as a program that links core would use them.

use std::path::{Path, PathBuf};

use byoc_core::compile::{self, Report, Request, Silent};
use byoc_core::diagnostic::Result;
use byoc_core::plugin::{Registry, SearchPath};
use byoc_core::runtime::{LoadOptions, PortInfo, Session};
use byoc_json_backend as _;
use byoc_plugin_api::{DType, Handle, texts_of_block};

use crate::tensor::Tensor;

/// The backends that are linked into this program.
pub fn embedded() -> Registry {
    Registry::discover(&SearchPath::default(), &byoc_plugin_api::registered(), None).expect("nothing is loaded")
}

/// The backends of these plugin files only.
pub fn from_files(files: Vec<PathBuf>) -> Registry {
    Registry::discover(&SearchPath { files, ..SearchPath::default() }, &[], None).expect("the plugins load")
}

/// Compiles a model with every option at its default.
pub fn compile(model: &Path, output: &Path, registry: &Registry, backends: &[&str]) -> Result<Report> {
    compile_with(model, output, registry, backends, &[])
}

/// Compiles a model with options given as (`backend.key`, value). The last backend folds constants.
pub fn compile_with(
    model: &Path,
    output: &Path,
    registry: &Registry,
    backends: &[&str],
    settings: &[(&str, &str)],
) -> Result<Report> {
    let names: Vec<_> = backends.iter().map(|name| (*name).to_owned()).collect();
    let settings: Vec<_> = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let backends = registry.select(&names, &settings)?;
    let folding_backend = backends.last().cloned();
    let request = Request { folding_backend, ..Request::new(vec![("main".into(), model.to_owned())], backends) };
    compile::compile(&request, output, &mut Silent)
}

/// Loads the only entry of an artifact for `threads` threads.
pub fn load(artifact: &Path, registry: &Registry, threads: usize) -> Result<Session> {
    Session::open(artifact, registry, &LoadOptions { threads, ..LoadOptions::default() })
}

/// Runs the entry on inputs found by name, and returns its outputs by name.
pub fn run(session: &mut Session, given: &[(String, Tensor)]) -> Result<Vec<(String, Tensor)>> {
    let inputs: Vec<_> =
        session.inputs().iter().map(|port| crate::npz::find(given, &port.name).reinterpret(port.dtype)).collect();
    let handed = inputs.into_iter().map(|tensor| handed(session, tensor)).collect::<Result<Vec<_>>>()?;
    let borrowed: Vec<_> = handed.iter().map(Tensor::borrowed).collect();
    let views: Vec<_> = borrowed.iter().map(|tensor| tensor.view()).collect();
    session.run(&views)?;
    let output = |(index, port): (usize, PortInfo)| {
        let view = session.output(index)?;
        if port.dtype != DType::String {
            return Ok((port.name, Tensor::of(&view)));
        }
        let handles = view.to_vec::<Handle>().expect("handles");
        let texts = handles.into_iter().map(|handle| session.text(handle)).collect::<Result<Vec<_>>>()?;
        Ok((port.name, Tensor::texts(view.shape(), &texts)))
    };
    session.outputs().into_iter().enumerate().map(output).collect()
}

/// The tensor as the session takes it: of texts, their handles.
fn handed(session: &mut Session, tensor: Tensor) -> Result<Tensor> {
    if tensor.dtype != DType::String {
        return Ok(tensor);
    }
    let texts = texts_of_block(&tensor.bytes).expect("a block of texts");
    let handles =
        texts.into_iter().map(|text| Ok(session.give_text(text)?.0.to_le_bytes())).collect::<Result<Vec<_>>>()?;
    Ok(Tensor { bytes: handles.concat(), ..tensor })
}

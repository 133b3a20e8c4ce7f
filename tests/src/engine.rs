//! The compiler and the runtime in this process, as a program that links core would use them.

use std::path::{Path, PathBuf};

use byoc_core::artifact::manifest::ListType;
use byoc_core::compile::{self, Report, Request, Silent};
use byoc_core::diagnostic::Result;
use byoc_core::onnx::ImportOptions;
use byoc_core::plugin::{Registry, SearchPath};
use byoc_core::runtime::{LoadOptions, PortInfo, Session};
use byoc_json_backend as _;
use byoc_plugin_api::DType;
use byoc_tools::lists::Given;

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
    compile_request(model, output, registry, (backends, settings), ImportOptions::default())
}

/// Compiles a model for `json` alone, with sizes of symbolic dimensions.
pub fn compile_fixed(model: &Path, output: &Path, registry: &Registry, dims: &[(&str, usize)]) -> Result<Report> {
    let dims = dims.iter().map(|&(name, size)| (name.to_owned(), size)).collect();
    compile_request(model, output, registry, (&["json"], &[]), ImportOptions { dims, ..ImportOptions::default() })
}

fn compile_request(
    model: &Path,
    output: &Path,
    registry: &Registry,
    (backends, settings): (&[&str], &[(&str, &str)]),
    import: ImportOptions,
) -> Result<Report> {
    let names: Vec<_> = backends.iter().map(|name| (*name).to_owned()).collect();
    let settings: Vec<_> = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let backends = registry.select(&names, &settings)?;
    let folding_backend = backends.last().cloned();
    let request =
        Request { folding_backend, import, ..Request::new(vec![("main".into(), model.to_owned())], backends) };
    compile::compile(&request, output, &mut Silent)
}

/// Loads the only entry of an artifact for `threads` threads.
pub fn load(artifact: &Path, registry: &Registry, threads: usize) -> Result<Session> {
    Session::open(artifact, registry, &LoadOptions { threads, ..LoadOptions::default() })
}

/// Runs the entry on inputs found by name, and returns its outputs by name. The tensors of a sequence `x` are called `x.0`, `x.1` and
/// so on; an optional that is not there holds nothing.
pub fn run(session: &mut Session, given: &[(String, Tensor)]) -> Result<Vec<(String, Tensor)>> {
    session.forget_lists();
    session.take_back_texts();
    let value = |port: &PortInfo| match &port.list {
        None => Given::Tensor(owned(&crate::npz::find(given, &port.name), port.dtype)),
        Some(list) => list_of(given, &port.name, list),
    };
    let values: Vec<_> = session.inputs().iter().map(value).collect();
    let handles = values.iter().map(|value| value.give(session)).collect::<Result<Vec<_>>>()?;
    let views = values.iter().zip(&handles).map(|(value, handles)| value.view(handles));
    session.run(&views.collect::<Result<Vec<_>>>()?)?;
    let outputs = byoc_tools::outputs::collect(session)?.into_iter();
    Ok(outputs.map(|(name, it)| (name, Tensor::new(it.dtype(), it.shape().to_vec(), it.bytes().to_vec()))).collect())
}

fn list_of(given: &[(String, Tensor)], name: &str, list: &ListType) -> Given {
    let element =
        |name: &str| given.iter().find(|(known, _)| known == name).map(|(_, tensor)| owned(tensor, list.dtype));
    if !list.sequence {
        return element(name).map_or(Given::Nothing, Given::Optional);
    }
    let elements: Vec<_> = (0..).map_while(|index| element(&format!("{name}.{index}"))).collect();
    if list.optional && elements.is_empty() { Given::Nothing } else { Given::Sequence(elements) }
}

fn owned(tensor: &Tensor, dtype: DType) -> byoc_tools::tensor::Tensor {
    let Tensor { dtype, shape, bytes } = tensor.clone().reinterpret(dtype);
    byoc_tools::tensor::Tensor::new(dtype, shape, bytes).expect("as many bytes as elements")
}

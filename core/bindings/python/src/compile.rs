//! Compiling, and what there is to say of models and artifacts, as JSON.

use std::ffi::CString;
use std::path::PathBuf;

use byoc_core::artifact::Artifact;
use byoc_core::compile::{self as compiler, Observer, Policy, Request, Stage};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::onnx::ImportOptions;
use byoc_core::overwrite::{self, Input};
use byoc_core::plugin::{Registry, Settings, allow_lists};
use byoc_tools::dataset::{self, Files};
use byoc_tools::inputs::OpenSizes;
use byoc_tools::node_rows;
use byoc_tools::place::{self, Written};
use byoc_tools::request::{self, Chosen};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use serde_json::{Value, json};

use crate::error::raised;
use crate::places::Places;

/// What to compile, as keyword arguments give it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Models {
    /// Names of entries, where the user gives some, with the files.
    models: Vec<(Option<String>, PathBuf)>,
    backends: Vec<String>,
    options: Vec<(String, String)>,
    shapes: Vec<(String, Vec<usize>)>,
    dims: Vec<(String, usize)>,
}

/// Further wishes for a compile.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wishes {
    dataset: Option<PathBuf>,
    mean: Vec<f32>,
    std: Vec<f32>,
    external_constants: bool,
    allow_duplicates: bool,
    fallback_on_crash: bool,
    require: Vec<(String, String)>,
    no_fallback: bool,
    max_host_nodes: Option<usize>,
}

impl Models {
    /// The request, and the registry that its backends are from.
    pub(crate) fn request(self, places: &Places) -> Result<(Request, Registry)> {
        let registry = places.for_compiling(&self.backends)?;
        let chosen = Chosen { backends: self.backends, options: self.options };
        let import = ImportOptions { shapes: self.shapes, dims: self.dims, no_mmap: false };
        let sources = request::sources(&self.models);
        let request = request::request(&registry, &byoc_plugin_api::registered(), &chosen, sources, import)?;
        Ok((request, registry))
    }
}

impl Models {
    /// The sizes that are given.
    pub(crate) fn open_sizes(&self) -> OpenSizes {
        OpenSizes { shapes: self.shapes.clone(), dims: self.dims.clone() }
    }

    /// The settings of backends' options.
    pub(crate) fn settings(&self) -> Settings {
        self.options.clone()
    }

    /// The settings that are about the machine that runs what is compiled already. Errors where there are others, or backends.
    pub(crate) fn run_options(self, registry: &Registry) -> Result<Settings> {
        let usage =
            |message: String| Err(Diagnostic::new(Code::Usage, message).hint("Leave it out, or name the .onnx model"));
        if let Some(backend) = self.backends.first() {
            return usage(format!("what is compiled already takes no backends, such as '{backend}'"));
        }
        let (others, run_options) = registry.part_settings(&self.options);
        match others.first() {
            None => Ok(run_options),
            Some((key, _)) => usage(format!("option '{key}' is not an option of running")),
        }
    }
}

/// Compiles into the file `output`, and returns a report as JSON. `progress` is called with a stage and how far it is.
#[pyfunction]
pub(crate) fn compile(
    py: Python<'_>,
    models: Models,
    wishes: Wishes,
    places: Places,
    output: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut watcher = Watcher::new(progress);
    let compiled = py.detach(|| run(models, wishes, &places, &output, &mut watcher));
    let compiled = watcher.ended(py, compiled)?;
    watcher.warn(py)?;
    let warnings: Vec<_> = watcher.warnings.iter().map(ToString::to_string).collect();
    let rows: Vec<_> = compiled.nodes.iter().map(node_rows::json).collect();
    let ledger = json!(compiled.ledger.rows);
    Ok(json!({ "bytes": compiled.file_bytes, "nodes": rows, "ledger": ledger, "warnings": warnings }).to_string())
}

fn run(
    models: Models,
    wishes: Wishes,
    places: &Places,
    output: &std::path::Path,
    watcher: &mut Watcher,
) -> Result<compiler::Report> {
    let mut inputs: Vec<_> = models.models.iter().map(|(_, path)| Input::new("a model", path)).collect();
    inputs.extend(places.search().every_file().into_iter().map(|path| Input::new("a plugin", path)));
    inputs.extend(allow_lists().into_iter().map(|path| Input::new("a list of allowed plugins", path)));
    inputs
        .extend(wishes.dataset.iter().flat_map(|path| dataset::files(path)).map(|path| Input::new("a data set", path)));
    overwrite::check(&[output], &inputs)?;
    place::check(Written::Artifact, output)?;
    let (mut request, _) = models.request(places)?;
    request.external_constants = wishes.external_constants;
    request.allow_duplicates = wishes.allow_duplicates;
    request.fallback_on_crash = wishes.fallback_on_crash;
    request.policy =
        Policy { require: wishes.require, no_fallback: wishes.no_fallback, max_host_nodes: wishes.max_host_nodes };
    if let Some(path) = &wishes.dataset {
        let files = Files::find(path, &wishes.mean, &wishes.std)?;
        files.tell(&mut request.backends)?;
        request.calibration = Some(Box::new(files));
    } else if !wishes.mean.is_empty() || !wishes.std.is_empty() {
        let error = Diagnostic::new(Code::Usage, "mean and std are for the images of a data set, and none is given");
        return Err(error.hint("Leave them out, or give dataset"));
    }
    compiler::compile(&request, output, watcher)
}

/// One row of JSON for each node: who takes it, and why others do not.
#[pyfunction]
pub(crate) fn explain(py: Python<'_>, models: Models, places: Places) -> PyResult<String> {
    let mut watcher = Watcher::new(None);
    let explained = py.detach(|| {
        let (request, _) = models.request(&places)?;
        compiler::explain(&request, &mut watcher)
    });
    let rows = watcher.ended(py, explained)?;
    watcher.warn(py)?;
    Ok(Value::from(rows.iter().map(node_rows::json).collect::<Vec<_>>()).to_string())
}

/// What the artifact at `path` says of itself, as JSON.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let artifact = py.detach(|| Artifact::open(&path)).map_err(|error| raised(py, error))?;
    let mut about = json!(artifact.manifest());
    about["bytes"] = json!(artifact.size());
    Ok(about.to_string())
}

/// Hands progress to Python, and ends the compile at the next stage where Python raises meanwhile, or is interrupted.
pub(crate) struct Watcher {
    progress: Option<Py<PyAny>>,
    raised: Option<PyErr>,
    warnings: Vec<Diagnostic>,
    stage: Stage,
}

impl Watcher {
    /// Calls `progress`, if there is one.
    pub(crate) fn new(progress: Option<Py<PyAny>>) -> Watcher {
        Watcher { progress, raised: None, warnings: Vec::new(), stage: Stage::Onnx }
    }

    /// The result, or the exception: what Python raised comes before what byoc says of it.
    pub(crate) fn ended<T>(&mut self, py: Python<'_>, result: Result<T>) -> PyResult<T> {
        match self.raised.take() {
            Some(error) => Err(error),
            None => result.map_err(|error| raised(py, error)),
        }
    }

    /// Gives each warning as one of Python's.
    pub(crate) fn warn(&self, py: Python<'_>) -> PyResult<()> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        for warning in &self.warnings {
            let text = CString::new(warning.to_string().replace('\0', "?")).unwrap_or_default();
            PyErr::warn(py, CLASS.import(py, "byoc._errors", "Notice")?, &text, 2)?;
        }
        Ok(())
    }

    fn tell(&mut self, done: usize, total: usize, next: &str) {
        let Some(progress) = self.progress.as_ref().filter(|_| self.raised.is_none()) else { return };
        let stage = self.stage.name();
        self.raised = Python::attach(|py| progress.call1(py, (stage, done, total, next)).map(drop)).err();
    }
}

impl Observer for Watcher {
    fn stage(&mut self, stage: Stage) {
        self.stage = stage;
        self.tell(0, 0, "");
    }

    fn progress(&mut self, done: usize, total: usize, next: &str) {
        self.tell(done, total, next);
    }

    fn warning(&mut self, warning: &Diagnostic) {
        self.warnings.push(warning.clone());
    }

    fn go_on(&mut self) -> Result<()> {
        if self.raised.is_none() {
            self.raised = Python::attach(|py| py.check_signals()).err();
        }
        match &self.raised {
            Some(_) => Err(Diagnostic::new(Code::Interrupted, "the compile was ended by who called it")),
            None => Ok(()),
        }
    }
}

//! Compiling, and what there is to say of models and artifacts, as JSON.

use std::path::PathBuf;

use byoc_core::artifact::Artifact;
use byoc_core::compile::{self as compiler, Observer, Policy, Request, Stage};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::onnx::ImportOptions;
use byoc_core::partition::NodeRow;
use byoc_core::plugin::{Registry, Settings};
use byoc_tools::dataset::Files;
use byoc_tools::request::{self, Chosen};
use pyo3::prelude::*;
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
    let mut watcher = Watcher { progress, raised: None, warnings: Vec::new(), stage: Stage::Onnx };
    let compiled = py.detach(|| run(models, wishes, &places, &output, &mut watcher));
    if let Some(error) = watcher.raised {
        return Err(error);
    }
    let compiled = compiled.map_err(|error| raised(py, error))?;
    let warnings: Vec<_> = watcher.warnings.iter().map(ToString::to_string).collect();
    let rows: Vec<_> = compiled.nodes.iter().map(row).collect();
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
    }
    compiler::compile(&request, output, watcher)
}

/// One row of JSON for each node: who takes it, and why others do not.
#[pyfunction]
pub(crate) fn explain(py: Python<'_>, models: Models, places: Places) -> PyResult<String> {
    let explained = py.detach(|| {
        let (request, _) = models.request(&places)?;
        match compiler::explain(&request, &mut compiler::Silent) {
            Err(error) if error.code == Code::UnknownOperator => compiler::nodes_of_unknown(&request),
            rows => rows,
        }
    });
    let rows = explained.map_err(|error| raised(py, error))?;
    Ok(Value::from(rows.iter().map(row).collect::<Vec<_>>()).to_string())
}

/// What the artifact at `path` says of itself, as JSON.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let artifact = py.detach(|| Artifact::open(&path)).map_err(|error| raised(py, error))?;
    let mut about = json!(artifact.manifest());
    about["bytes"] = json!(artifact.size());
    Ok(about.to_string())
}

fn row(row: &NodeRow) -> Value {
    let refused = row
        .refused
        .iter()
        .map(|(backend, reason)| json!({ "backend": backend, "code": reason.code(), "reason": reason.to_string() }));
    json!({
        "entry": row.entry,
        "node": row.node,
        "op": row.op,
        "backend": row.taken.as_ref().map(|(_, backend)| backend),
        "region": row.taken.as_ref().map(|(region, _)| region),
        "refused": refused.collect::<Vec<_>>(),
        "expanded": row.expanded,
    })
}

/// Hands progress to Python, and keeps what Python raises meanwhile: a compile cannot be left half-way.
struct Watcher {
    progress: Option<Py<PyAny>>,
    raised: Option<PyErr>,
    warnings: Vec<Diagnostic>,
    stage: Stage,
}

impl Watcher {
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
}

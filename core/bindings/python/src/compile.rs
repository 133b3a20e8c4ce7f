//! Compiling, and what there is to say of models and artifacts, as JSON.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use byoc::{Compiler, OpenOptions, Plugins, Variant};
use byoc_core::artifact::{Artifact, ArtifactFile};
use byoc_core::compile::variants::VariantReport;
use byoc_core::compile::{Observer, Policy, Stage};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::partition::NodeRow;
use byoc_tools::inputs::OpenSizes;
use byoc_tools::node_rows;
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
    /// Names of variants with their backends.
    variants: Vec<(String, Vec<String>)>,
    share: bool,
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
    /// The variants, each with the options that are for it alone: those have its name and a colon in front. The others stay.
    fn variants(&mut self, variants: Vec<(String, Vec<String>)>) -> Vec<Variant> {
        let of = |(name, backends): (String, Vec<String>)| {
            let in_front = format!("{name}:");
            let mut variant = backends.into_iter().fold(Variant::new(name), Variant::backend);
            let (own, others) =
                std::mem::take(&mut self.options).into_iter().partition(|(key, _)| key.starts_with(&in_front));
            self.options = others;
            let own: Vec<(String, String)> = own;
            for (key, value) in own {
                variant = variant.option(&key[in_front.len()..], value);
            }
            variant
        };
        variants.into_iter().map(of).collect()
    }

    /// The compile of these models.
    pub(crate) fn compiler(self, plugins: Plugins) -> Compiler {
        let compiler = Compiler::new().plugins(plugins);
        let compiler = self.models.into_iter().fold(compiler, |compiler, (name, path)| match name {
            Some(name) => compiler.entry(name, path),
            None => compiler.model(path),
        });
        let compiler = self.backends.into_iter().fold(compiler, Compiler::backend);
        let compiler = self.options.into_iter().fold(compiler, |compiler, (key, value)| compiler.option(key, value));
        let compiler = self.shapes.into_iter().fold(compiler, |compiler, (name, shape)| compiler.shape(name, shape));
        self.dims.into_iter().fold(compiler, |compiler, (name, size)| compiler.dim(name, size))
    }

    /// The sizes that are given.
    pub(crate) fn open_sizes(&self) -> OpenSizes {
        OpenSizes { shapes: self.shapes.clone(), dims: self.dims.clone() }
    }

    /// Adds the options to how an artifact is opened. Errors where backends are given, too, or sizes.
    pub(crate) fn options_of_running(self, options: OpenOptions) -> Result<OpenOptions> {
        if let Some(backend) = self.backends.first() {
            let message = format!("what is compiled already takes no backends, such as '{backend}'");
            return Err(Diagnostic::new(Code::Usage, message).hint("Leave it out, or name the .onnx model"));
        }
        Ok(self.options.into_iter().fold(options, |options, (key, value)| options.option(key, value)))
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
    let compiled = py.detach(|| run(models, wishes, places, &output, &mut watcher));
    let compiled = watcher.ended(py, compiled)?;
    watcher.warn(py)?;
    let warnings: Vec<_> = compiled.warnings.iter().map(ToString::to_string).collect();
    let rows = |nodes: &[NodeRow]| nodes.iter().map(node_rows::json).collect::<Vec<_>>();
    let variant =
        |it: &VariantReport| json!({ "variant": it.name, "nodes": rows(&it.nodes), "ledger": it.ledger.rows });
    let report = json!({
        "bytes": compiled.file_bytes,
        "nodes": rows(&compiled.nodes),
        "ledger": compiled.ledger.rows,
        "variants": compiled.variants.iter().map(variant).collect::<Vec<_>>(),
        "warnings": warnings,
    });
    Ok(report.to_string())
}

fn run(
    mut models: Models,
    wishes: Wishes,
    places: Places,
    output: &Path,
    watcher: &mut Watcher,
) -> Result<byoc::Report> {
    let policy =
        Policy { require: wishes.require, no_fallback: wishes.no_fallback, max_host_nodes: wishes.max_host_nodes };
    let variants = models.variants(wishes.variants);
    let mut compiler = variants
        .into_iter()
        .fold(models.compiler(places.into()), Compiler::variant)
        .share(wishes.share)
        .policy(policy)
        .external_constants(wishes.external_constants)
        .allow_duplicates(wishes.allow_duplicates)
        .fallback_on_crash(wishes.fallback_on_crash);
    if let Some(path) = wishes.dataset {
        compiler = compiler.dataset(path, &wishes.mean, &wishes.std);
    } else if !wishes.mean.is_empty() || !wishes.std.is_empty() {
        let error = Diagnostic::new(Code::Usage, "mean and std are for the images of a data set, and none is given");
        return Err(error.hint("Leave them out, or give dataset"));
    }
    compiler.write_watched(output, watcher)
}

/// One row of JSON for each node: who takes it, and why others do not.
#[pyfunction]
pub(crate) fn explain(py: Python<'_>, models: Models, places: Places) -> PyResult<String> {
    let mut watcher = Watcher::new(None);
    let explained = py.detach(|| models.compiler(places.into()).explain(&mut watcher));
    let rows = watcher.ended(py, explained)?;
    watcher.warn(py)?;
    Ok(Value::from(rows.iter().map(node_rows::json).collect::<Vec<_>>()).to_string())
}

/// What the artifact at `path` says of itself, as JSON; where it has several variants and none is named, what each says.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, path: PathBuf, variant: Option<String>) -> PyResult<String> {
    let graph = |artifact: &Artifact| {
        let mut about = json!(artifact.manifest());
        about["bytes"] = json!(artifact.size());
        about
    };
    let about = py.detach(|| {
        let file = ArtifactFile::open(&path)?;
        match variant {
            Some(name) => file.variant(&name).map(|artifact| graph(&artifact)),
            None if file.variants().is_empty() => file.only().map(|artifact| graph(&artifact)),
            None => {
                let all = file.all()?;
                let each = file.variants().iter().cloned().zip(all.iter().map(graph));
                Ok(json!({ "variants": each.collect::<serde_json::Map<_, _>>(), "bytes": file.size() }))
            }
        }
    });
    Ok(about.map_err(|error: Diagnostic| raised(py, error))?.to_string())
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

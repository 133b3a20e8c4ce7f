//! A loaded entry, which Python calls with arrays.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use byoc::{OpenOptions, Plugins};
use byoc_core::compile::Observer;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::FileKind;
use byoc_core::runtime::Session as Loaded;
use byoc_core::runtime::{ListView, PassedOver, PortInfo};
use byoc_plugin_api::{DType, Dim, Handle, TensorView};
use byoc_tools::lists::{Given, Handles};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use crate::array::{self, Value};
use crate::compile::{Models, Watcher};
use crate::error::{bad_input, raised};
use crate::out::{self, Target};
use crate::places::Places;

/// A loaded entry.
#[pyclass(frozen, subclass, module = "byoc._native")]
pub(crate) struct Session {
    state: Mutex<State>,
    inputs: Vec<PortInfo>,
    outputs: Vec<PortInfo>,
    variant: Option<String>,
    passed_over: Vec<PassedOver>,
    timed: bool,
}

struct State {
    loaded: Loaded,
    /// Shared with each array that refers to the memory of the last run.
    lent: Arc<()>,
}

/// What keeps the memory of a run that arrays refer to: the session, which will not run while this lives.
#[pyclass(frozen, module = "byoc._native")]
struct Lender {
    _session: Py<Session>,
    _lent: Arc<()>,
}

/// How to load, as keyword arguments give it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Loading {
    entry: Option<String>,
    variant: Option<String>,
    threads: usize,
    devices: Vec<String>,
    constants_from: Option<PathBuf>,
    max_iterations: Option<u64>,
    profile: bool,
}

impl Loading {
    fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new().threads(self.threads).timed(self.profile);
        options = self.devices.into_iter().fold(options, OpenOptions::device);
        if let Some(entry) = self.entry {
            options = options.entry(entry);
        }
        if let Some(variant) = self.variant {
            options = options.variant(variant);
        }
        if let Some(folder) = self.constants_from {
            options = options.constants_from(folder);
        }
        match self.max_iterations {
            Some(most) => options.max_iterations(most),
            None => options,
        }
    }
}

#[pymethods]
impl Session {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, models: Models, places: Places, loading: Loading) -> PyResult<Session> {
        let mut watcher = Watcher::new(None);
        let timed = loading.profile;
        let loaded = py.detach(|| {
            if !is_model(&path)? && !models.open_sizes().is_empty() {
                let error = Diagnostic::new(
                    Code::Usage,
                    "shapes and dims are for models: sizes of an artifact come with its inputs",
                );
                return Err(error.hint("Leave them out"));
            }
            load(path, models, places.into(), loading, &mut watcher)
        });
        let loaded = watcher.ended(py, loaded)?;
        watcher.warn(py)?;
        let (inputs, outputs) = (loaded.inputs(), loaded.outputs());
        let (variant, passed_over) = (loaded.variant().map(str::to_owned), loaded.passed_over().to_vec());
        let state = Mutex::new(State { loaded, lent: Arc::new(()) });
        Ok(Session { state, inputs, outputs, variant, passed_over, timed })
    }

    /// The variant that was loaded.
    #[getter]
    fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
    }

    /// Better variants that cannot be loaded here.
    #[getter]
    fn passed_over<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let class = CLASS.import(py, "byoc._types", "PassedOver")?;
        let row = |it: &PassedOver| class.call1((&it.variant, it.reason.code.id(), &it.reason.message));
        PyList::new(py, self.passed_over.iter().map(row).collect::<PyResult<Vec<_>>>()?)
    }

    /// What a run takes.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ports(py, &self.inputs)
    }

    /// What a run gives.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ports(py, &self.outputs)
    }

    /// How long each region of the last run took, with its steps, as JSON.
    fn times(&self, py: Python<'_>) -> PyResult<String> {
        if !self.timed {
            let error = Diagnostic::new(Code::Usage, "the session takes no times").hint("Open it with profile=True");
            return Err(raised(py, error));
        }
        Ok(serde_json::json!(self.state(py)?.loaded.times()).to_string())
    }

    /// Runs once. `inputs` has a value for each input by its name, or in their order. `copy=False` returns memory of the session's;
    /// `out` has arrays that outputs are written to, by name or in their order.
    #[pyo3(signature = (inputs, *, copy = true, out = None))]
    fn run<'py>(
        slf: &Bound<'py, Self>,
        inputs: &Bound<'py, PyAny>,
        copy: bool,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, own) = (slf.py(), slf.get());
        let values = own.values(inputs)?;
        let mut targets = match out {
            Some(out) => out::targets(&own.outputs, out)?,
            None => Vec::new(),
        };
        out::check_overlaps(py, (&own.inputs, &values), (&own.outputs, &targets))?;
        // While another thread runs the session, the interpreter's lock is free.
        let mut state = own.state(py)?;
        if Arc::strong_count(&state.lent) > 1 {
            let message = "arrays of the run before refer to the memory of the session".to_owned();
            return Err(bad_input(py, message, "Delete them before the next run, or leave out copy=False"));
        }
        // Those of the run before, whose outputs are copied.
        state.loaded.take_back_texts();
        state.loaded.forget_lists();
        let handles = values.iter().map(|value| give(value, &mut state.loaded)).collect::<Result<Vec<_>>>();
        let handles = handles.map_err(|error| raised(py, error))?;
        let views: Vec<_> = values
            .iter()
            .zip(&handles)
            .map(|(value, handles)| view(value, handles))
            .collect::<Result<_>>()
            .map_err(|error| raised(py, error))?;
        let loaded = &mut state.loaded;
        let mut buffers: Vec<_> = targets.iter_mut().map(|target| target.as_mut().map(Target::buffer)).collect();
        let run = || if buffers.is_empty() { loaded.run(&views) } else { loaded.run_into(&views, &mut buffers) };
        py.detach(run).map_err(|error| raised(py, error))?;
        let lender = match copy {
            true => None,
            false => Some(Bound::new(py, Lender { _session: slf.clone().unbind(), _lent: Arc::clone(&state.lent) })?),
        };
        own.results(py, &state.loaded, lender.as_ref(), &targets)
    }
}

impl Session {
    /// What runs, when no other thread has it. Errors where one of them ended by a panic.
    fn state<'a>(&'a self, py: Python<'_>) -> PyResult<MutexGuard<'a, State>> {
        let broken = |_| Diagnostic::new(Code::RunFailed, "an earlier run of this session ended by a defect of byoc");
        self.state.lock_py_attached(py).map_err(|error| raised(py, broken(error)))
    }

    /// A value for each input.
    fn values<'py>(&self, inputs: &Bound<'py, PyAny>) -> PyResult<Vec<Value<'py>>> {
        let py = inputs.py();
        if let Ok(named) = inputs.cast::<PyDict>() {
            let value = |port: &PortInfo| match named.get_item(&port.name)? {
                Some(value) => array::given(port, &value),
                None if port.list.as_ref().is_some_and(|list| list.optional) => Ok(Value::Copied(Given::Nothing)),
                None => Err(bad_input(py, format!("input '{}' is not given", port.name), &self.listed())),
            };
            let values = self.inputs.iter().map(value).collect::<PyResult<Vec<_>>>()?;
            for name in named.keys() {
                let name: String = name.extract()?;
                if !self.inputs.iter().any(|port| port.name == name) {
                    return Err(bad_input(py, format!("there is no input '{name}'"), &self.listed()));
                }
            }
            return Ok(values);
        }
        let given: Vec<Bound<'py, PyAny>> = match inputs.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => match inputs.cast::<PyList>() {
                Ok(list) => list.iter().collect(),
                Err(_) => {
                    return Err(PyTypeError::new_err("run() takes a dict of inputs by name, or a list in their order"));
                }
            },
        };
        if given.len() != self.inputs.len() {
            let message = format!("{} inputs are given, the entry takes {}", given.len(), self.inputs.len());
            return Err(bad_input(py, message, &self.listed()));
        }
        self.inputs.iter().zip(&given).map(|(port, value)| array::given(port, value)).collect()
    }

    fn listed(&self) -> String {
        let names: Vec<_> = self.inputs.iter().map(|port| port.name.as_str()).collect();
        format!("The inputs are: {}", names.join(", "))
    }

    /// The outputs of the last run by name.
    fn results<'py>(
        &self,
        py: Python<'py>,
        loaded: &Loaded,
        lender: Option<&Bound<'py, Lender>>,
        targets: &[Option<Target<'py>>],
    ) -> PyResult<Bound<'py, PyDict>> {
        let results = PyDict::new(py);
        for (index, port) in self.outputs.iter().enumerate() {
            if let Some(Some(target)) = targets.get(index) {
                results.set_item(&port.name, &target.array)?;
                continue;
            }
            let failed = |error| raised(py, error);
            let value = match &port.list {
                None => one(loaded, &loaded.output(index).map_err(failed)?, py, lender)?,
                Some(_) => {
                    let list = loaded.output_list(index).map_err(failed)?;
                    match list.view() {
                        ListView::Nothing => py.None().into_bound(py),
                        ListView::Tensor(tensor) => one(loaded, &tensor, py, None)?,
                        ListView::Sequence(tensors) => {
                            let arrays = tensors.iter().map(|tensor| one(loaded, tensor, py, None));
                            PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)?.into_any()
                        }
                    }
                }
            };
            results.set_item(&port.name, value)?;
        }
        Ok(results)
    }
}

/// An output as an array: a copy, or with a lender its own memory where that is laid out as an array is.
fn one<'py>(
    loaded: &Loaded,
    view: &TensorView<'_>,
    py: Python<'py>,
    lender: Option<&Bound<'py, Lender>>,
) -> PyResult<Bound<'py, PyAny>> {
    if view.dtype() == DType::String {
        let bad = |error: byoc_plugin_api::Error| raised(py, Diagnostic::new(Code::RunFailed, error.message));
        let handles = view.to_vec::<Handle>().map_err(bad)?;
        let texts = handles.into_iter().map(|handle| loaded.text(handle)).collect::<Result<Vec<_>>>();
        let texts = texts.map_err(|error| raised(py, error))?;
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        return array::array_of_texts(py, view.shape(), &texts);
    }
    if let Some(lender) = lender
        && let Some(array) = array::lent(view, lender.clone().into_any())?
    {
        return Ok(array);
    }
    array::copied(py, view)
}

fn give(value: &Value<'_>, loaded: &mut Loaded) -> Result<Handles> {
    match value {
        Value::Array(_) => Ok(None),
        Value::Copied(given) => given.give(loaded),
    }
}

fn view<'a>(value: &'a Value<'_>, handles: &'a Handles) -> Result<TensorView<'a>> {
    match value {
        Value::Array(array) => array
            .view()
            .ok_or_else(|| Diagnostic::new(Code::BadInput, "an array has more elements than memory can hold")),
        Value::Copied(given) => given.view(handles),
    }
}

/// Whether the file is a model, which is compiled first.
pub(crate) fn is_model(path: &Path) -> Result<bool> {
    Ok(FileKind::of_file(path)? == FileKind::Model)
}

/// Loads an entry of an artifact, or of a model, which is compiled into memory first.
pub(crate) fn load(
    path: PathBuf,
    models: Models,
    plugins: Plugins,
    loading: Loading,
    observer: &mut dyn Observer,
) -> Result<Loaded> {
    if is_model(&path)? {
        return models.compiler(plugins).open(&loading.options(), observer);
    }
    models.options_of_running(loading.options().plugins(plugins))?.open(path)
}

/// `byoc.Port`s.
fn ports<'py>(py: Python<'py>, ports: &[PortInfo]) -> PyResult<Bound<'py, PyList>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "byoc._types", "Port")?;
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => Ok(size.into_pyobject(py)?.into_any()),
        Dim::Symbolic(name) => Ok(name.into_pyobject(py)?.into_any()),
    };
    let port = |port: &PortInfo| {
        let shape = port.shape.iter().map(size).collect::<PyResult<Vec<_>>>()?;
        let dtype = port.list.as_ref().map_or_else(|| port.dtype.to_string(), ToString::to_string);
        class.call1((&port.name, dtype, PyTuple::new(py, shape)?))
    };
    PyList::new(py, ports.iter().map(port).collect::<PyResult<Vec<_>>>()?)
}

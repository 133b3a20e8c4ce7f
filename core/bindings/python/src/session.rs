//! A loaded entry, which Python calls with arrays.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use byoc::{OpenOptions, Plugins};
use byoc_core::compile::Observer;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::FileKind;
use byoc_core::runtime::Session as Loaded;
use byoc_core::runtime::{Input, ListView, OutputBuffer, PassedOver, PortInfo};
use byoc_plugin_api::{DType, Dim, Handle, TensorView};
use byoc_tools::lists::{Given, Handles};
use numpy::PyUntypedArray;
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use crate::array::{self, Value};
use crate::compile::{Models, Watcher};
use crate::device::{DeviceArray, OnDeviceInput, Used};
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
    pub(crate) devices: Vec<Used>,
    timed: bool,
}

pub(crate) struct State {
    loaded: Loaded,
    /// Shared with each array that refers to the memory of the last run.
    lent: Arc<()>,
    /// How often it has run.
    pub(crate) runs: u64,
    /// Whether outputs of devices are on the host, too.
    fetched: bool,
}

/// The value of an input, and where it is.
enum Placed<'py> {
    OnHost(Value<'py>),
    OnDevice(OnDeviceInput<'py>),
}

impl<'py> Placed<'py> {
    fn of(session: &Bound<'py, Session>, port: &PortInfo, value: &Bound<'py, PyAny>) -> PyResult<Placed<'py>> {
        // Arrays of NumPy, which are most, need not be asked.
        if port.list.is_none()
            && !value.is_instance_of::<PyUntypedArray>()
            && let Some(input) = OnDeviceInput::of(session, &port.name, value)?
        {
            return Ok(Placed::OnDevice(input));
        }
        array::given(port, value).map(Placed::OnHost)
    }

    /// The addresses of its memory, where it is the caller's and on the host.
    fn range(&self) -> Option<Range<usize>> {
        match self {
            Placed::OnHost(Value::Array(array)) => Some(array.range()),
            _ => None,
        }
    }
}

/// What keeps the memory of a run that arrays refer to: the session, which will not run while this lives.
#[pyclass(frozen, module = "byoc._native")]
pub(crate) struct Lender {
    session: Py<Session>,
    _lent: Arc<()>,
}

#[pymethods]
impl Lender {
    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.session)
    }
}

impl Lender {
    pub(crate) fn new<'py>(session: &Bound<'py, Session>, state: &State) -> PyResult<Bound<'py, Lender>> {
        Bound::new(session.py(), Lender { session: session.clone().unbind(), _lent: Arc::clone(&state.lent) })
    }
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
        let devices = loaded.device_handles().into_iter().map(Used::new).collect();
        let state = Mutex::new(State { loaded, lent: Arc::new(()), runs: 0, fetched: false });
        Ok(Session { state, inputs, outputs, variant, passed_over, devices, timed })
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
    /// `out` has arrays that outputs are written to, by name or in their order. `on_device=True` leaves outputs on the device that computed
    /// them.
    #[pyo3(signature = (inputs, *, copy = true, out = None, on_device = false))]
    fn run<'py>(
        slf: &Bound<'py, Self>,
        inputs: &Bound<'py, PyAny>,
        copy: bool,
        out: Option<&Bound<'py, PyAny>>,
        on_device: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, own) = (slf.py(), slf.get());
        let values = Session::values(slf, inputs)?;
        if out.is_some() && (on_device || values.iter().any(|value| matches!(value, Placed::OnDevice(_)))) {
            let message = "out is for runs on the host: it cannot be given with on_device=True or inputs on a device";
            return Err(PyTypeError::new_err(message));
        }
        let mut targets = match out {
            Some(out) => out::targets(&own.outputs, out)?,
            None => Vec::new(),
        };
        let ranges =
            own.inputs.iter().zip(&values).filter_map(|(port, value)| Some((port.name.as_str(), value.range()?)));
        out::check_overlaps(py, ranges.collect(), (&own.outputs, &targets))?;
        // While another thread runs the session, the interpreter's lock is free.
        let mut state = own.state(py)?;
        if Arc::strong_count(&state.lent) > 1 {
            let message = "arrays of the run before refer to the memory of the session".to_owned();
            return Err(bad_input(
                py,
                message,
                "Delete them, and what was made of them by DLPack, before the next run",
            ));
        }
        // Those of the run before, whose outputs are copied.
        state.loaded.take_back_texts();
        state.loaded.forget_lists();
        let handles = values.iter().map(|value| give(value, &mut state.loaded)).collect::<Result<Vec<_>>>();
        let handles = handles.map_err(|error| raised(py, error))?;
        let runs = state.runs;
        let input = |(value, handles)| input(py, value, handles, runs);
        let inputs = values.iter().zip(&handles).map(input).collect::<PyResult<Vec<_>>>()?;
        let mut buffers: Vec<_> = targets.iter_mut().map(|target| target.as_mut().map(Target::buffer)).collect();
        state.run(py, &inputs, &mut buffers, on_device)?;
        let lender = if copy { None } else { Some(Lender::new(slf, &state)?) };
        Session::results(slf, &state, lender.as_ref(), &targets)
    }
}

impl State {
    /// Runs, while the interpreter's lock is free.
    fn run(
        &mut self,
        py: Python<'_>,
        inputs: &[Input<'_>],
        buffers: &mut [Option<OutputBuffer<'_>>],
        on_device: bool,
    ) -> PyResult<()> {
        // Arrays on devices are gone, also where the run fails.
        self.runs += 1;
        self.fetched = false;
        let host = |input: &Input<'_>| matches!(input, Input::Host(_));
        let loaded = &mut self.loaded;
        let run = || {
            if on_device || !inputs.iter().all(host) {
                // SAFETY: arrays of sessions are what they say, and those of others are it by DLPack's rules. Their owners keep them as
                // long as `inputs`, and what is queued for them is done, or comes before in the queue of the session.
                unsafe { loaded.run_on_devices(inputs)? };
                return if on_device { Ok(()) } else { loaded.fetch() };
            }
            let views = inputs.iter().filter_map(|input| match *input {
                Input::Host(view) => Some(view),
                Input::Device(_) => None,
            });
            let views: Vec<_> = views.collect();
            if buffers.is_empty() { loaded.run(&views) } else { loaded.run_into(&views, buffers) }
        };
        py.detach(run).map_err(|error| raised(py, error))?;
        self.fetched = !on_device;
        Ok(())
    }
}

impl Session {
    /// What runs, when no other thread has it. Errors where one of them ended by a panic.
    pub(crate) fn state<'a>(&'a self, py: Python<'_>) -> PyResult<MutexGuard<'a, State>> {
        let broken = |_| Diagnostic::new(Code::RunFailed, "an earlier run of this session ended by a defect of byoc");
        self.state.lock_py_attached(py).map_err(|error| raised(py, broken(error)))
    }

    /// An output on a device as an array on the host.
    pub(crate) fn fetched<'py>(&self, py: Python<'py>, array: &DeviceArray) -> PyResult<Bound<'py, PyAny>> {
        let failed = |error| raised(py, error);
        let mut state = self.state(py)?;
        array.check(py, state.runs)?;
        if !state.fetched {
            let loaded = &mut state.loaded;
            py.detach(|| loaded.fetch()).map_err(failed)?;
            state.fetched = true;
        }
        array::copied(py, &state.loaded.output(array.output).map_err(failed)?)
    }

    /// A value for each input.
    fn values<'py>(slf: &Bound<'py, Self>, inputs: &Bound<'py, PyAny>) -> PyResult<Vec<Placed<'py>>> {
        let (py, own) = (inputs.py(), slf.get());
        if let Ok(named) = inputs.cast::<PyDict>() {
            let value = |port: &PortInfo| match named.get_item(&port.name)? {
                Some(value) => Placed::of(slf, port, &value),
                None if port.list.as_ref().is_some_and(|list| list.optional) => {
                    Ok(Placed::OnHost(Value::Copied(Given::Nothing)))
                }
                None => Err(bad_input(py, format!("input '{}' is not given", port.name), &own.listed())),
            };
            let values = own.inputs.iter().map(value).collect::<PyResult<Vec<_>>>()?;
            for name in named.keys() {
                let name: String = name.extract()?;
                if !own.inputs.iter().any(|port| port.name == name) {
                    return Err(bad_input(py, format!("there is no input '{name}'"), &own.listed()));
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
        if given.len() != own.inputs.len() {
            let message = format!("{} inputs are given, the entry takes {}", given.len(), own.inputs.len());
            return Err(bad_input(py, message, &own.listed()));
        }
        own.inputs.iter().zip(&given).map(|(port, value)| Placed::of(slf, port, value)).collect()
    }

    fn listed(&self) -> String {
        let names: Vec<_> = self.inputs.iter().map(|port| port.name.as_str()).collect();
        format!("The inputs are: {}", names.join(", "))
    }

    /// The outputs of the last run by name.
    fn results<'py>(
        slf: &Bound<'py, Self>,
        state: &State,
        lender: Option<&Bound<'py, Lender>>,
        targets: &[Option<Target<'py>>],
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, loaded) = (slf.py(), &state.loaded);
        let results = PyDict::new(py);
        for (index, port) in slf.get().outputs.iter().enumerate() {
            if let Some(Some(target)) = targets.get(index) {
                results.set_item(&port.name, &target.array)?;
                continue;
            }
            let failed = |error| raised(py, error);
            if !state.fetched
                && let Some(array) = loaded.device_output(index).map_err(failed)?
            {
                results.set_item(&port.name, DeviceArray::new(slf, state.runs, index, &array))?;
                continue;
            }
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

fn give(value: &Placed<'_>, loaded: &mut Loaded) -> Result<Handles> {
    match value {
        Placed::OnHost(Value::Copied(given)) => given.give(loaded),
        _ => Ok(None),
    }
}

/// An input for the next run of a session that has run so often.
fn input<'a>(py: Python<'_>, value: &'a Placed<'_>, handles: &'a Handles, runs: u64) -> PyResult<Input<'a>> {
    let too_large = || Diagnostic::new(Code::BadInput, "an array has more elements than memory can hold");
    let view = match value {
        Placed::OnDevice(input) => return input.array(py, runs).map(Input::Device),
        Placed::OnHost(Value::Array(array)) => array.view().ok_or_else(too_large),
        Placed::OnHost(Value::Copied(given)) => given.view(handles),
    };
    view.map(Input::Host).map_err(|error| raised(py, error))
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

//! Outputs that stay on the device which computed them, and inputs that are on one.

use byoc_core::diagnostic::{Code, Diagnostic};
use byoc_core::runtime::{DeviceArray as OnDevice, DeviceName};
use byoc_plugin_api::dlpack::{CPU, DLDevice};
use byoc_plugin_api::{DType, DomainHandles};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack::{self, Taken};
use crate::error::{bad_input, raised};
use crate::session::{Lender, Session};

/// DLPack's number of all devices that have none of their own: it does not tell whose memory it is.
const WITHOUT_NUMBER: i32 = 12;

/// An output of a session's last run, in the memory of the device that computed it. It is good until the session runs again.
#[pyclass(frozen, module = "byoc")]
pub(crate) struct DeviceArray {
    session: Py<Session>,
    /// The run that has made it.
    run: u64,
    /// The output.
    pub(crate) output: usize,
    place: DLDevice,
    address: u64,
    dtype: DType,
    shape: Vec<i64>,
}

impl DeviceArray {
    /// Output `output` of run `run` of a session.
    pub(crate) fn new(session: &Bound<'_, Session>, run: u64, output: usize, array: &OnDevice<'_>) -> DeviceArray {
        let &OnDevice { device, address, dtype, shape } = array;
        let session = session.clone().unbind();
        DeviceArray { session, run, output, place: device, address, dtype, shape: shape.to_vec() }
    }

    fn on_device(&self) -> OnDevice<'_> {
        OnDevice { device: self.place, address: self.address, dtype: self.dtype, shape: &self.shape }
    }

    /// What keeps the session from running while it lives. Errors where it has run already.
    fn lender<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Lender>> {
        let session = self.session.bind(py);
        let state = session.get().state(py)?;
        self.check(py, state.runs)?;
        Lender::new(session, &state)
    }

    /// Errors where the session has run again.
    pub(crate) fn check(&self, py: Python<'_>, runs: u64) -> PyResult<()> {
        if self.run == runs {
            return Ok(());
        }
        let error = Diagnostic::new(Code::RunFailed, "the array is gone: its session has run again");
        Err(raised(py, error.hint("Copy it before, by numpy() or on its device")))
    }
}

#[pymethods]
impl DeviceArray {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.session)
    }

    /// The size of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The element type, such as `f32`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    /// The device, such as `cuda:0`.
    #[getter]
    fn device(&self) -> &str {
        self.session.get().device_name(self.place)
    }

    fn __repr__(&self) -> String {
        let shape: Vec<_> = self.shape.iter().map(i64::to_string).collect();
        format!("<byoc.DeviceArray {}[{}] on {}>", self.dtype, shape.join(","), self.device())
    }

    /// A copy on the host, as an array of NumPy.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.session.get().fetched(py, self)
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            let message = "an array on a device becomes one of NumPy by a copy alone";
            return Err(pyo3::exceptions::PyValueError::new_err(message));
        }
        let array = self.numpy(py)?;
        match dtype {
            Some(dtype) => array.call_method1(intern!(py, "astype"), (dtype,)),
            None => Ok(array),
        }
    }

    /// The numbers that DLPack has for the device.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (self.place.device_type, self.place.device_id)
    }

    /// The array as a capsule of DLPack, without a copy. All work on it is done, so that any stream may read it. The session does not
    /// run while what was made of it is alive; work that was queued to read it has to be done before the next run.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        drop(stream);
        if dl_device == Some((CPU.device_type, CPU.device_id)) && copy != Some(false) {
            let arguments = PyDict::new(py);
            if let Some(version) = max_version {
                arguments.set_item(intern!(py, "max_version"), version)?;
            }
            return self.numpy(py)?.call_method(intern!(py, "__dlpack__"), (), Some(&arguments));
        }
        dlpack::check_wanted(self.place, dl_device, copy)?;
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        dlpack::give(&self.on_device(), self.lender(py)?.into_any(), versioned)
    }
}

/// An input on a device, which stays there as long as this.
pub(crate) enum OnDeviceInput<'py> {
    /// Of the session that is to run.
    Own(Bound<'py, DeviceArray>),
    /// Of another session, which does not run meanwhile.
    Other { array: Bound<'py, DeviceArray>, _lender: Bound<'py, Lender> },
    /// Of somebody else.
    Foreign(Taken<'py>),
}

impl<'py> OnDeviceInput<'py> {
    /// The value as an input on a device, if it is on one. `name` is that of the input of the session.
    pub(crate) fn of(
        session: &Bound<'py, Session>,
        name: &str,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<OnDeviceInput<'py>>> {
        let py = value.py();
        if let Ok(array) = value.cast::<DeviceArray>() {
            let array = array.clone();
            if array.get().session.is(session) {
                return Ok(Some(OnDeviceInput::Own(array)));
            }
            // Of another memory it is copied to the host, as any array.
            if !session.get().reaches(array.get()) {
                return Ok(None);
            }
            let lender = array.get().lender(py)?;
            return Ok(Some(OnDeviceInput::Other { array, _lender: lender }));
        }
        let Some(device) = dlpack::device_of(value) else { return Ok(None) };
        let Some(used) = session.get().used(device).filter(|_| device.device_type != WITHOUT_NUMBER) else {
            return Ok(None);
        };
        // Not under the lock of the session: the producer may ask for any lock of its own.
        let taken = dlpack::take(name, value, used.stream())?;
        if taken.device != device {
            let what = format!("input '{name}' says that it is on another device than its tensor");
            return Err(bad_input(py, what, "Report it to the maker of the array"));
        }
        Ok(Some(OnDeviceInput::Foreign(taken)))
    }

    /// For a run of the session, which has run so often.
    pub(crate) fn array(&self, py: Python<'_>, runs: u64) -> PyResult<OnDevice<'_>> {
        match self {
            OnDeviceInput::Own(array) => {
                array.get().check(py, runs)?;
                Ok(array.get().on_device())
            }
            OnDeviceInput::Other { array, .. } => Ok(array.get().on_device()),
            OnDeviceInput::Foreign(Taken { device, address, dtype, shape, .. }) => {
                Ok(OnDevice { device: *device, address: *address, dtype: *dtype, shape })
            }
        }
    }
}

/// A device that a session uses.
pub(crate) struct Used {
    name: String,
    handles: DomainHandles,
}

impl Used {
    pub(crate) fn new((name, handles): (DeviceName, DomainHandles)) -> Used {
        Used { name: name.to_string(), handles }
    }

    /// The queue, as DLPack has a stream: the address of its handle.
    fn stream(&self) -> Option<usize> {
        Some(self.handles.queue.addr()).filter(|queue| *queue != 0)
    }
}

impl Session {
    fn used(&self, device: DLDevice) -> Option<&Used> {
        self.devices.iter().find(|used| used.handles.device == device)
    }

    fn device_name(&self, device: DLDevice) -> &str {
        self.used(device).map_or("", |used| &used.name)
    }

    /// Whether the domain of this session's device reaches the memory of an array of another session: they are in one context.
    fn reaches(&self, array: &DeviceArray) -> bool {
        let other = array.session.get().used(array.place).map(|used| (used.name.as_str(), used.handles.context));
        let own = self.used(array.place).map(|used| (used.name.as_str(), used.handles.context));
        own.is_some_and(|(_, context)| !context.is_null()) && own == other
    }
}

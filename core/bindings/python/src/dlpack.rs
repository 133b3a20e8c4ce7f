//! Tensors that cross by DLPack, in its form of before version 1 and in that of version 1:
//! <https://dmlc.github.io/dlpack/latest/c_api.html> and <https://dmlc.github.io/dlpack/latest/python_spec.html>.

use std::ffi::{CStr, c_void};
use std::ptr;

use byoc_core::runtime::DeviceArray as OnDevice;
use byoc_plugin_api::dlpack::{DLDevice, DLTensor};
use byoc_plugin_api::{DType, contiguous_strides};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::{ffi, intern};

use crate::error::bad_input;

const NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";

/// The version of the layout that is given: nothing of a later one is used.
const VERSION: [u32; 2] = [1, 0];

/// DLPack's `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: DLTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// DLPack's `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DLTensor,
}

/// What a tensor that was given away refers to.
struct Export {
    shape: Vec<i64>,
    strides: Vec<i64>,
    owner: Option<Py<PyAny>>,
}

impl Export {
    fn tensor(&self, array: &OnDevice<'_>) -> DLTensor {
        DLTensor {
            data: ptr::without_provenance_mut(array.address as usize),
            device: array.device,
            ndim: i32::try_from(self.shape.len()).unwrap_or(i32::MAX),
            dtype: array.dtype.to_dlpack(),
            shape: self.shape.as_ptr(),
            strides: self.strides.as_ptr(),
            byte_offset: 0,
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // Whoever ends the life of the tensor may be any thread. When the interpreter is known to be gone, so is what it referred to.
        if Python::try_attach(|_| drop(self.owner.take())).is_none() {
            std::mem::forget(self.owner.take());
        }
    }
}

/// A tensor that can be given away, of either form.
trait Capsule: Sized {
    const NAME: &CStr;

    /// The function that ends its life; taken from it, so that it is called once.
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
}

impl Capsule for Managed {
    const NAME: &CStr = NAME;

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Managed)> {
        self.deleter
    }
}

impl Capsule for Versioned {
    const NAME: &CStr = VERSIONED_NAME;

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Versioned)> {
        self.deleter
    }
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: both came from boxes in `give`, and whoever has the tensor calls this once.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Export>())) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(managed) });
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: as in `delete`.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Export>())) };
    // SAFETY: as in `delete`.
    drop(unsafe { Box::from_raw(managed) });
}

/// Ends the life of a tensor that nobody has taken: who takes one renames its capsule.
unsafe extern "C" fn destroy<T: Capsule>(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this with a capsule that it destroys, and the name tells what is in it.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, T::NAME.as_ptr()) == 1 {
            let managed: *mut T = ffi::PyCapsule_GetPointer(capsule, T::NAME.as_ptr()).cast();
            if let Some(deleter) = (*managed).deleter() {
                deleter(managed);
            }
        }
    }
}

fn capsule<T: Capsule>(py: Python<'_>, managed: T) -> PyResult<Bound<'_, PyAny>> {
    let managed = Box::into_raw(Box::new(managed));
    // SAFETY: the pointer is that of a box, which `destroy`, or who takes the tensor, ends by its deleter; here, where there is no capsule.
    unsafe {
        let made = ffi::PyCapsule_New(managed.cast(), T::NAME.as_ptr(), Some(destroy::<T>));
        if let (true, Some(deleter)) = (made.is_null(), (*managed).deleter()) {
            deleter(managed);
        }
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// A capsule with a tensor, which keeps `owner` as long as it lives. The form is that of version 1 where `versioned`.
pub(crate) fn give<'py>(
    array: &OnDevice<'_>,
    owner: Bound<'py, PyAny>,
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let shape = array.shape.to_vec();
    let export = Box::new(Export { strides: contiguous_strides(&shape), shape, owner: Some(owner.unbind()) });
    let tensor = export.tensor(array);
    let context = Box::into_raw(export).cast();
    match versioned {
        false => capsule(py, Managed { tensor, context, deleter: Some(delete) }),
        true => {
            let deleter: Option<unsafe extern "C" fn(*mut Versioned)> = Some(delete_versioned);
            capsule(py, Versioned { version: VERSION, context, deleter, flags: 0, tensor })
        }
    }
}

/// A tensor on a device that somebody else has. It stays as long as this.
pub(crate) struct Taken<'py> {
    pub(crate) device: DLDevice,
    pub(crate) address: u64,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<i64>,
    /// The capsule, whose tensor is not taken over: it ends with the capsule.
    _capsule: Bound<'py, PyAny>,
}

/// The device that a value says that it is on, where that is not the host's memory. Who cannot tell is none.
pub(crate) fn device_of(value: &Bound<'_, PyAny>) -> Option<DLDevice> {
    /// The host's memory, and that of the host which CUDA or ROCm reach by themselves.
    const OF_HOST: [i32; 4] = [1, 3, 11, 13];
    let py = value.py();
    let told = value.getattr_opt(intern!(py, "__dlpack_device__")).ok()??.call0().ok()?;
    let (device_type, device_id): (i32, i32) = told.extract().ok()?;
    (!OF_HOST.contains(&device_type)).then_some(DLDevice { device_type, device_id })
}

/// The tensor of a value on a device, when all work on it is done as far as the queue `stream` sees it. `name` is that of the input.
pub(crate) fn take<'py>(name: &str, value: &Bound<'py, PyAny>, stream: Option<usize>) -> PyResult<Taken<'py>> {
    let py = value.py();
    let bad = |what: &str, hint: &str| bad_input(py, format!("input '{name}' {what}"), hint);
    let arguments = pyo3::types::PyDict::new(py);
    if let Some(stream) = stream {
        arguments.set_item(intern!(py, "stream"), stream)?;
    }
    let capsule = value.call_method(intern!(py, "__dlpack__"), (), Some(&arguments))?;
    // SAFETY: it is an object, of which these functions ask what it is. The tensor is the capsule's as long as it has this name.
    let tensor = unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) != 1 {
            return Err(bad("gives no tensor by __dlpack__", "It was taken already, or is of another protocol"));
        }
        (*ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr()).cast::<Managed>()).tensor
    };
    let rank = usize::try_from(tensor.ndim).unwrap_or(0);
    let sizes = |data: *const i64| match rank {
        0 => Vec::new(),
        // SAFETY: DLPack says so of a tensor.
        _ => unsafe { std::slice::from_raw_parts(data, rank).to_vec() },
    };
    let Some(dtype) = DType::from_dlpack(tensor.dtype) else {
        let code = tensor.dtype;
        let what = format!("has elements of DLPack's type {} with {} bits", code.code, code.bits);
        return Err(bad(&what, "Convert it to a type that byoc has"));
    };
    let shape = sizes(tensor.shape);
    let expected = contiguous_strides(&shape);
    let strides = if tensor.strides.is_null() { expected.clone() } else { sizes(tensor.strides) };
    let mut sized = shape.iter().zip(strides.iter().zip(&expected));
    let in_order = sized.all(|(&size, (found, expected))| size == 1 || found == expected);
    if !in_order && !shape.contains(&0) {
        return Err(bad("is not in the order of C", "Make it contiguous first"));
    }
    let address = (tensor.data.addr() as u64).wrapping_add(tensor.byte_offset);
    Ok(Taken { device: tensor.device, address, dtype, shape, _capsule: capsule })
}

/// Errors where a tensor cannot be given away as it is wanted.
pub(crate) fn check_wanted(device: DLDevice, wanted: Option<(i32, i32)>, copy: Option<bool>) -> PyResult<()> {
    if wanted.is_some_and(|wanted| wanted != (device.device_type, device.device_id)) {
        return Err(PyBufferError::new_err("the array is on another device, and byoc copies to the host alone"));
    }
    if copy == Some(true) {
        return Err(PyBufferError::new_err("byoc does not copy within a device"));
    }
    Ok(())
}

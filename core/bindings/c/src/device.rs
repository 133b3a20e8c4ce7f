//! The devices that a session uses.

use std::ffi::{c_char, c_void};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_plugin_api::DomainHandles;

use crate::error::{byoc_status, status};
use crate::port::{check, write};
use crate::sessions;
use crate::tensor::byoc_device_array;

/// A device that a session uses.
#[repr(C)]
pub struct byoc_device_info {
    /// Its name, such as `cuda:0`. It stays as long as the session is open.
    pub name: *const c_char,
    /// DLPack's number of the kind of its memory: 2 for CUDA's, 12 for a device that has no number of its own.
    pub device_type: i32,
    /// Which device of that kind.
    pub device_id: i32,
    /// What its libraries call a context: for CUDA the device's primary one, a `CUcontext`. NULL where they have none.
    pub context: *mut c_void,
    /// The queue of the session's work: for CUDA a `CUstream`. NULL where there is only one.
    pub queue: *mut c_void,
}

/// Writes how many devices a session uses to `count`.
///
/// # Safety
/// `count` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_device_count(session: u64, count: *mut usize) -> byoc_status {
    // SAFETY: as for this function.
    status(|| unsafe { write(count, sessions::find(session)?.devices.len()) })
}

/// Writes what device `index` of a session is to `device`. Its context and queue are good as long as the session is open.
///
/// # Safety
/// `device` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_device_at(session: u64, index: usize, device: *mut byoc_device_info) -> byoc_status {
    status(|| {
        let open = sessions::find(session)?;
        let Some((name, handles)) = open.devices.get(index) else {
            let message = format!("{index} is asked for, and the session uses {} devices", open.devices.len());
            return Err(Diagnostic::new(Code::Usage, message));
        };
        let DomainHandles { device: dlpack, context, queue } = *handles;
        let (device_type, device_id) = (dlpack.device_type, dlpack.device_id);
        // SAFETY: as for this function.
        unsafe { write(device, byoc_device_info { name: name.as_ptr(), device_type, device_id, context, queue }) }
    })
}

/// Writes to `tensor` where a device reads input `index` from in runs of the last run's shapes, with what it holds. A program may write there
/// between two runs by the device's own API, and give the tensor to `byoc_run_on_devices`: it is not copied then, unless the host reads it too.
/// It stays until a run with other shapes, or until the session is closed. An error where no device reads it, and before the first run.
///
/// # Safety
/// `tensor` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_device_input(session: u64, index: usize, tensor: *mut byoc_device_array) -> byoc_status {
    status(|| {
        let open = sessions::find(session)?;
        check(index, open.inputs.len(), "inputs")?;
        let running = open.lock()?;
        let place: Result<_> = running.session.device_input(index).ok_or_else(|| {
            let error = Diagnostic::new(Code::RunFailed, format!("input {index} has no place on a device"));
            error.hint("It has one after the first run, if a device reads it and all sizes come with the inputs")
        });
        let place = byoc_device_array::of_device(&place?)?;
        // SAFETY: as for this function.
        unsafe { write(tensor, place) }
    })
}

//! The functions of the abilities `byoc.device`, regions in a domain that this plugin or another one opened, and
//! `byoc.device_steps`, what a run of theirs consisted of.

use std::ffi::c_void;

use super::{backend, constant_view, guard, parse, tensors, write_json};
use crate::abi::{Sink, Slice, TensorList};
use crate::domain::{DeviceConstant, DeviceConstants, DeviceExecutable, DeviceTensor, DomainHandles};
use crate::domain_tables::{DeviceConstantList, DeviceTable};
use crate::error::Error;
use crate::panics::{Guard, quietly};
use crate::runtime::Environment;
use crate::steps_table::StepsTable;
use crate::tensor::{is_contiguous, parts_anywhere};

pub(crate) const TABLE: &DeviceTable =
    &DeviceTable { struct_size: size_of::<DeviceTable>(), load, plan, prepare, run, free };

pub(crate) const STEPS_TABLE: &StepsTable =
    &StepsTable { struct_size: size_of::<StepsTable>(), time: time_steps, read: read_steps };

/// What a handle points to.
type Loaded<'a> = Guard<dyn DeviceExecutable + 'a>;

/// A handle for the functions of [`TABLE`], to be freed before what the executable borrows is gone.
pub(crate) fn handle_of(executable: Box<dyn DeviceExecutable + '_>) -> *mut c_void {
    Box::into_raw(Box::new(Loaded::new(executable))).cast()
}

/// # Safety
/// The list and what it points to must live for `'a`.
unsafe fn constants<'a>(list: DeviceConstantList) -> Result<DeviceConstants<'a>, Error> {
    if list.data.is_null() || list.len == 0 {
        return Ok(DeviceConstants::new(Vec::new()));
    }
    // SAFETY: the caller vouches for the list.
    let entries = unsafe { std::slice::from_raw_parts(list.data, list.len) };
    let constant = |entry: &crate::domain_tables::DeviceConstantView| {
        // SAFETY: the caller vouches for what the list points to.
        let bound = unsafe { constant_view(&entry.constant)? };
        Ok(DeviceConstant { bound, address: entry.address })
    };
    entries.iter().map(constant).collect::<Result<_, _>>().map(DeviceConstants::new)
}

/// # Safety
/// The list and what it points to must live as long as the borrow.
unsafe fn device_tensors(list: &TensorList) -> Result<Vec<DeviceTensor<'_>>, Error> {
    // SAFETY: the caller vouches for the list.
    let entries = unsafe { tensors(list) };
    let tensor = |entry| {
        // SAFETY: the caller vouches for what the list points to.
        let (data, dtype, shape, strides) = unsafe { parts_anywhere(entry)? };
        match is_contiguous(shape, strides) {
            true => Ok(DeviceTensor { address: data as u64, dtype, shape }),
            false => Err(Error::new("a tensor on the device is not contiguous")),
        }
    };
    entries.iter().map(tensor).collect()
}

/// The executable behind a handle.
///
/// # Safety
/// The handle came from `load`, is not freed yet, and no other call for it is running.
unsafe fn at<'a>(executable: *mut c_void) -> &'a mut Loaded<'a> {
    // SAFETY: the caller vouches for the handle.
    unsafe { &mut *executable.cast::<Loaded<'a>>() }
}

extern "C" fn load(
    index: usize,
    code: Slice,
    list: DeviceConstantList,
    environment: Slice,
    domain: *const DomainHandles,
    executable: *mut *mut c_void,
    error: Sink,
) -> i32 {
    guard(error, || {
        let environment: Environment = parse(environment)?;
        // SAFETY: the host keeps code and constants unchanged until it frees the executable, so `'static` is as long
        // as anything in the executable may look at them; the handles are lent for the call.
        let (code, constants, domain) = unsafe { (code.bytes::<'static>(), constants(list)?, *domain) };
        let loaded = backend(index)?.runtime().device()?.load(code, &constants, &environment, &domain)?;
        // SAFETY: the host gives a valid place for the handle.
        unsafe { *executable = handle_of(loaded) };
        Ok(())
    })
}

extern "C" fn plan(executable: *mut c_void, inputs: TensorList, outputs: TensorList, out: Sink, error: Sink) -> i32 {
    guard(error, || {
        // SAFETY: the host lends handle and tensors for the length of the call.
        let (loaded, inputs, outputs) =
            unsafe { (at(executable), device_tensors(&inputs)?, device_tensors(&outputs)?) };
        write_json(out, &loaded.call(|executable| executable.plan(&inputs, &outputs))?)
    })
}

extern "C" fn prepare(
    executable: *mut c_void,
    inputs: TensorList,
    outputs: TensorList,
    scratch: u64,
    error: Sink,
) -> i32 {
    guard(error, || {
        // SAFETY: the host lends handle and tensors for the length of the call.
        let (loaded, inputs, outputs) =
            unsafe { (at(executable), device_tensors(&inputs)?, device_tensors(&outputs)?) };
        loaded.call(|executable| executable.prepare(&inputs, &outputs, scratch))
    })
}

extern "C" fn run(executable: *mut c_void, error: Sink) -> i32 {
    // SAFETY: the host lends the handle for the length of the call.
    guard(error, || unsafe { at(executable) }.call(|executable| executable.run()))
}

extern "C" fn time_steps(executable: *mut c_void, on: u32, error: Sink) -> i32 {
    // SAFETY: the host lends the handle for the length of the call.
    guard(error, || unsafe { at(executable) }.call(|executable| executable.time_steps(on != 0)))
}

extern "C" fn read_steps(executable: *mut c_void, out: Sink, error: Sink) -> i32 {
    // SAFETY: the host lends the handle for the length of the call.
    guard(error, || write_json(out, &unsafe { at(executable) }.call(|executable| executable.steps())?))
}

extern "C" fn free(executable: *mut c_void) {
    if executable.is_null() {
        return;
    }
    // SAFETY: the handle came from `load` and the host frees it once.
    let loaded = unsafe { Box::from_raw(executable.cast::<Loaded<'_>>()) };
    quietly(|| drop(loaded));
}

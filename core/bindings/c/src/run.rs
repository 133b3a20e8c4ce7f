//! Runs, with tensors of the caller's and results of the session's.

use std::borrow::Cow;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::runtime::Input;

use crate::error::{byoc_status, status};
use crate::port::{check, write};
use crate::sessions::{self, Open, Output, Running};
use crate::tensor::{Elements, Given, byoc_array, byoc_device_array, element, rank};
use crate::text::null;

/// Runs a session once, with a tensor for each of its inputs, in their order. They are read where they lie; a result of the run before
/// may be one of them.
///
/// # Safety
/// `inputs` is an array of `count` tensors, whose pointers point to as much as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_run(session: u64, inputs: *const byoc_array, count: usize) -> byoc_status {
    status(|| {
        let open = sessions::find(session)?;
        // SAFETY: as for this function.
        let tensors: Vec<_> = unsafe { list(&open, inputs, count)? }.iter().map(byoc_device_array::of_host).collect();
        // SAFETY: as for this function; nothing is on a device.
        unsafe { run(&open, &tensors, false) }
    })
}

/// Runs a session once, with tensors that may be in the memory of a device that the session uses (`byoc_device_at`), and leaves results where
/// they were computed: `byoc_device_result` tells where. An input that only the device reads is copied within it, and not at all
/// where it is at the address that `byoc_device_input` tells. A result of the run before may be an input; where the inputs have other shapes than
/// in that run, it goes over the host.
///
/// # Safety
/// `inputs` is an array of `count` tensors, whose pointers point to as much as they say: those of the host to memory of the program, those of a
/// device to memory that it reaches in the context of `byoc_device_at`. All work that writes to them is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_run_on_devices(
    session: u64,
    inputs: *const byoc_device_array,
    count: usize,
) -> byoc_status {
    status(|| {
        let open = sessions::find(session)?;
        // SAFETY: as for this function.
        unsafe { run(&open, list(&open, inputs, count)?, true) }
    })
}

/// The inputs, of which there have to be as many as the entry takes.
///
/// # Safety
/// `inputs` is NULL, or an array of `count` tensors.
unsafe fn list<'a, T>(open: &Open, inputs: *const T, count: usize) -> Result<&'a [T]> {
    if count != open.inputs.len() {
        let message = format!("{count} inputs are given, the entry takes {}", open.inputs.len());
        return Err(Diagnostic::new(Code::BadInput, message));
    }
    if count == 0 {
        return Ok(&[]);
    }
    if inputs.is_null() {
        return Err(null("inputs"));
    }
    // SAFETY: as for this function.
    Ok(unsafe { std::slice::from_raw_parts(inputs, count) })
}

/// # Safety
/// As for [`byoc_run_on_devices`].
unsafe fn run(open: &Open, inputs: &[byoc_device_array], keep: bool) -> Result<()> {
    // SAFETY: as for this function.
    let given = inputs.iter().enumerate().map(|(index, tensor)| unsafe { Given::read(tensor, index) });
    let mut given = given.collect::<Result<Vec<_>>>()?;
    // SAFETY: as for this function.
    unsafe { open.lock()?.run(&mut given, keep) }
}

/// Writes output `index` of the last run to `array`, on the host: what a device has is copied first. It is the session's memory: it stays until
/// the session runs again or is closed.
///
/// # Safety
/// `array` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_result(session: u64, index: usize, array: *mut byoc_array) -> byoc_status {
    status(|| {
        let open = sessions::find(session)?;
        check(index, open.outputs.len(), "outputs")?;
        let found = open.lock()?.result(index)?;
        // SAFETY: as for this function.
        unsafe { write(array, found) }
    })
}

/// Writes output `index` of the last run to `tensor`, where it was computed: in the memory of a device or of the host. It is the session's
/// memory: it stays until the session runs again or is closed. All work on it is done.
///
/// # Safety
/// `tensor` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_device_result(session: u64, index: usize, tensor: *mut byoc_device_array) -> byoc_status {
    status(|| {
        let open = sessions::find(session)?;
        check(index, open.outputs.len(), "outputs")?;
        let found = open.lock()?.device_result(index)?;
        // SAFETY: as for this function.
        unsafe { write(tensor, found) }
    })
}

impl Running {
    /// # Safety
    /// As for [`byoc_run_on_devices`].
    unsafe fn run(&mut self, inputs: &mut [Given<'_>], keep: bool) -> Result<()> {
        // A run writes where the results of the last one are, while it may still read its inputs.
        for input in inputs.iter_mut() {
            let Elements::Host(data) = &mut input.data else { continue };
            let (start, end) = (data.as_ptr().addr(), data.as_ptr().addr() + data.len());
            if self.given.iter().any(|range| start < range.end && range.start < end) {
                *data = Cow::Owned(data.to_vec());
            }
        }
        let inputs = inputs.iter().map(|input| input.input()).collect::<Result<Vec<_>>>()?;
        self.outputs.iter_mut().for_each(|output| *output = Output::default());
        self.fetched = false;
        if keep {
            // SAFETY: as for this function.
            unsafe { self.session.run_on_devices(&inputs)? };
            self.given.clear();
            return Ok(());
        }
        let views = inputs.iter().filter_map(|input| match *input {
            Input::Host(view) => Some(view),
            Input::Device(_) => None,
        });
        self.session.run(&views.collect::<Vec<_>>())?;
        self.given.clear();
        self.fetched = true;
        (0..self.outputs.len()).try_for_each(|index| self.bring(index))
    }

    /// Has an output on the host, as C has arrays.
    fn bring(&mut self, index: usize) -> Result<()> {
        let Running { session, outputs, given, fetched } = self;
        if outputs[index].is_there {
            return Ok(());
        }
        if !*fetched && session.device_output(index)?.is_some() {
            session.fetch()?;
            *fetched = true;
        }
        let (view, output) = (session.output(index)?, &mut outputs[index]);
        let mut copy = Vec::new();
        let bytes = match view.as_bytes() {
            Some(bytes) => bytes,
            None => {
                view.for_each_element(|element| copy.extend_from_slice(element));
                copy.as_slice()
            }
        };
        given.push(bytes.as_ptr().addr()..bytes.as_ptr().addr() + bytes.len());
        *output = Output { is_there: true, copy };
        Ok(())
    }

    /// Only looks where the output is on the host: other threads may be reading it.
    fn result(&mut self, index: usize) -> Result<byoc_array> {
        self.bring(index)?;
        let view = self.session.output(index)?;
        let bytes = view.as_bytes().unwrap_or(&self.outputs[index].copy);
        let (element, rank) = (element(view.dtype())?, rank(view.shape()));
        Ok(byoc_array { data: bytes.as_ptr().cast(), bytes: bytes.len(), element, rank, shape: view.shape().as_ptr() })
    }

    fn device_result(&mut self, index: usize) -> Result<byoc_device_array> {
        match self.session.device_output(index)? {
            Some(array) => byoc_device_array::of_device(&array),
            None => self.result(index).map(|array| byoc_device_array::of_host(&array)),
        }
    }
}

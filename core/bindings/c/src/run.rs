//! Runs, with tensors of the caller's and results of the session's.

use std::borrow::Cow;
use std::ffi::c_void;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_plugin_api::{DType, TensorView, contiguous_strides};

use crate::error::{byoc_status, status};
use crate::port::{dtype, number, write};
use crate::sessions::{self, Running};
use crate::text::null;

/// A tensor, row-major, in the byte order of x86.
#[repr(C)]
pub struct byoc_array {
    /// The elements.
    pub data: *const c_void,
    /// Their bytes.
    pub bytes: usize,
    /// The type of the elements, a `byoc_element`.
    pub element: i32,
    /// The number of dimensions.
    pub rank: i32,
    /// The size of each; may be NULL where there is none.
    pub shape: *const i64,
}

/// A tensor of the caller's that was looked at.
struct Input<'a> {
    data: Cow<'a, [u8]>,
    dtype: DType,
    shape: &'a [i64],
    strides: Vec<i64>,
}

impl Input<'_> {
    /// # Safety
    /// The tensor's pointers are NULL or point to as much as it says.
    unsafe fn read(tensor: &byoc_array, index: usize) -> Result<Input<'_>> {
        let bad = |what: String| Diagnostic::new(Code::BadInput, format!("input {index}: {what}"));
        let dtype = dtype(tensor.element).map_err(|error| error.within(format!("input {index}")))?;
        let rank = usize::try_from(tensor.rank).map_err(|_| bad(format!("the rank is {}", tensor.rank)))?;
        if rank > 0 && tensor.shape.is_null() || tensor.bytes > 0 && tensor.data.is_null() {
            return Err(null(&format!("input {index}: {}", if tensor.data.is_null() { "data" } else { "shape" })));
        }
        // SAFETY: the caller says so, and nothing is read where there is nothing.
        let (data, shape) = unsafe {
            (
                if tensor.bytes == 0 { &[][..] } else { std::slice::from_raw_parts(tensor.data.cast(), tensor.bytes) },
                if rank == 0 { &[][..] } else { std::slice::from_raw_parts(tensor.shape, rank) },
            )
        };
        Ok(Input { data: Cow::Borrowed(data), dtype, shape, strides: contiguous_strides(shape) })
    }

    fn view(&self) -> Result<TensorView<'_>> {
        TensorView::from_bytes(&self.data, self.dtype, self.shape, &self.strides)
            .map_err(|error| Diagnostic::new(Code::BadInput, error.message))
    }
}

/// Runs a session once, with a tensor for each of its inputs, in their order. They are read where they lie; a result of the run before
/// may be one of them.
///
/// # Safety
/// `inputs` is an array of `count` tensors, whose pointers point to as much as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_run(session: u64, inputs: *const byoc_array, count: usize) -> byoc_status {
    status(|| {
        let open = sessions::find(session)?;
        if count != open.inputs.len() {
            let message = format!("{count} inputs are given, the entry takes {}", open.inputs.len());
            return Err(Diagnostic::new(Code::BadInput, message));
        }
        if count > 0 && inputs.is_null() {
            return Err(null("inputs"));
        }
        // SAFETY: as for this function.
        let inputs = (0..count).map(|index| unsafe { Input::read(&*inputs.add(index), index) });
        let mut inputs = inputs.collect::<Result<Vec<_>>>()?;
        open.lock()?.run(&mut inputs)
    })
}

/// Writes output `index` of the last run to `array`. It is the session's memory: it stays until the session runs again or is closed.
///
/// # Safety
/// `array` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_result(session: u64, index: usize, array: *mut byoc_array) -> byoc_status {
    status(|| {
        let open = sessions::find(session)?;
        if index >= open.outputs.len() {
            let message = format!("{index} is asked for, and the entry has {} outputs", open.outputs.len());
            return Err(Diagnostic::new(Code::Usage, message));
        }
        let found = open.lock()?.result(index)?;
        // SAFETY: as for this function.
        unsafe { write(array, found) }
    })
}

impl Running {
    fn run(&mut self, inputs: &mut [Input<'_>]) -> Result<()> {
        let Running { session, copies, given } = self;
        // A run writes where the results of the last one are, while it may still read its inputs.
        for input in inputs.iter_mut() {
            let (start, end) = (input.data.as_ptr().addr(), input.data.as_ptr().addr() + input.data.len());
            if given.iter().any(|range| start < range.end && range.start < end) {
                input.data = Cow::Owned(input.data.to_vec());
            }
        }
        let views = inputs.iter().map(Input::view).collect::<Result<Vec<_>>>()?;
        given.clear();
        session.run(&views)?;
        for (index, copy) in copies.iter_mut().enumerate() {
            let view = session.output(index)?;
            copy.clear();
            match view.as_bytes() {
                Some(bytes) => given.push(bytes.as_ptr().addr()..bytes.as_ptr().addr() + bytes.len()),
                None => view.for_each_element(|element| copy.extend_from_slice(element)),
            }
            given.push(copy.as_ptr().addr()..copy.as_ptr().addr() + copy.len());
        }
        Ok(())
    }

    /// Only looks: other threads may be reading the same result.
    fn result(&self, index: usize) -> Result<byoc_array> {
        let view = self.session.output(index)?;
        let bytes = view.as_bytes().unwrap_or(&self.copies[index]);
        let rank = i32::try_from(view.shape().len()).unwrap_or(i32::MAX);
        let element = number(view.dtype()).ok_or_else(|| Diagnostic::new(Code::RunFailed, "an output is of texts"))?;
        Ok(byoc_array { data: bytes.as_ptr().cast(), bytes: bytes.len(), element, rank, shape: view.shape().as_ptr() })
    }
}

//! Tensors of the caller's.

use std::borrow::Cow;
use std::ffi::c_void;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::runtime::{DeviceArray, Input};
use byoc_plugin_api::dlpack::{CPU, DLDevice};
use byoc_plugin_api::{DType, TensorView, contiguous_strides};

use crate::port::{dtype, number};
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

/// A tensor, row-major, in the memory of the host or of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byoc_device_array {
    /// The elements: an address of the host, or one of the device.
    pub data: *const c_void,
    /// Their bytes.
    pub bytes: usize,
    /// The type of the elements, a `byoc_element`.
    pub element: i32,
    /// The number of dimensions.
    pub rank: i32,
    /// The size of each; may be NULL where there is none.
    pub shape: *const i64,
    /// DLPack's number of the kind of memory: 1 for the host's, 2 for CUDA's, 12 for a device that has no number of its own.
    pub device_type: i32,
    /// Which device of that kind.
    pub device_id: i32,
}

impl byoc_device_array {
    /// A tensor of the host's.
    pub(crate) fn of_host(array: &byoc_array) -> byoc_device_array {
        let &byoc_array { data, bytes, element, rank, shape } = array;
        byoc_device_array { data, bytes, element, rank, shape, device_type: CPU.device_type, device_id: CPU.device_id }
    }

    /// One on a device.
    pub(crate) fn of_device(array: &DeviceArray<'_>) -> Result<byoc_device_array> {
        Ok(byoc_device_array {
            data: std::ptr::without_provenance(array.address as usize),
            bytes: bytes_of(array.dtype, array.shape).unwrap_or(0),
            element: element(array.dtype)?,
            rank: rank(array.shape),
            shape: array.shape.as_ptr(),
            device_type: array.device.device_type,
            device_id: array.device.device_id,
        })
    }
}

/// A tensor of the caller's that was looked at.
pub(crate) struct Given<'a> {
    pub(crate) data: Elements<'a>,
    dtype: DType,
    /// A copy: that of a result is gone when the session makes memory for other shapes.
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Where elements are.
pub(crate) enum Elements<'a> {
    Host(Cow<'a, [u8]>),
    Device(DLDevice, u64),
}

impl Given<'_> {
    /// # Safety
    /// The tensor's pointers are NULL or point to as much as it says.
    pub(crate) unsafe fn read(tensor: &byoc_device_array, index: usize) -> Result<Given<'_>> {
        let bad = |what: String| Diagnostic::new(Code::BadInput, format!("input {index}: {what}"));
        let dtype = dtype(tensor.element).map_err(|error| error.within(format!("input {index}")))?;
        let rank = usize::try_from(tensor.rank).map_err(|_| bad(format!("the rank is {}", tensor.rank)))?;
        if rank > 0 && tensor.shape.is_null() || tensor.bytes > 0 && tensor.data.is_null() {
            return Err(null(&format!("input {index}: {}", if tensor.data.is_null() { "data" } else { "shape" })));
        }
        // SAFETY: the caller says so, and nothing is read where there is nothing.
        let shape = if rank == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(tensor.shape, rank) } };
        let shape = shape.to_vec();
        let strides = contiguous_strides(&shape);
        let device = DLDevice { device_type: tensor.device_type, device_id: tensor.device_id };
        if device != CPU {
            let expected = bytes_of(dtype, &shape);
            if expected != Some(tensor.bytes) {
                let shape: Vec<_> = shape.iter().map(i64::to_string).collect();
                let what = format!("{} bytes are given for a tensor of {dtype}[{}]", tensor.bytes, shape.join(","));
                return Err(bad(what));
            }
            return Ok(Given { data: Elements::Device(device, tensor.data.addr() as u64), dtype, shape, strides });
        }
        let data = match tensor.bytes {
            0 => &[][..],
            // SAFETY: as above.
            bytes => unsafe { std::slice::from_raw_parts(tensor.data.cast(), bytes) },
        };
        Ok(Given { data: Elements::Host(Cow::Borrowed(data)), dtype, shape, strides })
    }

    /// For a run.
    pub(crate) fn input(&self) -> Result<Input<'_>> {
        match &self.data {
            Elements::Host(data) => {
                let view = TensorView::from_bytes(data, self.dtype, &self.shape, &self.strides);
                view.map(Input::Host).map_err(|error| Diagnostic::new(Code::BadInput, error.message))
            }
            &Elements::Device(device, address) => {
                Ok(Input::Device(DeviceArray { device, address, dtype: self.dtype, shape: &self.shape }))
            }
        }
    }
}

/// Bytes of a tensor; `None` where no memory can hold it.
fn bytes_of(dtype: DType, shape: &[i64]) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(usize::try_from(size).ok()?));
    dtype.bytes_for(count?)
}

/// The number of an element type.
pub(crate) fn element(dtype: DType) -> Result<i32> {
    number(dtype).ok_or_else(|| Diagnostic::new(Code::RunFailed, "an output is of texts"))
}

/// How many dimensions there are: a tensor of more than a number of C holds is not loaded.
pub(crate) fn rank(shape: &[i64]) -> i32 {
    i32::try_from(shape.len()).unwrap_or(i32::MAX)
}

//! Inputs and outputs of an entry.

use std::ffi::{CString, c_char};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::onnx_types;
use byoc_core::runtime::PortInfo;
use byoc_plugin_api::{DType, Dim};

use crate::error::{byoc_status, status};
use crate::sessions::{self, Open};
use crate::text::null;

/// Types of elements, with the numbers that ONNX has for them (`TensorProto.DataType`). Elements of less than 8 bits share bytes: the
/// first one is in the lowest bits. Further types may come.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byoc_element {
    /// IEEE binary32.
    BYOC_F32 = 1,
    /// Unsigned.
    BYOC_U8 = 2,
    /// Signed.
    BYOC_I8 = 3,
    /// Unsigned.
    BYOC_U16 = 4,
    /// Signed.
    BYOC_I16 = 5,
    /// Signed.
    BYOC_I32 = 6,
    /// Signed.
    BYOC_I64 = 7,
    /// 0 or 1, in a byte.
    BYOC_BOOL = 9,
    /// IEEE binary16.
    BYOC_F16 = 10,
    /// IEEE binary64.
    BYOC_F64 = 11,
    /// Unsigned.
    BYOC_U32 = 12,
    /// Unsigned.
    BYOC_U64 = 13,
    /// Two f32.
    BYOC_C64 = 14,
    /// Two f64.
    BYOC_C128 = 15,
    /// The upper half of an f32.
    BYOC_BF16 = 16,
    /// 8 bits.
    BYOC_F8E4M3FN = 17,
    /// 8 bits.
    BYOC_F8E4M3FNUZ = 18,
    /// 8 bits.
    BYOC_F8E5M2 = 19,
    /// 8 bits.
    BYOC_F8E5M2FNUZ = 20,
    /// Unsigned, two in a byte.
    BYOC_U4 = 21,
    /// Signed, two in a byte.
    BYOC_I4 = 22,
    /// Two in a byte.
    BYOC_F4E2M1 = 23,
    /// A power of two.
    BYOC_F8E8M0 = 24,
    /// Unsigned, four in a byte.
    BYOC_U2 = 25,
    /// Signed, four in a byte.
    BYOC_I2 = 26,
}

/// The type of a number of C, which may be any.
pub(crate) fn dtype(number: i32) -> Result<DType> {
    let unknown = || Diagnostic::new(Code::BadInput, format!("{number} is not an element type of byoc_element"));
    onnx_types::from_onnx(number.into()).filter(|dtype| *dtype != DType::String).ok_or_else(unknown)
}

/// The number of a type; `None` for texts.
pub(crate) fn number(dtype: DType) -> Option<i32> {
    (dtype != DType::String).then(|| onnx_types::to_onnx(dtype) as i32)
}

/// An input or an output of an entry.
#[repr(C)]
pub struct byoc_port {
    /// Its name, in UTF-8. It stays as long as the session is open.
    pub name: *const c_char,
    /// The type of its elements, a `byoc_element`.
    pub element: i32,
    /// The number of dimensions.
    pub rank: i32,
    /// The size of each dimension; -1 where the inputs of a run decide it. It stays as long as the session is open.
    pub shape: *const i64,
}

/// An input or an output, as C gets it.
pub(crate) struct Port {
    name: CString,
    element: i32,
    shape: Vec<i64>,
}

impl Port {
    /// Errors for what is not a tensor of numbers.
    pub(crate) fn of(info: &PortInfo) -> Result<Port> {
        let PortInfo { name, dtype, shape, list } = info;
        let Some(number) = number(*dtype).filter(|_| list.is_none()) else {
            let ty = list.as_ref().map_or_else(|| dtype.to_string(), ToString::to_string);
            let message = format!("'{name}' is {ty}, and the C library runs entries of tensors of numbers");
            return Err(Diagnostic::new(Code::BadInput, message).hint("Run it by the program, or from Python"));
        };
        let size = |dim: &Dim| dim.fixed().map_or(-1, |size| size as i64);
        let name = CString::new(name.replace('\0', "?")).unwrap_or_default();
        Ok(Port { name, element: number, shape: shape.iter().map(size).collect() })
    }
}

/// Writes how many inputs a session takes to `count`.
///
/// # Safety
/// `count` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_input_count(session: u64, count: *mut usize) -> byoc_status {
    // SAFETY: as for this function.
    status(|| unsafe { write(count, sessions::find(session)?.inputs.len()) })
}

/// Writes how many outputs a session gives to `count`.
///
/// # Safety
/// `count` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_output_count(session: u64, count: *mut usize) -> byoc_status {
    // SAFETY: as for this function.
    status(|| unsafe { write(count, sessions::find(session)?.outputs.len()) })
}

/// Writes what input `index` is to `port`.
///
/// # Safety
/// `port` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_input_port(session: u64, index: usize, port: *mut byoc_port) -> byoc_status {
    // SAFETY: as for this function.
    status(|| unsafe { write(port, told(&*sessions::find(session)?, true, index)?) })
}

/// Writes what output `index` is to `port`.
///
/// # Safety
/// `port` is NULL, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_output_port(session: u64, index: usize, port: *mut byoc_port) -> byoc_status {
    // SAFETY: as for this function.
    status(|| unsafe { write(port, told(&*sessions::find(session)?, false, index)?) })
}

fn told(open: &Open, is_input: bool, index: usize) -> Result<byoc_port> {
    let (ports, kind) = if is_input { (&open.inputs, "inputs") } else { (&open.outputs, "outputs") };
    check(index, ports.len(), kind)?;
    let port = &ports[index];
    // A tensor of more dimensions than that is not loaded.
    let rank = i32::try_from(port.shape.len()).unwrap_or(i32::MAX);
    Ok(byoc_port { name: port.name.as_ptr(), element: port.element, rank, shape: port.shape.as_ptr() })
}

/// Errors where there is no such input or output.
pub(crate) fn check(index: usize, count: usize, kind: &str) -> Result<()> {
    if index < count {
        return Ok(());
    }
    Err(Diagnostic::new(Code::Usage, format!("{index} is asked for, and the entry has {count} {kind}")))
}

/// Writes a result. Errors for NULL.
///
/// # Safety
/// `place` is NULL, or can be written to.
pub(crate) unsafe fn write<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(null("the place of the result"));
    }
    // SAFETY: the caller says so. What was there is not read, for it may be anything.
    unsafe { place.write(value) };
    Ok(())
}

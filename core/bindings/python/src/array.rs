//! Values of Python as inputs of a run, and outputs as arrays of NumPy.

use std::ops::Range;
use std::ptr;

use byoc_core::runtime::PortInfo;
use byoc_plugin_api::{DType, TensorView, contiguous_strides};
use byoc_tools::lists::Given;
use byoc_tools::npy;
use byoc_tools::tensor::Tensor;
use numpy::npyffi::{self, NPY_ARRAY_CARRAY_RO, npy_intp};
use numpy::{PY_ARRAY_API, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::bad_input;

/// The value of an input.
pub(crate) enum Value<'py> {
    /// The elements of an array, where they lie.
    Array(Borrowed<'py>),
    /// A copy: of texts, of elements that share bytes, of lists.
    Copied(Given),
}

/// An array in the order of C whose elements are read where they lie. It is kept as long as this.
pub(crate) struct Borrowed<'py> {
    array: Bound<'py, PyUntypedArray>,
    dtype: DType,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Borrowed<'_> {
    /// The elements.
    pub(crate) fn view(&self) -> Option<TensorView<'_>> {
        let length = self.dtype.bytes_for(self.array.len())?;
        // SAFETY: it is the array's memory, which lives as long as the array. Python code that writes to it during a run is as
        // wrong as it is with any library that reads arrays without the interpreter's lock: what is read then is not defined, and
        // byoc takes no decision twice from an element.
        let bytes = unsafe {
            let data: *const u8 = (*self.array.as_array_ptr()).fields.data.cast();
            if length == 0 { &[][..] } else { std::slice::from_raw_parts(data, length) }
        };
        TensorView::from_bytes(bytes, self.dtype, &self.shape, &self.strides).ok()
    }

    /// The addresses of its memory.
    pub(crate) fn range(&self) -> Range<usize> {
        range(&self.array)
    }
}

/// The addresses of the memory of an array in the order of C.
pub(crate) fn range(array: &Bound<'_, PyUntypedArray>) -> Range<usize> {
    // SAFETY: it is an array.
    let start = unsafe { (*array.as_array_ptr()).fields.data.addr() };
    start..start + array.len() * array.dtype().itemsize()
}

/// Whether an array of NumPy's type has the elements of a tensor: of types that NumPy itself does not have, codes will do.
pub(crate) fn holds(found: &Bound<'_, PyArrayDescr>, dtype: DType) -> bool {
    let is_codes = !npy::is_numpys(dtype) && (found.kind(), found.itemsize()) == (b'u', dtype.unpacked_bytes());
    dtype_of(found) == Some(dtype) || is_codes
}

/// The value for an input.
pub(crate) fn given<'py>(port: &PortInfo, value: &Bound<'py, PyAny>) -> PyResult<Value<'py>> {
    let Some(list) = &port.list else {
        return tensor(&port.name, port.dtype, value);
    };
    if value.is_none() {
        return Ok(Value::Copied(Given::Nothing));
    }
    let copied = |value: &Bound<'py, PyAny>| copy(&port.name, list.dtype, value);
    if !list.sequence {
        return Ok(Value::Copied(Given::Optional(copied(value)?)));
    }
    let tensors = value.try_iter()?.map(|element| copied(&element?)).collect::<PyResult<_>>()?;
    Ok(Value::Copied(Given::Sequence(tensors)))
}

/// A copy of a value as a tensor.
fn copy(name: &str, dtype: DType, value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = value.py();
    let memory = || bad_input(py, format!("there is no memory for input '{name}'"), "Free memory");
    match tensor(name, dtype, value)? {
        Value::Copied(Given::Tensor(tensor)) => Ok(tensor),
        Value::Copied(_) => Err(memory()),
        Value::Array(array) => array.view().and_then(|view| Tensor::copy(&view).ok()).ok_or_else(memory),
    }
}

fn tensor<'py>(name: &str, dtype: DType, value: &Bound<'py, PyAny>) -> PyResult<Value<'py>> {
    let py = value.py();
    if dtype == DType::String {
        return texts(name, value).map(|texts| Value::Copied(Given::Tensor(texts)));
    }
    let array = contiguous(name, dtype, value)?;
    let found = array.dtype();
    let shape: Vec<i64> = array.shape().iter().map(|&size| size as i64).collect();
    if !holds(&found, dtype) {
        let message = format!("input '{name}' is {found}, the entry takes {dtype}");
        return Err(bad_input(py, message, &npy::conversion(&found.to_string(), dtype)));
    }
    let strides = contiguous_strides(&shape);
    if !dtype.shares_bytes() {
        return Ok(Value::Array(Borrowed { array, dtype, shape, strides }));
    }
    let unpacked = Borrowed { array, dtype: DType::U8, shape, strides };
    let packed = unpacked.view().and_then(|view| view.as_bytes().map(|bytes| dtype.pack(bytes)));
    let tensor = packed.and_then(|bytes| Tensor::new(dtype, unpacked.shape.clone(), bytes));
    let tensor =
        tensor.ok_or_else(|| bad_input(py, format!("input '{name}' cannot be packed"), "Give its codes as uint8"))?;
    Ok(Value::Copied(Given::Tensor(tensor)))
}

/// The value as an array in the order of C. Numbers and lists of them take the type that is wanted; what has a type of its own keeps it.
fn contiguous<'py>(name: &str, dtype: DType, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = value.py();
    if let Ok(array) = value.cast::<PyUntypedArray>()
        && array.is_c_contiguous()
        && array.dtype().is_native_byteorder() != Some(false)
    {
        return Ok(array.clone());
    }
    let numpy = py.import(intern!(py, "numpy"))?;
    let array = numpy.call_method1(intern!(py, "asarray"), (value,))?;
    let array = if has_type(value)? { native(array)? } else { typed(name, dtype, array)? };
    // In the order of C: that call makes a list of one of a number, so it keeps its shape.
    let shape = array.getattr(intern!(py, "shape"))?;
    let array = numpy.call_method1(intern!(py, "ascontiguousarray"), (array,))?;
    Ok(array.call_method1(intern!(py, "reshape"), (shape,))?.cast_into::<PyUntypedArray>()?)
}

/// Whether a value says itself which type its elements have.
fn has_type(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    for name in [intern!(py, "dtype"), intern!(py, "__array__"), intern!(py, "__dlpack__")] {
        if value.hasattr(name)? {
            return Ok(true);
        }
    }
    // What gives a buffer says the type of what is in it.
    Ok(py.import(intern!(py, "builtins"))?.call_method1(intern!(py, "memoryview"), (value,)).is_ok())
}

/// Numbers and lists of numbers in the type that is wanted. Errors where that would lose something.
fn typed<'py>(name: &str, dtype: DType, array: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let kind: String = array.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "kind"))?.extract()?;
    let wanted = descr(py, dtype)?;
    let takes = match dtype {
        DType::Bool => "b",
        DType::C64 | DType::C128 => "iufc",
        real if real.is_float() || real.is_small_float() => "iuf",
        _ => "iu",
    };
    let size: usize = array.getattr(intern!(py, "size"))?.extract()?;
    let converted = array.call_method1(intern!(py, "astype"), (&wanted,));
    let lost = |found: &str| {
        let message = format!("input '{name}' is given as a list of {found}, the entry takes {dtype}");
        bad_input(py, message, "Give an array of that type, made by an astype of your own")
    };
    if size == 0 {
        return converted;
    }
    if !takes.contains(&kind) {
        return Err(lost(&array.getattr(intern!(py, "dtype"))?.to_string()));
    }
    let converted = converted?;
    let all = |same: Bound<'py, PyAny>| same.call_method0(intern!(py, "all"))?.is_truthy();
    let kept = match takes {
        "iu" => {
            let back = converted.call_method1(intern!(py, "astype"), (array.getattr(intern!(py, "dtype"))?,))?;
            all(back.call_method1(intern!(py, "__eq__"), (&array,))?)?
        }
        // Rounding is what floats are for; becoming infinite is not.
        "iuf" => {
            let isfinite = py.import(intern!(py, "numpy"))?.getattr(intern!(py, "isfinite"))?;
            all(isfinite.call1((&converted,))?.call_method1(intern!(py, "__eq__"), (isfinite.call1((&array,))?,))?)?
        }
        _ => true,
    };
    if kept { Ok(converted) } else { Err(lost("numbers beyond its range")) }
}

/// The array with its numbers in the byte order of the machine.
fn native(array: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = array.py();
    let dtype = array.getattr(intern!(py, "dtype"))?;
    if dtype.getattr(intern!(py, "isnative"))?.is_truthy()? {
        return Ok(array);
    }
    let dtype = dtype.call_method1(intern!(py, "newbyteorder"), (intern!(py, "="),))?;
    array.call_method1(intern!(py, "astype"), (dtype,))
}

/// The texts of a value, which may be an array of texts, a list of them or one.
fn texts(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = value.py();
    // Of a list each element keeps what it is: as an array of texts they would lose zeros at their ends, and numbers become texts.
    let numpy = py.import(intern!(py, "numpy"))?;
    let array = match value.hasattr(intern!(py, "dtype"))? {
        true => value.clone(),
        false => numpy.call_method1(intern!(py, "array"), (value, intern!(py, "object")))?,
    };
    let shape: Vec<i64> = array.getattr(intern!(py, "shape"))?.extract()?;
    let flat = array.call_method0(intern!(py, "ravel"))?.call_method0(intern!(py, "tolist"))?;
    let texts: Vec<String> = flat.extract().map_err(|_| {
        bad_input(
            py,
            format!("input '{name}' takes texts, and something else is given"),
            "Give texts, as in numpy.array(['a', 'b'])",
        )
    })?;
    Tensor::of_texts(shape, &texts).ok_or_else(|| {
        bad_input(py, format!("the texts of input '{name}' have more than 4 GiB"), "Give fewer at a time")
    })
}

/// The type of elements; `None` for one that byoc does not have.
fn dtype_of(found: &Bound<'_, PyArrayDescr>) -> Option<DType> {
    Some(match (found.kind(), found.itemsize()) {
        (b'f', 4) if found.char() == b'f' => DType::F32,
        (b'f', 8) => DType::F64,
        (b'f', 2) if found.char() == b'e' => DType::F16,
        (b'i', 8) => DType::I64,
        (b'i', 4) => DType::I32,
        (b'u', 1) if found.char() == b'B' => DType::U8,
        (b'b', 1) => DType::Bool,
        _ => {
            let name = found.to_string();
            npy::NAMES.iter().find(|(known, _)| *known == name)?.1
        }
    })
}

/// NumPy's type for elements; for those of `ml_dtypes`, if that package is not there, unsigned numbers of the same size.
fn descr(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    let name = npy::name(dtype).unwrap_or("uint8");
    if npy::is_numpys(dtype) {
        return PyArrayDescr::new(py, name);
    }
    // The package may not be there, or may be older than the type.
    match py.import(intern!(py, "ml_dtypes")).and_then(|package| package.getattr(name)) {
        Ok(class) => PyArrayDescr::new(py, class),
        Err(_) => PyArrayDescr::new(py, if dtype == DType::BF16 { "uint16" } else { "uint8" }),
    }
}

/// A new array with a copy of the elements. `DType::String` has no elements that mean anything by themselves, and is not given.
pub(crate) fn copied<'py>(py: Python<'py>, view: &TensorView<'_>) -> PyResult<Bound<'py, PyAny>> {
    let dtype = view.dtype();
    let bytes = match view.as_bytes() {
        Some(bytes) => std::borrow::Cow::Borrowed(bytes),
        None => {
            let mut bytes = Vec::with_capacity(view.byte_len());
            view.for_each_element(|element| bytes.extend_from_slice(element));
            bytes.into()
        }
    };
    let bytes = match dtype.shares_bytes() {
        true => dtype.unpack(&bytes, view.len()).unwrap_or_default().into(),
        false => bytes,
    };
    let array = array(py, dtype, view.shape(), ptr::null_mut())?;
    // SAFETY: the array was made just now with room for these elements, and nobody else has it.
    unsafe {
        let data: *mut u8 = (*array.as_array_ptr()).fields.data.cast();
        ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
    }
    Ok(array.into_any())
}

/// An array that reads the elements where they lie, and cannot be written to; `None` where they do not lie as in an array. `owner` is
/// kept as long as the array, and what the view refers to must be unchanged and there as long as `owner`.
pub(crate) fn lent<'py>(view: &TensorView<'_>, owner: Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = owner.py();
    if view.dtype().shares_bytes() || !view.is_contiguous() || !view.has_data() || view.is_empty() {
        return Ok(None);
    }
    let array = array(py, view.dtype(), view.shape(), view.as_ptr().cast_mut().cast())?;
    // SAFETY: the array is new, and takes over the reference to its owner.
    let failed = unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_array_ptr(), owner.into_ptr()) };
    if failed < 0 { Err(PyErr::fetch(py)) } else { Ok(Some(array.into_any())) }
}

/// An array over `data`, which is read only; of memory of its own where `data` is null.
fn array<'py>(
    py: Python<'py>,
    dtype: DType,
    shape: &[i64],
    data: *mut std::ffi::c_void,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let mut sizes: Vec<npy_intp> = shape.iter().map(|&size| size as npy_intp).collect();
    let flags = if data.is_null() { 0 } else { NPY_ARRAY_CARRAY_RO };
    let descr = descr(py, dtype)?.into_dtype_ptr();
    // SAFETY: NumPy takes the type over and copies the sizes; `data` is what the caller says it is.
    unsafe {
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descr,
            sizes.len() as i32,
            sizes.as_mut_ptr(),
            ptr::null_mut(),
            data,
            flags,
            ptr::null_mut(),
        );
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked())
    }
}

/// An array of Python's texts: those of NumPy lose zeros at their ends.
pub(crate) fn array_of_texts<'py>(py: Python<'py>, shape: &[i64], texts: &[&str]) -> PyResult<Bound<'py, PyAny>> {
    let list = PyList::new(py, texts)?;
    let numpy = py.import(intern!(py, "numpy"))?;
    let array = numpy.call_method1(intern!(py, "array"), (list, intern!(py, "object")))?;
    array.call_method1(intern!(py, "reshape"), (PyTuple::new(py, shape)?,))
}

//! Arrays of the caller's that outputs are written to.

use std::ops::Range;

use byoc_core::runtime::{OutputBuffer, PortInfo};
use byoc_plugin_api::DType;
use numpy::npyffi::NPY_ARRAY_WRITEABLE;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array;
use crate::error::bad_input;

/// An array in the order of C that can be written to. It is kept as long as this.
pub(crate) struct Target<'py> {
    pub(crate) array: Bound<'py, PyUntypedArray>,
    dtype: DType,
    shape: Vec<i64>,
    length: usize,
}

impl Target<'_> {
    /// Its memory.
    pub(crate) fn buffer(&mut self) -> OutputBuffer<'_> {
        // SAFETY: it is the array's memory, which lives as long as the array, has so many bytes and may be written to; no other
        // target and no input has any of it, as `check_overlaps` saw. For what Python code does with it meanwhile, see `Borrowed::view`.
        let bytes = unsafe {
            let data: *mut u8 = (*self.array.as_array_ptr()).fields.data.cast();
            if self.length == 0 { &mut [][..] } else { std::slice::from_raw_parts_mut(data, self.length) }
        };
        OutputBuffer { bytes, dtype: self.dtype, shape: &self.shape }
    }

    fn range(&self) -> Range<usize> {
        array::range(&self.array)
    }
}

/// A target for each output that `out` has one for: arrays by name, or in the order of the outputs with `None` for those without.
pub(crate) fn targets<'py>(ports: &[PortInfo], out: &Bound<'py, PyAny>) -> PyResult<Vec<Option<Target<'py>>>> {
    let py = out.py();
    let given: Vec<Option<Bound<'py, PyAny>>> = if let Ok(named) = out.cast::<PyDict>() {
        for name in named.keys() {
            let name: String = name.extract()?;
            if !ports.iter().any(|port| port.name == name) {
                let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
                let hint = format!("The outputs are: {}", names.join(", "));
                return Err(bad_input(py, format!("there is no output '{name}'"), &hint));
            }
        }
        ports.iter().map(|port| named.get_item(&port.name)).collect::<PyResult<_>>()?
    } else if out.is_instance_of::<PyTuple>() || out.is_instance_of::<PyList>() {
        let list = out.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        if list.len() != ports.len() {
            let message = format!("arrays for {} outputs are given, the entry has {}", list.len(), ports.len());
            return Err(bad_input(py, message, "Give None for those without one"));
        }
        list.into_iter().map(Some).collect()
    } else {
        let message = "out is a dict of arrays by name, or a list in the order of the outputs";
        return Err(pyo3::exceptions::PyTypeError::new_err(message));
    };
    let target = |(port, array): (&PortInfo, Option<Bound<'py, PyAny>>)| {
        array.filter(|array| !array.is_none()).map(|array| target(port, &array)).transpose()
    };
    ports.iter().zip(given).map(target).collect()
}

fn target<'py>(port: &PortInfo, value: &Bound<'py, PyAny>) -> PyResult<Target<'py>> {
    let (py, name, dtype) = (value.py(), &port.name, port.dtype);
    let bad = |what: &str, hint: &str| Err(bad_input(py, format!("the memory for output '{name}' {what}"), hint));
    if port.list.is_some() || dtype == DType::String || dtype.shares_bytes() {
        let ty = port.list.as_ref().map_or_else(|| dtype.to_string(), ToString::to_string);
        return bad(&format!("cannot be given: it is {ty}"), "Leave it out of out");
    }
    let Ok(array) = value.cast::<PyUntypedArray>() else {
        return bad("is not an array of NumPy", "Make one by byoc.empty(shape, dtype)");
    };
    // SAFETY: it is an array.
    let writeable = unsafe { (*array.as_array_ptr()).fields.flags } & NPY_ARRAY_WRITEABLE != 0;
    let found = array.dtype();
    if !array.is_c_contiguous() || !writeable || found.is_native_byteorder() == Some(false) {
        let hint = "Make an array by byoc.empty(shape, dtype)";
        return bad("is not a writeable array in the order of C and of the machine's bytes", hint);
    }
    if !array::holds(&found, dtype) {
        return bad(&format!("is {found}, the output is {dtype}"), "Make an array by byoc.empty(shape, dtype)");
    }
    let shape = array.shape().iter().map(|&size| size as i64).collect();
    let length = dtype.bytes_for(array.len()).unwrap_or(usize::MAX);
    Ok(Target { array: array.clone(), dtype, shape, length })
}

/// Errors where a target shares memory with another one or with an input, of which names and addresses are given.
pub(crate) fn check_overlaps(
    py: Python<'_>,
    inputs: Vec<(&str, Range<usize>)>,
    outputs: (&[PortInfo], &[Option<Target<'_>>]),
) -> PyResult<()> {
    if outputs.1.is_empty() {
        return Ok(());
    }
    let mut known: Vec<_> = inputs.into_iter().map(|(name, range)| ("input", name, range)).collect();
    for (port, target) in outputs.0.iter().zip(outputs.1) {
        let Some(range) = target.as_ref().map(Target::range) else { continue };
        let shared = known.iter().find(|(_, _, other)| range.start < other.end && other.start < range.end);
        if let Some((kind, name, _)) = shared {
            let message = format!("the memory for output '{}' shares bytes with {kind} '{name}'", port.name);
            return Err(bad_input(py, message, "Give it memory of its own"));
        }
        known.push(("that for output", &port.name, range));
    }
    Ok(())
}

//! Where each value of an entry lies, for one set of input shapes.

use std::collections::HashMap;

use byoc_plugin_api::{Dim, Lifetime, contiguous_strides, plan_arena};

use crate::artifact::manifest::Entry;
use crate::buffer::ALIGNMENT;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;

/// Shapes and places of the values of an entry.
pub(super) struct Plan {
    /// Shape of each value.
    pub(super) shapes: Vec<Vec<i64>>,
    /// Row-major strides of each value.
    pub(super) strides: Vec<Vec<i64>>,
    /// Offset of each value in the arena; `None` for inputs and constants.
    pub(super) offsets: Vec<Option<usize>>,
    /// Bytes of the arena.
    pub(super) size: usize,
}

impl Plan {
    /// The plan for inputs of the given shapes, one for each input port. Shapes that the entry does not take are
    /// errors that name the port.
    pub(super) fn new(entry: &Entry, input_shapes: &[&[i64]]) -> Result<Plan> {
        let symbols = bind_symbols(entry, input_shapes)?;
        let shapes = entry.values.iter().map(|value| evaluate(&value.shape, &symbols)).collect::<Result<Vec<_>>>()?;
        for (port, given) in entry.inputs.iter().zip(input_shapes) {
            if shapes[port.value] != *given {
                return Err(wrong_shape(entry, &port.name, port.value, given));
            }
        }
        let lifetimes = lifetimes(entry, &shapes)?;
        let placed: Vec<_> = lifetimes.iter().flatten().copied().collect();
        let arena = plan_arena(&placed, ALIGNMENT);
        let mut places = arena.offsets.into_iter();
        let offsets = lifetimes.iter().map(|lifetime| lifetime.and_then(|_| places.next())).collect();
        let strides = shapes.iter().map(|shape| contiguous_strides(shape)).collect();
        Ok(Plan { shapes, strides, offsets, size: arena.size })
    }
}

/// The size of each symbol, read off the shapes of the inputs.
fn bind_symbols(entry: &Entry, input_shapes: &[&[i64]]) -> Result<HashMap<String, usize>> {
    let mut symbols: HashMap<String, usize> = HashMap::new();
    let mut open = Vec::new();
    for (port, given) in entry.inputs.iter().zip(input_shapes) {
        let declared = &entry.values[port.value].shape;
        if declared.len() != given.len() {
            return Err(wrong_shape(entry, &port.name, port.value, given));
        }
        for (dim, &size) in declared.iter().zip(*given) {
            let size = usize::try_from(size).map_err(|_| wrong_shape(entry, &port.name, port.value, given))?;
            if let Dim::Symbolic(text) = dim {
                open.push((port, text, size));
            }
        }
    }
    // A sum of two symbols can be taken apart once another input has told one of them.
    loop {
        let before = open.len();
        let mut later = Vec::new();
        for (port, text, size) in open {
            let place = || format!("input '{}'", port.name);
            if !dim::bind(text, size, &mut symbols).map_err(|error| Diagnostic::from(error).within(place()))? {
                later.push((port, text, size));
            }
        }
        open = later;
        if open.is_empty() || open.len() == before {
            return Ok(symbols);
        }
    }
}

fn evaluate(shape: &[Dim], symbols: &HashMap<String, usize>) -> Result<Vec<i64>> {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => Ok(*size as i64),
        Dim::Symbolic(text) => Ok(dim::eval(text, symbols).map(|size| size as i64)?),
    };
    shape.iter().map(size).collect()
}

fn wrong_shape(entry: &Entry, port: &str, value: usize, given: &[i64]) -> Diagnostic {
    let dims: Vec<_> = entry.values[value].shape.iter().map(Dim::to_string).collect();
    let given: Vec<_> = given.iter().map(i64::to_string).collect();
    let message = format!("input '{port}' has shape [{}], the entry takes [{}]", given.join(","), dims.join(","));
    Diagnostic::new(Code::BadInput, message)
}

/// When each value is in use, by index of call; outputs stay until the next run.
fn lifetimes(entry: &Entry, shapes: &[Vec<i64>]) -> Result<Vec<Option<Lifetime>>> {
    let mut lifetimes: Vec<Option<Lifetime>> = vec![None; entry.values.len()];
    for (step, call) in entry.calls.iter().enumerate() {
        for &value in &call.outputs {
            let size = bytes(&shapes[value], entry.values[value].dtype.size())?;
            lifetimes[value] = Some(Lifetime { size, first: step, last: step });
        }
        for &value in &call.inputs {
            if let Some(lifetime) = &mut lifetimes[value] {
                lifetime.last = step;
            }
        }
    }
    for port in &entry.outputs {
        if let Some(lifetime) = &mut lifetimes[port.value] {
            lifetime.last = entry.calls.len();
        }
    }
    // An output that is an input: the caller's memory may be gone when the output is read, so it is copied.
    for port in &entry.inputs {
        if entry.outputs.iter().any(|output| output.value == port.value) {
            let size = bytes(&shapes[port.value], entry.values[port.value].dtype.size())?;
            lifetimes[port.value] = Some(Lifetime { size, first: 0, last: entry.calls.len() });
        }
    }
    Ok(lifetimes)
}

fn bytes(shape: &[i64], element: usize) -> Result<usize> {
    let count = shape.iter().try_fold(element, |bytes, &size| bytes.checked_mul(usize::try_from(size).ok()?));
    count
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or_else(|| Diagnostic::new(Code::BadInput, format!("a tensor of shape {shape:?} does not fit in memory")))
}

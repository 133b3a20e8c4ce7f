//! The outputs of what runs between stages: they get their memory when their sizes are known.

use std::collections::HashMap;

use byoc_plugin_api::{DType, Dim, Element, Error, SizedOutputs, TensorView, TensorViewMut};

use super::held::Held;
use super::state::copy;
use crate::artifact::manifest::ValueType;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;

/// An output with its memory.
pub(super) struct SizedOutput {
    pub(super) name: String,
    pub(super) ty: ValueType,
    pub(super) given: bool,
    pub(super) held: Held,
}

/// The outputs of what is running.
pub(super) struct Filling<'a> {
    pub(super) outputs: &'a mut [Option<SizedOutput>],
    /// What is known of the sizes of this run.
    pub(super) symbols: &'a mut HashMap<String, usize>,
    /// Why memory was not given.
    pub(super) failed: Option<Error>,
}

impl SizedOutputs for Filling<'_> {
    fn allocate(&mut self, index: usize, shape: &[i64]) -> std::result::Result<TensorViewMut<'_>, Error> {
        if let Err(error) = self.prepare(index, shape) {
            return Err(self.failed.get_or_insert(error).clone());
        }
        let none = || Error::new(format!("there is no output {index}"));
        let output = self.outputs[index].as_mut().ok_or_else(none)?;
        Ok(output.held.view_mut(output.ty.dtype))
    }
}

impl Filling<'_> {
    /// Whether anybody reads the output of that index.
    pub(super) fn wants(&self, index: usize) -> bool {
        self.outputs.get(index).is_some_and(Option::is_some)
    }

    /// Whether the output of that index has elements of that type.
    pub(super) fn takes(&self, index: usize, dtype: DType) -> bool {
        self.outputs.get(index).is_some_and(|output| output.as_ref().is_some_and(|output| output.ty.dtype == dtype))
    }

    /// What the shape of an output is as far as it is known; sizes that are not are 0.
    pub(super) fn known_shape(&self, index: usize) -> Vec<i64> {
        let ty = self.outputs.get(index).and_then(|output| output.as_ref().map(|output| &output.ty));
        let size = |size: &Dim| match size {
            Dim::Fixed(size) => *size as i64,
            Dim::Symbolic(text) => dim::eval(text, self.symbols).map_or(0, |size| size as i64),
        };
        ty.map_or_else(Vec::new, |ty| ty.shape.iter().map(size).collect())
    }

    fn prepare(&mut self, index: usize, shape: &[i64]) -> std::result::Result<(), Error> {
        let count = self.outputs.len();
        let none = || Error::new(format!("there is no output {index} of {count}"));
        let output = self.outputs.get_mut(index).and_then(Option::as_mut).ok_or_else(none)?;
        if std::mem::replace(&mut output.given, true) {
            return Err(Error::new(format!("the memory of '{}' was asked for twice", output.name)));
        }
        output.bind(shape, self.symbols)?;
        output.held.reshape(&output.name, output.ty.dtype, shape)
    }
}

impl SizedOutput {
    /// Takes the sizes that were not known; an error where they cannot be those of the output.
    fn bind(&self, shape: &[i64], symbols: &mut HashMap<String, usize>) -> std::result::Result<(), Error> {
        let SizedOutput { name, ty, .. } = self;
        let fits = |(declared, &size): (&Dim, &i64)| {
            let size = usize::try_from(size).ok()?;
            match declared {
                Dim::Fixed(fixed) => (*fixed == size).then_some(()),
                Dim::Symbolic(text) => dim::bind(text, size, symbols).ok().map(drop),
            }
        };
        if shape.len() == ty.shape.len() && ty.shape.iter().zip(shape).map(fits).all(|fits| fits.is_some()) {
            return Ok(());
        }
        let declared = ty.shape.iter().map(Dim::to_string).collect::<Vec<_>>().join(",");
        Err(Error::new(format!("it computed '{name}' of shape {shape:?}, expected [{declared}]")))
    }
}

/// Gives an output one element, if anybody reads it.
pub(super) fn give_number<T: Element>(filling: &mut Filling<'_>, index: usize, number: T) -> Result<()> {
    let numbers = [number];
    give(filling, index, &TensorView::from_slice(&numbers, &[], &[]).map_err(failed)?)
}

/// Copies a tensor to an output, if anybody reads it.
pub(super) fn give(filling: &mut Filling<'_>, index: usize, from: &TensorView<'_>) -> Result<()> {
    if !filling.wants(index) {
        return Ok(());
    }
    if !filling.takes(index, from.dtype()) {
        return Err(incomplete());
    }
    let to = filling.allocate(index, from.shape()).map_err(failed)?.as_mut_ptr();
    // SAFETY: the output has the type and the shape, and no body's memory is an output's.
    unsafe { copy(from, to) };
    Ok(())
}

/// The only element of a tensor.
pub(super) fn one<T: byoc_plugin_api::Element>(tensor: &TensorView<'_>, what: &str) -> Result<T> {
    match tensor.to_vec::<T>().map_err(failed)?.as_slice() {
        [element] => Ok(*element),
        elements => {
            let message = format!("its {what} has {} elements, expected 1", elements.len());
            Err(Diagnostic::new(Code::BadInput, message))
        }
    }
}

/// An axis from the front.
pub(super) fn place(axis: i64, rank: usize) -> Option<usize> {
    usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok().filter(|&axis| axis < rank)
}

pub(super) fn failed(error: byoc_plugin_api::Error) -> Diagnostic {
    Diagnostic { hint: error.hint, ..Diagnostic::new(Code::RunFailed, error.message) }
}

/// The reader of artifacts lets no such file through.
pub(super) fn incomplete() -> Diagnostic {
    Diagnostic::new(Code::RunFailed, "the control flow in the file is not complete")
}

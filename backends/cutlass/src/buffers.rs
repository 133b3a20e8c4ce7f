//! Assigns buffers to the values of a region: inputs, outputs, constants, and scratch between steps.

use byoc_nvidia::program::{self, BufferRef};
use byoc_plugin_api::{Constants, Dim, Error, Region, contiguous_strides};

/// How a step uses a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Kernels read it in place.
    Host,
    /// Its numbers are in the code.
    Embedded,
}

/// The strides of a constant, if they are known, as they are during code generation.
pub(crate) type Strides<'a> = dyn Fn(usize) -> Option<Vec<i64>> + 'a;

/// The strides of a constant as kernels read it.
pub(crate) fn strides<'a>(region: &'a Region, constants: &'a Constants<'_>) -> impl Fn(usize) -> Option<Vec<i64>> + 'a {
    |value| {
        let view = constants.get(region.constant(value)?.id)?;
        Some(readable(view.shape(), view.strides()))
    }
}

/// The buffers of one variant of a program.
pub(crate) struct Buffers<'a> {
    region: &'a Region,
    data: &'a Constants<'a>,
    constants: Vec<program::Constant>,
    scratch: Vec<Dim>,
    kept: Vec<(usize, BufferRef)>,
}

impl<'a> Buffers<'a> {
    pub(crate) fn new(region: &'a Region, data: &'a Constants<'a>) -> Self {
        Buffers { region, data, constants: Vec::new(), scratch: Vec::new(), kept: Vec::new() }
    }

    /// The buffer of a value that is an input, an output, or the result of an earlier step.
    ///
    /// # Errors
    ///
    /// When it is none of these.
    pub(crate) fn place(&self, value: usize) -> Result<BufferRef, Error> {
        let of = |list: &[usize]| list.iter().position(|&known| known == value);
        let kept = self.kept.iter().find(|(known, _)| *known == value).map(|(_, place)| *place);
        let place = of(&self.region.inputs).map(BufferRef::Input);
        let place = place.or_else(|| of(&self.region.outputs).map(BufferRef::Output)).or(kept);
        place.ok_or_else(|| Error::new(format!("value {value} is neither an input nor computed")))
    }

    /// The buffer of an operand that may be a constant, which is read in place if its rows or its columns are contiguous.
    pub(crate) fn operand(&mut self, value: usize) -> Result<BufferRef, Error> {
        self.read(value, readable)
    }

    /// The buffer of an operand that may be a constant, which is read in row-major order.
    pub(crate) fn contiguous(&mut self, value: usize) -> Result<BufferRef, Error> {
        self.read(value, |shape, _| contiguous_strides(shape))
    }

    fn read(&mut self, value: usize, strides: fn(&[i64], &[i64]) -> Vec<i64>) -> Result<BufferRef, Error> {
        let Some(constant) = self.region.constant(value) else { return self.place(value) };
        let missing = || Error::new(format!("constant {} is missing", constant.id));
        let view = self.data.get(constant.id).ok_or_else(missing)?;
        Ok(self.constant(program::Constant {
            id: constant.id,
            layout: None,
            dtype: view.dtype(),
            shape: view.shape().iter().map(|&size| size as usize).collect(),
            strides: strides(view.shape(), view.strides()),
        }))
    }

    /// The buffer of a constant, one for each set of strides.
    pub(crate) fn constant(&mut self, entry: program::Constant) -> BufferRef {
        let known = self.constants.iter().position(|constant| *constant == entry);
        BufferRef::Constant(known.unwrap_or_else(|| {
            self.constants.push(entry);
            self.constants.len() - 1
        }))
    }

    /// The constants and the scratch buffers in use.
    pub(crate) fn take(self) -> (Vec<program::Constant>, Vec<Dim>) {
        (self.constants, self.scratch)
    }
}

/// The strides by which kernels read a constant with these strides: the same, if its rows or its columns are contiguous and
/// do not overlap; else it is repacked at load.
pub(crate) fn readable(shape: &[i64], strides: &[i64]) -> Vec<i64> {
    let dense = |size: i64, stride: i64| size == 1 || stride == 1;
    let fits = match (shape, strides) {
        ([.., rows, columns], [.., row, column]) => {
            let rows_lie = dense(*columns, *column) && (*rows == 1 || *row >= *columns);
            let columns_lie = dense(*rows, *row) && (*columns == 1 || *column >= *rows);
            (rows_lie || columns_lie) && strides.iter().all(|&stride| stride >= 0)
        }
        ([size], [stride]) => dense(*size, *stride),
        _ => false,
    };
    if fits { strides.to_vec() } else { contiguous_strides(shape) }
}

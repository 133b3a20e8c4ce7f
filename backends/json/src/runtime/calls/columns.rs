//! Calls that take columns out of a packed matrix: rows of an embedding that is a product's right side too.

use byoc_plugin_api::{DType, Error, bf16, f16};

use super::super::memory::Io;
use super::movement::place;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{Int8Known, int8_len, packed_b_column, packed_b_len};

/// Columns of a packed B by index.
struct Columns {
    /// Rows and columns of B.
    size: [usize; 2],
    /// The type of B.
    dtype: DType,
    /// What is written.
    written: DType,
    /// Whether indices have 64 bits.
    long: bool,
}

pub(super) fn columns(signature: &Signature<'_>, &[k, n]: &[usize; 2]) -> Result<Ready, Error> {
    let (given, indices, out) = (signature.input(0)?, signature.input(1)?, signature.output(0)?);
    let dtype = signature.input_value(0).map(|value| value.dtype);
    let len = if dtype == Some(DType::I8) { int8_len(k, n) } else { packed_b_len(k, n) };
    let fits = len.is_some_and(|len| *given == [len]) && indices.iter().chain(&[k]).eq(out);
    let written = signature.output_value(0).map(|value| value.dtype);
    let (Some(dtype @ (DType::F32 | DType::F16 | DType::BF16 | DType::I8)), true) = (dtype, fits) else {
        return Err(bad_shapes(signature));
    };
    let long = match signature.input_value(1).map(|value| value.dtype) {
        Some(DType::I64) => true,
        Some(DType::I32) => false,
        _ => return Err(bad_shapes(signature)),
    };
    let becomes = |written: &DType| match (dtype, written) {
        (_, DType::F32) | (DType::I8, DType::F16 | DType::BF16) => true,
        _ => dtype != DType::I8 && *written == dtype,
    };
    let written = written.filter(becomes).ok_or_else(|| bad_shapes(signature))?;
    Ok(Ready::new(Columns { size: [k, n], dtype, written, long }))
}

impl Columns {
    fn copy<T: Copy, Y>(&self, io: &Io<'_, '_>, x: &[T], y: &mut [Y], as_y: impl Fn(T) -> Y) -> Result<(), Error> {
        let column = |column, row: &mut [Y]| {
            packed_b_column(x, self.size[0], column).zip(row).for_each(|(&value, to)| *to = as_y(value));
        };
        self.each(io, y, column)
    }

    fn scale<Y>(&self, io: &Io<'_, '_>, y: &mut [Y], as_y: impl Fn(f32) -> Y) -> Result<(), Error> {
        let x = io.inputs.slice::<i8>(0)?;
        let column = |column, row: &mut [Y]| {
            let (scale, levels) = Int8Known::column(x, self.size, column);
            levels.zip(row).for_each(|(level, to)| *to = as_y(f32::from(level) * scale));
        };
        self.each(io, y, column)
    }

    /// Calls `fill` with each column and the row of `y` that it becomes.
    fn each<Y>(&self, io: &Io<'_, '_>, y: &mut [Y], fill: impl Fn(usize, &mut [Y])) -> Result<(), Error> {
        let [k, n] = self.size;
        let mut rows = y.chunks_exact_mut(k.max(1));
        let mut take = |index: i64| -> Result<(), Error> {
            let column = place(index, n)?;
            if let Some(row) = rows.next() {
                fill(column, row);
            }
            Ok(())
        };
        match self.long {
            true => io.inputs.slice::<i64>(1)?.iter().try_for_each(|&index| take(index)),
            false => io.inputs.slice::<i32>(1)?.iter().try_for_each(|&index| take(index.into())),
        }
    }
}

impl Call for Columns {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        match (self.dtype, self.written) {
            (DType::I8, DType::F16) => {
                let y = io.outputs.take(0)?;
                self.scale(io, y, f16::from_f32)
            }
            (DType::I8, DType::BF16) => {
                let y = io.outputs.take(0)?;
                self.scale(io, y, bf16::from_f32)
            }
            (DType::I8, _) => {
                let y = io.outputs.take::<f32>(0)?;
                self.scale(io, y, |value| value)
            }
            (DType::F16, DType::F32) => {
                let y = io.outputs.take(0)?;
                self.copy(io, io.inputs.slice::<f16>(0)?, y, f16::to_f32)
            }
            (DType::BF16, DType::F32) => {
                let y = io.outputs.take(0)?;
                self.copy(io, io.inputs.slice::<bf16>(0)?, y, bf16::to_f32)
            }
            (DType::F16, _) => {
                let y = io.outputs.take(0)?;
                self.copy(io, io.inputs.slice::<f16>(0)?, y, |value| value)
            }
            (DType::BF16, _) => {
                let y = io.outputs.take(0)?;
                self.copy(io, io.inputs.slice::<bf16>(0)?, y, |value| value)
            }
            _ => {
                let y = io.outputs.take::<f32>(0)?;
                self.copy(io, io.inputs.slice::<f32>(0)?, y, |value| value)
            }
        }
    }
}

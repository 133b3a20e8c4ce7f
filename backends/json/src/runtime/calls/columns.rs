//! Calls that take columns out of a packed matrix: rows of an embedding that is a product's right side too.

use byoc_plugin_api::{DType, Error, bf16, f16};

use super::super::memory::Io;
use super::movement::place;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{PackedB, packed_b_len};

/// Columns of a packed B by index.
struct Columns {
    /// Rows and columns of B.
    size: [usize; 2],
    /// The type of B, and of what is written if it is not f32.
    dtype: DType,
    /// Whether f32 is written.
    wide: bool,
    /// Whether indices have 64 bits.
    long: bool,
}

pub(super) fn columns(signature: &Signature<'_>, &[k, n]: &[usize; 2]) -> Result<Ready, Error> {
    let (given, indices, out) = (signature.input(0)?, signature.input(1)?, signature.output(0)?);
    let fits = packed_b_len(k, n).is_some_and(|len| *given == [len]) && indices.iter().chain(&[k]).eq(out);
    let dtype = signature.input_value(0).map(|value| value.dtype);
    let written = signature.output_value(0).map(|value| value.dtype);
    let (Some(dtype @ (DType::F32 | DType::F16 | DType::BF16)), true) = (dtype, fits) else {
        return Err(bad_shapes(signature));
    };
    let long = match signature.input_value(1).map(|value| value.dtype) {
        Some(DType::I64) => true,
        Some(DType::I32) => false,
        _ => return Err(bad_shapes(signature)),
    };
    let wide = written == Some(DType::F32);
    if !wide && written != Some(dtype) {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(Columns { size: [k, n], dtype, wide, long }))
}

impl Columns {
    fn copy<T: Copy, Y>(&self, io: &Io<'_, '_>, x: &[T], y: &mut [Y], as_y: impl Fn(T) -> Y) -> Result<(), Error> {
        let [k, n] = self.size;
        let mut rows = y.chunks_exact_mut(k.max(1));
        let mut take = |index: i64| -> Result<(), Error> {
            let column = place(index, n)?;
            if let Some(row) = rows.next() {
                PackedB::column(x, k, column).zip(row).for_each(|(&value, to)| *to = as_y(value));
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
        match (self.dtype, self.wide) {
            (DType::F16, true) => {
                let y = io.outputs.take(0)?;
                self.copy(io, io.inputs.slice::<f16>(0)?, y, f16::to_f32)
            }
            (DType::BF16, true) => {
                let y = io.outputs.take(0)?;
                self.copy(io, io.inputs.slice::<bf16>(0)?, y, bf16::to_f32)
            }
            (DType::F16, false) => {
                let y = io.outputs.take(0)?;
                self.copy(io, io.inputs.slice::<f16>(0)?, y, |value| value)
            }
            (DType::BF16, false) => {
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

//! Calls of the matrix product.

use std::cell::OnceCell;

use byoc_plugin_api::{DType, Error};

use super::super::memory::Io;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{self, Bias, Epilogue, GemmParams, Int8, Int8Known, Math};
use crate::program::Gemm;

/// How the bias is added.
#[derive(Clone, Copy)]
enum Kind {
    None,
    PerRow,
    PerColumn,
}

struct Product {
    params: GemmParams,
    /// The type of a B that is packed in the kernel's panels.
    packed: Option<DType>,
    /// Whether a B of 8 bits is multiplied by matrix units.
    on_amx: bool,
    /// What is known of a B of 8 bits: found out when it is first multiplied.
    known: OnceCell<Int8Known>,
    bias: Kind,
    act: kernels::Activation,
}

/// A matrix within a tensor.
struct Side<'p> {
    shape: &'p [usize],
    rows: usize,
    columns: usize,
    /// Row and column stride.
    strides: [usize; 2],
}

impl<'p> Side<'p> {
    fn new(signature: &Signature<'p>, index: usize, transposed: bool) -> Result<Self, Error> {
        let shape = signature.input(index)?;
        let [.., rows, columns] = *shape else { return Err(bad_shapes(signature)) };
        let strides = match signature.strides(index) {
            Some(&[row, column]) => [row as usize, column as usize],
            Some(_) => return Err(Error::new("a constant of more than two dimensions with strides")),
            None => [columns, 1],
        };
        Ok(match transposed {
            true => Side { shape, rows: columns, columns: rows, strides: [strides[1], strides[0]] },
            false => Side { shape, rows, columns, strides },
        })
    }

    /// A constant in panels, of K rows and N columns.
    fn packed(signature: &Signature<'p>, shape: &'p [usize; 2]) -> Result<Self, Error> {
        let &[rows, columns] = shape;
        let given = signature.input(1)?;
        let len = match is_int8(signature) {
            true => kernels::int8_len(rows, columns),
            false => kernels::packed_b_len(rows, columns),
        };
        if len.is_none_or(|len| *given != [len]) {
            return Err(bad_shapes(signature));
        }
        Ok(Side { shape, rows, columns, strides: [columns, 1] })
    }

    /// The batch dimensions, aligned at the right to those of the output; one that is missing is 1.
    fn batch(&self, axis: usize, out_rank: usize) -> usize {
        (axis + self.shape.len()).checked_sub(out_rank).map_or(1, |axis| self.shape[axis])
    }

    fn is_single(&self) -> bool {
        self.shape[..self.shape.len() - 2].iter().all(|&size| size == 1)
    }
}

/// Whether B is of 8 bits.
fn is_int8(signature: &Signature<'_>) -> bool {
    signature.input_value(1).is_some_and(|value| value.dtype == DType::I8)
}

pub(super) fn gemm(signature: &Signature<'_>, gemm: &Gemm) -> Result<Ready, Error> {
    let a = Side::new(signature, 0, gemm.trans_a)?;
    let b = match &gemm.packed {
        Some(shape) => Side::packed(signature, shape)?,
        None => Side::new(signature, 1, gemm.trans_b)?,
    };
    let out = signature.output(0)?;
    let [lead @ .., m, n] = out else { return Err(bad_shapes(signature)) };
    if b.columns != *n || a.columns != b.rows {
        return Err(bad_shapes(signature));
    }
    let mut params = GemmParams::dense(*m, *n, a.columns);
    (params.a, params.b, params.alpha) = (a.strides, b.strides, gemm.alpha);
    let rows: usize = lead.iter().product::<usize>() * m;
    if b.is_single() && !gemm.trans_a && a.shape.iter().rev().skip(1).product::<usize>() == rows {
        // One product with more rows, however they are counted.
        params.m = rows;
    } else {
        batch(&mut params, &a, &b, lead).filter(|()| a.rows == *m).ok_or_else(|| bad_shapes(signature))?;
    }
    let bias = match signature.step.input(2) {
        None => Kind::None,
        Some(_) => match signature.input(2)? {
            [lead @ .., last] if last == n && lead.iter().all(|&size| size == 1) => Kind::PerColumn,
            [rows, 1] if *rows == params.m => Kind::PerRow,
            _ => return Err(bad_shapes(signature)),
        },
    };
    if signature.step.input(3).is_some() && signature.input(3)? != out {
        return Err(bad_shapes(signature));
    }
    params.math = gemm.math;
    let is_int8 = is_int8(signature);
    if gemm.packed.is_none() || is_int8 || !params.is_on_units(signature.threads) {
        params.math = Math::F32;
    }
    let scratch = match is_int8 {
        true => kernels::int8_scratch_len(signature.threads, &params),
        false => kernels::gemm_scratch_len(&params, signature.threads.count()),
    };
    let scratch = scratch.ok_or_else(|| bad_shapes(signature))?;
    let dtype = signature.input_value(1).map(|value| value.dtype);
    let packed = dtype.filter(|_| gemm.packed.is_some());
    let on_amx = is_int8 && kernels::int8_is_on_amx(signature.threads, &params);
    Ok(Ready { scratch, ..Ready::new(Product { params, packed, on_amx, known: OnceCell::new(), bias, act: gemm.act }) })
}

/// Sets at most two batch dimensions; neighbouring ones are joined where the strides allow.
fn batch(params: &mut GemmParams, a: &Side<'_>, b: &Side<'_>, lead: &[usize]) -> Option<()> {
    // From inside: size, strides of A, B and C.
    let mut dims: Vec<[usize; 4]> = Vec::new();
    let mut steps = [a.rows * a.columns, b.rows * b.columns, params.m * params.n];
    for axis in (0..lead.len()).rev() {
        let size = lead[axis];
        let (in_a, in_b) = (a.batch(axis, lead.len() + 2), b.batch(axis, lead.len() + 2));
        if ![1, size].contains(&in_a) || ![1, size].contains(&in_b) {
            return None;
        }
        let stride = |inner: usize, step: usize| if inner == 1 { 0 } else { step };
        let dim = [size, stride(in_a, steps[0]), stride(in_b, steps[1]), steps[2]];
        steps = [steps[0] * in_a, steps[1] * in_b, steps[2] * size];
        match dims.last_mut() {
            _ if size == 1 => {}
            Some(last) if (1..4).all(|i| dim[i] == last[0] * last[i]) => last[0] *= size,
            _ => dims.push(dim),
        }
    }
    if dims.len() > 2 {
        return None;
    }
    for (i, dim) in dims.iter().enumerate() {
        let at = 1 - i;
        (params.batch[at], params.a_batch[at]) = (dim[0], dim[1]);
        (params.b_batch[at], params.c_batch[at]) = (dim[2], dim[3]);
    }
    Some(())
}

impl Call for Product {
    fn computed_as(&self) -> Option<&'static str> {
        match self.packed {
            Some(DType::I8) if self.on_amx => Some("int8 amx"),
            Some(DType::I8) => Some("int8"),
            _ => self.params.math.on_units(),
        }
    }

    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let a = io.inputs.slice(0)?;
        let bias = match (self.bias, io.inputs.optional(2)?) {
            (Kind::PerColumn, Some(bias)) => Bias::PerCol(bias),
            (Kind::PerRow, Some(bias)) => Bias::PerRow(bias),
            _ => Bias::None,
        };
        let epilogue = Epilogue { bias, residual: io.inputs.optional(3)?, act: self.act };
        let c = io.outputs.take(0)?;
        let packed = match self.packed {
            None => {
                let b = io.inputs.slice(1)?;
                kernels::gemm(io.threads, &self.params, a, b, c, &epilogue, io.scratch);
                return Ok(());
            }
            Some(DType::I8) => {
                let packed = io.inputs.slice(1)?;
                let known = self.known.get_or_init(|| Int8Known::new(io.threads, &self.params, packed));
                let b = Int8 { packed, known };
                kernels::gemm_int8(io.threads, &self.params, a, b, c, &epilogue, io.scratch);
                return Ok(());
            }
            Some(_) => io.inputs.weights(1)?,
        };
        kernels::gemm_packed(io.threads, &self.params, a, packed, c, &epilogue, io.scratch);
        Ok(())
    }
}

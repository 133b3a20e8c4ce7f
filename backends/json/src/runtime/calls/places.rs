//! Calls that put elements of any type in places: chosen by a condition, named by indices, or surrounded.

use byoc_plugin_api::{DType, Error};

use super::super::memory::Io;
use super::super::plan::Sharing;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{self, Choice, ChooseParams, MAX_PAD_RANK, ScatterParams};

/// Bytes of an element of these inputs and of the output, which are of one type.
fn element(signature: &Signature<'_>, inputs: &[usize]) -> Result<usize, Error> {
    let out = signature.output_value(0).ok_or_else(|| bad_shapes(signature))?;
    let alike = inputs.iter().all(|&input| signature.input_value(input).is_some_and(|value| value.dtype == out.dtype));
    let size = out.dtype.element_bytes().filter(|size| alike && matches!(size, 1 | 2 | 4 | 8));
    size.ok_or_else(|| bad_shapes(signature))
}

fn cells<const E: usize>(bytes: &[u8]) -> &[[u8; E]] {
    bytes.as_chunks().0
}

/// Calls a function that takes the bytes of an element as a parameter.
macro_rules! by_size {
    ($size:expr, $function:ident($($argument:expr),*)) => {
        match $size {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            4 => $function::<4>($($argument),*),
            _ => $function::<8>($($argument),*),
        }
    };
}

struct Choose {
    size: usize,
    params: ChooseParams,
}

pub(super) fn choose(signature: &Signature<'_>) -> Result<Ready, Error> {
    let size = element(signature, &[1, 2])?;
    let shapes = [signature.input(0)?, signature.input(1)?, signature.input(2)?];
    let params = ChooseParams::new(shapes, signature.output(0)?)
        .filter(|_| signature.input_value(0).is_some_and(|value| value.dtype == DType::Bool))
        .ok_or_else(|| bad_shapes(signature))?;
    let in_place = [1, 2].into_iter().filter(|&operand| params.is_dense(operand)).collect();
    Ok(Ready { sharing: Sharing { in_place, ..Sharing::default() }, ..Ready::new(Choose { size, params }) })
}

impl Call for Choose {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        by_size!(self.size, chosen(&self.params, io))
    }
}

fn chosen<const E: usize>(params: &ChooseParams, io: &mut Io<'_, '_>) -> Result<(), Error> {
    let choice = |index: usize| match io.inputs.is_merged(index) {
        true => Ok(Choice::Here),
        false => io.inputs.bytes(index).map(|bytes| Choice::Of(cells::<E>(bytes))),
    };
    let (condition, choices) = (io.inputs.bytes(0)?, [choice(1)?, choice(2)?]);
    let y = io.outputs.take_bytes(0)?.as_chunks_mut::<E>().0;
    kernels::choose(io.threads, params, condition, choices, y);
    Ok(())
}

struct Scatter {
    size: usize,
    data: Vec<usize>,
    indices: Vec<usize>,
    axis: usize,
    wide: bool,
}

pub(super) fn scatter(signature: &Signature<'_>, axis: usize) -> Result<Ready, Error> {
    let size = element(signature, &[0, 2])?;
    let (data, indices) = (signature.input(0)?, signature.input(1)?);
    let wide = match signature.input_value(1).map(|value| value.dtype) {
        Some(DType::I64) => true,
        Some(DType::I32) => false,
        _ => return Err(bad_shapes(signature)),
    };
    let fits = ScatterParams { data, indices, axis }.is_valid();
    if !fits || signature.input(2)? != indices || signature.output(0)? != data {
        return Err(bad_shapes(signature));
    }
    let call = Scatter { size, data: data.to_vec(), indices: indices.to_vec(), axis, wide };
    Ok(Ready { sharing: Sharing { in_place: vec![0], ..Sharing::default() }, ..Ready::new(call) })
}

impl Call for Scatter {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        by_size!(self.size, scattered(self, io))
    }
}

fn scattered<const E: usize>(call: &Scatter, io: &mut Io<'_, '_>) -> Result<(), Error> {
    let y = io.outputs.take_bytes(0)?.as_chunks_mut::<E>().0;
    if !io.inputs.is_merged(0) {
        kernels::copy(io.threads, cells::<E>(io.inputs.bytes(0)?), y);
    }
    let params = ScatterParams { data: &call.data, indices: &call.indices, axis: call.axis };
    let updates = cells::<E>(io.inputs.bytes(2)?);
    let done = match call.wide {
        true => kernels::scatter(&params, io.inputs.slice::<i64>(1)?, updates, y),
        false => kernels::scatter(&params, io.inputs.slice::<i32>(1)?, updates, y),
    };
    let size = call.data[call.axis];
    done.map_err(|index| Error::new(format!("index {index} is out of range for {size} elements")))
}

struct Pad {
    size: usize,
    input: Vec<usize>,
    output: Vec<usize>,
    axes: Vec<usize>,
}

pub(super) fn pad(signature: &Signature<'_>, axes: &[usize]) -> Result<Ready, Error> {
    let fill = signature.step.input(2).map(|_| 2);
    let size = element(signature, &[Some(0), fill].into_iter().flatten().collect::<Vec<_>>())?;
    let (input, output) = (signature.input(0)?, signature.output(0)?);
    let widths = signature.input_value(1).is_some_and(|value| value.dtype == DType::I64)
        && *signature.input(1)? == [2 * axes.len()];
    let same = input.len() == output.len() && input.len() <= MAX_PAD_RANK;
    if !widths || !same || axes.iter().any(|&axis| axis >= input.len()) {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(Pad { size, input: input.to_vec(), output: output.to_vec(), axes: axes.to_vec() }))
}

impl Call for Pad {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        by_size!(self.size, padded(self, io))
    }
}

fn padded<const E: usize>(call: &Pad, io: &mut Io<'_, '_>) -> Result<(), Error> {
    let (mut before, mut sizes) = ([0i64; MAX_PAD_RANK], [0i128; MAX_PAD_RANK]);
    let rank = call.input.len();
    sizes.iter_mut().zip(&call.input).for_each(|(wide, &size)| *wide = size as i128);
    let (front, behind) = io.inputs.slice::<i64>(1)?.split_at(call.axes.len());
    for ((&axis, &front), &behind) in call.axes.iter().zip(front).zip(behind) {
        before[axis] = before[axis].saturating_add(front);
        sizes[axis] += i128::from(front) + i128::from(behind);
    }
    if !call.output.iter().map(|&size| size as i128).eq(sizes[..rank].iter().copied()) {
        let (found, wanted) = (&sizes[..rank], &call.output);
        return Err(Error::new(format!("Pad computes {found:?} for an output of {wanted:?}")));
    }
    let fill = if io.inputs.has(2) { io.inputs.bytes(2)?.first_chunk().copied() } else { None };
    let (x, y) = (cells::<E>(io.inputs.bytes(0)?), io.outputs.take_bytes(0)?.as_chunks_mut().0);
    kernels::pad(io.threads, [&call.input, &call.output], &before[..rank], fill.unwrap_or([0; E]), x, y);
    Ok(())
}

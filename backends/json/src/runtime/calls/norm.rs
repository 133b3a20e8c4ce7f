//! Calls of softmax, layer normalisation and reductions.

use byoc_plugin_api::Error;

use super::super::memory::Io;
use super::super::plan::Sharing;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{self, NormParams};

/// Sizes before, at and after the axes `from..to`.
fn around(shape: &[usize], from: usize, to: usize) -> Option<[usize; 3]> {
    if from > to || to > shape.len() {
        return None;
    }
    Some([&shape[..from], &shape[from..to], &shape[to..]].map(|sizes| sizes.iter().product()))
}

struct Softmax {
    sizes: [usize; 3],
    log: bool,
}

pub(super) fn softmax(signature: &Signature<'_>, axis: usize, log: bool) -> Result<Ready, Error> {
    let shape = signature.input(0)?;
    let sizes = around(shape, axis, axis + 1).filter(|_| signature.output(0).is_ok_and(|out| out == shape));
    let sizes = sizes.ok_or_else(|| bad_shapes(signature))?;
    let sharing = Sharing { in_place: vec![0], ..Sharing::default() };
    Ok(Ready { sharing, ..Ready::new(Softmax { sizes, log }) })
}

impl Call for Softmax {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let y = io.outputs.take::<f32>(0)?;
        if !io.inputs.is_merged(0) {
            y.copy_from_slice(io.inputs.slice(0)?);
        }
        let [outer, len, inner] = self.sizes;
        kernels::softmax(io.threads, outer, len, inner, self.log, y);
        Ok(())
    }
}

struct LayerNorm {
    params: NormParams,
}

pub(super) fn layer_norm(signature: &Signature<'_>, axis: usize, eps: f32, rms: bool) -> Result<Ready, Error> {
    let shape = signature.input(0)?;
    let [rows, cols, _] = around(shape, axis, shape.len()).ok_or_else(|| bad_shapes(signature))?;
    let same = |found: Result<&[usize], Error>| found.is_ok_and(|found| found == shape);
    let vector = |index: usize| {
        signature.step.input(index).is_none()
            || signature.input(index).is_ok_and(|shape| shape.iter().product::<usize>() == cols)
    };
    let residual = signature.step.input(3).is_none() || same(signature.input(3));
    let sum = signature.step.output(1).is_none() || same(signature.output(1));
    if !same(signature.output(0)) || !vector(1) || !vector(2) || !residual || !sum {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(LayerNorm { params: NormParams { rows, cols, eps, rms } }))
}

impl Call for LayerNorm {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (x, residual) = (io.inputs.slice(0)?, io.inputs.optional(3)?);
        let (scale, bias) = (io.inputs.optional(1)?, io.inputs.optional(2)?);
        let sum = if io.outputs.wanted(1) { Some(io.outputs.take(1)?) } else { None };
        let y = io.outputs.take(0)?;
        kernels::layer_norm(io.threads, &self.params, x, residual, scale, bias, sum, y);
        Ok(())
    }
}

struct Reduction {
    function: kernels::Reduce,
    sizes: [usize; 3],
}

pub(super) fn reduce(
    signature: &Signature<'_>,
    function: kernels::Reduce,
    from: usize,
    to: usize,
) -> Result<Ready, Error> {
    let sizes = around(signature.input(0)?, from, to).ok_or_else(|| bad_shapes(signature))?;
    if signature.output(0)?.iter().product::<usize>() != sizes[0] * sizes[2] {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(Reduction { function, sizes }))
}

impl Call for Reduction {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let [outer, len, inner] = self.sizes;
        kernels::reduce(io.threads, self.function, outer, len, inner, io.inputs.slice(0)?, io.outputs.take(0)?);
        Ok(())
    }
}

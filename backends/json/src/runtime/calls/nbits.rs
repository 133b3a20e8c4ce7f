//! The call of products with weights of a few bits.

use byoc_plugin_api::{DType, Error};

use super::super::memory::Io;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::nbits::{self, Weights, Zeros};
use crate::program;

struct Product {
    params: nbits::NBits,
    /// Whether the zero points are numbers, where there are some.
    reals: bool,
}

pub(super) fn nbits(signature: &Signature<'_>, op: &program::NBits) -> Result<Ready, Error> {
    let program::NBits { k, n, bits, block, bytes } = *op;
    let bad = || bad_shapes(signature);
    let ([rows @ .., depth], [lead @ .., columns]) = (signature.input(0)?, signature.output(0)?) else {
        return Err(bad());
    };
    let params = nbits::NBits { m: rows.iter().product(), n, k, bits, block, bytes };
    let len = |index: usize| -> Result<usize, Error> { Ok(signature.input(index)?.iter().product()) };
    if (*depth, *columns) != (k, n) || rows != lead || !params.is_valid() || len(1)? != params.packed_len() {
        return Err(bad());
    }
    if len(2)? != n * params.blocks() || (signature.step.input(4).is_some() && len(4)? != n) {
        return Err(bad());
    }
    let reals = signature.input_value(3).is_some_and(|value| value.dtype == DType::F32);
    if signature.step.input(3).is_some() {
        let expected = if reals { n * params.blocks() } else { n * params.zero_bytes() };
        if len(3)? != expected {
            return Err(bad());
        }
    }
    let scratch = params.scratch_len(signature.threads.count()).ok_or_else(bad)?;
    Ok(Ready { scratch, ..Ready::new(Product { params, reals }) })
}

impl Call for Product {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let zeros = match io.inputs.has(3) {
            false => Zeros::Middle,
            true if self.reals => Zeros::Reals(io.inputs.slice(3)?),
            true => Zeros::Packed(io.inputs.slice::<u8>(3)?),
        };
        let weights = Weights { packed: io.inputs.slice::<u8>(1)?, scales: io.inputs.slice(2)?, zeros };
        let (a, bias) = (io.inputs.slice(0)?, io.inputs.optional(4)?);
        nbits::nbits(io.threads, &self.params, a, &weights, bias, io.outputs.take(0)?, io.scratch);
        Ok(())
    }
}

//! Calls of conversions between f32 and the types of 16 bits.

use byoc_plugin_api::{DType, Error, bf16, f16};

use super::super::memory::Io;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{narrow, widen};

/// Which way.
enum Convert {
    FromF16,
    FromBF16,
    ToF16,
    ToBF16,
}

pub(super) fn convert(signature: &Signature<'_>) -> Result<Ready, Error> {
    let (from, to) = (signature.input_value(0), signature.output_value(0));
    let (Some(from), Some(to)) = (from, to) else { return Err(Error::new("a conversion of nothing")) };
    let way = match (from.dtype, to.dtype) {
        (DType::F16, DType::F32) => Convert::FromF16,
        (DType::BF16, DType::F32) => Convert::FromBF16,
        (DType::F32, DType::F16) => Convert::ToF16,
        (DType::F32, DType::BF16) => Convert::ToBF16,
        (from, to) => return Err(Error::new(format!("no kernel converts {from} to {to}"))),
    };
    if signature.input(0)? != signature.output(0)? || from.blocked || to.blocked {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(way))
}

impl Call for Convert {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        match self {
            Convert::FromF16 => widen(io.threads, io.inputs.slice::<f16>(0)?, io.outputs.take(0)?),
            Convert::FromBF16 => widen(io.threads, io.inputs.slice::<bf16>(0)?, io.outputs.take(0)?),
            Convert::ToF16 => narrow(io.threads, io.inputs.slice(0)?, io.outputs.take::<f16>(0)?),
            Convert::ToBF16 => narrow(io.threads, io.inputs.slice(0)?, io.outputs.take::<bf16>(0)?),
        }
        Ok(())
    }
}

//! Calls of functions of one and of two elements, in place where the operand is not needed any more.

use byoc_plugin_api::Error;

use super::super::memory::Io;
use super::super::plan::Sharing;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{self, Activation, BLOCK, Broadcast, Unary};
use crate::program::Value;

struct One {
    function: Unary,
}

pub(super) fn unary(signature: &Signature<'_>, function: Unary) -> Result<Ready, Error> {
    let same = signature.input(0)? == signature.output(0)?;
    let blocked = signature.input_value(0).map(|value| value.blocked);
    if !same || blocked != signature.output_value(0).map(|value| value.blocked) {
        return Err(bad_shapes(signature));
    }
    let sharing = Sharing { in_place: vec![0], ..Sharing::default() };
    Ok(Ready { sharing, ..Ready::new(One { function }) })
}

impl Call for One {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let y = io.outputs.take(0)?;
        match io.inputs.is_merged(0) {
            true => kernels::unary_inplace(io.threads, self.function, y),
            false => kernels::unary(io.threads, self.function, io.inputs.slice(0)?, y),
        }
        Ok(())
    }
}

struct Two {
    function: kernels::Binary,
    act: Activation,
    /// As given, and with the operands exchanged.
    broadcast: Broadcast,
    exchanged: Broadcast,
}

pub(super) fn binary(signature: &Signature<'_>, function: kernels::Binary, act: Activation) -> Result<Ready, Error> {
    let (a, b, y) = (signature.input(0)?, signature.input(1)?, signature.output(0)?);
    let out = signature.output_value(0);
    let broadcast = if out.is_some_and(|value| value.blocked) {
        let shape = |shape: &[usize], value: Option<&Value>| blocked_shape(shape, value);
        let shapes = (shape(y, out), shape(a, signature.input_value(0)), shape(b, signature.input_value(1)));
        match shapes {
            (Some(y), Some(a), Some(b)) => Broadcast::new(&y, &a, &b),
            _ => None,
        }
    } else if [0, 1].iter().any(|&index| signature.input_value(index).is_some_and(|value| value.blocked)) {
        None
    } else if a == y && b == y {
        Some(Broadcast::same(y.iter().product()))
    } else {
        Broadcast::new(y, a, b)
    };
    let broadcast = broadcast.ok_or_else(|| bad_shapes(signature))?;
    let exchanged = Broadcast { dims: broadcast.dims, a: broadcast.b, b: broadcast.a };
    let in_place = [(0, a), (1, b)].into_iter().filter(|(_, shape)| *shape == y).map(|(index, _)| index).collect();
    let sharing = Sharing { in_place, ..Sharing::default() };
    Ok(Ready { sharing, ..Ready::new(Two { function, act, broadcast, exchanged }) })
}

/// The shape of an operand among NCHW16c tensors: itself one, or a single number.
fn blocked_shape(shape: &[usize], value: Option<&Value>) -> Option<[usize; 4]> {
    match (shape, value?.blocked) {
        (&[n, c, h, w], true) => Some([n, c.div_ceil(BLOCK), h * w, BLOCK]),
        (shape, _) if shape.iter().all(|&size| size == 1) => Some([1; 4]),
        _ => None,
    }
}

impl Call for Two {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (threads, function, act) = (io.threads, self.function, self.act);
        let y = io.outputs.take(0)?;
        if io.inputs.is_merged(0) {
            kernels::binary_inplace(threads, function, &self.broadcast, y, io.inputs.slice(1)?, false, act);
        } else if io.inputs.is_merged(1) {
            kernels::binary_inplace(threads, function, &self.exchanged, y, io.inputs.slice(0)?, true, act);
        } else {
            kernels::binary(threads, function, &self.broadcast, io.inputs.slice(0)?, io.inputs.slice(1)?, y, act);
        }
        Ok(())
    }
}

//! Calls of recurrent layers.

use byoc_plugin_api::{DType, Error};

use super::super::memory::Io;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{self, RecurrentInputs, RecurrentOutputs, RecurrentParams, packed_gates_len};
use crate::program;
use crate::reference::checked_length;

struct Layer {
    params: RecurrentParams,
}

pub(super) fn recurrent(signature: &Signature<'_>, layer: &program::Recurrent) -> Result<Ready, Error> {
    let &[outer, inner, input] = signature.input(0)? else { return Err(bad_shapes(signature)) };
    let (steps, batch) = if layer.by_batch { (inner, outer) } else { (outer, inner) };
    let program::Recurrent { cell, directions, hidden, backwards, by_batch } = *layer;
    let params = RecurrentParams { cell, steps, batch, directions, input, hidden, backwards, by_batch };
    let scratch = params.scratch_len(signature.threads.count()).filter(|_| fits(signature, &params));
    let scratch = scratch.ok_or_else(|| bad_shapes(signature))?;
    Ok(Ready { scratch, ..Ready::new(Layer { params }) })
}

/// Whether the shapes are those of such a layer.
fn fits(signature: &Signature<'_>, p: &RecurrentParams) -> bool {
    let gates = p.directions * p.cell.gates();
    let packed = |index: usize, k: usize| {
        let len = packed_gates_len(gates, k, p.hidden);
        signature.input(index).is_ok_and(|shape| len.is_some_and(|len| *shape == [len]))
    };
    let absent = |index: usize| signature.step.input(index).is_none();
    let given =
        |index: usize, shape: &[usize]| absent(index) || signature.input(index).is_ok_and(|found| found == shape);
    let wanted = |index: usize, shape: &[usize]| {
        signature.step.output(index).is_none() || signature.output(index).is_ok_and(|found| found == shape)
    };
    let (state, y) = match p.by_batch {
        true => ([p.batch, p.directions, p.hidden], [p.batch, p.steps, p.directions, p.hidden]),
        false => ([p.directions, p.batch, p.hidden], [p.steps, p.directions, p.batch, p.hidden]),
    };
    let bias = p.hidden.checked_mul(2 * p.cell.gates()).is_some_and(|bias| given(3, &[p.directions, bias]));
    let lengths = absent(4) || signature.input_value(4).is_some_and(|value| value.dtype == DType::I32);
    let inputs = bias && lengths && given(4, &[p.batch]) && given(5, &state) && given(6, &state);
    let outputs = wanted(0, &y) && wanted(1, &state) && wanted(2, &state);
    packed(1, p.input) && packed(2, p.hidden) && inputs && outputs
}

impl Call for Layer {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let lengths = if io.inputs.has(4) { Some(io.inputs.slice::<i32>(4)?) } else { None };
        for &length in lengths.into_iter().flatten() {
            checked_length(i64::from(length), self.params.steps)?;
        }
        let inputs = RecurrentInputs {
            x: io.inputs.slice(0)?,
            weights: io.inputs.slice(1)?,
            recurrence: io.inputs.slice(2)?,
            bias: io.inputs.optional(3)?,
            lengths,
            hidden: io.inputs.optional(5)?,
            cell: io.inputs.optional(6)?,
        };
        let outputs = RecurrentOutputs {
            y: io.outputs.take_optional(0)?,
            hidden: io.outputs.take_optional(1)?,
            cell: io.outputs.take_optional(2)?,
        };
        kernels::recurrent(io.threads, &self.params, &inputs, outputs, io.scratch);
        Ok(())
    }
}

//! Prepares calls for given shapes: sizes, kernels, memory plan, and the check that makes the plan safe.

use byoc_plugin_api::{Error, TensorView};

use super::bind::Bound;
use super::buffer::ALIGNMENT;
use super::calls::{self, Call, Signature};
use super::memory::{Frame, Operand, Slot, Storage};
use super::plan::{self, Sharing};
use super::work::Work;
use crate::kernels::Threads;
use crate::program::{Op, Program, Value};

/// A program made ready for one set of shapes.
pub(super) struct Prepared {
    pub(super) steps: Vec<PreparedStep>,
    pub(super) arena_bytes: usize,
    pub(super) scratch_bytes: usize,
    /// Type and bytes of each input and output, to check what `run` is given.
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
    copies: Vec<(Slot, Slot)>,
}

/// A step with its kernel and the places it reads and writes.
pub(super) struct PreparedStep {
    pub(super) name: String,
    pub(super) call: Box<dyn Call>,
    pub(super) inputs: Vec<Option<Operand>>,
    pub(super) outputs: Vec<Option<Operand>>,
}

impl PreparedStep {
    /// A step that leaves everything where it is.
    fn nothing(name: String) -> Self {
        PreparedStep { name, call: Box::new(calls::Nothing), inputs: Vec::new(), outputs: Vec::new() }
    }
}

impl Prepared {
    pub(super) fn new(
        program: &Program,
        constants: &[Bound<'_>],
        shapes: &[Vec<usize>],
        threads: &Threads,
    ) -> Result<Self, Error> {
        let sizes = sizes(program, shapes)?;
        let strides = strides(program, constants);
        let mut ready = Vec::new();
        for step in &program.steps {
            let signature = Signature::new(program, step, shapes, &strides, threads);
            ready.push(calls::prepare(&signature).map_err(|error| error.at(step.name.clone()))?);
        }
        let sharing: Vec<Sharing> = ready.iter_mut().map(|ready| std::mem::take(&mut ready.sharing)).collect();
        let plan = plan::plan(program, &sizes, &sharing);
        let operand = |value: usize| {
            let mut operand = Operand::new(plan.places[value], program.values[value].dtype, &shapes[value]);
            if let Storage::Constant(index) = operand.place.storage
                && is_constant(program, index, value)
            {
                operand.place.bytes = constants[index].bytes();
                operand.strides = constants[index].strides().map_or(operand.strides, <[i64]>::to_vec);
            }
            operand
        };
        let mut steps = Vec::new();
        let mut scratch = 0;
        for ((step, ready), sharing) in program.steps.iter().zip(ready).zip(&sharing) {
            if step.op == Op::View {
                continue;
            }
            scratch = scratch.max(ready.scratch);
            let outputs: Vec<Option<Operand>> = step.outputs.iter().map(|value| value.map(operand)).collect();
            let mut inputs: Vec<Option<Operand>> = step.inputs.iter().map(|value| value.map(operand)).collect();
            if is_cut(&inputs, &outputs, sharing) {
                steps.push(PreparedStep::nothing(step.name.clone()));
                continue;
            }
            merge(&mut inputs, &outputs, sharing).map_err(|error| error.at(step.name.clone()))?;
            // A concatenation whose parts were computed where they belong.
            if sharing.joins && inputs.iter().flatten().all(|input| input.merged || input.place.bytes == 0) {
                steps.push(PreparedStep::nothing(step.name.clone()));
                continue;
            }
            steps.push(PreparedStep { name: step.name.clone(), call: ready.call, inputs, outputs });
        }
        let edge = |value: usize| Operand::new(plan.places[value], program.values[value].dtype, &shapes[value]);
        let target = |&(value, output): &(usize, usize)| {
            (plan.places[value], Slot { storage: Storage::Output(output), offset: 0, bytes: sizes[value] })
        };
        Ok(Prepared {
            steps,
            arena_bytes: plan.arena_bytes,
            scratch_bytes: scratch.checked_mul(4).ok_or_else(|| Error::new("scratch is too large"))?,
            inputs: program.inputs.iter().map(|&value| edge(value)).collect(),
            outputs: program.outputs.iter().map(|&value| edge(value)).collect(),
            copies: plan.copies.iter().map(target).collect(),
        })
    }

    /// Checks types and shapes of the tensors that a run was given.
    pub(super) fn check_edges(&self, frame: &Frame<'_>) -> Result<(), Error> {
        let outputs = frame.outputs.iter().map(|output| output.as_view());
        check("input", &self.inputs, frame.inputs.iter().copied())?;
        check("output", &self.outputs, outputs)
    }

    /// The work of each step, and that of [`Prepared::copy_outputs`].
    pub(super) fn work(&self, program: &Program, shapes: &[Vec<usize>]) -> Vec<Work> {
        let bytes = self.copies.iter().map(|(from, to)| (from.bytes + to.bytes) as u64).sum();
        let steps = program.steps.iter().filter(|step| step.op != Op::View);
        let work = steps.zip(&self.steps).map(|(step, prepared)| match prepared.outputs.is_empty() {
            true => Work::default(),
            false => Work::of(program, step, shapes, prepared.call.computed_as()),
        });
        work.chain([Work { bytes, ..Work::default() }]).collect()
    }

    /// Fills the outputs that no step wrote to directly.
    pub(super) fn copy_outputs(&self, frame: &Frame<'_>) -> Result<(), Error> {
        self.copies.iter().try_for_each(|(from, to)| frame.copy(from, to))
    }
}

fn check<'v>(
    what: &str,
    expected: &[Operand],
    found: impl ExactSizeIterator<Item = TensorView<'v>>,
) -> Result<(), Error> {
    if found.len() != expected.len() {
        return Err(Error::new(format!("{} {what}s for {}", found.len(), expected.len())));
    }
    for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
        if expected.dtype != found.dtype() || expected.shape != found.shape() {
            return Err(Error::new(format!(
                "{what} {index} is {} {:?}, expected {} {:?}",
                found.dtype(),
                found.shape(),
                expected.dtype,
                expected.shape
            )));
        }
    }
    Ok(())
}

/// The strides of each value that is a constant and not contiguous.
fn strides<'c>(program: &Program, constants: &'c [Bound<'_>]) -> Vec<Option<&'c [i64]>> {
    let mut strides = vec![None; program.values.len()];
    for (constant, bound) in program.constants.iter().zip(constants) {
        strides[constant.value] = bound.strides();
    }
    strides
}

/// Whether every output of a step is where it is cut out of the first input.
fn is_cut(inputs: &[Option<Operand>], outputs: &[Option<Operand>], sharing: &Sharing) -> bool {
    let Some(Some(Operand { place: from, .. })) = inputs.first() else { return false };
    let is_there = |(output, &start): (&Option<Operand>, &usize)| {
        output.as_ref().is_some_and(|output| {
            let offset = from.offset + start;
            output.place == Slot { storage: from.storage, offset, bytes: output.place.bytes }
        })
    };
    !outputs.is_empty() && outputs.len() == sharing.cuts.len() && outputs.iter().zip(&sharing.cuts).all(is_there)
}

fn is_constant(program: &Program, index: usize, value: usize) -> bool {
    program.constants.get(index).is_some_and(|constant| constant.value == value)
}

/// Marks inputs that are in an output, and refuses every other overlap: what `memory` relies on.
fn merge(inputs: &mut [Option<Operand>], outputs: &[Option<Operand>], sharing: &Sharing) -> Result<(), Error> {
    for (index, output) in outputs.iter().enumerate() {
        let Some(output) = output else { continue };
        let mut start = 0;
        for (position, input) in inputs.iter_mut().enumerate() {
            let Some(input) = input else { continue };
            let offset = output.place.offset.saturating_add(start);
            let part = Slot { storage: output.place.storage, offset, bytes: input.place.bytes };
            // A step may name an input any number of times.
            start = start.saturating_add(input.place.bytes);
            if !input.place.overlaps(&output.place) {
                continue;
            }
            let replaced = sharing.in_place.contains(&position) && input.place == output.place;
            if index != 0 || !(replaced || sharing.joins && input.place == part) {
                return Err(Error::new(format!("input {position} overlaps output {index}")));
            }
            input.merged = true;
        }
        if outputs[..index].iter().flatten().any(|other| other.place.overlaps(&output.place)) {
            return Err(Error::new(format!("output {index} overlaps another")));
        }
    }
    Ok(())
}

/// Bytes of each value. All of them together can be counted, so no place in memory that is planned for them wraps.
fn sizes(program: &Program, shapes: &[Vec<usize>]) -> Result<Vec<usize>, Error> {
    let size = |(value, shape): (&Value, &Vec<usize>)| {
        value.bytes(shape).ok_or_else(|| Error::new(format!("a tensor of shape {shape:?} is too large")))
    };
    let sizes: Vec<usize> = program.values.iter().zip(shapes).map(size).collect::<Result<_, _>>()?;
    let padded = |size: &usize| size.checked_next_multiple_of(ALIGNMENT);
    let total = sizes.iter().try_fold(0usize, |total, size| total.checked_add(padded(size)?));
    match total {
        Some(total) if total <= isize::MAX as usize => Ok(sizes),
        _ => Err(Error::new("the tensors are too large for any memory")),
    }
}

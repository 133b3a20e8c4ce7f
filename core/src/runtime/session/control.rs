//! Runs control flow: a body is a session of its own, whose outputs are copied to the next iteration and to those of the node.

mod map;

use byoc_plugin_api::{DType, SizedOutputs, TensorView};

use super::Session;
use super::filling::{Filling, failed, give, incomplete, one, place};
use super::held::Held;
use super::iterations::Iterations;
use super::state::copy;
use super::tables::Tables;
use crate::artifact::manifest::ControlKind;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::memory;

/// A node of control flow with its bodies, loaded.
pub(super) struct ControlFlow {
    name: String,
    kind: ControlKind,
    /// In the order of [`ControlKind::bodies`].
    pub(super) bodies: Vec<Session>,
    /// The values that an iteration hands to the next.
    carried: Vec<Held>,
    /// What each iteration has given.
    stacks: Vec<Stack>,
    iterations: Iterations,
    /// Those of the entry.
    tables: Tables,
    /// Which of the carried values are sequences or optionals.
    carried_lists: Vec<usize>,
}

impl ControlFlow {
    pub(super) fn new(name: String, kind: ControlKind, bodies: Vec<Session>, iterations: Iterations) -> ControlFlow {
        let (carried, stacks) = match kind {
            ControlKind::If { .. } | ControlKind::SequenceMap { .. } | ControlKind::List(_) => (0, 0),
            ControlKind::Loop { carried, .. } => (carried, outputs(&bodies).saturating_sub(1 + carried)),
            ControlKind::Scan { carried, .. } => (carried, outputs(&bodies).saturating_sub(carried)),
        };
        let tables = bodies.first().map(|body| body.tables.clone()).unwrap_or_default();
        let is_list = |index: &usize| {
            let input = bodies.first().and_then(|body| body.inputs().into_iter().nth(2 + index));
            input.is_some_and(|input| input.list.is_some())
        };
        let carried_lists = match kind {
            ControlKind::Loop { .. } => (0..carried).filter(is_list).collect(),
            _ => Vec::new(),
        };
        let carried = (0..carried).map(|_| Held::default()).collect();
        let stacks = (0..stacks).map(|_| Stack::default()).collect();
        ControlFlow { name, kind, bodies, carried, stacks, iterations, tables, carried_lists }
    }

    /// Runs it. The reader of artifacts has compared the types of the inputs with those that the bodies take.
    pub(super) fn run(&mut self, inputs: &[TensorView<'_>], filling: &mut Filling<'_>) -> Result<()> {
        let done = match &self.kind {
            ControlKind::If { .. } => self.branch(inputs, filling),
            ControlKind::Loop { .. } => self.iterate(inputs, filling),
            &ControlKind::Scan { scanned, .. } => self.scan(scanned, inputs, filling),
            ControlKind::SequenceMap { mapped, .. } => self.map(&mapped.clone(), inputs, filling),
            ControlKind::List(_) => Err(incomplete()),
        };
        done.map_err(|error| error.within(format!("'{}'", self.name)))
    }

    fn branch(&mut self, inputs: &[TensorView<'_>], filling: &mut Filling<'_>) -> Result<()> {
        let (condition, given) = inputs.split_first().ok_or_else(incomplete)?;
        let body = self.bodies.get_mut(usize::from(!truth(condition)?)).ok_or_else(incomplete)?;
        body.run_within(given)?;
        (0..outputs(std::slice::from_ref(body))).try_for_each(|index| give(filling, index, &body.output(index)?))
    }

    fn iterate(&mut self, inputs: &[TensorView<'_>], filling: &mut Filling<'_>) -> Result<()> {
        let [limit, condition, rest @ ..] = inputs else { return Err(incomplete()) };
        let limit = one::<i64>(limit, "limit")?;
        let mut holds = truth(condition)?;
        let (initial, captured) = rest.split_at_checked(self.carried.len()).ok_or_else(incomplete)?;
        let body = self.bodies.first_mut().ok_or_else(incomplete)?;
        self.stacks.iter_mut().for_each(Stack::clear);
        let made = self.tables.lists().made();
        let mut done = 0i64;
        while holds && done < limit {
            self.iterations.count()?;
            let (step, always) = ([done], [1u8]);
            let own = [scalar(&step, DType::I64), scalar(&always, DType::Bool)];
            let current: Vec<_> = match done {
                0 => initial.to_vec(),
                _ => self.carried.iter().zip(initial).map(|(held, like)| held.view(like.dtype())).collect(),
            };
            let given: Vec<_> = own.into_iter().chain(current).chain(captured.iter().copied()).collect();
            body.run_within(&given)?;
            holds = truth(&body.output(0)?)?;
            carry(&mut self.carried, body, 1)?;
            keep_lists(&self.tables, made, &self.carried_lists, &mut self.carried);
            let first = 1 + self.carried.len();
            for (index, stack) in self.stacks.iter_mut().enumerate() {
                if filling.wants(self.carried.len() + index) {
                    stack.push(&body.output(first + index)?)?;
                }
            }
            done += 1;
        }
        self.finish(done == 0, initial, filling, &|_| (0, false))
    }

    fn scan(&mut self, scanned: usize, inputs: &[TensorView<'_>], filling: &mut Filling<'_>) -> Result<()> {
        let ControlKind::Scan { input_axes, input_directions, output_axes, output_directions, .. } = &self.kind else {
            return Err(incomplete());
        };
        let way = |axes: &[i64], directions: &[i64], index: usize| {
            (axes.get(index).copied().unwrap_or(0), directions.get(index) == Some(&1))
        };
        let (initial, rest) = inputs.split_at_checked(self.carried.len()).ok_or_else(incomplete)?;
        let (sliced, captured) = rest.split_at_checked(scanned).ok_or_else(incomplete)?;
        let slicers = sliced.iter().enumerate().map(|(index, tensor)| {
            let (axis, reversed) = way(input_axes, input_directions, index);
            Slicer::new(tensor, axis, reversed)
        });
        let slicers = slicers.collect::<Option<Vec<_>>>().ok_or_else(incomplete)?;
        let length = slicers.first().map_or(0, |slicer| slicer.length);
        if let Some(other) = slicers.iter().find(|slicer| slicer.length != length) {
            let message = format!("it scans {length} slices of one input and {} of another", other.length);
            return Err(Diagnostic::new(Code::BadInput, message));
        }
        let body = self.bodies.first_mut().ok_or_else(incomplete)?;
        self.stacks.iter_mut().for_each(Stack::clear);
        let made = self.tables.lists().made();
        for step in 0..length {
            self.iterations.count()?;
            let current: Vec<_> = match step {
                0 => initial.to_vec(),
                _ => self.carried.iter().zip(initial).map(|(held, like)| held.view(like.dtype())).collect(),
            };
            let slices = slicers.iter().map(|slicer| slicer.slice(step));
            let given: Vec<_> = current.into_iter().chain(slices).chain(captured.iter().copied()).collect();
            body.run_within(&given)?;
            carry(&mut self.carried, body, 0)?;
            keep_lists(&self.tables, made, &self.carried_lists, &mut self.carried);
            for (index, stack) in self.stacks.iter_mut().enumerate() {
                if filling.wants(self.carried.len() + index) {
                    stack.push(&body.output(self.carried.len() + index)?)?;
                }
            }
        }
        self.finish(length == 0, initial, filling, &|index| way(output_axes, output_directions, index))
    }

    /// Gives the outputs: what was carried last, or in the beginning where there was no iteration, and the stacks; `way` tells the
    /// axis of each, and whether its last slice comes first.
    fn finish(
        &self,
        none: bool,
        initial: &[TensorView<'_>],
        filling: &mut Filling<'_>,
        way: &dyn Fn(usize) -> (i64, bool),
    ) -> Result<()> {
        for (index, (held, initial)) in self.carried.iter().zip(initial).enumerate() {
            give(filling, index, &if none { *initial } else { held.view(initial.dtype()) })?;
        }
        for (index, stack) in self.stacks.iter().enumerate() {
            let output = self.carried.len() + index;
            let (axis, reversed) = way(index);
            if filling.wants(output) {
                stack.give(filling, output, axis, reversed)?;
            }
        }
        Ok(())
    }
}

/// Keeps the values that the last run of the body hands on: its outputs from `first` on.
fn carry(carried: &mut [Held], body: &Session, first: usize) -> Result<()> {
    for (index, held) in carried.iter_mut().enumerate() {
        held.take("a carried value", &body.output(first + index)?).map_err(failed)?;
    }
    Ok(())
}

/// Forgets the lists that were made since so many were there, but for those that are handed on.
fn keep_lists(tables: &Tables, made: usize, lists: &[usize], carried: &mut [Held]) {
    let handle = |held: &Held| held.view(DType::U64).as_slice::<u64>().and_then(|all| all.first().copied());
    let mut handles: Vec<u64> = lists.iter().filter_map(|&index| handle(&carried[index])).collect();
    tables.lists().keep(made, &mut handles);
    for (&index, handle) in lists.iter().zip(handles) {
        if let Some(place) = carried[index].view_mut(DType::U64).as_mut_slice::<u64>().and_then(|all| all.first_mut()) {
            *place = handle;
        }
    }
}

fn outputs(bodies: &[Session]) -> usize {
    bodies.first().map_or(0, |body| body.outputs().len())
}

fn truth(tensor: &TensorView<'_>) -> Result<bool> {
    one::<byoc_plugin_api::Bool8>(tensor, "condition").map(byoc_plugin_api::Bool8::get)
}

fn scalar<T>(element: &[T; 1], dtype: DType) -> TensorView<'_> {
    // SAFETY: both callers give one element of the type.
    unsafe { TensorView::from_raw(element.as_ptr().cast(), dtype, &[], &[]) }
}

/// Gives the slices of a tensor along an axis.
struct Slicer<'a> {
    tensor: TensorView<'a>,
    length: usize,
    reversed: bool,
    /// Elements from one slice to the next.
    stride: i64,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl<'a> Slicer<'a> {
    fn new(tensor: &TensorView<'a>, axis: i64, reversed: bool) -> Option<Slicer<'a>> {
        let (mut shape, mut strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
        let axis = usize::try_from(if axis < 0 { axis + shape.len() as i64 } else { axis }).ok()?;
        // A slice of elements that share bytes may begin within one; the compiler lets no such scan through.
        if axis >= shape.len() || tensor.dtype().shares_bytes() {
            return None;
        }
        let (length, stride) = (usize::try_from(shape.remove(axis)).ok()?, strides.remove(axis));
        Some(Slicer { tensor: *tensor, length, reversed, stride, shape, strides })
    }

    fn slice(&self, step: usize) -> TensorView<'_> {
        let index = if self.reversed { self.length - 1 - step } else { step };
        let offset = index as isize * self.stride as isize * self.tensor.dtype().unpacked_bytes() as isize;
        // The address of an empty tensor is never read.
        let data = self.tensor.as_ptr().wrapping_offset(offset);
        // SAFETY: elements of the slice are elements of the tensor.
        unsafe { TensorView::from_raw(data, self.tensor.dtype(), &self.shape, &self.strides) }
    }
}

/// Equal tensors, one after the other: in memory that grows with them.
#[derive(Default)]
struct Stack {
    count: usize,
    shape: Vec<i64>,
    dtype: Option<DType>,
    bytes: Vec<u8>,
}

impl Stack {
    fn clear(&mut self) {
        (self.count, self.dtype) = (0, None);
        self.bytes.clear();
    }

    fn push(&mut self, tensor: &TensorView<'_>) -> Result<()> {
        if tensor.dtype().shares_bytes() {
            return Err(incomplete());
        }
        if self.count == 0 {
            (self.shape, self.dtype) = (tensor.shape().to_vec(), Some(tensor.dtype()));
        } else if self.shape != tensor.shape() {
            let (before, now) = (&self.shape, tensor.shape());
            let message = format!("an iteration gave a tensor of shape {now:?}, those before it {before:?}");
            return Err(
                Diagnostic::new(Code::RunFailed, message).hint("What is put together has one shape in all iterations")
            );
        }
        let size = tensor.byte_len();
        let before = self.bytes.len();
        let grown = memory::check(before.saturating_add(size)).and_then(|()| memory::grow(&mut self.bytes, size));
        grown.map_err(|shortage| shortage.diagnostic(Code::RunFailed, "what its iterations give"))?;
        self.bytes.resize(before + size, 0);
        // SAFETY: the room was made just now.
        unsafe { copy(tensor, self.bytes.as_mut_ptr().add(before)) };
        self.count += 1;
        Ok(())
    }

    /// Copies the tensors to an output, along a new axis of it.
    fn give(&self, filling: &mut Filling<'_>, output: usize, axis: i64, reversed: bool) -> Result<()> {
        let Some(dtype) = self.dtype else {
            // No iteration tells the sizes.
            let mut shape = filling.known_shape(output);
            if let Some(axis) = place(axis, shape.len()) {
                shape[axis] = 0;
            }
            return filling.allocate(output, &shape).map(drop).map_err(failed);
        };
        let axis = place(axis, self.shape.len() + 1).ok_or_else(incomplete)?;
        let (mut shape, mut strides) = (self.shape.clone(), byoc_plugin_api::contiguous_strides(&self.shape));
        let element = self.shape.iter().product::<i64>();
        shape.insert(axis, self.count as i64);
        strides.insert(axis, if reversed { -element } else { element });
        let first = if reversed { (self.count - 1) * element as usize * dtype.unpacked_bytes() } else { 0 };
        let from = self.bytes.as_ptr().wrapping_add(first);
        // SAFETY: the tensors are in the block one after the other, and `copy` reads each element by itself or all in order.
        give(filling, output, &unsafe { TensorView::from_raw(from, dtype, &shape, &strides) })
    }
}

//! Puts tensors into sequences and optionals, and takes them out. Lists are never changed: each operator makes a new one, of the same
//! tensors.

use std::sync::Arc;

use byoc_plugin_api::{Bool8, DType, SizedOutputs, TensorView};

use super::filling::{Filling, failed, give, give_number, incomplete, one, place};
use super::tables::{Kept, List, Tables};
use crate::artifact::manifest::ListOp;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::memory;

/// About as many bytes as a tensor of a sequence takes beside its elements.
const TENSOR_BYTES: usize = 192;

/// An operator on lists, with the tables of its entry.
pub(super) struct ListCall {
    name: String,
    op: ListOp,
    /// Whether the first input is a list.
    of_list: bool,
    tables: Tables,
}

impl ListCall {
    pub(super) fn new(name: String, op: ListOp, of_list: bool, tables: Tables) -> ListCall {
        ListCall { name, op, of_list, tables }
    }

    /// Runs it. The reader of artifacts has compared the types of what it is given with those that it needs.
    pub(super) fn run(&self, inputs: &[TensorView<'_>], filling: &mut Filling<'_>) -> Result<()> {
        self.compute(inputs, filling).map_err(|error| error.within(format!("'{}'", self.name)))
    }

    fn compute(&self, inputs: &[TensorView<'_>], filling: &mut Filling<'_>) -> Result<()> {
        match self.op {
            ListOp::Construct => {
                let tensors = inputs.iter().map(|input| Kept::copy_of(input).map_err(failed));
                self.make(filling, List::Sequence(Arc::new(tensors.collect::<Result<_>>()?)))
            }
            ListOp::Insert => self.insert(inputs, filling),
            ListOp::Erase => self.erase(inputs, filling),
            ListOp::At => {
                let tensors = self.sequence(inputs)?;
                let at = position(inputs.get(1), tensors.len(), 0)?.ok_or_else(incomplete)?;
                give(filling, 0, &tensors[at].view())
            }
            ListOp::Length => {
                let count = self.sequence(inputs)?.len() as i64;
                give_number(filling, 0, count)
            }
            ListOp::Concat { axis, new_axis } => concat(&self.sequence(inputs)?, axis, new_axis, filling),
            ListOp::Split { axis, keepdims } => {
                let parts = split(inputs, axis, keepdims)?;
                self.make(filling, List::Sequence(Arc::new(parts)))
            }
            ListOp::Wrap => match inputs.first() {
                None => self.make(filling, List::Nothing),
                Some(list) if self.of_list => give(filling, 0, list),
                Some(tensor) => self.make(filling, List::Tensor(Kept::copy_of(tensor).map_err(failed)?)),
            },
            ListOp::HasElement => {
                // A tensor is there.
                let there = !self.of_list || !matches!(self.list(inputs)?, List::Nothing);
                give_number(filling, 0, Bool8::from(there))
            }
            ListOp::GetElement => match self.list(inputs)? {
                List::Nothing => Err(run_failed("the optional has no element")),
                List::Tensor(tensor) => give(filling, 0, &tensor.view()),
                List::Sequence(_) => give(filling, 0, inputs.first().ok_or_else(incomplete)?),
            },
        }
    }

    /// The list that the first input is a handle of.
    fn list(&self, inputs: &[TensorView<'_>]) -> Result<List> {
        let handle = one::<u64>(inputs.first().ok_or_else(incomplete)?, "handle")?;
        let found = self.tables.lists().get(handle).cloned();
        found.ok_or_else(|| run_failed("its input stands for no sequence"))
    }

    fn sequence(&self, inputs: &[TensorView<'_>]) -> Result<Arc<Vec<Arc<Kept>>>> {
        match self.list(inputs)? {
            List::Sequence(tensors) => Ok(tensors),
            List::Nothing | List::Tensor(_) => Err(run_failed("its input is an optional without a sequence")),
        }
    }

    /// Makes a list the output.
    fn make(&self, filling: &mut Filling<'_>, list: List) -> Result<()> {
        let handle = self.tables.lists().make(list);
        give_number(filling, 0, handle)
    }

    fn insert(&self, inputs: &[TensorView<'_>], filling: &mut Filling<'_>) -> Result<()> {
        let tensors = self.sequence(inputs)?;
        let tensor = Kept::copy_of(inputs.get(1).ok_or_else(incomplete)?).map_err(failed)?;
        // Behind the last one is a place as well.
        let at = position(inputs.get(2), tensors.len(), 1)?.unwrap_or(tensors.len());
        let mut longer = room(tensors.len() + 1)?;
        longer.extend_from_slice(&tensors[..at]);
        longer.push(tensor);
        longer.extend_from_slice(&tensors[at..]);
        self.make(filling, List::Sequence(Arc::new(longer)))
    }

    fn erase(&self, inputs: &[TensorView<'_>], filling: &mut Filling<'_>) -> Result<()> {
        let tensors = self.sequence(inputs)?;
        let last = tensors.len().checked_sub(1).ok_or_else(|| run_failed("the sequence is empty"))?;
        let at = position(inputs.get(1), tensors.len(), 0)?.unwrap_or(last);
        let mut shorter = room(last)?;
        shorter.extend_from_slice(&tensors[..at]);
        shorter.extend_from_slice(&tensors[at + 1..]);
        self.make(filling, List::Sequence(Arc::new(shorter)))
    }
}

/// A position among that many, from the end if it is negative; `more` places are behind the last one.
fn position(input: Option<&TensorView<'_>>, count: usize, more: usize) -> Result<Option<usize>> {
    let Some(input) = input else { return Ok(None) };
    let position = match input.dtype() {
        DType::I32 => one::<i32>(input, "position")?.into(),
        _ => one::<i64>(input, "position")?,
    };
    let from_front = if position < 0 { position.saturating_add_unsigned(count as u64) } else { position };
    let found = usize::try_from(from_front).ok().filter(|&found| found < count + more);
    let beyond = || run_failed(&format!("position {position} is out of range for a sequence of {count}"));
    found.map(Some).ok_or_else(beyond)
}

/// The tensors of a sequence one after the other along an axis.
fn concat(tensors: &[Arc<Kept>], axis: i64, new_axis: bool, filling: &mut Filling<'_>) -> Result<()> {
    let first = tensors.first().ok_or_else(|| run_failed("the sequence is empty"))?.view();
    let axis = place(axis, first.shape().len() + usize::from(new_axis)).ok_or_else(incomplete)?;
    let mut shape = first.shape().to_vec();
    let mut along = 0i64;
    for tensor in tensors.iter().map(|tensor| tensor.view()) {
        let like = tensor.shape().len() == shape.len()
            && tensor.shape().iter().zip(&shape).enumerate().all(|(at, (a, b))| a == b || at == axis && !new_axis);
        if !like || tensor.dtype() != first.dtype() || tensor.dtype().shares_bytes() {
            let (one, other) = (first.shape(), tensor.shape());
            return Err(run_failed(&format!("tensors of shapes {one:?} and {other:?} cannot be put together")));
        }
        along = along.saturating_add(if new_axis { 1 } else { tensor.shape()[axis] });
    }
    match new_axis {
        true => shape.insert(axis, along),
        false => shape[axis] = along,
    }
    if !filling.takes(0, first.dtype()) {
        return Err(incomplete());
    }
    let mut output = filling.allocate(0, &shape).map_err(failed)?;
    let bytes = output.as_mut_bytes().ok_or_else(incomplete)?;
    let outer: usize = shape[..axis].iter().map(|&size| size as usize).product();
    let mut at = 0;
    for block in 0..outer {
        for tensor in tensors.iter().map(|tensor| tensor.view()) {
            let from = tensor.as_bytes().ok_or_else(incomplete)?;
            let size = from.len() / outer;
            bytes[at..at + size].copy_from_slice(&from[block * size..][..size]);
            at += size;
        }
    }
    Ok(())
}

/// The parts of a tensor along an axis.
fn split(inputs: &[TensorView<'_>], axis: i64, keepdims: bool) -> Result<Vec<Arc<Kept>>> {
    let tensor = inputs.first().ok_or_else(incomplete)?;
    let axis = place(axis, tensor.shape().len()).ok_or_else(incomplete)?;
    let length = tensor.shape()[axis];
    let (sizes, keeps) = match inputs.get(1) {
        Some(sizes) => (part_sizes(sizes, length)?, true),
        None => (parts_of(1, length)?, keepdims),
    };
    if tensor.dtype().shares_bytes() {
        return Err(incomplete());
    }
    let from = tensor.as_bytes().ok_or_else(incomplete)?;
    let outer: usize = tensor.shape()[..axis].iter().map(|&size| size as usize).product();
    let inner = tensor.shape()[axis + 1..].iter().map(|&size| size as usize).product::<usize>();
    let inner = inner * tensor.dtype().unpacked_bytes();
    let row = length as usize * inner;
    let mut parts = room(sizes.len())?;
    let mut first = 0;
    for size in sizes {
        let mut shape = tensor.shape().to_vec();
        match keeps {
            true => shape[axis] = size,
            false => drop(shape.remove(axis)),
        }
        let (start, bytes) = (first * inner, size as usize * inner);
        let part = Kept::filled(tensor.dtype(), &shape, |to| {
            for block in (0..outer).filter(|_| bytes > 0) {
                to[block * bytes..][..bytes].copy_from_slice(&from[block * row + start..][..bytes]);
            }
        });
        parts.push(part.map_err(failed)?);
        first += size as usize;
    }
    Ok(parts)
}

/// The sizes of parts: all of one size, but that the last one may be smaller, or of each its own.
fn part_sizes(sizes: &TensorView<'_>, length: i64) -> Result<Vec<i64>> {
    let numbers = match sizes.dtype() {
        DType::I32 => sizes.to_vec::<i32>().map(|numbers| numbers.into_iter().map(i64::from).collect()),
        _ => sizes.to_vec::<i64>(),
    };
    let numbers: Vec<i64> = numbers.map_err(failed)?;
    if let ([size], []) = (numbers.as_slice(), sizes.shape()) {
        return match *size {
            1.. => parts_of(*size, length),
            other => Err(run_failed(&format!("parts of size {other} are asked for, expected at least 1"))),
        };
    }
    let sum = numbers.iter().try_fold(0i64, |sum, &size| sum.checked_add(size).filter(|_| size >= 0));
    if sum == Some(length) {
        return Ok(numbers);
    }
    Err(run_failed(&format!("parts of sizes {numbers:?} do not make up the {length} elements of the axis")))
}

/// As many parts of a size as there are, and the rest.
fn parts_of(size: i64, length: i64) -> Result<Vec<i64>> {
    let count = length as u64;
    let count = usize::try_from(count.div_ceil(size as u64)).map_err(|_| incomplete())?;
    let short = |shortage: memory::Shortage| shortage.diagnostic(Code::RunFailed, "a sequence");
    memory::check(count.saturating_mul(TENSOR_BYTES)).map_err(short)?;
    let mut sizes = memory::room(count).map_err(short)?;
    sizes.extend((0..count as i64).map(|index| size.min(length - index * size)));
    Ok(sizes)
}

fn room(count: usize) -> Result<Vec<Arc<Kept>>> {
    memory::room(count).map_err(|shortage| shortage.diagnostic(Code::RunFailed, "a sequence"))
}

fn run_failed(cause: &str) -> Diagnostic {
    Diagnostic::new(Code::RunFailed, cause)
}

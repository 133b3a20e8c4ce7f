//! Binds a program's constants: views of the mapped artifact where they can be used as they are, copies where not.

use std::sync::{Arc, Mutex, PoisonError};

use byoc_plugin_api::{BoundConstants, DType, Error, TensorView, bf16, f16, from_hex};

use super::buffer::{self, ALIGNMENT, Buffer};
use crate::constants::{Recipe, Values, store};
use crate::kernels::{Narrow, Threads};
use crate::program::{Constant, Op, Program, Source, Value};

/// A constant, ready to be read.
pub(super) enum Bound<'a> {
    /// Memory that the host keeps.
    View(TensorView<'a>),
    /// A contiguous copy, or something computed at load. All of these are in one memory: small ones of their own would have
    /// small pages, whose first use takes longer than the computation (`docs/decisions/0041-pages-of-a-first-run.md`).
    Owned {
        /// The memory.
        memory: Arc<Buffer>,
        /// Where it is there.
        offset: usize,
        /// How many bytes it is.
        bytes: usize,
    },
}

impl Bound<'_> {
    pub(super) fn as_ptr(&self) -> *const u8 {
        match self {
            Bound::View(view) => view.as_ptr(),
            Bound::Owned { memory, offset, .. } => memory.as_bytes()[*offset..].as_ptr(),
        }
    }

    /// Bytes that the shape and the strides reach.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Bound::View(view) => extent(view),
            Bound::Owned { bytes, .. } => *bytes,
        }
    }

    /// Strides, in elements, if they are not those of a contiguous tensor.
    pub(super) fn strides(&self) -> Option<&[i64]> {
        match self {
            Bound::View(view) if !view.is_contiguous() => Some(view.strides()),
            _ => None,
        }
    }
}

fn extent(view: &TensorView<'_>) -> usize {
    if view.is_empty() {
        return 0;
    }
    // The host vouches that all of it is in memory, so this does not overflow.
    let last: i64 = view.shape().iter().zip(view.strides()).map(|(size, stride)| (size - 1) * stride).sum();
    view.dtype().bytes_for(last.max(0) as usize + 1).unwrap_or(usize::MAX)
}

/// Bytes that are copied or computed from which on all threads do so: waking them takes longer than fewer.
const ENOUGH: usize = 1 << 20;

/// Every constant of the program, in its order.
pub(super) fn bind<'a>(
    threads: &Threads,
    program: &Program,
    constants: &BoundConstants<'a>,
) -> Result<Vec<Bound<'a>>, Error> {
    let takes_strides = takes_strides(program);
    let find = |constant: &Constant| {
        let value = &program.values[constant.value];
        Found::of(constant, value, takes_strides[constant.value], constants)
    };
    let found: Vec<Found<'_>> = program.constants.iter().map(find).collect::<Result<_, Error>>()?;
    let mut memory = Buffer::new(found.iter().try_fold(0usize, |sum, found| found.end(sum)).ok_or_else(too_large)?)?;
    let mut rest = memory.as_mut_bytes();
    let mut made = Vec::new();
    for (constant, found) in program.constants.iter().zip(&found) {
        let (to, after) = std::mem::take(&mut rest).split_at_mut(found.end(0).unwrap_or(0));
        rest = after;
        if let Found::Made(bytes) = *found {
            made.push((constant, &mut to[..bytes]));
        }
    }
    make_all(threads, made, constants)?;
    let (memory, mut offset) = (Arc::new(memory), 0);
    let mut all = Vec::with_capacity(found.len());
    for (constant, found) in program.constants.iter().zip(found) {
        let end = found.end(offset).ok_or_else(too_large)?;
        let bound = match found {
            Found::There(view) => Bound::View(view),
            Found::Made(bytes) => Bound::Owned { memory: memory.clone(), offset, bytes },
        };
        check(&program.values[constant.value], &bound, matches!(constant.source, Source::Derived { .. }))?;
        all.push(bound);
        offset = end;
    }
    Ok(all)
}

/// What a load has to do for a constant.
enum Found<'a> {
    /// Nothing.
    There(TensorView<'a>),
    /// It copies or computes so many bytes.
    Made(usize),
}

impl<'a> Found<'a> {
    fn of(constant: &Constant, value: &Value, strides: bool, constants: &BoundConstants<'a>) -> Result<Self, Error> {
        Ok(match &constant.source {
            Source::Host(id) => Found::or_copy(constants.host(*id)?, strides),
            Source::Inline { hex, .. } => Found::Made(hex.len() / 2),
            Source::Derived { recipe, carrier: Some(id), stored } => {
                let view = constants.packed(*id, recipe.layout())?;
                match stored {
                    Some(_) => Found::Made(view.len().checked_mul(size_of::<f32>()).ok_or_else(another)?),
                    None => Found::or_copy(view, false),
                }
            }
            Source::Derived { recipe, carrier: None, stored: _ } => {
                let len = recipe.len().ok_or_else(too_large)?;
                let bytes = len.checked_mul(recipe.dtype().unpacked_bytes()).ok_or_else(too_large)?;
                // Nothing that is larger than the value.
                if Some(bytes) != bytes_of(value)? || value.dtype != recipe.dtype() {
                    return Err(another());
                }
                Found::Made(bytes)
            }
        })
    }

    /// The view as it is where that is possible, else a copy.
    fn or_copy(view: TensorView<'a>, strides: bool) -> Self {
        let aligned = (view.as_ptr() as usize).is_multiple_of(view.dtype().unpacked_bytes());
        let forward = view.strides().iter().all(|&stride| stride >= 0);
        if aligned && (view.is_contiguous() || (strides && forward)) {
            return Found::There(view);
        }
        Found::Made(view.byte_len())
    }

    /// Where the next one begins, if this one does there.
    fn end(&self, start: usize) -> Option<usize> {
        match self {
            Found::There(_) => Some(start),
            Found::Made(bytes) => start.checked_add(bytes.checked_next_multiple_of(ALIGNMENT)?),
        }
    }
}

/// Copies or computes constants; of several errors that of the first one.
fn make_all(threads: &Threads, all: Vec<(&Constant, &mut [u8])>, constants: &BoundConstants<'_>) -> Result<(), Error> {
    if all.iter().map(|(_, to)| to.len()).sum::<usize>() < ENOUGH {
        return all.into_iter().try_for_each(|(constant, to)| make(constant, constants, to));
    }
    // Each task takes one of them; the locks say so to the compiler.
    let all: Vec<_> = all.into_iter().map(|(constant, to)| Mutex::new((constant, to, Ok(())))).collect();
    threads.parallel_for(all.len(), |index| {
        let mut one = all[index].lock().unwrap_or_else(PoisonError::into_inner);
        let (constant, to, result) = &mut *one;
        *result = make(constant, constants, to);
    });
    all.into_iter().try_for_each(|one| one.into_inner().unwrap_or_else(PoisonError::into_inner).2)
}

/// Copies or computes a constant. The bytes are zero before, and as many as [`Found::of`] says.
fn make(constant: &Constant, constants: &BoundConstants<'_>, to: &mut [u8]) -> Result<(), Error> {
    match &constant.source {
        Source::Host(id) => copy(&constants.host(*id)?, to),
        Source::Inline { hex, .. } => {
            let bytes = from_hex(hex).filter(|bytes| bytes.len() == to.len());
            to.copy_from_slice(&bytes.ok_or_else(|| Error::new("damaged code: a constant is not hex text"))?);
        }
        Source::Derived { recipe, carrier: Some(id), stored } => {
            let view = constants.packed(*id, recipe.layout())?;
            match stored {
                Some(_) => widen(&view, buffer::floats(to))?,
                None => copy(&view, to),
            }
        }
        Source::Derived { recipe, carrier: None, stored: _ } => derive(recipe, constants, to)?,
    }
    Ok(())
}

/// The elements of a constant of 16 bits as f32.
fn widen(view: &TensorView<'_>, values: &mut [f32]) -> Result<(), Error> {
    match (view.as_slice::<f16>(), view.as_slice::<bf16>()) {
        (Some(elements), _) => f16::widen(elements, values),
        (_, Some(elements)) => bf16::widen(elements, values),
        _ => return Err(another()),
    }
    Ok(())
}

/// Computes what was not stored.
fn derive(recipe: &Recipe, constants: &BoundConstants<'_>, to: &mut [u8]) -> Result<(), Error> {
    let view = |id| constants.host(id);
    match (recipe, recipe.dtype()) {
        (Recipe::Matrix { .. }, dtype) => {
            let mut rest = to;
            recipe.compute_matrix(&view, dtype, &mut |part| {
                let (to, after) = std::mem::take(&mut rest).split_at_mut_checked(part.len()).ok_or_else(another)?;
                to.copy_from_slice(part);
                rest = after;
                Ok(())
            })
        }
        (_, dtype @ (DType::F16 | DType::BF16)) => {
            let mut values = vec![0.0; to.len() / dtype.unpacked_bytes()];
            recipe.compute(&view, Values::F32(&mut values))?;
            let mut bytes = Vec::with_capacity(to.len());
            store(dtype, &values, &mut bytes);
            to.copy_from_slice(&bytes);
            Ok(())
        }
        (_, DType::I8) => recipe.compute(&view, Values::I8(buffer::signed(to))),
        _ => recipe.compute(&view, Values::F32(buffer::floats(to))),
    }
}

/// The elements, row-major.
fn copy(view: &TensorView<'_>, mut to: &mut [u8]) {
    view.for_each_element(|element| {
        let (head, tail) = std::mem::take(&mut to).split_at_mut(element.len());
        head.copy_from_slice(element);
        to = tail;
    });
}

/// For each value whether every reader of it takes it with any strides: as a matrix of a product.
fn takes_strides(program: &Program) -> Vec<bool> {
    let mut takes: Vec<bool> = program.values.iter().map(|value| value.shape.len() == 2).collect();
    program.outputs.iter().for_each(|&value| takes[value] = false);
    for step in &program.steps {
        let matrices = if matches!(step.op, Op::Gemm(_)) { 2 } else { 0 };
        step.inputs.iter().skip(matrices).flatten().for_each(|&value| takes[value] = false);
    }
    takes
}

/// A constant must be what the program says. What was computed from others is stored without its shape.
fn check(value: &Value, bound: &Bound<'_>, derived: bool) -> Result<(), Error> {
    let fits = match bound {
        Bound::View(view) => {
            let same = view.shape().iter().map(|&size| size as usize).eq(shape_of(value)?);
            view.dtype() == value.dtype && (same || derived && Some(view.byte_len()) == bytes_of(value)?)
        }
        Bound::Owned { bytes, .. } => Some(*bytes) == bytes_of(value)?,
    };
    if fits { Ok(()) } else { Err(another()) }
}

fn too_large() -> Error {
    Error::new("damaged code: a constant is too large")
}

fn another() -> Error {
    Error::new("a bound constant has another type or shape than the code says")
}

/// The shape of a constant.
fn shape_of(value: &Value) -> Result<Vec<usize>, Error> {
    let shape: Option<Vec<usize>> = value.shape.iter().map(byoc_plugin_api::Dim::fixed).collect();
    shape.ok_or_else(|| Error::new("damaged code: a constant without a shape"))
}

/// The bytes of a constant, if they can be counted.
fn bytes_of(value: &Value) -> Result<Option<usize>, Error> {
    let elements = crate::kernels::product(&shape_of(value)?);
    Ok(elements.and_then(|elements| value.dtype.bytes_for(elements)))
}

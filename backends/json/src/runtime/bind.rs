//! Binds a program's constants: views of the mapped artifact where they can be used as they are, copies where not.

use byoc_plugin_api::{BoundConstants, DType, Error, TensorView, bf16, f16, from_hex};

use super::buffer::Buffer;
use crate::constants::{Recipe, Values};
use crate::kernels::Narrow;
use crate::program::{Op, Program, Source, Value};

/// A constant, ready to be read.
pub(super) enum Bound<'a> {
    /// Memory that the host keeps.
    View(TensorView<'a>),
    /// A contiguous copy, or something computed at load.
    Owned {
        /// The bytes.
        buffer: Buffer,
        /// How many of them count.
        bytes: usize,
    },
}

impl Bound<'_> {
    pub(super) fn as_ptr(&self) -> *const u8 {
        match self {
            Bound::View(view) => view.as_ptr(),
            Bound::Owned { buffer, .. } => buffer.as_bytes().as_ptr(),
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

/// Every constant of the program, in its order.
pub(super) fn bind<'a>(program: &Program, constants: &BoundConstants<'a>) -> Result<Vec<Bound<'a>>, Error> {
    let takes_strides = takes_strides(program);
    let one = |constant: &crate::program::Constant| {
        let value = &program.values[constant.value];
        let bound = match &constant.source {
            Source::Host(id) => host(constants.host(*id)?, takes_strides[constant.value]),
            Source::Inline { hex, .. } => inline(hex),
            Source::Derived { recipe, carrier: Some(id), stored } => {
                let view = constants.packed(*id, recipe.layout())?;
                if stored.is_some() { widened(&view) } else { host(view, false) }
            }
            Source::Derived { recipe, carrier: None, stored: _ } => derive(recipe, value, constants),
        }?;
        check(value, &bound, matches!(constant.source, Source::Derived { .. }))?;
        Ok(bound)
    };
    program.constants.iter().map(one).collect()
}

/// The elements of a constant of 16 bits as f32.
fn widened<'a>(view: &TensorView<'a>) -> Result<Bound<'a>, Error> {
    let bytes = view.len().checked_mul(4).ok_or_else(another)?;
    let mut buffer = Buffer::new(bytes)?;
    let values = &mut buffer.as_mut_f32()[..view.len()];
    match (view.as_slice::<f16>(), view.as_slice::<bf16>()) {
        (Some(elements), _) => f16::widen(elements, values),
        (_, Some(elements)) => bf16::widen(elements, values),
        _ => return Err(another()),
    }
    Ok(Bound::Owned { buffer, bytes })
}

/// Computes what was not stored: nothing that is larger than the value.
fn derive<'a>(recipe: &Recipe, value: &Value, constants: &BoundConstants<'a>) -> Result<Bound<'a>, Error> {
    let too_large = || Error::new("damaged code: a constant is too large");
    let len = recipe.len().ok_or_else(too_large)?;
    let bytes = len.checked_mul(recipe.dtype().unpacked_bytes()).ok_or_else(too_large)?;
    if Some(bytes) != bytes_of(value)? || value.dtype != recipe.dtype() {
        return Err(another());
    }
    let mut buffer = Buffer::new(bytes)?;
    let view = |id| constants.host(id);
    match (recipe, recipe.dtype()) {
        (Recipe::Matrix { .. }, dtype) => {
            let mut rest = &mut buffer.as_mut_bytes()[..bytes];
            recipe.compute_matrix(&view, dtype, &mut |part| {
                let (to, after) = std::mem::take(&mut rest).split_at_mut_checked(part.len()).ok_or_else(another)?;
                to.copy_from_slice(part);
                rest = after;
                Ok(())
            })?;
        }
        (_, DType::I8) => recipe.compute(&view, Values::I8(&mut buffer.as_mut_i8()[..len]))?,
        _ => recipe.compute(&view, Values::F32(&mut buffer.as_mut_f32()[..len]))?,
    }
    Ok(Bound::Owned { buffer, bytes })
}

fn inline<'a>(hex: &str) -> Result<Bound<'a>, Error> {
    let bytes = from_hex(hex).ok_or_else(|| Error::new("damaged code: a constant is not hex text"))?;
    owned(&bytes)
}

fn owned<'a>(bytes: &[u8]) -> Result<Bound<'a>, Error> {
    let mut buffer = Buffer::new(bytes.len())?;
    buffer.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
    Ok(Bound::Owned { buffer, bytes: bytes.len() })
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

/// Uses the view as it is where that is possible, else copies the elements.
fn host<'a>(view: TensorView<'a>, strides: bool) -> Result<Bound<'a>, Error> {
    let aligned = (view.as_ptr() as usize).is_multiple_of(view.dtype().unpacked_bytes());
    let forward = view.strides().iter().all(|&stride| stride >= 0);
    if aligned && (view.is_contiguous() || (strides && forward)) {
        return Ok(Bound::View(view));
    }
    let bytes = view.byte_len();
    let mut buffer = Buffer::new(bytes)?;
    let mut rest = buffer.as_mut_bytes();
    view.for_each_element(|element| {
        let (head, tail) = std::mem::take(&mut rest).split_at_mut(element.len());
        head.copy_from_slice(element);
        rest = tail;
    });
    Ok(Bound::Owned { buffer, bytes })
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

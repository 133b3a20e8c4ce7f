//! Calls that move elements of any type: transposition, concatenation, cuts, broadcast.

use byoc_plugin_api::{DType, Error};

use super::super::memory::Io;
use super::super::plan::Sharing;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{BLOCK, Threads, copy_strided, transpose};

/// More dimensions than the copy kernels take.
const MAX_RANK: usize = 12;

/// Strides, in bytes, of a contiguous tensor.
fn strides(shape: &[usize], size: usize) -> Vec<isize> {
    let mut strides = vec![size as isize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

/// Bytes of an element of the first input.
fn element(signature: &Signature<'_>) -> Result<usize, Error> {
    let (Some(from), Some(to)) = (signature.input_value(0), signature.output_value(0)) else {
        return Err(bad_shapes(signature));
    };
    let plain = !from.blocked && !to.blocked;
    let size = from.dtype.element_bytes().filter(|_| from.dtype == to.dtype && plain);
    size.ok_or_else(|| bad_shapes(signature))
}

/// A copy of a box of elements between two strided places.
struct Copy {
    size: usize,
    shape: Vec<usize>,
    start: usize,
    from: Vec<isize>,
    to: Vec<isize>,
}

impl Copy {
    /// Into a whole contiguous output.
    fn to_output(signature: &Signature<'_>, start: usize, from: Vec<isize>) -> Result<Ready, Error> {
        let (size, shape) = (element(signature)?, signature.output(0)?.to_vec());
        if shape.len() > MAX_RANK {
            return Err(bad_shapes(signature));
        }
        let to = strides(&shape, size);
        let run = (0..shape.len()).all(|axis| shape[axis] == 1 || from[axis] == to[axis]);
        let cuts = if run && signature.strides(0).is_none() { vec![start] } else { Vec::new() };
        let sharing = Sharing { cuts, ..Sharing::default() };
        Ok(Ready { sharing, ..Ready::new(Copy { size, shape, start, from, to }) })
    }
}

impl Call for Copy {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (x, y) = (io.inputs.bytes(0)?, io.outputs.take_bytes(0)?);
        copy_strided(io.threads, self.size, &self.shape, x, self.start, &self.from, y, 0, &self.to);
        Ok(())
    }
}

/// Permuted dimensions of elements of four bytes, or of one.
struct Permute {
    size: usize,
    shape: Vec<usize>,
    perm: Vec<usize>,
}

pub(super) fn permute(signature: &Signature<'_>, perm: &[usize]) -> Result<Ready, Error> {
    let (shape, out) = (signature.input(0)?, signature.output(0)?);
    let valid = perm.len() == shape.len()
        && (0..shape.len()).all(|axis| perm.contains(&axis))
        && perm.iter().map(|&axis| shape[axis]).eq(out.iter().copied());
    if !valid || shape.len() > MAX_RANK {
        return Err(bad_shapes(signature));
    }
    let size = element(signature)?;
    if size == 4 || size == 1 {
        return Ok(Ready::new(Permute { size, shape: shape.to_vec(), perm: perm.to_vec() }));
    }
    let from = strides(shape, size);
    Copy::to_output(signature, 0, perm.iter().map(|&axis| from[axis]).collect())
}

impl Call for Permute {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        match self.size {
            1 => transpose(io.threads, &self.shape, &self.perm, io.inputs.bytes(0)?, io.outputs.take_bytes(0)?),
            _ => transpose(io.threads, &self.shape, &self.perm, io.inputs.words(0)?, io.outputs.take_words(0)?),
        }
        Ok(())
    }
}

pub(super) fn slice(signature: &Signature<'_>, starts: &[i64], steps: &[i64]) -> Result<Ready, Error> {
    let (shape, out) = (signature.input(0)?, signature.output(0)?);
    if [starts.len(), steps.len(), out.len()].iter().any(|&len| len != shape.len()) {
        return Err(bad_shapes(signature));
    }
    let each = strides(shape, element(signature)?);
    let (mut start, mut from) = (0isize, Vec::new());
    for axis in 0..shape.len() {
        // A step of any length leads nowhere where there is one element, or none.
        let (size, step) = (shape[axis] as i64, if out[axis] > 1 { steps[axis] } else { 0 });
        if out[axis] == 0 {
            from.push(0);
            continue;
        }
        let first = if starts[axis] < 0 { starts[axis].saturating_add(size) } else { starts[axis] };
        let first = first.clamp(0, if steps[axis] < 0 { size - 1 } else { size }.max(0));
        let last = (out[axis] as i64 - 1).checked_mul(step).and_then(|reach| reach.checked_add(first));
        if last.is_none_or(|last| !(0..size).contains(&last) || !(0..size).contains(&first)) {
            return Err(bad_shapes(signature));
        }
        start += first as isize * each[axis];
        from.push(step as isize * each[axis]);
    }
    Copy::to_output(signature, start as usize, from)
}

pub(super) fn expand(signature: &Signature<'_>) -> Result<Ready, Error> {
    let (shape, out) = (signature.input(0)?, signature.output(0)?);
    let each = strides(shape, element(signature)?);
    let lead = out.len().checked_sub(shape.len()).ok_or_else(|| bad_shapes(signature))?;
    if (0..shape.len()).any(|axis| shape[axis] != 1 && shape[axis] != out[axis + lead]) {
        return Err(bad_shapes(signature));
    }
    let stride = |axis: usize| match axis.checked_sub(lead) {
        Some(axis) if shape[axis] != 1 => each[axis],
        _ => 0,
    };
    Copy::to_output(signature, 0, (0..out.len()).map(stride).collect())
}

/// Between one tensor and its parts along an axis: for each outer index, the parts are one after another.
struct Parts {
    outer: usize,
    /// Bytes of each part for one outer index.
    widths: Vec<usize>,
}

impl Parts {
    /// `whole` and `parts` are shapes; `blocked` is whether all are in NCHW16c.
    fn new(axis: usize, whole: &[usize], parts: &[&[usize]], size: usize, blocked: bool) -> Option<Self> {
        let same =
            |part: &&[usize]| part.len() == whole.len() && (0..whole.len()).all(|i| i == axis || part[i] == whole[i]);
        let sum: usize = parts.iter().map(|part| part.get(axis).copied().unwrap_or(0)).sum();
        if axis >= whole.len() || !parts.iter().all(same) || sum != whole[axis] {
            return None;
        }
        let outer = whole[..axis].iter().product();
        let inner = size * whole[axis + 1..].iter().product::<usize>();
        let widths = if blocked {
            let (_, others) = parts.split_last()?;
            if axis != 1 || whole.len() != 4 || others.iter().any(|part| !part[1].is_multiple_of(BLOCK)) {
                return None;
            }
            parts.iter().map(|part| part[1].next_multiple_of(BLOCK) * inner).collect()
        } else {
            parts.iter().map(|part| part[axis] * inner).collect()
        };
        Some(Parts { outer, widths })
    }

    /// Each part with its position, its width and where it starts in the whole.
    fn each(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut start = 0;
        self.widths.iter().enumerate().map(move |(index, &width)| {
            start += width;
            (index, width, start - width)
        })
    }

    fn total(&self) -> isize {
        self.widths.iter().sum::<usize>() as isize
    }
}

struct Concat(Parts);

pub(super) fn concat(signature: &Signature<'_>, axis: usize) -> Result<Ready, Error> {
    let count = signature.step.inputs.len();
    let parts = (0..count).map(|index| signature.input(index)).collect::<Result<Vec<_>, _>>()?;
    let out = signature.output_value(0).ok_or_else(|| bad_shapes(signature))?;
    let alike = |index: usize| {
        signature.input_value(index).is_some_and(|value| value.dtype == out.dtype && value.blocked == out.blocked)
    };
    let size = out.dtype.element_bytes().ok_or_else(|| bad_shapes(signature))?;
    let parts = Parts::new(axis, signature.output(0)?, &parts, size, out.blocked)
        .filter(|_| (0..count).all(alike))
        .ok_or_else(|| bad_shapes(signature))?;
    let sharing = Sharing { joins: parts.outer == 1, ..Sharing::default() };
    Ok(Ready { sharing, ..Ready::new(Concat(parts)) })
}

impl Call for Concat {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let y = io.outputs.take_bytes(0)?;
        for (index, width, start) in self.0.each().filter(|(_, width, _)| *width > 0) {
            if !io.inputs.is_merged(index) {
                copy_rows(
                    io.threads,
                    self.0.outer,
                    width,
                    io.inputs.bytes(index)?,
                    (0, width as isize),
                    y,
                    (start, self.0.total()),
                );
            }
        }
        Ok(())
    }
}

struct Split(Parts);

pub(super) fn split(signature: &Signature<'_>, axis: usize) -> Result<Ready, Error> {
    let count = signature.step.outputs.len();
    let parts = (0..count).map(|index| signature.output(index)).collect::<Result<Vec<_>, _>>()?;
    let alike = |index: usize| {
        signature.output_value(index).zip(signature.input_value(0)).is_some_and(|(to, from)| to.dtype == from.dtype)
    };
    let parts = Parts::new(axis, signature.input(0)?, &parts, element(signature)?, false)
        .filter(|_| (0..count).all(alike))
        .ok_or_else(|| bad_shapes(signature))?;
    let runs = parts.outer == 1 && signature.strides(0).is_none();
    let cuts = if runs { parts.each().map(|(_, _, start)| start).collect() } else { Vec::new() };
    Ok(Ready { sharing: Sharing { cuts, ..Sharing::default() }, ..Ready::new(Split(parts)) })
}

impl Call for Split {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let x = io.inputs.bytes(0)?;
        for (index, width, start) in self.0.each() {
            let y = io.outputs.take_bytes(index)?;
            copy_rows(io.threads, self.0.outer, width, x, (start, self.0.total()), y, (0, width as isize));
        }
        Ok(())
    }
}

/// Copies `rows` runs of `width` bytes; a side is where the first one is and how far the next one is.
fn copy_rows(
    threads: &Threads,
    rows: usize,
    width: usize,
    x: &[u8],
    from: (usize, isize),
    y: &mut [u8],
    to: (usize, isize),
) {
    copy_strided(threads, width, &[rows], x, from.0, &[from.1], y, to.0, &[to.1]);
}

/// Runs of bytes by index.
struct Gather {
    outer: usize,
    /// Elements of the indexed axis.
    count: usize,
    /// Bytes of a run.
    width: usize,
    wide: bool,
}

pub(super) fn gather(signature: &Signature<'_>, axis: usize) -> Result<Ready, Error> {
    let (shape, indices, out) = (signature.input(0)?, signature.input(1)?, signature.output(0)?);
    let expected = shape.iter().take(axis).chain(indices).chain(shape.iter().skip(axis + 1));
    if axis >= shape.len() || !expected.eq(out) {
        return Err(bad_shapes(signature));
    }
    let width = element(signature)? * shape[axis + 1..].iter().product::<usize>();
    let wide = match signature.input_value(1).map(|value| value.dtype) {
        Some(DType::I64) => true,
        Some(DType::I32) => false,
        _ => return Err(bad_shapes(signature)),
    };
    Ok(Ready::new(Gather { outer: shape[..axis].iter().product(), count: shape[axis], width, wide }))
}

impl Gather {
    fn copy(&self, indices: impl Iterator<Item = i64> + Clone, x: &[u8], y: &mut [u8]) -> Result<(), Error> {
        let mut rest = y.chunks_exact_mut(self.width);
        for outer in 0..self.outer {
            for index in indices.clone() {
                let row = place(index, self.count)?;
                let from = &x[(outer * self.count + row) * self.width..][..self.width];
                if let Some(to) = rest.next() {
                    to.copy_from_slice(from);
                }
            }
        }
        Ok(())
    }
}

/// An index of one of `count` elements: a negative one counts from the end.
pub(super) fn place(index: i64, count: usize) -> Result<usize, Error> {
    let from_front = if index < 0 { index.saturating_add(count as i64) } else { index };
    let place = usize::try_from(from_front).ok().filter(|&place| place < count);
    place.ok_or_else(|| Error::new(format!("index {index} is out of range for {count} elements")))
}

impl Call for Gather {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (x, y) = (io.inputs.bytes(0)?, io.outputs.take_bytes(0)?);
        match self.wide {
            true => self.copy(io.inputs.slice::<i64>(1)?.iter().copied(), x, y),
            false => self.copy(io.inputs.slice::<i32>(1)?.iter().map(|&index| i64::from(index)), x, y),
        }
    }
}

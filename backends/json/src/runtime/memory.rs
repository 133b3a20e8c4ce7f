//! Where tensors are during a run, and the only code that turns addresses of theirs into slices.

use std::marker::PhantomData;

use byoc_plugin_api::{DType, Element, Error, TensorView, TensorViewMut, Texts, contiguous_strides};

use super::bind::Bound;
use crate::kernels::{PackedWeights, Threads};

/// Which memory a tensor is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Storage {
    /// The arena.
    Arena,
    /// An input of the region.
    Input(usize),
    /// An output of the region.
    Output(usize),
    /// A constant.
    Constant(usize),
}

/// Where a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) storage: Storage,
    /// Bytes from the start of the home.
    pub(super) offset: usize,
    /// Bytes of the tensor; for a constant with strides, those that they reach.
    pub(super) bytes: usize,
}

impl Slot {
    /// Whether the two share a byte.
    pub(super) fn overlaps(&self, other: &Slot) -> bool {
        self.storage == other.storage
            && self.offset < other.offset + other.bytes
            && other.offset < self.offset + self.bytes
    }
}

/// An input or output of a step, for given shapes.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) place: Slot,
    pub(super) dtype: DType,
    pub(super) shape: Vec<i64>,
    pub(super) strides: Vec<i64>,
    /// Whether an input is in the memory of an output of its step: it must not be read as an input.
    pub(super) merged: bool,
}

impl Operand {
    /// A contiguous tensor.
    pub(super) fn new(place: Slot, dtype: DType, shape: &[usize]) -> Self {
        let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        Operand { place, dtype, strides: contiguous_strides(&shape), shape, merged: false }
    }
}

/// The memory of one run. Borrows everything it points to.
pub(super) struct Frame<'r> {
    arena: *mut u8,
    arena_bytes: usize,
    pub(super) inputs: &'r [TensorView<'r>],
    pub(super) outputs: &'r [TensorViewMut<'r>],
    constants: &'r [Bound<'r>],
    exclusive: PhantomData<&'r mut [u8]>,
}

impl<'r> Frame<'r> {
    pub(super) fn new(
        arena: &'r mut [u8],
        inputs: &'r [TensorView<'r>],
        outputs: &'r mut [TensorViewMut<'_>],
        constants: &'r [Bound<'r>],
    ) -> Self {
        // The exclusive borrow is kept by the lifetime; what is read from it here are addresses only.
        let outputs: &'r [TensorViewMut<'r>] = outputs;
        Frame {
            arena: arena.as_mut_ptr(),
            arena_bytes: arena.len(),
            inputs,
            outputs,
            constants,
            exclusive: PhantomData,
        }
    }

    /// The address of a place, and whether it may be written. An error where the place is out of range.
    fn address(&self, place: &Slot) -> Result<*mut u8, Error> {
        let (base, bytes) = match place.storage {
            Storage::Arena => (self.arena, self.arena_bytes),
            Storage::Input(index) => edge(self.inputs.get(index).copied())?,
            Storage::Output(index) => edge(self.outputs.get(index).map(TensorViewMut::as_view))?,
            Storage::Constant(index) => {
                let bound = self.constants.get(index).ok_or_else(|| Error::new("no such constant"))?;
                (bound.as_ptr().cast_mut(), bound.bytes())
            }
        };
        if place.offset.checked_add(place.bytes).is_none_or(|end| end > bytes) {
            return Err(Error::new(format!("{place:?} is out of {bytes} bytes")));
        }
        Ok(base.wrapping_add(place.offset))
    }

    fn slice<T: Element>(&self, place: &Slot) -> Result<&'r [T], Error> {
        let address = self.address(place)?.cast_const();
        if place.bytes == 0 {
            return Ok(&[]);
        }
        check_alignment::<T>(address)?;
        // SAFETY: `address` checked the range, which is in memory borrowed for `'r`. No other access writes it:
        // inputs and constants never are, and `Prepared` checked for each step that the outputs it may write overlap
        // no input that is read (`Operand::merged`). Every bit pattern is an `Element`.
        Ok(unsafe { std::slice::from_raw_parts(address.cast(), place.bytes / size_of::<T>()) })
    }

    /// A slice to write.
    ///
    /// # Safety
    /// Nothing else may refer to a byte of the place while the slice lives.
    unsafe fn slice_mut<T: Element>(&self, place: &Slot) -> Result<&'r mut [T], Error> {
        if !matches!(place.storage, Storage::Arena | Storage::Output(_)) {
            return Err(Error::new("a step writes an input or a constant"));
        }
        let address = self.address(place)?;
        if place.bytes == 0 {
            return Ok(&mut []);
        }
        check_alignment::<T>(address)?;
        // SAFETY: as in `slice`; arena and outputs are borrowed exclusively, the rest is the caller's contract.
        Ok(unsafe { std::slice::from_raw_parts_mut(address.cast(), place.bytes / size_of::<T>()) })
    }

    /// Copies one place to another. They must not overlap.
    pub(super) fn copy(&self, from: &Slot, to: &Slot) -> Result<(), Error> {
        if from.overlaps(to) || from.bytes != to.bytes {
            return Err(Error::new("a copy between overlapping places"));
        }
        // SAFETY: the two do not overlap, and no other slice of this frame lives during this call.
        let target = unsafe { self.slice_mut::<u8>(to)? };
        target.copy_from_slice(self.slice::<u8>(from)?);
        Ok(())
    }
}

fn edge(view: Option<TensorView<'_>>) -> Result<(*mut u8, usize), Error> {
    let view = view.ok_or_else(|| Error::new("a tensor of the call is missing"))?;
    if !view.is_contiguous() || !view.has_data() {
        return Err(Error::new("a tensor of the call is not contiguous"));
    }
    Ok((view.as_ptr().cast_mut(), view.byte_len()))
}

fn check_alignment<T>(address: *const u8) -> Result<(), Error> {
    if (address as usize).is_multiple_of(align_of::<T>()) {
        return Ok(());
    }
    Err(Error::new("a tensor of the call is not aligned to its element type"))
}

/// What a step reads, by input position.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'r> {
    frame: &'r Frame<'r>,
    operands: &'r [Option<Operand>],
}

impl<'r> Inputs<'r> {
    pub(super) fn new(frame: &'r Frame<'r>, operands: &'r [Option<Operand>]) -> Self {
        Inputs { frame, operands }
    }

    fn operand(&self, index: usize) -> Result<&'r Operand, Error> {
        match self.operands.get(index) {
            Some(Some(operand)) if operand.merged => Err(Error::new(format!("input {index} is part of an output"))),
            Some(Some(operand)) => Ok(operand),
            _ => Err(Error::new(format!("input {index} is missing"))),
        }
    }

    /// The elements of an input; for a constant with strides, all that they reach.
    pub(super) fn slice<T: Element>(&self, index: usize) -> Result<&'r [T], Error> {
        let operand = self.operand(index)?;
        if operand.dtype != T::DTYPE {
            return Err(Error::new(format!("input {index} is {}, not {}", operand.dtype, T::DTYPE)));
        }
        self.frame.slice(&operand.place)
    }

    /// The elements of an input of f32, or of 16 bits that a kernel reads as f32.
    pub(super) fn weights(&self, index: usize) -> Result<PackedWeights<'r>, Error> {
        Ok(match self.operand(index)?.dtype {
            DType::F16 => PackedWeights::F16(self.slice(index)?),
            DType::BF16 => PackedWeights::BF16(self.slice(index)?),
            _ => PackedWeights::F32(self.slice(index)?),
        })
    }

    /// The elements of an f32 input, if it is there.
    pub(super) fn optional(&self, index: usize) -> Result<Option<&'r [f32]>, Error> {
        match self.operands.get(index) {
            Some(Some(_)) => self.slice(index).map(Some),
            _ => Ok(None),
        }
    }

    /// The bytes of an input.
    pub(super) fn bytes(&self, index: usize) -> Result<&'r [u8], Error> {
        self.frame.slice(&self.operand(index)?.place)
    }

    /// The elements of an input of any type of four bytes.
    pub(super) fn words(&self, index: usize) -> Result<&'r [u32], Error> {
        self.frame.slice(&self.operand(index)?.place)
    }

    /// Whether the input is in the memory of an output, which the kernel must use instead.
    pub(super) fn is_merged(&self, index: usize) -> bool {
        matches!(self.operands.get(index), Some(Some(operand)) if operand.merged)
    }

    /// Whether there is an input at this position.
    pub(super) fn has(&self, index: usize) -> bool {
        matches!(self.operands.get(index), Some(Some(_)))
    }

    /// Whether the input is a constant: the same in every run.
    pub(super) fn is_constant(&self, index: usize) -> bool {
        let operand = self.operands.get(index).and_then(Option::as_ref);
        operand.is_some_and(|operand| matches!(operand.place.storage, Storage::Constant(_)))
    }

    /// Number of input positions.
    pub(super) fn len(&self) -> usize {
        self.operands.len()
    }

    /// The input as a view, if it is there.
    pub(super) fn view(&self, index: usize) -> Result<Option<TensorView<'r>>, Error> {
        let Some(Some(_)) = self.operands.get(index) else { return Ok(None) };
        let operand = self.operand(index)?;
        let data = self.frame.slice::<u8>(&operand.place)?;
        // SAFETY: the slice holds what shape and strides reach, by the construction of the operand.
        Ok(Some(unsafe { TensorView::from_raw(data.as_ptr(), operand.dtype, &operand.shape, &operand.strides) }))
    }
}

/// What a step writes, by output position. Each can be taken once.
pub(super) struct Outputs<'r> {
    frame: &'r Frame<'r>,
    operands: &'r [Option<Operand>],
    taken: u64,
}

impl<'r> Outputs<'r> {
    pub(super) fn new(frame: &'r Frame<'r>, operands: &'r [Option<Operand>]) -> Self {
        Outputs { frame, operands, taken: 0 }
    }

    /// Number of output positions.
    pub(super) fn len(&self) -> usize {
        self.operands.len()
    }

    /// Whether this output is used.
    pub(super) fn wanted(&self, index: usize) -> bool {
        matches!(self.operands.get(index), Some(Some(_)))
    }

    fn operand(&mut self, index: usize) -> Result<&'r Operand, Error> {
        let Some(Some(operand)) = self.operands.get(index) else {
            return Err(Error::new(format!("output {index} is missing")));
        };
        let bit = 1u64.checked_shl(index as u32).unwrap_or(0);
        if bit == 0 || self.taken & bit != 0 {
            return Err(Error::new(format!("output {index} cannot be taken twice")));
        }
        self.taken |= bit;
        Ok(operand)
    }

    /// The elements of an output.
    pub(super) fn take<T: Element>(&mut self, index: usize) -> Result<&'r mut [T], Error> {
        let operand = self.operand(index)?;
        if operand.dtype != T::DTYPE {
            return Err(Error::new(format!("output {index} is {}, not {}", operand.dtype, T::DTYPE)));
        }
        // SAFETY: this output is taken once a step, and `Prepared` checked that it overlaps no other output and no
        // input that is read.
        unsafe { self.frame.slice_mut(&operand.place) }
    }

    /// The elements of an f32 output, if it is used.
    pub(super) fn take_optional(&mut self, index: usize) -> Result<Option<&'r mut [f32]>, Error> {
        if self.wanted(index) { self.take(index).map(Some) } else { Ok(None) }
    }

    /// The bytes of an output.
    pub(super) fn take_bytes(&mut self, index: usize) -> Result<&'r mut [u8], Error> {
        let operand = self.operand(index)?;
        // SAFETY: as in `take`.
        unsafe { self.frame.slice_mut(&operand.place) }
    }

    /// The elements of an output of any type of four bytes.
    pub(super) fn take_words(&mut self, index: usize) -> Result<&'r mut [u32], Error> {
        let operand = self.operand(index)?;
        // SAFETY: as in `take`.
        unsafe { self.frame.slice_mut(&operand.place) }
    }

    /// The output as a view, if it is used.
    pub(super) fn take_view(&mut self, index: usize) -> Result<Option<TensorViewMut<'r>>, Error> {
        if !self.wanted(index) {
            return Ok(None);
        }
        let operand = self.operand(index)?;
        // SAFETY: as in `take`.
        let data = unsafe { self.frame.slice_mut::<u8>(&operand.place)? };
        // SAFETY: the slice holds what the shape counts, is borrowed exclusively and lives for `'r`.
        let view =
            unsafe { TensorViewMut::from_raw(data.as_mut_ptr(), operand.dtype, &operand.shape, &operand.strides) };
        Ok(Some(view))
    }
}

/// What a call works with.
pub(super) struct Io<'i, 'r> {
    pub(super) inputs: Inputs<'r>,
    pub(super) outputs: &'i mut Outputs<'r>,
    pub(super) scratch: &'i mut [f32],
    pub(super) threads: &'i Threads,
    /// What handles of texts stand for.
    pub(super) texts: Option<&'i dyn Texts>,
}

//! Tensors in memory of which every byte is watched: inputs and constants in any layout, outputs between guard bytes, and
//! these between pages that nobody can touch.

use std::ops::{Deref, DerefMut};

use byoc_plugin_api::{DType, TensorView, TensorViewMut, contiguous_strides};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;

use crate::tensor::Tensor;

/// Bytes before and after each tensor that nobody may write.
const GUARD: usize = 256;
/// What they hold.
pub(crate) const GUARD_BYTE: u8 = 0xC5;
/// What the host aligns to.
const ALIGNMENT: usize = 64;

/// How a constant lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Row-major, at a multiple of 64.
    Plain,
    /// Row-major, at a multiple of the element's size and no more: as a part of a larger constant.
    Element,
    /// Row-major, at an odd address: as in a model file.
    Odd,
    /// The last dimension first, as a transposed weight.
    Transposed,
}

/// A tensor in memory of its own.
pub(crate) struct Placed {
    memory: Guarded,
    start: usize,
    len: usize,
    dtype: DType,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Placed {
    fn new(dtype: DType, shape: Vec<i64>, offset: usize, fill: u8) -> Placed {
        let len = usize::try_from(shape.iter().product::<i64>()).unwrap_or(0) * dtype.unpacked_bytes();
        let mut memory = Guarded::new(len + 2 * GUARD + 2 * ALIGNMENT);
        memory.fill(GUARD_BYTE);
        let address = memory.as_ptr() as usize + GUARD;
        let start = GUARD + (address.next_multiple_of(ALIGNMENT) - address) + offset;
        memory[start..start + len].fill(fill);
        Placed { memory, start, len, dtype, strides: contiguous_strides(&shape), shape }
    }

    /// A tensor in that layout.
    pub(crate) fn of(tensor: &Tensor, layout: Layout) -> Placed {
        let offset = match layout {
            Layout::Plain | Layout::Transposed => 0,
            Layout::Element => tensor.dtype.unpacked_bytes(),
            Layout::Odd => 1,
        };
        let mut placed = Placed::new(tensor.dtype, tensor.shape.clone(), offset, 0);
        if layout == Layout::Transposed {
            let reversed: Vec<_> = tensor.shape.iter().rev().copied().collect();
            placed.strides = contiguous_strides(&reversed).into_iter().rev().collect();
        }
        let (start, size) = (placed.start, tensor.dtype.unpacked_bytes());
        let offsets = row_major(&placed.shape, &placed.strides);
        for (element, offset) in tensor.bytes.chunks_exact(size).zip(offsets) {
            let at = start + offset as usize * size;
            placed.memory[at..at + size].copy_from_slice(element);
        }
        placed
    }

    /// Room for an output, every byte of it `fill`.
    pub(crate) fn output(dtype: DType, shape: &[i64], fill: u8) -> Placed {
        Placed::new(dtype, shape.to_vec(), 0, fill)
    }

    /// The bytes of the tensor as they lie.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The same, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// What a row-major tensor holds.
    pub(crate) fn tensor(&self) -> Tensor {
        Tensor::new(self.dtype, self.shape.clone(), self.bytes().to_vec())
    }

    /// Whether the bytes around the tensor are as they were.
    pub(crate) fn is_guarded(&self) -> bool {
        let is_as_it_was = |bytes: &[u8]| bytes.chunks(GUARD).all(|chunk| chunk == &[GUARD_BYTE; GUARD][..chunk.len()]);
        is_as_it_was(&self.memory[..self.start]) && is_as_it_was(&self.memory[self.start + self.len..])
    }

    /// Everything, for who wants to see that nothing changed.
    pub(crate) fn all(&self) -> &[u8] {
        &self.memory
    }

    pub(crate) fn view(&self) -> TensorView<'_> {
        // SAFETY: type, shape and strides reach the `len` bytes from `start` and no others, and the borrow keeps them.
        unsafe { TensorView::from_raw(self.memory.as_ptr().add(self.start), self.dtype, &self.shape, &self.strides) }
    }

    /// The type and the shape without the bytes, as a backend sees a constant that it wants at load only.
    pub(crate) fn view_without_data(&self) -> TensorView<'_> {
        // SAFETY: a view without data may have a null address.
        unsafe { TensorView::from_raw(std::ptr::null(), self.dtype, &self.shape, &self.strides) }
    }

    pub(crate) fn view_mut(&mut self) -> TensorViewMut<'_> {
        // SAFETY: as in `view`, and the borrow is exclusive.
        unsafe {
            TensorViewMut::from_raw(self.memory.as_mut_ptr().add(self.start), self.dtype, &self.shape, &self.strides)
        }
    }
}

/// Bytes of pages before and behind that nobody can read or write: whoever does ends the process within the case.
const NO_MANS_LAND: usize = 1 << 20;

/// Memory between pages that nobody can touch. The pages that it fills only in part are watched as a whole.
struct Guarded {
    /// Of the first page that can be touched.
    start: *mut u8,
    len: usize,
}

// SAFETY: it is memory that nobody else has.
unsafe impl Send for Guarded {}
// SAFETY: as above; through a shared reference it is only read.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// At least so many bytes.
    fn new(bytes: usize) -> Guarded {
        let len = bytes.next_multiple_of(page_size());
        let all = len + 2 * NO_MANS_LAND;
        // SAFETY: new pages, wherever the system puts them, which are given back when this is dropped.
        let start = unsafe {
            let none =
                mmap_anonymous(std::ptr::null_mut(), all, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
            let start = none.expect("there is memory").cast::<u8>().add(NO_MANS_LAND);
            mprotect(start.cast(), len, MprotectFlags::READ | MprotectFlags::WRITE).expect("pages of its own");
            start
        };
        Guarded { start, len }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the pages of `new`, which nobody refers to any more.
        let _ = unsafe { munmap(self.start.sub(NO_MANS_LAND).cast(), self.len + 2 * NO_MANS_LAND) };
    }
}

impl Deref for Guarded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are readable, and initialised by the system.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// The offset of each element in row-major order, in elements.
fn row_major<'a>(shape: &'a [i64], strides: &'a [i64]) -> impl Iterator<Item = i64> + 'a {
    let dense = contiguous_strides(shape);
    (0..shape.iter().product::<i64>()).map(move |index| {
        let axes = shape.iter().zip(strides).zip(&dense);
        axes.map(|((&size, &stride), &dense)| index / dense % size * stride).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_reads_the_same() {
        let tensor = Tensor::f32(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        for layout in [Layout::Plain, Layout::Element, Layout::Odd, Layout::Transposed] {
            let placed = Placed::of(&tensor, layout);
            assert_eq!(placed.view().to_vec::<f32>().expect("f32"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "{layout:?}");
            assert_eq!(placed.view().is_contiguous(), layout != Layout::Transposed);
            assert!(placed.is_guarded());
        }
        let odd = Placed::of(&tensor, Layout::Odd);
        assert_eq!(odd.view().as_ptr() as usize % 2, 1);
    }

    #[test]
    fn a_write_outside_is_seen() {
        let mut output = Placed::output(DType::U8, &[3], 0xAA);
        output.view_mut().as_mut_bytes().expect("bytes").fill(1);
        assert!(output.is_guarded());
        let end = output.start + output.len;
        output.memory[end] = 0;
        assert!(!output.is_guarded());
    }
}

//! A tensor of a shape that changes, in memory that is kept: as much as it has ever needed.

use byoc_plugin_api::{DType, Error, TensorView, TensorViewMut, contiguous_strides};

use super::state::copy;
use crate::buffer::Buffer;
use crate::memory::titled;
use crate::runtime::plan::bytes;

/// The memory of a tensor, row-major, with its shape.
#[derive(Default)]
pub(super) struct Held {
    shape: Vec<i64>,
    strides: Vec<i64>,
    memory: Option<Buffer>,
    room: usize,
}

impl Held {
    /// Bytes of memory.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Makes room for that shape; what was there is lost. `name` is for messages.
    pub(super) fn reshape(&mut self, name: &str, dtype: DType, shape: &[i64]) -> Result<(), Error> {
        let size = bytes(shape, dtype).map_err(|error| Error::new(error.message))?;
        if self.memory.is_none() || self.room < size {
            // The old memory goes first: both together may not fit.
            self.memory = None;
            let block = Buffer::new(size).map_err(|shortage| shortage.error(titled(name, dtype, shape)))?;
            (self.memory, self.room) = (Some(block), size);
        }
        self.shape.clear();
        self.shape.extend_from_slice(shape);
        self.strides = contiguous_strides(shape);
        Ok(())
    }

    /// Takes the elements and the shape of another tensor.
    pub(super) fn take(&mut self, name: &str, from: &TensorView<'_>) -> Result<(), Error> {
        self.reshape(name, from.dtype(), from.shape())?;
        let to = self.view_mut(from.dtype()).as_mut_ptr();
        // SAFETY: there is room for the shape.
        unsafe { copy(from, to) };
        Ok(())
    }

    /// For writing.
    pub(super) fn view_mut(&mut self, dtype: DType) -> TensorViewMut<'_> {
        let data = self.memory.as_mut().map_or(std::ptr::null_mut(), Buffer::as_mut_ptr);
        // SAFETY: the block has room for the shape in the type that it was made for, and it is nobody else's.
        unsafe { TensorViewMut::from_raw(data, dtype, &self.shape, &self.strides) }
    }

    /// For reading.
    pub(super) fn view(&self, dtype: DType) -> TensorView<'_> {
        let data = self.memory.as_ref().map_or(std::ptr::null(), Buffer::as_ptr);
        // SAFETY: the block has room for the shape in the type that it was made for, and `&self` keeps it from being written.
        unsafe { TensorView::from_raw(data, dtype, &self.shape, &self.strides) }
    }
}

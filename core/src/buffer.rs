//! A block of aligned memory: the arena of a running entry, or the result of a folded node.

use crate::memory::{Shortage, zeroed};

/// Alignment of the block and of every value in it, in bytes: a cache line, and the widest vector.
pub(crate) const ALIGNMENT: usize = byoc_plugin_api::HOST_ALIGNMENT;

/// A zeroed block that is never moved or resized.
pub(crate) struct Buffer {
    /// The block, with room before it.
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// A block of that many bytes, or the next multiple of [`ALIGNMENT`].
    pub(crate) fn new(bytes: usize) -> Result<Buffer, Shortage> {
        let whole = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
        let bytes = zeroed(whole.saturating_add(ALIGNMENT))?;
        let start = bytes.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        Ok(Buffer { bytes, start })
    }

    /// A copy of `bytes`.
    pub(crate) fn copy_of(bytes: &[u8]) -> Result<Buffer, Shortage> {
        let mut buffer = Buffer::new(bytes.len())?;
        buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Address of the first byte, for reading.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr().wrapping_add(self.start)
    }

    /// Address of the first byte.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        // Not through a slice, which would alias the views of other values in the block.
        self.bytes.as_mut_ptr().wrapping_add(self.start)
    }

    fn end(&self) -> usize {
        self.start + self.bytes.len() - ALIGNMENT
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..self.end()]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.bytes[self.start..end]
    }
}

//! A block of aligned memory: the arena of a running entry, or the result of a folded node.

/// Alignment of the block and of every value in it, in bytes: a cache line, and the widest vector.
pub(crate) const ALIGNMENT: usize = byoc_plugin_api::HOST_ALIGNMENT;

const _: () = assert!(align_of::<Line>() == ALIGNMENT);

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; ALIGNMENT]);

/// A zeroed block that is never moved or resized.
pub(crate) struct Buffer {
    lines: Box<[Line]>,
}

impl Buffer {
    pub(crate) fn new(bytes: usize) -> Buffer {
        Buffer { lines: vec![Line([0; ALIGNMENT]); bytes.div_ceil(ALIGNMENT)].into_boxed_slice() }
    }

    /// A copy of `bytes`.
    pub(crate) fn copy_of(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(bytes.len());
        for (line, piece) in buffer.lines.iter_mut().zip(bytes.chunks(ALIGNMENT)) {
            line.0[..piece.len()].copy_from_slice(piece);
        }
        buffer
    }

    /// Address of the first byte, for reading.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    /// Address of the first byte.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the lines are contiguous, initialised bytes.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.lines.len() * ALIGNMENT) }
    }
}

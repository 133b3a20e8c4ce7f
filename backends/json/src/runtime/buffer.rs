//! Memory that a region allocates: its arena, its scratch, and constants that are copies.

use byoc_plugin_api::Error;
use memmap2::MmapMut;

/// What the start of every buffer is aligned to, in bytes.
pub(super) const ALIGNMENT: usize = 64;

/// Bytes of a huge page of the processors at hand. Buffers that fill less than half of one are the allocator's.
const HUGE_PAGE: usize = 2 << 20;
const HALF: usize = HUGE_PAGE / 2;

/// Aligned memory that grows. Fresh memory is zero and untouched: large buffers cost nothing until they are
/// used, which keeps loading fast.
#[derive(Default)]
pub(super) struct Buffer {
    memory: Memory,
    /// Bytes that can be used, a multiple of [`ALIGNMENT`].
    len: usize,
}

/// Where the bytes are.
#[derive(Default)]
enum Memory {
    #[default]
    None,
    Allocated(Allocated),
    /// Pages of their own, as a multiple of [`HUGE_PAGE`]: most systems align mappings of such a size to it.
    Pages(MmapMut),
}

/// An allocation of [`ALIGNMENT`] bytes more than are used.
struct Allocated {
    base: *mut u8,
    layout: std::alloc::Layout,
}

// SAFETY: the allocation is owned; nothing about it is tied to a thread.
unsafe impl Send for Allocated {}
// SAFETY: as above; nothing is written through a shared reference.
unsafe impl Sync for Allocated {}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: `new` allocated `base` with this layout.
        unsafe { std::alloc::dealloc(self.base, self.layout) }
    }
}

impl Allocated {
    /// `None` where the system does not give so many bytes.
    fn new(bytes: usize) -> Option<Allocated> {
        // No more alignment than the system gives without clearing the memory by hand; the rest is done by an offset.
        let layout = std::alloc::Layout::from_size_align(bytes.checked_add(ALIGNMENT)?, 16).ok()?;
        // SAFETY: the layout is not empty.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        (!base.is_null()).then_some(Allocated { base, layout })
    }

    /// The first aligned byte.
    fn start(&self) -> *mut u8 {
        self.base.wrapping_add(self.base.align_offset(ALIGNMENT))
    }
}

/// Zeroed pages for `bytes`. The first use of a page costs about as much as writing it ten times, of which a huge page saves
/// most: those that are used for more than half are asked for as huge ones.
fn pages(bytes: usize) -> Option<MmapMut> {
    let pages = MmapMut::map_anon(bytes.checked_next_multiple_of(HUGE_PAGE)?).ok()?;
    #[cfg(target_os = "linux")]
    {
        let before = pages.as_ptr().align_offset(HUGE_PAGE);
        let used = (bytes.saturating_sub(before) + HALF) / HUGE_PAGE;
        let there = pages.len().saturating_sub(before) / HUGE_PAGE;
        // A system without them keeps its small pages.
        let _ = pages.advise_range(memmap2::Advice::HugePage, before, used.min(there) * HUGE_PAGE);
    }
    Some(pages)
}

impl Buffer {
    /// A zeroed buffer of at least `bytes`.
    pub(super) fn new(bytes: usize) -> Result<Self, Error> {
        let mut buffer = Buffer::default();
        buffer.grow(bytes)?;
        Ok(buffer)
    }

    /// Makes room for `bytes`; what was in it is lost. What has grown once is likely to grow again, as with a cache that is longer in
    /// each run, so it gets an eighth more, if there is so much.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes == 0 || bytes <= self.len {
            return Ok(());
        }
        let more = if self.len == 0 { bytes } else { bytes.saturating_add(bytes / 8) };
        *self = Buffer::default();
        // Not every system maps.
        let mapped = |len| if len < HALF { None } else { pages(len).map(Memory::Pages) };
        let memory = |len| mapped(len).or_else(|| Allocated::new(len).map(Memory::Allocated));
        let new = |bytes: usize| {
            let len = bytes.checked_next_multiple_of(ALIGNMENT)?;
            Some(Buffer { memory: memory(len)?, len })
        };
        *self = new(more).or_else(|| new(bytes)).ok_or_else(|| {
            let needed = bytes as f64 / (1u64 << 30) as f64;
            Error::new(format!("its tensors need {needed:.1} GiB of memory, which the system does not give"))
        })?;
        Ok(())
    }

    /// The first byte, aligned.
    fn start(&self) -> *const u8 {
        match &self.memory {
            Memory::None => std::ptr::without_provenance(ALIGNMENT),
            Memory::Allocated(allocated) => allocated.start(),
            Memory::Pages(pages) => pages.as_ptr(),
        }
    }

    /// As above, to write.
    fn start_mut(&mut self) -> *mut u8 {
        match &mut self.memory {
            Memory::None => std::ptr::without_provenance_mut(ALIGNMENT),
            Memory::Allocated(allocated) => allocated.start(),
            Memory::Pages(pages) => pages.as_mut_ptr(),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes are behind the first one.
        unsafe { std::slice::from_raw_parts(self.start(), self.len) }
    }

    pub(super) fn as_mut_bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start_mut(), self.len) }
    }

    pub(super) fn as_mut_f32(&mut self) -> &mut [f32] {
        // SAFETY: as above; the start is aligned, the length a multiple of four, and every bit pattern is a number.
        unsafe { std::slice::from_raw_parts_mut(self.start_mut().cast(), self.len / 4) }
    }
}

/// Bytes as numbers: all of them where they begin as such.
pub(super) fn floats(bytes: &mut [u8]) -> &mut [f32] {
    // SAFETY: every bit pattern is a number.
    let (_, floats, _) = unsafe { bytes.align_to_mut() };
    floats
}

/// Bytes as integers.
pub(super) fn signed(bytes: &mut [u8]) -> &mut [i8] {
    // SAFETY: both types have one byte, and every bit pattern is an integer.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// Scratch as integers.
pub(super) fn as_integers(scratch: &mut [f32]) -> &mut [i32] {
    // SAFETY: both types have four bytes and one alignment, and every bit pattern is an integer.
    unsafe { std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast(), scratch.len()) }
}

/// Scratch as integers of 64 bits: all of it where it begins as one does, as every buffer does.
pub(super) fn as_longs(scratch: &mut [f32]) -> &mut [u64] {
    // SAFETY: every bit pattern is an integer.
    let (_, longs, _) = unsafe { scratch.align_to_mut() };
    longs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zero_and_grow() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.as_bytes(), b"");
        for bytes in [1, 65, HALF - ALIGNMENT, 2 * HALF, 3 * HUGE_PAGE, 4 * HUGE_PAGE + 1, 6 * HUGE_PAGE + 100] {
            buffer.grow(bytes).expect("memory");
            // An eighth more, but for the first one.
            let more = if bytes == 1 { 1 } else { bytes + bytes / 8 };
            assert_eq!(buffer.as_bytes().len(), more.next_multiple_of(ALIGNMENT));
            assert_eq!(buffer.as_bytes().as_ptr().align_offset(ALIGNMENT), 0);
            assert!(buffer.as_bytes().iter().all(|&byte| byte == 0));
            buffer.as_mut_bytes().fill(7);
        }
        // What is large enough stays, with all that is in it.
        buffer.grow(1).expect("memory");
        assert!(buffer.as_mut_f32().len() > HUGE_PAGE && buffer.as_bytes().iter().all(|&byte| byte == 7));
    }

    #[test]
    fn memory_that_is_not_given_is_an_error() {
        for (bytes, needed) in [(1 << 60, "1073741824.0"), (usize::MAX, "17179869184.0")] {
            let error = Buffer::new(bytes).err().expect("too much").to_string();
            assert_eq!(error, format!("its tensors need {needed} GiB of memory, which the system does not give"));
        }
    }
}

//! The host's memory as the device meets it: what it is told to copy, and memory that is page-locked.

use std::collections::BTreeMap;

/// A place in the host's memory that the host vouches for.
#[derive(Clone, Copy)]
pub(crate) struct HostPlace(usize);

impl HostPlace {
    pub(crate) fn of(address: *const u8) -> HostPlace {
        HostPlace(address.expose_provenance())
    }

    /// Copies from the host.
    ///
    /// # Safety
    /// As many bytes as `to` has can be read.
    pub(crate) unsafe fn read(self, to: &mut [u8]) {
        let from = std::ptr::with_exposed_provenance::<u8>(self.0);
        // SAFETY: the caller vouches for the host's bytes, and memory of the simulator is not memory that was lent.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// Copies to the host.
    ///
    /// # Safety
    /// As many bytes as `from` has can be written, and nobody else looks at them.
    pub(crate) unsafe fn write(self, from: &[u8]) {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(self.0);
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }
}

/// The unit of page-locked memory, for its alignment.
#[derive(Clone)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "read and written by the host, through its address")] [u8; 64]);

/// Page-locked memory that is lent to the host.
#[derive(Default)]
pub(crate) struct PageLocked {
    /// By address, with its number.
    blocks: BTreeMap<usize, (usize, Vec<Line>)>,
    count: usize,
}

impl PageLocked {
    /// At least so many bytes of NaN, and the number of the block.
    pub(crate) fn allocate(&mut self, bytes: usize) -> (*mut u8, usize) {
        let mut block = vec![Line([0xFF; 64]); bytes.div_ceil(64)];
        let address = block.as_mut_ptr().cast::<u8>();
        self.count += 1;
        self.blocks.insert(address.expose_provenance(), (self.count, block));
        (address, self.count)
    }

    /// The number of the block that is given back, if there is one at that address.
    pub(crate) fn release(&mut self, address: *mut u8) -> Option<usize> {
        self.blocks.remove(&address.addr()).map(|(number, _)| number)
    }
}

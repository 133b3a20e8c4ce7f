//! The device's memory: behind addresses that are none of the host's and that are never used twice.

use std::sync::atomic::{AtomicU64, Ordering};

use byoc_plugin_api::Error;

/// Where all that is allocated begins, and every tensor.
pub(crate) const ALIGNMENT: u64 = 256;

/// What memory holds that nobody has written: NaN of every floating-point type.
pub(crate) const UNWRITTEN: u8 = 0xFF;

/// The first address of an ordinal, and of the next one: far from what a process can have mapped.
const REACH: u64 = 0x1_0000_0000_0000;

/// How far the addresses of each ordinal are used.
static USED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

struct Allocation {
    address: u64,
    bytes: u64,
    /// `None` once it is given back.
    data: Option<Vec<u8>>,
}

/// The memory of one open domain.
pub(crate) struct Memory {
    ordinal: usize,
    total: u64,
    free: u64,
    /// By address; number 1 is the first.
    allocations: Vec<Allocation>,
}

impl Memory {
    /// Memory of `total` bytes, or `None` where there is no such device.
    pub(crate) fn new(ordinal: u32, total: u64) -> Option<Memory> {
        let ordinal = usize::try_from(ordinal).ok().filter(|&ordinal| ordinal < USED.len())?;
        Some(Memory { ordinal, total, free: total, allocations: Vec::new() })
    }

    /// Memory for so many bytes, with its number.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<(u64, usize), Error> {
        if bytes == 0 {
            return Err(Error::new("0 bytes were asked for"));
        }
        if bytes > self.free {
            let (free, total) = (self.free, self.total);
            return Err(Error::new(format!(
                "the simulator has {free} bytes free of {total}, and {bytes} were asked for"
            )));
        }
        // What lies between two allocations belongs to none.
        let span = bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT;
        let base = REACH * (self.ordinal as u64 + 1);
        let address = base + USED[self.ordinal].fetch_add(span, Ordering::Relaxed);
        self.free -= bytes;
        self.allocations.push(Allocation { address, bytes, data: Some(vec![UNWRITTEN; bytes as usize]) });
        Ok((address, self.allocations.len()))
    }

    /// Gives memory back; its number.
    pub(crate) fn release(&mut self, address: u64) -> Result<usize, Error> {
        let index = self.allocations.iter().position(|allocation| allocation.address == address);
        let found = index.map(|index| (index, &mut self.allocations[index]));
        let Some((index, allocation)) = found else {
            return Err(Error::new(format!("{address:#x} is the beginning of no allocation")));
        };
        match allocation.data.take() {
            Some(_) => self.free += allocation.bytes,
            None => return Err(Error::new(format!("@{} was released before", index + 1))),
        }
        Ok(index + 1)
    }

    /// A place as texts have it: the number of the allocation and the bytes from its beginning.
    pub(crate) fn name(&self, address: u64) -> String {
        match self.find(address) {
            Some((index, offset)) => format!("@{}+{offset}", index + 1),
            None => format!("{address:#x}"),
        }
    }

    fn find(&self, address: u64) -> Option<(usize, u64)> {
        let index = self.allocations.partition_point(|allocation| allocation.address <= address).checked_sub(1)?;
        let allocation = &self.allocations[index];
        let offset = address - allocation.address;
        (offset < allocation.bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT).then_some((index, offset))
    }

    /// The allocation in which all of these bytes lie, and where they begin there.
    fn locate(&self, address: u64, bytes: usize) -> Result<(usize, usize), Error> {
        let Some((index, offset)) = self.find(address) else {
            return Err(Error::new(format!("{address:#x} is not an address of the simulator")));
        };
        let (number, allocation) = (index + 1, &self.allocations[index]);
        if allocation.data.is_none() {
            return Err(Error::new(format!("@{number} was released and is used")));
        }
        match offset.checked_add(bytes as u64).is_some_and(|end| end <= allocation.bytes) {
            true => Ok((index, offset as usize)),
            false => {
                Err(Error::new(format!("{bytes} bytes at @{number}+{offset} leave its {} bytes", allocation.bytes)))
            }
        }
    }

    /// Bytes of the device.
    pub(crate) fn bytes(&self, address: u64, bytes: usize) -> Result<&[u8], Error> {
        if bytes == 0 {
            return Ok(&[]);
        }
        let (index, offset) = self.locate(address, bytes)?;
        Ok(self.allocations[index].data.as_ref().map_or(&[], |data| &data[offset..offset + bytes]))
    }

    /// Bytes of the device, to be written.
    pub(crate) fn bytes_mut(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], Error> {
        if bytes == 0 {
            return Ok(&mut []);
        }
        let (index, offset) = self.locate(address, bytes)?;
        Ok(self.allocations[index].data.as_mut().map_or(&mut [], |data| &mut data[offset..offset + bytes]))
    }
}

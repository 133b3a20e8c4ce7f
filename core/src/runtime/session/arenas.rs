//! The memory that a session's values lie in: a block on the host and one on each device. All sets of input shapes share it, since
//! a run is of one of them; it grows to what the largest needs.

use crate::buffer::Buffer;
use crate::diagnostic::{Diagnostic, Result};
use crate::memory::Shortage;
use crate::runtime::device::{Device, DeviceMemory, HostMemory};

/// The blocks. There are none until they are first grown.
#[derive(Default)]
pub(super) struct Arenas {
    host: Option<Host>,
    host_bytes: usize,
    devices: Vec<Block>,
}

/// The host's block: where there is a device, one that it reaches by itself.
enum Host {
    Own(Buffer),
    Shared(HostMemory),
}

/// A block on a device.
struct Block {
    memory: DeviceMemory,
    bytes: usize,
}

impl Arenas {
    /// Makes room for that many bytes on the host, which the first of the devices reaches if there is one.
    pub(super) fn grow_host(
        &mut self,
        bytes: usize,
        devices: &[Device],
        short: &dyn Fn(Shortage) -> Diagnostic,
    ) -> Result<()> {
        let grows = self.host.is_some();
        if grows && self.host_bytes >= bytes {
            return Ok(());
        }
        // The old block goes first: both together may not fit.
        (self.host, self.host_bytes) = (None, 0);
        let (host, bytes) = allocate(bytes, grows, |bytes| match devices.first() {
            None => Buffer::new(bytes).map(Host::Own).map_err(short),
            Some(device) => device.allocate_host(bytes.max(1)).map(Host::Shared),
        })?;
        (self.host, self.host_bytes) = (Some(host), bytes);
        Ok(())
    }

    /// Whether the blocks on devices have that many bytes, each: then growing to them moves none.
    pub(super) fn devices_have(&self, bytes: &[usize]) -> bool {
        self.devices.len() == bytes.len()
            && self.devices.iter().zip(bytes).all(|(block, &needed)| block.bytes >= needed)
    }

    /// Makes room for that many bytes on each device; `purpose` says what those of a device are for, by its index.
    pub(super) fn grow_devices(
        &mut self,
        bytes: &[usize],
        devices: &[Device],
        purpose: &dyn Fn(usize) -> String,
    ) -> Result<()> {
        if self.devices_have(bytes) {
            return Ok(());
        }
        let before: Vec<_> = self.devices.drain(..).map(|block| block.bytes).collect();
        let mut blocks = Vec::with_capacity(devices.len());
        for (index, (device, &needed)) in devices.iter().zip(bytes).enumerate() {
            let before = before.get(index).copied();
            let grows = before.is_some_and(|before| before < needed);
            let needed = needed.max(before.unwrap_or(0));
            let (memory, bytes) = allocate(needed, grows, |bytes| device.allocate(bytes, &purpose(index)))?;
            blocks.push(Block { memory, bytes });
        }
        self.devices = blocks;
        Ok(())
    }

    /// Bytes on the host.
    pub(super) fn host_bytes(&self) -> usize {
        self.host_bytes
    }

    /// Bytes on a device, by its index.
    pub(super) fn device_bytes(&self, index: usize) -> usize {
        self.devices.get(index).map_or(0, |block| block.bytes)
    }

    /// Where the block of a device begins, by its index.
    pub(super) fn on_device(&self, index: usize) -> u64 {
        self.devices[index].memory.address
    }

    /// Whether the host's block is one that no device reaches.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.host, Some(Host::Own(_)))
    }

    /// Where the host's block begins.
    pub(super) fn on_host(&self) -> *const u8 {
        match &self.host {
            None => std::ptr::null(),
            Some(Host::Own(buffer)) => buffer.as_ptr(),
            Some(Host::Shared(memory)) => memory.as_ptr(),
        }
    }

    /// The same, to be written.
    pub(super) fn on_host_mut(&mut self) -> *mut u8 {
        match &mut self.host {
            None => std::ptr::null_mut(),
            Some(Host::Own(buffer)) => buffer.as_mut_ptr(),
            Some(Host::Shared(memory)) => memory.as_mut_ptr(),
        }
    }
}

/// A block of that many bytes, and how many it has. What has grown once is likely to grow again, as with a cache that is longer in
/// each run, so it gets an eighth more, if there is so much.
fn allocate<T>(bytes: usize, grows: bool, mut new: impl FnMut(usize) -> Result<T>) -> Result<(T, usize)> {
    let more = bytes.saturating_add(bytes / 8);
    if grows && let Ok(block) = new(more) {
        return Ok((block, more));
    }
    Ok((new(bytes)?, bytes))
}

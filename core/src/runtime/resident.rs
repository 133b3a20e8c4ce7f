//! The constants that regions on a device read: on the device each of them stands once, however many regions read it.

use std::collections::BTreeMap;

use crate::artifact::Artifact;
use crate::artifact::manifest::{ConstantUse, Region};
use crate::diagnostic::Result;
use crate::runtime::device::{Device, DeviceMemory};
use crate::runtime::plan::DEVICE_ALIGNMENT;

/// Constants on one device.
pub(super) struct Resident {
    memory: DeviceMemory,
    /// The offset of each stored constant, by its index in the artifact.
    offsets: BTreeMap<usize, usize>,
    /// Bytes that they take.
    pub(super) bytes: usize,
}

impl Resident {
    /// Sends the constants of these regions to the device, straight from the mapped file.
    pub(super) fn send<'a>(
        artifact: &Artifact,
        regions: impl Iterator<Item = &'a Region>,
        device: &Device,
    ) -> Result<Resident> {
        let bound = regions.flat_map(|region| region.constants.iter().filter_map(|binding| binding.used.as_ref()));
        let mut offsets: BTreeMap<_, _> = bound.map(|used| (used.constant, 0)).collect();
        let mut bytes = 0;
        for (&constant, offset) in &mut offsets {
            *offset = bytes;
            bytes += artifact.stored(constant)?.len().next_multiple_of(DEVICE_ALIGNMENT);
        }
        let memory = device.allocate(bytes, "constants")?;
        let mut domain = device.domain();
        let mut sent = Ok(());
        for (&constant, &offset) in &offsets {
            let data = artifact.stored(constant)?;
            if sent.is_ok() && !data.is_empty() {
                // SAFETY: there is room for the constant at its offset. The bytes are those of the artifact, which the
                // caller keeps, and the queue is waited for below.
                sent = unsafe { domain.upload(memory.address + offset as u64, data.as_ptr(), data.len()) };
            }
        }
        let waited = if bytes > 0 { domain.synchronize() } else { Ok(()) };
        drop(domain);
        sent.and(waited).map_err(|error| device.failed("take the constants", error))?;
        Ok(Resident { memory, offsets, bytes })
    }

    /// Where the element of index 0 of a view is.
    pub(super) fn address(&self, used: &ConstantUse, element: usize) -> u64 {
        let offset = self.offsets.get(&used.constant).copied().unwrap_or(0) + used.view.offset * element;
        self.memory.address + offset as u64
    }
}

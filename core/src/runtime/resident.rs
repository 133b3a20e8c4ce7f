//! Constants in device memory: each is there once, however many regions read it.

use std::collections::BTreeMap;
use std::sync::Arc;

use byoc_plugin_api::{DEVICE_ALIGNMENT, DType};

use crate::artifact::Artifact;
use crate::artifact::manifest::{ConstantUse, Region};
use crate::diagnostic::Result;
use crate::runtime::device::{Device, DeviceMemory};

/// Constants on one device.
#[derive(Default)]
pub(super) struct Resident {
    /// Where each stored constant is, by its index in the artifact.
    places: BTreeMap<usize, ConstantSlice>,
    /// Bytes that they take.
    pub(super) bytes: usize,
}

/// A constant in device memory.
#[derive(Clone)]
struct ConstantSlice {
    memory: Arc<DeviceMemory>,
    offset: usize,
}

impl Resident {
    /// The constants of these regions: those that are on the device already, and the others, which are sent there straight
    /// from the mapped file.
    pub(super) fn send<'a>(
        artifact: &Artifact,
        regions: impl Iterator<Item = &'a Region>,
        device: &Device,
        there: Option<&Resident>,
    ) -> Result<Resident> {
        let bound = regions.flat_map(|region| region.constants.iter().filter_map(|binding| binding.used.as_ref()));
        let mut missing: BTreeMap<usize, usize> = BTreeMap::new();
        let mut resident = Resident::default();
        for constant in bound.map(|used| used.constant) {
            match there.and_then(|there| there.places.get(&constant)) {
                Some(place) => drop(resident.places.insert(constant, place.clone())),
                None => drop(missing.insert(constant, 0)),
            }
        }
        let mut bytes = 0;
        for (&constant, offset) in &mut missing {
            *offset = bytes;
            bytes += room(artifact, constant)?;
        }
        let queue = device.queue_lock();
        let _guard = queue.lock();
        let memory = Arc::new(device.allocate(bytes, "constants")?);
        upload(artifact, &missing, device, memory.address)?;
        let place = |(constant, offset)| (constant, ConstantSlice { memory: memory.clone(), offset });
        resident.places.extend(missing.into_iter().map(place));
        for &constant in resident.places.keys() {
            resident.bytes += room(artifact, constant)?;
        }
        Ok(resident)
    }

    /// Where the element of index 0 of a view is.
    pub(super) fn address(&self, used: &ConstantUse, dtype: DType) -> u64 {
        let Some(place) = self.places.get(&used.constant) else { return 0 };
        place.memory.address + (place.offset + used.view.first_byte(dtype)) as u64
    }
}

/// Bytes that a constant takes on a device.
fn room(artifact: &Artifact, constant: usize) -> Result<usize> {
    Ok(artifact.stored(constant)?.len().next_multiple_of(DEVICE_ALIGNMENT))
}

/// Sends constants to their offsets from an address, while the caller holds the device's queue.
fn upload(artifact: &Artifact, offsets: &BTreeMap<usize, usize>, device: &Device, address: u64) -> Result<()> {
    if offsets.is_empty() {
        return Ok(());
    }
    let source = |(&constant, &offset): (&usize, &usize)| Ok((artifact.stored(constant)?, address + offset as u64));
    let sources = offsets.iter().map(source).collect::<Result<Vec<_>>>()?;
    let mut domain = device.domain();
    let mut filled = sources.iter().filter(|(data, _)| !data.is_empty());
    // SAFETY: there is room for each constant at its place, and its bytes stay until the queue has been waited for.
    let sent = filled.try_for_each(|(data, to)| unsafe { domain.upload(*to, data.as_ptr(), data.len()) });
    let waited = domain.synchronize();
    drop(domain);
    sent.and(waited).map_err(|error| device.failed("take the constants", error))
}

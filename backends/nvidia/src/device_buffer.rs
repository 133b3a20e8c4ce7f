//! Device memory that a region owns: for repacked constants, and for arguments that kernels make.

use byoc_plugin_api::{Error, TensorView};
use cudarc::driver::result;

use crate::attached_domain::AttachedDomain;

/// A device allocation, freed on drop. The context must be current then.
pub struct DeviceBuffer {
    address: u64,
    bytes: usize,
}

impl DeviceBuffer {
    /// Allocates uninitialised memory, at least one byte, in the current context. `what` is the purpose for messages,
    /// such as "repack constant 3".
    ///
    /// # Errors
    ///
    /// When there is not enough memory.
    pub fn of(bytes: usize, what: &str, attached: &AttachedDomain) -> Result<DeviceBuffer, Error> {
        let failed = |cause| attached.device().failed(&format!("{what}, in {bytes} bytes"), cause);
        // SAFETY: a plain allocation, which the returned value alone frees.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(failed)?;
        Ok(DeviceBuffer { address, bytes })
    }

    /// Allocates a copy of these bytes, in the current context. Waits for the copy.
    ///
    /// # Errors
    ///
    /// As for [`DeviceBuffer::of`], and when they cannot be copied.
    pub fn holding(bytes: &[u8], what: &str, attached: &AttachedDomain) -> Result<DeviceBuffer, Error> {
        let failed = |cause| attached.device().failed(&format!("{what}, in {} bytes", bytes.len()), cause);
        let memory = DeviceBuffer::of(bytes.len(), what, attached)?;
        // SAFETY: the allocation is of that length, and the bytes stay until the stream is waited for.
        unsafe {
            result::memcpy_htod_async(memory.address, bytes, attached.stream()).map_err(failed)?;
            result::stream::synchronize(attached.stream()).map_err(failed)?;
        }
        Ok(memory)
    }

    /// Copies its contents to the host after all queued work. Waits for that.
    ///
    /// # Errors
    ///
    /// When the work or the copy fails.
    pub fn read(&self, what: &str, attached: &AttachedDomain) -> Result<Vec<u8>, Error> {
        let failed = |cause| attached.device().failed(what, cause);
        let mut bytes = vec![0; self.bytes];
        // SAFETY: the allocation is of that length, and the bytes are not read before the stream is synchronised.
        unsafe {
            result::memcpy_dtoh_async(&mut bytes, self.address, attached.stream()).map_err(failed)?;
            result::stream::synchronize(attached.stream()).map_err(failed)?;
        }
        Ok(bytes)
    }

    /// Its address, a multiple of 256 bytes.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: the address came from an allocation, and nothing uses it any more. A failure leaves it to the context.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// The bytes of all elements of a constant, in row-major order.
///
/// # Errors
///
/// When it has none on the host.
pub fn row_major_bytes(view: &TensorView<'_>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(view.byte_len());
    view.for_each_element(|element| bytes.extend_from_slice(element));
    if bytes.is_empty() {
        return Err(Error::new("a constant has no elements on the host"));
    }
    Ok(bytes)
}

//! Device memory of a region's own: for constants that are laid out anew, and for what kernels make.

use byoc_plugin_api::{Error, TensorView};
use cudarc::driver::result;

use crate::attached_domain::AttachedDomain;

/// Bytes on the device, given back when dropped. The context must be current then.
pub struct DeviceBuffer {
    address: u64,
    bytes: usize,
}

impl DeviceBuffer {
    /// DeviceBuffer of so many bytes, at least one, in the current context. What it holds is not said. `what` is what it is for,
    /// such as "repack constant 3".
    ///
    /// # Errors
    ///
    /// When there is not so much.
    pub fn of(bytes: usize, what: &str, attached: &AttachedDomain) -> Result<DeviceBuffer, Error> {
        let failed = |cause| attached.device().failed(&format!("{what}, in {bytes} bytes"), cause);
        // SAFETY: a plain allocation, which the returned value alone frees.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(failed)?;
        Ok(DeviceBuffer { address, bytes })
    }

    /// DeviceBuffer with a copy of these bytes, in the current context. Waits until they are there.
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

    /// What it holds when all work that is queued now is done. Waits for that.
    ///
    /// # Errors
    ///
    /// When the work, or the copy, goes wrong.
    pub fn read(&self, what: &str, attached: &AttachedDomain) -> Result<Vec<u8>, Error> {
        let failed = |cause| attached.device().failed(what, cause);
        let mut bytes = vec![0; self.bytes];
        // SAFETY: the allocation is of that length, and nobody looks at the bytes before the stream was waited for.
        unsafe {
            result::memcpy_dtoh_async(&mut bytes, self.address, attached.stream()).map_err(failed)?;
            result::stream::synchronize(attached.stream()).map_err(failed)?;
        }
        Ok(bytes)
    }

    /// Where it begins, at a multiple of 256 bytes.
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
    let mut bytes = Vec::with_capacity(view.len() * view.dtype().size());
    view.for_each_element(|element| bytes.extend_from_slice(element));
    if bytes.is_empty() {
        return Err(Error::new("a constant has no elements on the host"));
    }
    Ok(bytes)
}

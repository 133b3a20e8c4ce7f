//! Device memory of a region's own.

use byoc_nvidia::join::Joined;
use byoc_plugin_api::{ConstantId, Error};
use cudarc::driver::result;

/// Bytes on the device, given back when dropped. The context must be current then.
pub(super) struct Memory {
    pub(super) address: u64,
}

impl Memory {
    /// A copy of a constant in these bytes, of which there is at least one, in the current context. Waits until they are
    /// there.
    pub(super) fn holding(constant: ConstantId, bytes: &[u8], joined: &Joined) -> Result<Memory, Error> {
        let failed = |cause| {
            let what = format!("lay out constant {constant} anew, in {} bytes", bytes.len());
            joined.device().failed(&what, cause)
        };
        let stream = joined.stream();
        // SAFETY: a plain allocation, which the returned value alone frees.
        let memory = Memory { address: unsafe { result::malloc_sync(bytes.len()) }.map_err(failed)? };
        // SAFETY: the allocation is of that length, and the bytes stay until the stream is waited for.
        unsafe {
            result::memcpy_htod_async(memory.address, bytes, stream).map_err(failed)?;
            result::stream::synchronize(stream).map_err(failed)?;
        }
        Ok(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the address came from an allocation, and nothing uses it any more. A failure leaves it to the context.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

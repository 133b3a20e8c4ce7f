//! A device's primary context, which all libraries of a process share.

use byoc_plugin_api::Error;
use cudarc::driver::result;
use cudarc::driver::sys::{CUcontext, CUdevice};

use crate::device::{self, Device};
use crate::locate::Driver;

/// The retained primary context of a device, released on drop.
pub(crate) struct PrimaryContext {
    /// The device.
    pub(crate) device: Device,
    handle: CUdevice,
    context: CUcontext,
}

// SAFETY: a context may be current on any thread, and on several at once; what is called on it is CUDA's to order.
unsafe impl Send for PrimaryContext {}

impl PrimaryContext {
    /// Retains it, which creates it if needed.
    pub(crate) fn retain(driver: &Driver, ordinal: u32) -> Result<PrimaryContext, Error> {
        let device = device::one(driver, ordinal)?;
        let open = || {
            let handle = result::device::get(ordinal.cast_signed())?;
            // SAFETY: `handle` was given by `get` just now.
            Ok((handle, unsafe { result::primary_ctx::retain(handle) }?))
        };
        match open() {
            Ok((handle, context)) => Ok(PrimaryContext { device, handle, context }),
            Err(cause) => Err(device.failed("open its context", cause)),
        }
    }

    /// The context itself.
    pub(crate) fn context(&self) -> CUcontext {
        self.context
    }

    /// Retains it once more, for the life of the process.
    pub(crate) fn keep(&self) -> Result<(), Error> {
        // SAFETY: the handle is that of a device, as it is retained already.
        let kept = unsafe { result::primary_ctx::retain(self.handle) };
        kept.map(|_| ()).map_err(|cause| self.device.failed("keep its context", cause))
    }

    /// Makes it current on this thread, until the answer is dropped.
    pub(crate) fn enter(&self) -> Result<Entered, Error> {
        let enter = || {
            let before = result::ctx::get_current()?.unwrap_or(std::ptr::null_mut());
            if before == self.context {
                return Ok(Entered { before: None });
            }
            // SAFETY: it is retained, so it is a context.
            unsafe { result::ctx::set_current(self.context) }?;
            Ok(Entered { before: Some(before) })
        };
        enter().map_err(|cause| self.device.failed("use its context", cause))
    }
}

/// A context is current on this thread for as long as this lives. Then what was current before is so again: a program may
/// use contexts of its own.
#[must_use = "the context is current for as long as this lives"]
pub struct Entered {
    /// The context to make current again, null for none; `None` where it is the same.
    before: Option<CUcontext>,
}

// SAFETY: a handle, which CUDA takes from any thread.
unsafe impl Send for Entered {}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: it was current when this was made, and null is none. A failure leaves this context current.
            let _ = unsafe { result::ctx::set_current(before) };
        }
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // SAFETY: it was retained once, by `retain`. A failure leaves it to the end of the process.
        let _ = unsafe { result::primary_ctx::release(self.handle) };
    }
}

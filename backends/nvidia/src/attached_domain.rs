//! Attaches to a memory domain that another plugin has opened: the same context, the same stream.
//!
//! Each plugin links its own bindings with their own state. All share the process's one driver, and so the primary context
//! of each device.

use byoc_plugin_api::{DomainHandles, Error};
use cudarc::driver::sys::{CUcontext, CUstream};

use crate::device::Device;
use crate::locate::Driver;
pub use crate::primary_context::Entered;
use crate::primary_context::PrimaryContext;

/// DLPack's number for devices of CUDA.
pub(crate) const DEVICE_TYPE: i32 = 2;

/// A domain of another plugin: its device's primary context, which is retained, and its stream, which is borrowed. Drop it
/// before the domain.
pub struct AttachedDomain {
    primary: PrimaryContext,
    stream: CUstream,
}

// SAFETY: calls for a domain may come from any thread, one at a time; CUDA takes a stream from any thread.
unsafe impl Send for AttachedDomain {}

impl AttachedDomain {
    /// Attaches to the domain of these handles.
    ///
    /// # Errors
    ///
    /// When the handles are not a CUDA device's, or its primary context here differs from the domain's.
    pub fn new(handles: &DomainHandles, driver: &Driver) -> Result<AttachedDomain, Error> {
        let (kind, ordinal) = (handles.device.device_type, handles.device.device_id);
        if kind != DEVICE_TYPE {
            return Err(Error::new(format!(
                "the domain is a device of DLPack's type {kind}, but CUDA's are of type {DEVICE_TYPE}"
            )));
        }
        let ordinal = u32::try_from(ordinal).map_err(|_| Error::new(format!("there is no device cuda:{ordinal}")))?;
        if handles.queue.is_null() {
            return Err(Error::new(format!("the domain cuda:{ordinal} has no stream of its own")));
        }
        let primary = PrimaryContext::retain(driver, ordinal)?;
        if primary.context() != handles.context.cast() {
            let message = format!("the context of the domain cuda:{ordinal} is not the one that {} gives", **driver);
            return Err(Error::new(message).hint("Have one libcuda.so.1 in BYOC_CUDA_PATH and LD_LIBRARY_PATH"));
        }
        Ok(AttachedDomain { primary, stream: handles.queue.cast() })
    }

    /// Makes the context current on this thread, until the answer is dropped. To be called before any other call of CUDA.
    ///
    /// # Errors
    ///
    /// When the driver does not allow it.
    pub fn enter(&self) -> Result<Entered, Error> {
        self.primary.enter()
    }

    /// Keeps the context for the life of the process, for objects in it that are never destroyed.
    ///
    /// # Errors
    ///
    /// When the driver does not allow it.
    pub fn keep(&self) -> Result<(), Error> {
        self.primary.keep()
    }

    /// The context itself.
    pub(crate) fn context(&self) -> CUcontext {
        self.primary.context()
    }

    /// The domain's stream.
    pub fn stream(&self) -> CUstream {
        self.stream
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        &self.primary.device
    }
}

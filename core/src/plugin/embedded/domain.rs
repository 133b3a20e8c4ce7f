//! Memory domains of embedded backends, and regions that run in them.

use byoc_plugin_api::{DeviceExecutable, DevicePlan, DeviceTensor, Domain, DomainHandles, DomainInfo, Error};

use super::Guard;
use super::place::answer;

/// A domain.
pub(super) struct GuardedDomain {
    guard: Guard<dyn Domain>,
    info: DomainInfo,
    handles: DomainHandles,
}

// SAFETY: the domain is `Send`; the handles beside it are addresses that this type only hands out, for as long as the
// domain is open.
unsafe impl Send for GuardedDomain {}

impl GuardedDomain {
    pub(super) fn new(domain: Box<dyn Domain>) -> Result<GuardedDomain, Error> {
        let (info, handles) = answer(|| (domain.info(), domain.handles()))?;
        Ok(GuardedDomain { guard: Guard::new(domain), info, handles })
    }

    /// Something that has no answer.
    fn tell(&mut self, call: impl FnOnce(&mut dyn Domain)) {
        // After a panic there is nobody to tell.
        let _ = self.guard.call(|domain| {
            call(domain);
            Ok(())
        });
    }
}

impl Domain for GuardedDomain {
    fn info(&self) -> DomainInfo {
        self.info.clone()
    }

    fn handles(&self) -> DomainHandles {
        self.handles
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, Error> {
        self.guard.call(|domain| domain.allocate(bytes))
    }

    unsafe fn release(&mut self, address: u64) {
        // SAFETY: the caller vouches for the address.
        self.tell(|domain| unsafe { domain.release(address) });
    }

    fn allocate_host(&mut self, bytes: usize) -> Result<*mut u8, Error> {
        self.guard.call(|domain| domain.allocate_host(bytes))
    }

    unsafe fn release_host(&mut self, address: *mut u8) {
        // SAFETY: the caller vouches for the address.
        self.tell(|domain| unsafe { domain.release_host(address) });
    }

    unsafe fn upload(&mut self, to: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller vouches for both ranges.
        self.guard.call(|domain| unsafe { domain.upload(to, from, bytes) })
    }

    unsafe fn download(&mut self, to: *mut u8, from: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller vouches for both ranges.
        self.guard.call(|domain| unsafe { domain.download(to, from, bytes) })
    }

    unsafe fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller vouches for both ranges.
        self.guard.call(|domain| unsafe { domain.copy(to, from, bytes) })
    }

    fn synchronize(&mut self) -> Result<(), Error> {
        self.guard.call(|domain| domain.synchronize())
    }

    fn mark(&mut self, number: u32) -> Result<(), Error> {
        self.guard.call(|domain| domain.mark(number))
    }

    fn elapsed(&mut self, from: u32, to: u32) -> Result<f64, Error> {
        self.guard.call(|domain| domain.elapsed(from, to))
    }

    fn begin_recording(&mut self) -> Result<(), Error> {
        self.guard.call(|domain| domain.begin_recording())
    }

    fn end_recording(&mut self) -> Result<u64, Error> {
        self.guard.call(|domain| domain.end_recording())
    }

    fn replay(&mut self, recording: u64) -> Result<(), Error> {
        self.guard.call(|domain| domain.replay(recording))
    }

    fn forget(&mut self, recording: u64) {
        self.tell(|domain| domain.forget(recording));
    }
}

/// A region that is loaded on a device.
pub(super) struct GuardedDeviceExecutable<'a> {
    pub(super) guard: Guard<dyn DeviceExecutable + 'a>,
}

impl DeviceExecutable for GuardedDeviceExecutable<'_> {
    fn plan(&mut self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]) -> Result<DevicePlan, Error> {
        self.guard.call(|executable| executable.plan(inputs, outputs))
    }

    fn prepare(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        scratch: u64,
    ) -> Result<(), Error> {
        self.guard.call(|executable| executable.prepare(inputs, outputs, scratch))
    }

    fn run(&mut self) -> Result<(), Error> {
        self.guard.call(|executable| executable.run())
    }
}

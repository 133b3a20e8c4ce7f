//! The memory domain `cuda:N`: a device's memory and a stream.
//!
//! Memory is that of the device's primary context, so that all plugins of a process can use it. The stream is
//! non-blocking: it does not wait for the legacy stream. Marks are events; a recording is a CUDA graph, made by capture.

mod recordings;

use std::collections::BTreeSet;

use byoc_plugin_api::dlpack::DLDevice;
use byoc_plugin_api::{Domain, DomainHandles, DomainInfo, Error};
use cudarc::driver::result::{self, DriverError, stream};
use cudarc::driver::sys::{self, CUstream, cudaError_enum as Code};

use crate::attached_domain::DEVICE_TYPE;
use crate::locate::{self, CudaSearchPath, Library};
use crate::marks::Marks;
use crate::primary_context::PrimaryContext;
use recordings::Recordings;

/// An open domain of CUDA.
pub struct CudaDomain {
    // Released last, after `drop` has destroyed its objects.
    primary: PrimaryContext,
    stream: CUstream,
    libraries: Vec<String>,
    memory: BTreeSet<u64>,
    host_memory: BTreeSet<*mut u8>,
    marks: Marks,
    recordings: Recordings,
}

// SAFETY: calls may come from any thread, one at a time: each makes the context current first, and CUDA takes streams,
// events, graphs and addresses of a context from any thread on which it is current.
unsafe impl Send for CudaDomain {}

impl CudaDomain {
    /// Opens the device of that ordinal. `libraries` are what its backends call besides the driver, so that a missing one is
    /// reported at once.
    ///
    /// # Errors
    ///
    /// When a library is missing or does not fit, when there is no such device, and when it makes no context or stream.
    pub fn open(ordinal: u32, search_path: &CudaSearchPath, libraries: &[Library]) -> Result<CudaDomain, Error> {
        let driver = locate::driver(search_path)?;
        let mut found = vec![driver.to_string()];
        for library in libraries.iter().filter(|library| **library != Library::Driver) {
            found.push(locate::library(*library, search_path, &driver)?.to_string());
        }
        let marks = Marks::new(&driver)?;
        let primary = PrimaryContext::retain(&driver, ordinal)?;
        let _entered = primary.enter()?;
        let made = stream::create(stream::StreamKind::NonBlocking);
        let stream = made.map_err(|cause| primary.device.failed("make a stream", cause))?;
        Ok(CudaDomain {
            primary,
            stream,
            libraries: found,
            memory: BTreeSet::new(),
            host_memory: BTreeSet::new(),
            marks,
            recordings: Recordings::default(),
        })
    }

    /// The result of a call, or an error; `what` is the operation, such as "copy 12 bytes to the host".
    fn done<T>(&self, what: &str, given: Result<T, DriverError>) -> Result<T, Error> {
        given.map_err(|cause| self.primary.device.failed(what, cause))
    }

    /// The error for an unknown mark or recording.
    fn unknown(&self, what: &str, number: u64) -> Error {
        Error::new(format!("cuda:{} has no {what} {number}", self.primary.device.ordinal))
    }
}

impl Domain for CudaDomain {
    fn info(&self) -> DomainInfo {
        let device = &self.primary.device;
        DomainInfo { title: device.title(), memory: device.memory, records: true, libraries: self.libraries.clone() }
    }

    fn handles(&self) -> DomainHandles {
        DomainHandles {
            device: DLDevice { device_type: DEVICE_TYPE, device_id: self.primary.device.ordinal.cast_signed() },
            context: self.primary.context().cast(),
            queue: self.stream.cast(),
        }
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: nothing is assumed of what the memory holds.
        let given = unsafe { result::malloc_sync(usize::try_from(bytes.max(1)).unwrap_or(usize::MAX)) };
        let left = match given {
            Err(DriverError(Code::CUDA_ERROR_OUT_OF_MEMORY)) => result::mem_get_info().ok(),
            _ => None,
        };
        let left = left.map(|(free, all)| format!(" with {free} of {all} free")).unwrap_or_default();
        let address = self.done(&format!("allocate {bytes} bytes{left}"), given)?;
        self.memory.insert(address);
        Ok(address)
    }

    unsafe fn release(&mut self, address: u64) {
        if self.memory.contains(&address)
            && let Ok(_entered) = self.primary.enter()
        {
            // SAFETY: the address came from `allocate`, as it is in the list, and is not used any more.
            let freed = unsafe { result::free_sync(address) };
            // A failed free is tried again at the end.
            if freed.is_ok() {
                self.memory.remove(&address);
            }
        }
    }

    fn allocate_host(&mut self, bytes: usize) -> Result<*mut u8, Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: nothing is assumed of what the memory holds.
        let given = unsafe { result::malloc_host(bytes.max(1), 0) };
        let address = self.done(&format!("allocate {bytes} bytes of page-locked host memory"), given)?.cast();
        self.host_memory.insert(address);
        Ok(address)
    }

    unsafe fn release_host(&mut self, address: *mut u8) {
        if self.host_memory.contains(&address)
            && let Ok(_entered) = self.primary.enter()
        {
            // SAFETY: as in `release`.
            let freed = unsafe { result::free_host(address.cast()) };
            if freed.is_ok() {
                self.host_memory.remove(&address);
            }
        }
    }

    unsafe fn upload(&mut self, to: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: the caller vouches for both ranges until the next `synchronize`; the stream is the domain's.
        let queued = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, self.stream) }.result();
        self.done(&format!("copy {bytes} bytes from the host"), queued)
    }

    unsafe fn download(&mut self, to: *mut u8, from: u64, bytes: usize) -> Result<(), Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: as in `upload`.
        let queued = unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, self.stream) }.result();
        self.done(&format!("copy {bytes} bytes to the host"), queued)
    }

    unsafe fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: as in `upload`.
        let queued = unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream) };
        self.done(&format!("copy {bytes} bytes"), queued)
    }

    fn synchronize(&mut self) -> Result<(), Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: the stream is the domain's.
        let waited = unsafe { stream::synchronize(self.stream) };
        self.done("wait for its work", waited)
    }

    fn mark(&mut self, number: u32) -> Result<(), Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: the stream is the domain's, and its context is current.
        let set = unsafe { self.marks.set(number, self.stream) };
        self.done("take the time", set)
    }

    fn elapsed(&mut self, from: u32, to: u32) -> Result<f64, Error> {
        let _entered = self.primary.enter()?;
        let event = |number: u32| self.marks.get(number).ok_or_else(|| self.unknown("mark", number.into()));
        let (begin, end) = (event(from)?, event(to)?);
        // SAFETY: both are marks.
        let seconds = unsafe { self.marks.seconds(begin, end) };
        self.done(&format!("tell the time from mark {from} to mark {to}"), seconds)
    }

    /// CUDA wants it ended on the same thread, on which it takes no other call than those that queue work until then.
    fn begin_recording(&mut self) -> Result<(), Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: the stream is the domain's, and its context is current.
        let begun = unsafe { self.recordings.begin(self.stream) };
        self.done("record", begun)
    }

    fn end_recording(&mut self) -> Result<u64, Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: as in `begin_recording`.
        let ended = unsafe { self.recordings.end(self.stream) };
        self.done("keep the recording", ended)
    }

    fn replay(&mut self, recording: u64) -> Result<(), Error> {
        let _entered = self.primary.enter()?;
        // SAFETY: as in `begin_recording`.
        let queued = unsafe { self.recordings.replay(recording, self.stream) };
        self.done("replay a recording", queued.ok_or_else(|| self.unknown("recording", recording))?)
    }

    fn forget(&mut self, recording: u64) {
        if let Ok(_entered) = self.primary.enter() {
            // SAFETY: as in `begin_recording`.
            unsafe { self.recordings.forget(recording, self.stream) };
        }
    }
}

impl Drop for CudaDomain {
    /// After a sticky error CUDA frees nothing; the rest is freed with the process.
    fn drop(&mut self) {
        let Ok(_entered) = self.primary.enter() else { return };
        // SAFETY: the stream is the domain's, and its context is current. What is freed came from it, and its work is
        // over; others have left the domain.
        unsafe {
            self.recordings.destroy(self.stream);
            self.marks.destroy();
            for address in std::mem::take(&mut self.memory) {
                let _ = result::free_sync(address);
            }
            for address in std::mem::take(&mut self.host_memory) {
                let _ = result::free_host(address.cast());
            }
            let _ = stream::destroy(self.stream);
        }
    }
}

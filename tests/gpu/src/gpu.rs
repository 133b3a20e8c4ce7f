//! The device, as the suite itself uses it: its free memory, and filling memory.

use byoc_core::runtime::{PortIndex, Session};
use byoc_nvidia::attached_domain::{AttachedDomain, Entered};
use byoc_nvidia::device;
use byoc_nvidia::domain::CudaDomain;
use byoc_nvidia::locate::{self, CudaSearchPath, Library};
use byoc_plugin_api::{Domain, Error};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::CUstream;

use crate::report::Result;

/// What fresh memory is filled with: as floats of any type, these bytes are NaN.
pub(crate) const POISON: u8 = 0xFF;

/// The device, open for the whole of a run, so that its context stays.
pub(crate) struct Gpu {
    // Left before the domain is closed.
    attached: AttachedDomain,
    /// A domain of the suite's own, with a queue of its own.
    pub(crate) domain: CudaDomain,
}

impl Gpu {
    /// Opens the device of that number, with cublasLt where that is called.
    pub(crate) fn open(ordinal: u32, with_cublaslt: bool) -> Result<Gpu> {
        let search_path = CudaSearchPath::of_process(None);
        let libraries = if with_cublaslt { &[Library::CublasLt][..] } else { &[] };
        let domain = CudaDomain::open(ordinal, &search_path, libraries)?;
        let attached = AttachedDomain::new(&domain.handles(), &locate::driver(&search_path)?)?;
        Ok(Gpu { attached, domain })
    }

    /// What NVIDIA calls it.
    pub(crate) fn name(&self) -> &str {
        &self.attached.device().name
    }

    /// The architecture to make code for: with instructions of its own where kernels use them.
    pub(crate) fn arch(&self) -> String {
        match self.attached.device().capability {
            (9, 0) => "sm_90a".into(),
            (major, minor) => format!("sm_{major}{minor}"),
        }
    }

    /// Makes its context current on this thread, until the answer is dropped.
    pub(crate) fn enter(&self) -> Result<Entered> {
        Ok(self.attached.enter()?)
    }

    /// The suite's own queue.
    pub(crate) fn stream(&self) -> CUstream {
        self.attached.stream()
    }

    /// Bytes that are free, and all bytes, by the driver. Other processes on the device count, too.
    pub(crate) fn memory(&self) -> Result<(u64, u64)> {
        let _entered = self.enter()?;
        let (free, all) = result::mem_get_info().map_err(explained)?;
        Ok((free as u64, all as u64))
    }

    /// Makes every byte of a range NaN.
    ///
    /// # Safety
    /// The range is in memory of this device that is not used meanwhile.
    pub(crate) unsafe fn poison(&mut self, address: u64, bytes: u64) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller answers for the range.
        unsafe { poison(address, bytes, self.stream()) }?;
        Ok(self.domain.synchronize()?)
    }

    /// Makes the first output of a session on this device NaN, where the device has it; an error before the first run.
    pub(crate) fn poison_output(&mut self, session: &mut Session) -> Result<()> {
        let output = session.output(0)?;
        let bytes = (output.byte_len()) as u64;
        let (_, address) = session.address(PortIndex::Output(0)).ok_or("the output is on no device")?;
        // SAFETY: the output's own memory, of so many bytes; the session is borrowed, so it does not run.
        unsafe { self.poison(address, bytes) }
    }
}

/// Queues making every byte of a range NaN. The context must be current.
///
/// # Safety
/// The range is in memory of that context, and the stream is one of it.
pub(crate) unsafe fn poison(address: u64, bytes: u64, stream: CUstream) -> std::result::Result<(), Error> {
    // SAFETY: the caller answers for range and stream.
    let filled = unsafe { result::memset_d8_async(address, POISON, bytes as usize, stream) };
    filled.map_err(|cause| Error::new(format!("cannot fill memory: {}", device::explain(cause))))
}

/// Finds cublasLt.
pub(crate) fn cublaslt() -> Result<()> {
    let search_path = CudaSearchPath::of_process(None);
    Ok(locate::cublaslt(&search_path, &locate::driver(&search_path)?).map(drop)?)
}

fn explained(cause: DriverError) -> String {
    format!("the driver does not tell how much memory is free: {}", device::explain(cause))
}

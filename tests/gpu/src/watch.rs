//! A domain that fills all memory that it allocates with NaN, and counts the calls of a session.
//!
//! Core opens a device by the first backend of its kind, and the others attach by its handles. So the suite puts a backend
//! that compiles nothing before the one under test: session, device and the regions' code are the real ones, but memory
//! never has its old content, and all calls are counted.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use byoc_conformance::tensor::Tensor;
use byoc_core::plugin::{Origin, Registered, embedded};
use byoc_core::runtime::{Queueing, Session};
use byoc_nvidia::attached_domain::AttachedDomain;
use byoc_nvidia::domain::CudaDomain;
use byoc_nvidia::locate::{self, CudaSearchPath};
use byoc_plugin_api::{
    ABI_VERSION, Backend, Claims, Description, DeviceConstants, DeviceExecutable, DeviceRuntime, Domain, DomainHandles,
    DomainInfo, Environment, Error, Generated, Job, Options, Pattern, Refusal, RefusalCode, Region, Runtime,
};

use crate::fixture::{self, Fixture};
use crate::gpu::{self, Gpu, POISON};
use crate::report::{Result, ensure};

/// The result of backends and domains.
type Answer<T> = std::result::Result<T, Error>;

/// Calls of sessions since the last [`Watch::take`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Activity {
    /// Allocations on the device and of page-locked host memory.
    pub(crate) allocations: usize,
    /// Copies to the device, and their bytes.
    pub(crate) uploads: usize,
    pub(crate) uploaded: u64,
    /// Copies from the device, and their bytes.
    pub(crate) downloads: usize,
    pub(crate) downloaded: u64,
    /// Recordings that were replayed.
    pub(crate) replays: usize,
}

/// Live allocations: bytes by address.
#[derive(Default)]
struct Allocations {
    device: BTreeMap<u64, u64>,
    host: BTreeMap<usize, usize>,
    seen: Activity,
}

/// The backend that opens such domains. The suite has one, for as long as it runs.
#[derive(Default)]
pub(crate) struct Watch(Mutex<Allocations>);

impl Watch {
    fn held(&self) -> MutexGuard<'_, Allocations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls since the last [`Watch::take`].
    pub(crate) fn take(&self) -> Activity {
        std::mem::take(&mut self.held().seen)
    }

    /// Bytes of device memory that sessions hold.
    pub(crate) fn device_bytes(&self) -> u64 {
        self.held().device.values().sum()
    }

    /// The addresses of device memory that sessions hold.
    fn addresses(&self) -> Vec<u64> {
        self.held().device.keys().copied().collect()
    }

    /// Fills with NaN all that sessions hold, on the device and on the host, but what was allocated at `constants`.
    ///
    /// # Safety
    /// No session runs meanwhile, nor is any output of one looked at.
    unsafe fn poison(&self, gpu: &mut Gpu, constants: &[u64]) -> Result<()> {
        let held = self.held();
        for (&address, &bytes) in held.device.iter().filter(|(address, _)| !constants.contains(address)) {
            // SAFETY: it is allocated, and by contract it is not in use.
            unsafe { gpu.poison(address, bytes) }?;
        }
        for (&address, &bytes) in &held.host {
            // SAFETY: as above; the address came from a pointer of the driver's.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(POISON, bytes) };
        }
        Ok(())
    }

    /// The backend as a registry has it.
    pub(crate) fn registered(&'static self) -> Registered {
        Registered {
            description: self.describe(),
            origin: Origin::Embedded,
            abi_version: ABI_VERSION,
            backend: embedded(self).expect("it says what it is"),
        }
    }
}

fn compiles_nothing() -> Error {
    Error::new("this backend only opens devices")
}

impl Backend for Watch {
    fn describe(&self) -> Description {
        Description {
            name: "watch".into(),
            summary: "Opens devices whose memory begins as NaN".into(),
            domain: Some("cuda".into()),
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Answer<Vec<Pattern>> {
        Ok(Vec::new())
    }

    fn check(&self, _: &Region, _: &Options) -> std::result::Result<(), Refusal> {
        Err(Refusal::new(RefusalCode::Other, "this backend only opens devices"))
    }

    fn codegen(&self, _: &Job<'_>, _: &mut dyn Write) -> Answer<Generated> {
        Err(compiles_nothing())
    }

    fn constant_updater(&self, _: &Job<'_>, _: &[u8], _: &[u8], _: &mut Claims<'_>) -> Answer<()> {
        Err(compiles_nothing())
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Device(self)
    }
}

impl DeviceRuntime for Watch {
    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &DeviceConstants<'a>,
        _: &Environment,
        _: &DomainHandles,
    ) -> Answer<Box<dyn DeviceExecutable + 'a>> {
        Err(compiles_nothing())
    }

    fn open_domain(&self, ordinal: u32, _: &Options) -> Answer<Box<dyn Domain>> {
        let search_path = CudaSearchPath::of_process(None);
        let domain = CudaDomain::open(ordinal, &search_path, &[])?;
        let attached = AttachedDomain::new(&domain.handles(), &locate::driver(&search_path)?)?;
        Ok(Box::new(Watched { attached, domain, watch: watch() }))
    }
}

/// The backend of the suite.
static WATCH: std::sync::OnceLock<Watch> = std::sync::OnceLock::new();

/// The backend, the same one at every call.
pub(crate) fn watch() -> &'static Watch {
    WATCH.get_or_init(Watch::default)
}

/// The only watched session of its time, whose memory is made NaN before each run, but for its constants.
pub(crate) struct Poisoned<'a> {
    session: Session,
    fixture: &'a Fixture,
    /// Where its constants are.
    constants: Vec<u64>,
}

impl<'a> Poisoned<'a> {
    /// Loads an artifact; an error while another watched session is there.
    pub(crate) fn load(fixture: &'a Fixture, path: &Path, queueing: Queueing) -> Result<Poisoned<'a>> {
        let held = fixture.watch.device_bytes();
        ensure(held == 0, || format!("another session holds {held} bytes of the device"))?;
        let session = fixture.load_watched(path, queueing)?;
        Ok(Poisoned { session, fixture, constants: fixture.watch.addresses() })
    }

    /// Makes its memory NaN, runs, and copies the first output.
    pub(crate) fn run(&mut self, inputs: &[Tensor]) -> Result<Tensor> {
        // SAFETY: the session is borrowed, so it does not run, and its outputs are not read; there is no other one.
        unsafe { self.fixture.watch.poison(&mut self.fixture.gpu(), &self.constants) }?;
        fixture::run(&mut self.session, inputs)
    }
}

/// An open domain, watched.
struct Watched {
    // Left before the domain is closed.
    attached: AttachedDomain,
    domain: CudaDomain,
    watch: &'static Watch,
}

impl Domain for Watched {
    fn info(&self) -> DomainInfo {
        self.domain.info()
    }

    fn handles(&self) -> DomainHandles {
        self.domain.handles()
    }

    fn allocate(&mut self, bytes: u64) -> Answer<u64> {
        let address = self.domain.allocate(bytes)?;
        let _entered = self.attached.enter()?;
        // SAFETY: the memory is the domain's, whose context is current, as is the stream.
        unsafe { gpu::poison(address, bytes, self.domain.handles().queue.cast()) }?;
        self.domain.synchronize()?;
        let mut held = self.watch.held();
        held.seen.allocations += 1;
        held.device.insert(address, bytes);
        Ok(address)
    }

    unsafe fn release(&mut self, address: u64) {
        self.watch.held().device.remove(&address);
        // SAFETY: the caller's promise.
        unsafe { self.domain.release(address) };
    }

    fn allocate_host(&mut self, bytes: usize) -> Answer<*mut u8> {
        let address = self.domain.allocate_host(bytes)?;
        // SAFETY: so many bytes were allocated just now.
        unsafe { address.write_bytes(POISON, bytes) };
        let mut held = self.watch.held();
        held.seen.allocations += 1;
        held.host.insert(address.expose_provenance(), bytes);
        Ok(address)
    }

    unsafe fn release_host(&mut self, address: *mut u8) {
        self.watch.held().host.remove(&address.addr());
        // SAFETY: the caller's promise.
        unsafe { self.domain.release_host(address) };
    }

    unsafe fn upload(&mut self, to: u64, from: *const u8, bytes: usize) -> Answer<()> {
        let mut held = self.watch.held();
        held.seen.uploads += 1;
        held.seen.uploaded += bytes as u64;
        drop(held);
        // SAFETY: the caller's promise.
        unsafe { self.domain.upload(to, from, bytes) }
    }

    unsafe fn download(&mut self, to: *mut u8, from: u64, bytes: usize) -> Answer<()> {
        let mut held = self.watch.held();
        held.seen.downloads += 1;
        held.seen.downloaded += bytes as u64;
        drop(held);
        // SAFETY: the caller's promise.
        unsafe { self.domain.download(to, from, bytes) }
    }

    unsafe fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Answer<()> {
        // SAFETY: the caller's promise.
        unsafe { self.domain.copy(to, from, bytes) }
    }

    fn synchronize(&mut self) -> Answer<()> {
        self.domain.synchronize()
    }

    fn mark(&mut self, number: u32) -> Answer<()> {
        self.domain.mark(number)
    }

    fn elapsed(&mut self, from: u32, to: u32) -> Answer<f64> {
        self.domain.elapsed(from, to)
    }

    fn begin_recording(&mut self) -> Answer<()> {
        self.domain.begin_recording()
    }

    fn end_recording(&mut self) -> Answer<u64> {
        self.domain.end_recording()
    }

    fn replay(&mut self, recording: u64) -> Answer<()> {
        self.watch.held().seen.replays += 1;
        self.domain.replay(recording)
    }

    fn forget(&mut self, recording: u64) {
        self.domain.forget(recording);
    }
}

//! Memory that is not the host's: domains, such as `cuda:0`, and regions that run on one.
//!
//! A backend whose description names a domain runs its regions there ([`crate::DeviceRuntime::load`]): they take and give
//! addresses of that memory, and what they do is put into the one queue of the domain. Regions of several backends that
//! share a domain pass addresses to each other. Core plans the memory, sends each constant there once, and copies between
//! the host and the domain where a value crosses.

use serde::{Deserialize, Serialize};

use crate::constants::BoundConstant;
pub use crate::domain_tables::DomainHandles;
use crate::dtype::DType;
use crate::error::Error;
use crate::region::ConstantId;
use crate::runtime::StepTime;

/// Where memory of a device begins, and every tensor in it: at multiples of so many bytes.
pub const DEVICE_ALIGNMENT: usize = 256;

/// Where page-locked host memory begins: a cache line, as all memory that core gives to `run`.
pub const HOST_ALIGNMENT: usize = 64;

/// What a backend says that only joins domains.
pub const OPENS_NO_DOMAIN: &str = "this backend opens no memory domain";

/// What a domain is. Later versions may have more fields, so end a literal with `..DomainInfo::default()`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainInfo {
    /// What it is, in one line: the device's product name and version.
    pub title: String,
    /// Bytes of memory that it has, free or not.
    pub memory: u64,
    /// Whether work can be recorded once and replayed ([`Domain::begin_recording`]).
    #[serde(default)]
    pub records: bool,
    /// The libraries behind it, with their versions and files, a line each. `byoc check --device` prints them.
    #[serde(default)]
    pub libraries: Vec<String>,
}

/// An open domain: memory of a device, and a queue of work on it. Every domain that is opened has a queue of its own. Calls
/// may come from any thread, one at a time. Addresses are those of the device; all that is allocated begins at a multiple of
/// 256 bytes. Dropping it waits for the work and releases what is left.
pub trait Domain: Send {
    /// What it is.
    fn info(&self) -> DomainInfo;

    /// How backends join it. Good for as long as the domain.
    fn handles(&self) -> DomainHandles;

    /// Memory of the device: at least one byte. An error where there is not as much.
    fn allocate(&mut self, bytes: u64) -> Result<u64, Error>;

    /// Gives memory back.
    ///
    /// # Safety
    /// `address` came from [`Domain::allocate`] of this domain and is not used any more, by queued work neither.
    unsafe fn release(&mut self, address: u64);

    /// Host memory from which, and to which, the device copies without a detour (page-locked): at least one byte.
    fn allocate_host(&mut self, bytes: usize) -> Result<*mut u8, Error>;

    /// Gives host memory back.
    ///
    /// # Safety
    /// As for [`Domain::release`], of [`Domain::allocate_host`].
    unsafe fn release_host(&mut self, address: *mut u8);

    /// Queues a copy from the host.
    ///
    /// # Safety
    /// Both ranges are of `bytes`; those at `from` stay readable and unchanged until [`Domain::synchronize`].
    unsafe fn upload(&mut self, to: u64, from: *const u8, bytes: usize) -> Result<(), Error>;

    /// Queues a copy to the host.
    ///
    /// # Safety
    /// Both ranges are of `bytes`; nobody reads or writes those at `to` until [`Domain::synchronize`].
    unsafe fn download(&mut self, to: *mut u8, from: u64, bytes: usize) -> Result<(), Error>;

    /// Queues a copy within the device.
    ///
    /// # Safety
    /// Both ranges are of `bytes` and do not overlap. That at `to` is memory of this domain. That at `from` may be memory that a program has
    /// allocated itself in the context of [`Domain::handles`]; so may that of [`Domain::download`].
    unsafe fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), Error>;

    /// Waits for all that is queued. Work that went wrong since the last call is an error here.
    fn synchronize(&mut self) -> Result<(), Error>;

    /// Queues taking the time, under a number. Numbers are small.
    fn mark(&mut self, number: u32) -> Result<(), Error>;

    /// Seconds between two marks that the queue has passed.
    fn elapsed(&mut self, from: u32, to: u32) -> Result<f64, Error>;

    /// From here on, work is recorded and not done. Only for domains that say so ([`DomainInfo::records`]). Until the end of
    /// the recording, which comes from the same thread, regions are run and nothing else is called.
    fn begin_recording(&mut self) -> Result<(), Error> {
        Err(Error::new("this domain records nothing"))
    }

    /// Ends the recording and makes it fit for [`Domain::replay`]: a number by which it is known. Also ends it where it
    /// fails.
    fn end_recording(&mut self) -> Result<u64, Error> {
        Err(Error::new("this domain records nothing"))
    }

    /// Queues what was recorded.
    fn replay(&mut self, _recording: u64) -> Result<(), Error> {
        Err(Error::new("this domain records nothing"))
    }

    /// Forgets a recording. Unknown numbers are not an error.
    fn forget(&mut self, _recording: u64) {}
}

/// A tensor in a domain: row-major and contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTensor<'a> {
    /// Where its first element is, at a multiple of 256 bytes; 0 where the address is not known yet.
    pub address: u64,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: &'a [i64],
}

/// A constant that a region on a device is given.
#[derive(Clone, Copy)]
pub struct DeviceConstant<'a> {
    /// Id, layout, and the bytes on the host.
    pub bound: BoundConstant<'a>,
    /// Where the element of index 0 is on the device; type, shape and strides are those of the view.
    pub address: u64,
}

/// The constants bound to a region on a device, by id.
pub struct DeviceConstants<'a> {
    entries: Vec<DeviceConstant<'a>>,
}

impl<'a> DeviceConstants<'a> {
    /// A list of bound constants.
    pub fn new(entries: Vec<DeviceConstant<'a>>) -> Self {
        DeviceConstants { entries }
    }

    /// Every bound constant.
    pub fn iter(&self) -> impl Iterator<Item = &DeviceConstant<'a>> {
        self.entries.iter()
    }

    /// A constant that was claimed as `Host`.
    pub fn host(&self, id: ConstantId) -> Result<DeviceConstant<'a>, Error> {
        let entry = self.find(id)?;
        entry.bound.original()?;
        Ok(entry)
    }

    /// A constant that was claimed as `Packed` with this layout. A different layout is an error, never a wrong result.
    pub fn packed(&self, id: ConstantId, layout: &str) -> Result<DeviceConstant<'a>, Error> {
        let entry = self.find(id)?;
        entry.bound.packed_as(layout)?;
        Ok(entry)
    }

    fn find(&self, id: ConstantId) -> Result<DeviceConstant<'a>, Error> {
        let found = self.entries.iter().find(|entry| entry.bound.id == id);
        found.copied().ok_or_else(|| Error::new(format!("constant {id} is not bound")))
    }
}

/// What a region needs for tensors of given shapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePlan {
    /// Bytes of scratch memory, whose content is lost from one run to the next.
    #[serde(default)]
    pub scratch: u64,
    /// Whether [`DeviceExecutable::run`] may be recorded.
    #[serde(default = "yes")]
    pub records: bool,
    /// Whether a recording of [`DeviceExecutable::run`] stays good when the region is planned and prepared for other tensors: what was
    /// queued reads nothing that those calls change or give back. Then the host may keep recordings for several sets of shapes.
    #[serde(default)]
    pub recordings_last: bool,
}

fn yes() -> bool {
    true
}

impl Default for DevicePlan {
    fn default() -> Self {
        DevicePlan { scratch: 0, records: true, recordings_last: false }
    }
}

/// A region that is loaded on a device. Dropped only when its work is done.
pub trait DeviceExecutable: Send {
    /// What it needs for tensors of these types and shapes, which are without addresses still. Called once for each set
    /// of shapes, before [`DeviceExecutable::prepare`]; may be slow, and may use the device.
    fn plan(&mut self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]) -> Result<DevicePlan, Error>;

    /// Makes ready to run on the tensors at these addresses, of the shapes that were planned last, with scratch memory at
    /// `scratch` (0 if none was asked for). Inputs and outputs do not overlap. May be slow, and may use the device.
    fn prepare(&mut self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>], scratch: u64)
    -> Result<(), Error>;

    /// Queues the work on what was prepared last. Allocates, copies to or from the host and waits for nothing, so that it
    /// can be recorded.
    fn run(&mut self) -> Result<(), Error>;

    /// Takes the time of each step of the runs that follow, for [`DeviceExecutable::steps`], or no longer does. Until this is called
    /// no time is taken, which should cost nothing. While times are taken no run is recorded. A backend that does not tell its
    /// steps leaves both out.
    fn time_steps(&mut self, _on: bool) -> Result<(), Error> {
        Ok(())
    }

    /// What the last run consisted of, in the order in which it ran, where times were taken. The host has waited for it.
    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        Ok(Vec::new())
    }
}

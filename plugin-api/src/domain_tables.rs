//! The wire of two optional abilities. `byoc.domain` opens memory that is not the host's, `byoc.device` runs regions
//! there. A backend may have the second without the first, and join a domain that another one opened.

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use std::ffi::c_void;

use crate::abi::{ConstantView, Sink, Slice, TensorList};
use crate::dlpack::DLDevice;

/// What `extension` is asked for; the answer is a [`DomainTable`].
pub(crate) const DOMAIN_ID: &str = "byoc.domain";

/// The version that `extension` is asked for.
pub const DOMAIN_VERSION: u32 = 1;

/// What `extension` is asked for; the answer is a [`DeviceTable`].
pub(crate) const DEVICE_ID: &str = "byoc.device";

/// The version that `extension` is asked for.
pub const DEVICE_VERSION: u32 = 1;

/// How a plugin joins a domain that another one opened: the device, and what its own calls for it need. For a device of
/// type 2 (CUDA), `context` is the primary context of the ordinal (a `CUcontext`) and `queue` a `CUstream` of it, never
/// the legacy one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainHandles {
    /// DLPack's type of the device, and its ordinal.
    pub device: DLDevice,
    /// What the device's libraries call a context; may be null where they have none.
    pub context: *mut c_void,
    /// The queue that all work goes into, in order; may be null where there is only one.
    pub queue: *mut c_void,
}

// SAFETY: two opaque handles, which nothing here dereferences; what they stand for may be used from any one thread at a
// time, as the contract of domains says.
unsafe impl Send for DomainHandles {}
// SAFETY: see above; there is nothing to write to.
unsafe impl Sync for DomainHandles {}

/// A constant on a device: on the host it is at `constant.tensor`, and its element of index 0 is at `address` on the device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceConstantView {
    /// Id, layout, type, shape, strides, and the bytes on the host.
    pub constant: ConstantView,
    /// The address on the device.
    pub address: u64,
}

/// Borrowed constants on a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceConstantList {
    /// First entry; may be null when `len` is 0.
    pub data: *const DeviceConstantView,
    /// Number of entries.
    pub len: usize,
}

/// The functions of a backend that opens a memory domain. All are there. Calls for one domain come one at a time, from any
/// thread. What is queued is done in order; memory that a queued copy reads or writes is left alone until `synchronize`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DomainTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Opens the device of that ordinal with a queue of its own, stores a handle, not null, in `domain`, what others need to
    /// join in `handles`, and writes a `DomainInfo` to `out`. `options` are the backend's `run_options`.
    pub open: extern "C" fn(
        backend: usize,
        ordinal: u32,
        options: Slice,
        domain: *mut *mut c_void,
        handles: *mut DomainHandles,
        out: Sink,
        error: Sink,
    ) -> i32,
    /// Waits for what is queued and ends a domain.
    pub close: extern "C" fn(domain: *mut c_void),
    /// Stores in `address` where `bytes` of the device's memory begin, at a multiple of 256.
    pub allocate: extern "C" fn(domain: *mut c_void, bytes: u64, address: *mut u64, error: Sink) -> i32,
    /// Gives memory back.
    pub release: extern "C" fn(domain: *mut c_void, address: u64),
    /// Stores in `address` where `bytes` of page-locked host memory begin, at a multiple of 64.
    pub allocate_host: extern "C" fn(domain: *mut c_void, bytes: usize, address: *mut *mut c_void, error: Sink) -> i32,
    /// Gives host memory back.
    pub release_host: extern "C" fn(domain: *mut c_void, address: *mut c_void),
    /// Queues a copy from the host.
    pub upload: extern "C" fn(domain: *mut c_void, to: u64, from: *const c_void, bytes: usize, error: Sink) -> i32,
    /// Queues a copy to the host, from memory of the domain or from what a program has allocated itself in the context of the handles.
    pub download: extern "C" fn(domain: *mut c_void, to: *mut c_void, from: u64, bytes: usize, error: Sink) -> i32,
    /// Queues a copy within the device, to memory of the domain, from there or from where `download` copies from.
    pub copy: extern "C" fn(domain: *mut c_void, to: u64, from: u64, bytes: usize, error: Sink) -> i32,
    /// Waits for what is queued; fails where any of it went wrong.
    pub synchronize: extern "C" fn(domain: *mut c_void, error: Sink) -> i32,
    /// Queues taking the time under a number.
    pub mark: extern "C" fn(domain: *mut c_void, number: u32, error: Sink) -> i32,
    /// Stores the seconds between two marks that the queue has passed.
    pub elapsed: extern "C" fn(domain: *mut c_void, from: u32, to: u32, seconds: *mut f64, error: Sink) -> i32,
    /// Records what is queued from here on in place of doing it. Until the end of the recording, which comes from the same
    /// thread, regions are run and nothing else is called.
    pub begin_recording: extern "C" fn(domain: *mut c_void, error: Sink) -> i32,
    /// Ends the recording, also where it fails, and stores a number for it.
    pub end_recording: extern "C" fn(domain: *mut c_void, recording: *mut u64, error: Sink) -> i32,
    /// Queues what was recorded.
    pub replay: extern "C" fn(domain: *mut c_void, recording: u64, error: Sink) -> i32,
    /// Forgets a recording.
    pub forget: extern "C" fn(domain: *mut c_void, recording: u64),
}

/// The functions of a backend whose regions run in the domain that its description names. All are there.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Makes a region ready for a domain, which outlives it, and stores a handle, not null, in `executable`. Code and
    /// constants stay as they are, on the host and on the device, until it is freed.
    pub load: extern "C" fn(
        backend: usize,
        code: Slice,
        constants: DeviceConstantList,
        environment: Slice,
        domain: *const DomainHandles,
        executable: *mut *mut c_void,
        error: Sink,
    ) -> i32,
    /// Writes to `out` what tensors of these shapes need, a `DevicePlan`. Their addresses are not known yet.
    pub plan:
        extern "C" fn(executable: *mut c_void, inputs: TensorList, outputs: TensorList, out: Sink, error: Sink) -> i32,
    /// Makes ready to run on tensors at these addresses, which are those of the device.
    pub prepare: extern "C" fn(
        executable: *mut c_void,
        inputs: TensorList,
        outputs: TensorList,
        scratch: u64,
        error: Sink,
    ) -> i32,
    /// Queues the work on what was prepared last.
    pub run: extern "C" fn(executable: *mut c_void, error: Sink) -> i32,
    /// Ends an executable.
    pub free: extern "C" fn(executable: *mut c_void),
}

//! A memory domain that a plugin opened.

use std::ffi::c_void;

use super::answer::{collect, failure, json, one_line, parsed};
use crate::abi::{self, Sink, Slice};
use crate::domain::{DEVICE_ALIGNMENT, Domain, DomainHandles, DomainInfo, HOST_ALIGNMENT};
use crate::domain_tables::DomainTable;
use crate::error::Error;
use crate::export;
use crate::options::Options;

pub(super) struct PluginDomain {
    table: DomainTable,
    handle: *mut c_void,
    info: DomainInfo,
    handles: DomainHandles,
}

// SAFETY: the contract lets calls come from any thread, one at a time; the handle is opaque.
unsafe impl Send for PluginDomain {}

impl PluginDomain {
    pub(super) fn open(
        table: DomainTable,
        backend: usize,
        ordinal: u32,
        options: &Options,
    ) -> Result<PluginDomain, Error> {
        let options = json(options)?;
        let mut handle = std::ptr::null_mut();
        let mut handles =
            DomainHandles { device: crate::dlpack::CPU, context: std::ptr::null_mut(), queue: std::ptr::null_mut() };
        let (status, out, error) = collect(|out, error| {
            (table.open)(backend, ordinal, Slice::new(&options), &mut handle, &mut handles, out, error)
        });
        match (status, handle.is_null()) {
            (abi::OK, false) => {}
            (abi::OK, true) => return Err(Error::new("the plugin opened the domain and gave no handle")),
            (status, _) => return Err(failure(status, &error)),
        }
        // From here on, dropping it closes it.
        let mut opened = PluginDomain { table, handle, info: DomainInfo::default(), handles };
        opened.info = in_one_line(parsed(&out)?);
        Ok(opened)
    }

    /// A domain of a backend that is linked into this program. Panics of its first calls are the caller's to catch.
    pub(super) fn linked(domain: Box<dyn Domain>) -> PluginDomain {
        let (handle, info, handles) = export::domain::handle_of(domain);
        PluginDomain { table: *export::domain::TABLE, handle, info: in_one_line(info), handles }
    }
}

fn in_one_line(info: DomainInfo) -> DomainInfo {
    let libraries = info.libraries.iter().map(|line| one_line(line)).collect();
    DomainInfo { title: one_line(&info.title), libraries, ..info }
}

/// Nobody trusts such an address enough to give it back; what was allocated goes with the domain.
fn misaligned(what: &str, address: u64, alignment: usize) -> Error {
    Error::new(format!("the plugin allocated {what} at {address:#x}, which is not a multiple of {alignment}"))
}

/// The error of a call that answers with a status alone.
fn check(call: impl FnOnce(Sink) -> i32) -> Result<(), Error> {
    let (status, _, error) = collect(|_, error| call(error));
    if status == abi::OK { Ok(()) } else { Err(failure(status, &error)) }
}

impl Domain for PluginDomain {
    fn info(&self) -> DomainInfo {
        self.info.clone()
    }

    fn handles(&self) -> DomainHandles {
        self.handles
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, Error> {
        let mut address = 0;
        check(|error| (self.table.allocate)(self.handle, bytes, &mut address, error))?;
        match address {
            0 => Err(Error::new("the plugin allocated memory at address 0")),
            address if !address.is_multiple_of(DEVICE_ALIGNMENT as u64) => {
                Err(misaligned("memory", address, DEVICE_ALIGNMENT))
            }
            address => Ok(address),
        }
    }

    unsafe fn release(&mut self, address: u64) {
        (self.table.release)(self.handle, address);
    }

    fn allocate_host(&mut self, bytes: usize) -> Result<*mut u8, Error> {
        let mut address = std::ptr::null_mut();
        check(|error| (self.table.allocate_host)(self.handle, bytes, &mut address, error))?;
        match address.addr() as u64 {
            0 => Err(Error::new("the plugin allocated host memory at address 0")),
            at if !at.is_multiple_of(HOST_ALIGNMENT as u64) => Err(misaligned("host memory", at, HOST_ALIGNMENT)),
            _ => Ok(address.cast()),
        }
    }

    unsafe fn release_host(&mut self, address: *mut u8) {
        (self.table.release_host)(self.handle, address.cast());
    }

    unsafe fn upload(&mut self, to: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        check(|error| (self.table.upload)(self.handle, to, from.cast(), bytes, error))
    }

    unsafe fn download(&mut self, to: *mut u8, from: u64, bytes: usize) -> Result<(), Error> {
        check(|error| (self.table.download)(self.handle, to.cast(), from, bytes, error))
    }

    unsafe fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        check(|error| (self.table.copy)(self.handle, to, from, bytes, error))
    }

    fn synchronize(&mut self) -> Result<(), Error> {
        check(|error| (self.table.synchronize)(self.handle, error))
    }

    fn mark(&mut self, number: u32) -> Result<(), Error> {
        check(|error| (self.table.mark)(self.handle, number, error))
    }

    fn elapsed(&mut self, from: u32, to: u32) -> Result<f64, Error> {
        let mut seconds = 0.0;
        check(|error| (self.table.elapsed)(self.handle, from, to, &mut seconds, error))?;
        Ok(seconds)
    }

    fn begin_recording(&mut self) -> Result<(), Error> {
        check(|error| (self.table.begin_recording)(self.handle, error))
    }

    fn end_recording(&mut self) -> Result<u64, Error> {
        let mut recording = 0;
        check(|error| (self.table.end_recording)(self.handle, &mut recording, error))?;
        Ok(recording)
    }

    fn replay(&mut self, recording: u64) -> Result<(), Error> {
        check(|error| (self.table.replay)(self.handle, recording, error))
    }

    fn forget(&mut self, recording: u64) {
        (self.table.forget)(self.handle, recording);
    }
}

impl Drop for PluginDomain {
    fn drop(&mut self) {
        (self.table.close)(self.handle);
    }
}

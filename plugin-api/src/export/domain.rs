//! The functions of the ability `byoc.domain`: each calls the [`Domain`] behind its handle.

use std::ffi::c_void;

use super::{backend, guard, parse, write_json};
use crate::abi::{Sink, Slice};
use crate::domain::{Domain, DomainHandles, DomainInfo};
use crate::domain_tables::DomainTable;
use crate::error::Error;
use crate::panics::{Guard, guarded, quietly};

pub(crate) const TABLE: &DomainTable = &DomainTable {
    struct_size: size_of::<DomainTable>(),
    open,
    close,
    allocate,
    release,
    allocate_host,
    release_host,
    upload,
    download,
    copy,
    synchronize,
    mark,
    elapsed,
    begin_recording,
    end_recording,
    replay,
    forget,
};

/// What a handle points to.
type Opened = Guard<dyn Domain>;

/// A handle for the functions of [`TABLE`], and what the host is told of the domain. Panics are the caller's to catch.
pub(crate) fn handle_of(domain: Box<dyn Domain>) -> (*mut c_void, DomainInfo, DomainHandles) {
    let (info, handles) = (domain.info(), domain.handles());
    (Box::into_raw(Box::new(Opened::new(domain))).cast(), info, handles)
}

extern "C" fn open(
    index: usize,
    ordinal: u32,
    options: Slice,
    domain: *mut *mut c_void,
    handles: *mut DomainHandles,
    out: Sink,
    error: Sink,
) -> i32 {
    guard(error, || {
        let (handle, info, joins) =
            handle_of(backend(index)?.runtime().device()?.open_domain(ordinal, &parse(options)?)?);
        // SAFETY: the host gives valid places for both.
        unsafe {
            *handles = joins;
            *domain = handle;
        }
        write_json(out, &info)
    })
}

extern "C" fn close(domain: *mut c_void) {
    if domain.is_null() {
        return;
    }
    quietly(|| {
        // SAFETY: the handle came from `open` and the host closes it once.
        drop(unsafe { Box::from_raw(domain.cast::<Opened>()) });
    });
}

/// The domain behind a handle.
///
/// # Safety
/// The handle came from `open`, is not closed yet, and no other call for it is running.
unsafe fn at<'a>(domain: *mut c_void) -> &'a mut Opened {
    // SAFETY: the caller vouches for the handle.
    unsafe { &mut *domain.cast::<Opened>() }
}

/// Runs a call for a domain.
fn with(domain: *mut c_void, error: Sink, call: impl FnOnce(&mut dyn Domain) -> Result<(), Error>) -> i32 {
    // SAFETY: the host keeps to the contract of domains.
    guard(error, || unsafe { at(domain) }.call(|domain| call(domain)))
}

/// Runs a call that has no answer.
fn tell(domain: *mut c_void, call: impl FnOnce(&mut dyn Domain)) {
    let call = |domain: &mut Opened| {
        domain.call(|domain| {
            call(domain);
            Ok(())
        })
    };
    // SAFETY: the host keeps to the contract of domains. After a panic there is nobody to tell.
    let _ = guarded(|| call(unsafe { at(domain) }));
}

/// Runs a call that gives a number, which goes to `place`.
fn give<T>(
    domain: *mut c_void,
    place: *mut T,
    error: Sink,
    call: impl FnOnce(&mut dyn Domain) -> Result<T, Error>,
) -> i32 {
    with(domain, error, |domain| {
        let value = call(domain)?;
        // SAFETY: the host gives a valid place.
        unsafe { place.write(value) };
        Ok(())
    })
}

extern "C" fn allocate(domain: *mut c_void, bytes: u64, address: *mut u64, error: Sink) -> i32 {
    give(domain, address, error, |domain| domain.allocate(bytes))
}

extern "C" fn release(domain: *mut c_void, address: u64) {
    // SAFETY: the host keeps to the contract of `Domain::release`.
    tell(domain, |domain| unsafe { domain.release(address) });
}

extern "C" fn allocate_host(domain: *mut c_void, bytes: usize, address: *mut *mut c_void, error: Sink) -> i32 {
    give(domain, address, error, |domain| domain.allocate_host(bytes).map(<*mut u8>::cast))
}

extern "C" fn release_host(domain: *mut c_void, address: *mut c_void) {
    // SAFETY: the host keeps to the contract of `Domain::release_host`.
    tell(domain, |domain| unsafe { domain.release_host(address.cast()) });
}

extern "C" fn upload(domain: *mut c_void, to: u64, from: *const c_void, bytes: usize, error: Sink) -> i32 {
    // SAFETY: the host keeps to the contract of `Domain::upload`.
    with(domain, error, |domain| unsafe { domain.upload(to, from.cast(), bytes) })
}

extern "C" fn download(domain: *mut c_void, to: *mut c_void, from: u64, bytes: usize, error: Sink) -> i32 {
    // SAFETY: the host keeps to the contract of `Domain::download`.
    with(domain, error, |domain| unsafe { domain.download(to.cast(), from, bytes) })
}

extern "C" fn copy(domain: *mut c_void, to: u64, from: u64, bytes: usize, error: Sink) -> i32 {
    // SAFETY: the host keeps to the contract of `Domain::copy`.
    with(domain, error, |domain| unsafe { domain.copy(to, from, bytes) })
}

extern "C" fn synchronize(domain: *mut c_void, error: Sink) -> i32 {
    with(domain, error, |domain| domain.synchronize())
}

extern "C" fn mark(domain: *mut c_void, number: u32, error: Sink) -> i32 {
    with(domain, error, |domain| domain.mark(number))
}

extern "C" fn elapsed(domain: *mut c_void, from: u32, to: u32, seconds: *mut f64, error: Sink) -> i32 {
    give(domain, seconds, error, |domain| domain.elapsed(from, to))
}

extern "C" fn begin_recording(domain: *mut c_void, error: Sink) -> i32 {
    with(domain, error, |domain| domain.begin_recording())
}

extern "C" fn end_recording(domain: *mut c_void, recording: *mut u64, error: Sink) -> i32 {
    give(domain, recording, error, |domain| domain.end_recording())
}

extern "C" fn replay(domain: *mut c_void, recording: u64, error: Sink) -> i32 {
    with(domain, error, |domain| domain.replay(recording))
}

extern "C" fn forget(domain: *mut c_void, recording: u64) {
    tell(domain, |domain| domain.forget(recording));
}

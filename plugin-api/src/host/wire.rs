//! How calls reach a backend that is not part of this program: through the functions of a library that is open here, or
//! through whoever has it open in another process and makes the same calls there.

use std::ffi::c_void;
use std::sync::Arc;

use super::answer::{collect, failure};
use super::device::PluginDeviceExecutable;
use super::domain::PluginDomain;
use super::events::SINK;
use super::executable::{Abilities, PluginExecutable};
use crate::abi::{self, ConstantList, ConstantView, Output, Slice, SliceList};
use crate::call::{Answer, Call, Part};
use crate::constants::{BoundConstant, BoundConstants, Constants};
use crate::domain::{DeviceConstants, DeviceExecutable, Domain, DomainHandles, OPENS_NO_DOMAIN};
use crate::domain_tables::{DEVICE_ID, DEVICE_VERSION, DOMAIN_ID, DOMAIN_VERSION, DeviceTable, DomainTable};
use crate::error::Error;
use crate::events_table::{EVENTS_ID, EVENTS_VERSION, EventsTable};
use crate::options::Options;
use crate::runtime::Executable;
use crate::sized_table::{SIZED_ID, SIZED_VERSION, SizedTable};
use crate::steps_table::{DEVICE_STEPS_ID, DEVICE_STEPS_VERSION, STEPS_ID, STEPS_VERSION, StepsTable};
use crate::strings_table::{STRINGS_ID, STRINGS_VERSION, StringsTable};
use crate::table::PluginTable;

/// Where a plugin is open.
pub trait Wire: Send + Sync {
    /// Calls a method of the backend of that index. An error of `answer` ends the call and is its result; otherwise what
    /// came of it is for the caller to judge.
    fn call(&self, backend: usize, call: &Call<'_>, answer: &mut Answer<'_>) -> Result<Ending, Error>;

    /// The plugin in this process, for what is run.
    fn library(&self) -> Result<&Library, Error>;

    /// Makes a region ready to run, in the memory of the host; the environment is JSON. In this process, unless the wire knows better.
    fn load<'a>(
        self: Arc<Self>,
        backend: usize,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &[u8],
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        self.library()?.load(backend, code, constants, environment)
    }
}

/// How a call ended, as the plugin says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// One of the statuses of the ABI, or something else.
    pub status: i32,
    /// What is in the error sink.
    pub error: Vec<u8>,
}

impl Ending {
    /// The ending of a call that could not be made.
    pub fn failed(error: &Error) -> Ending {
        Ending { status: abi::FAILED, error: serde_json::to_vec(error).unwrap_or_default() }
    }

    /// What a call that has no other answer comes to.
    pub fn result(&self) -> Result<(), Error> {
        if self.status == abi::OK { Ok(()) } else { Err(failure(self.status, &self.error)) }
    }
}

/// A plugin that is open in this process.
pub struct Library {
    pub(super) table: PluginTable,
}

/// Takes the answer of the call that is running.
struct Taker<'a, 'b> {
    answer: &'a mut Answer<'b>,
    failed: Option<Error>,
}

impl Taker<'_, '_> {
    fn take(&mut self, part: Part<'_>) -> i32 {
        match (self.answer)(part) {
            Ok(()) => abi::OK,
            Err(error) => {
                // The first error is the cause; what follows are its consequences.
                self.failed.get_or_insert(error);
                abi::FAILED
            }
        }
    }
}

extern "C" fn take_item(context: *mut c_void, json: Slice) -> i32 {
    // SAFETY: `context` is the taker of the running call; the plugin lends `json` for this one.
    let (taker, json) = unsafe { (&mut *context.cast::<Taker<'_, '_>>(), json.bytes()) };
    taker.take(Part::Item(json))
}

extern "C" fn take_bytes(context: *mut c_void, bytes: Slice) -> i32 {
    // SAFETY: as in `take_item`.
    let (taker, bytes) = unsafe { (&mut *context.cast::<Taker<'_, '_>>(), bytes.bytes()) };
    taker.take(Part::Bytes(bytes))
}

extern "C" fn take_event(context: *mut c_void, json: Slice) -> i32 {
    // SAFETY: as in `take_item`.
    let (taker, json) = unsafe { (&mut *context.cast::<Taker<'_, '_>>(), json.bytes()) };
    taker.take(Part::Event(json))
}

impl Wire for Library {
    fn call(&self, backend: usize, call: &Call<'_>, answer: &mut Answer<'_>) -> Result<Ending, Error> {
        let views = constant_views(call.constants);
        let mut taker = Taker { answer, failed: None };
        let context = std::ptr::from_mut(&mut taker).cast();
        let out = Output { context, item: take_item, write: take_bytes, event: take_event };
        let (method, request) = (Slice::new(call.method.as_bytes()), Slice::new(call.request));
        let blobs: Vec<_> = call.blobs.iter().map(|blob| Slice::new(blob)).collect();
        let blobs = SliceList::new(&blobs);
        let (status, _, error) =
            collect(|_, error| (self.table.call)(backend, method, request, list(&views), blobs, out, error));
        taker.failed.map_or(Ok(Ending { status, error }), Err)
    }

    fn library(&self) -> Result<&Library, Error> {
        Ok(self)
    }
}

impl BoundConstant<'_> {
    /// The constant as it crosses the border.
    pub(super) fn wire(&self) -> ConstantView {
        let layout = Slice::new(self.layout.unwrap_or("").as_bytes());
        ConstantView { id: self.id.0, layout, tensor: self.view.to_dlpack() }
    }
}

fn constant_views(constants: &Constants<'_>) -> Vec<ConstantView> {
    let layout = Slice::new(&[]);
    constants.iter().map(|(id, view)| ConstantView { id: id.0, layout, tensor: view.to_dlpack() }).collect()
}

fn list(views: &[ConstantView]) -> ConstantList {
    ConstantList { data: views.as_ptr(), len: views.len() }
}

impl Library {
    /// Makes a region ready to run; the environment is JSON.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    pub fn load<'a>(
        &self,
        backend: usize,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &[u8],
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let views: Vec<_> = constants.iter().map(BoundConstant::wire).collect();
        let mut handle = std::ptr::null_mut();
        let (status, _, error) = collect(|_, error| {
            let (code, environment) = (Slice::new(code), Slice::new(environment));
            (self.table.load)(backend, code, list(&views), environment, &mut handle, error)
        });
        match (status, handle.is_null()) {
            (abi::OK, false) => {
                // SAFETY: id, version and table belong together.
                let sized: Option<SizedTable> = unsafe { self.extension(backend, SIZED_ID, SIZED_VERSION) };
                // SAFETY: as above.
                let strings: Option<StringsTable> = unsafe { self.extension(backend, STRINGS_ID, STRINGS_VERSION) };
                // SAFETY: as above.
                let steps: Option<StepsTable> = unsafe { self.extension(backend, STEPS_ID, STEPS_VERSION) };
                Ok(Box::new(PluginExecutable::new(self.table, Abilities { sized, strings, steps }, handle)))
            }
            (abi::OK, true) => Err(Error::new("the plugin loaded the region and gave no handle")),
            (status, _) => Err(failure(status, &error)),
        }
    }

    /// Lends the plugin a place for events, if it has any.
    pub(super) fn lend_events(&self) {
        // SAFETY: id, version and table belong together.
        let table: Option<EventsTable> = unsafe { self.extension(0, EVENTS_ID, EVENTS_VERSION) };
        if let Some(table) = table {
            (table.lend)(SINK);
        }
    }

    pub(super) fn open_domain(
        &self,
        backend: usize,
        ordinal: u32,
        options: &Options,
    ) -> Result<Box<dyn Domain>, Error> {
        // SAFETY: id, version and table belong together.
        let table: Option<DomainTable> = unsafe { self.extension(backend, DOMAIN_ID, DOMAIN_VERSION) };
        let table = table.ok_or_else(|| Error::new(OPENS_NO_DOMAIN))?;
        Ok(Box::new(PluginDomain::open(table, backend, ordinal, options)?))
    }

    /// Makes a region ready to run in a domain; the environment is JSON.
    pub(super) fn load_on<'a>(
        &self,
        backend: usize,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &[u8],
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        // SAFETY: id, version and table belong together.
        let table: Option<DeviceTable> = unsafe { self.extension(backend, DEVICE_ID, DEVICE_VERSION) };
        let table = table.ok_or_else(|| Error::new("this backend runs in host memory only"))?;
        // SAFETY: as above.
        let steps: Option<StepsTable> = unsafe { self.extension(backend, DEVICE_STEPS_ID, DEVICE_STEPS_VERSION) };
        Ok(Box::new(PluginDeviceExecutable::load(table, steps, backend, code, constants, environment, domain)?))
    }

    /// A table of functions that few backends have, where the plugin has it: a struct of its size and of functions, all of
    /// which are there.
    ///
    /// # Safety
    /// `T` is the table that stands for `id` and `version` in the contract.
    unsafe fn extension<T: Copy>(&self, backend: usize, id: &str, version: u32) -> Option<T> {
        const WORD: usize = size_of::<usize>();
        let table = (self.table.extension)(backend, Slice::new(id.as_bytes()), version);
        if table.is_null() {
            return None;
        }
        let words = table.cast::<usize>();
        // SAFETY: by contract such a table starts with its size, which covers what else is read. A function pointer must
        // not even be read as one while it may be null.
        unsafe {
            let functions = 1..size_of::<T>() / WORD;
            let present = *words >= size_of::<T>() && functions.into_iter().all(|at| *words.add(at) != 0);
            present.then(|| *table.cast::<T>())
        }
    }
}

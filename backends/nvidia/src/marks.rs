//! Marks in a stream: CUDA events, created on first use and reused.

use std::collections::BTreeMap;

use byoc_plugin_api::Error;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{CUevent, CUevent_flags_enum as Flags, CUstream};

use crate::locate::{self, Driver, ElapsedTime};

/// The marks of one stream.
pub(crate) struct Marks {
    events: BTreeMap<u32, CUevent>,
    elapsed_time: ElapsedTime,
}

impl Marks {
    /// No marks yet.
    pub(crate) fn new(driver: &Driver) -> Result<Marks, Error> {
        Ok(Marks { events: BTreeMap::new(), elapsed_time: locate::elapsed_time(driver)? })
    }

    /// Records an event.
    ///
    /// # Safety
    /// The stream is one of the current context, and so were those of earlier calls.
    pub(crate) unsafe fn set(&mut self, number: u32, stream: CUstream) -> Result<(), DriverError> {
        let event = match self.get(number) {
            Some(event) => event,
            None => {
                let event = result::event::create(Flags::CU_EVENT_DEFAULT)?;
                self.events.insert(number, event);
                event
            }
        };
        // SAFETY: the event lives until `destroy`; the stream is the caller's to vouch for.
        unsafe { result::event::record(event, stream) }
    }

    /// The event of that number, if it was recorded before.
    pub(crate) fn get(&self, number: u32) -> Option<CUevent> {
        self.events.get(&number).copied()
    }

    /// Seconds between two events.
    ///
    /// # Safety
    /// Both came from [`Marks::get`], and the context is current.
    pub(crate) unsafe fn seconds(&self, from: CUevent, to: CUevent) -> Result<f64, DriverError> {
        let mut milliseconds = 0.0;
        // SAFETY: the caller vouches for the events; the driver writes to that variable only.
        unsafe { (self.elapsed_time)(&raw mut milliseconds, from, to) }.result()?;
        Ok(f64::from(milliseconds) / 1e3)
    }

    /// Destroys them. What fails is left to the end of the context.
    pub(crate) fn destroy(&mut self) {
        for event in std::mem::take(&mut self.events).into_values() {
            // SAFETY: it was made by `set`, and is known no more.
            let _ = unsafe { result::event::destroy(event) };
        }
    }
}

//! The wire of the optional ability `byoc.events`: what a backend tells while its regions are loaded and run.

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use std::ffi::c_void;

use crate::abi::Slice;

/// What `extension` is asked for; the answer is an [`EventsTable`].
pub(crate) const EVENTS_ID: &str = "byoc.events";

/// The version that `extension` is asked for.
pub const EVENTS_VERSION: u32 = 1;

/// The host's place for events. It is there as long as the plugin; `event` may be called from any thread, and costs little where nobody
/// listens.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EventSink {
    /// Given back to the function.
    pub context: *mut c_void,
    /// Takes an event, as JSON: a line of a log, `{"log": "8 tiles"}`, or how far the work is, `{"progress": {"done": 1, "total": 3,
    /// "next": "tile 2"}}`. Each is a sign of life, too. Returns [`OK`](crate::abi::OK), or [`FAILED`](crate::abi::FAILED) where it cannot
    /// be passed on.
    pub event: extern "C" fn(context: *mut c_void, json: Slice) -> i32,
}

/// The function of a plugin that tells what it does while regions are loaded and run. It is there.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EventsTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Lends the place for events to the plugin, once, before anything is loaded.
    pub lend: extern "C" fn(events: EventSink),
}

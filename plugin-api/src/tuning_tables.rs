//! The wire of two optional abilities. `byoc.tools` says what a backend uses on this machine, `byoc.candidates` gives other
//! code for a region.

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use std::ffi::c_void;

use crate::abi::{Sink, Slice};

/// What `extension` is asked for; the answer is a [`ToolsTable`].
pub(crate) const TOOLS_ID: &str = "byoc.tools";

/// The version that `extension` is asked for.
pub const TOOLS_VERSION: u32 = 1;

/// What `extension` is asked for; the answer is a [`CandidatesTable`].
pub(crate) const CANDIDATES_ID: &str = "byoc.candidates";

/// The version that `extension` is asked for.
pub const CANDIDATES_VERSION: u32 = 1;

/// Takes candidates, in their order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CandidateSink {
    /// Passed back to the function.
    pub context: *mut c_void,
    /// Takes the name of a candidate, in UTF-8, and its code. Anything but [`OK`] means that no more are taken.
    pub take: extern "C" fn(context: *mut c_void, name: Slice, code: Slice) -> i32,
}

/// The function of a backend that says what it uses on this machine.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ToolsTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Writes a list of `Tool` to `out`. `options` are all of the backend's, those of compiling and those of running.
    pub tools: extern "C" fn(backend: usize, options: Slice, out: Sink, error: Sink) -> i32,
}

/// The function of a backend whose description has `candidates`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CandidatesTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Gives `candidates` the code of a region and whatever else computes the same from the same constants, or nothing.
    /// The first one is `code`. `options` are those of the region and of this machine.
    pub candidates:
        extern "C" fn(backend: usize, code: Slice, options: Slice, candidates: CandidateSink, error: Sink) -> i32,
}

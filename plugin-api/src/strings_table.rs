//! The wire of the optional ability `byoc.strings`: regions with texts among their values.

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use std::ffi::c_void;

use crate::abi::{Sink, Slice};

/// What `extension` is asked for; the answer is a [`StringsTable`].
pub(crate) const STRINGS_ID: &str = "byoc.strings";

/// The version that `extension` is asked for.
pub const STRINGS_VERSION: u32 = 1;

/// The host's table of texts: an element of a tensor of strings is a handle of 64 bits in it. Handle 0 is the empty text. Its
/// functions may be called during a run, from any thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TextTable {
    /// Given back to the functions.
    pub context: *mut c_void,
    /// Stores in `text` the UTF-8 text that a handle stands for. It is good until the run ends. Returns [`OK`](crate::abi::OK), or
    /// [`FAILED`](crate::abi::FAILED) where the handle stands for nothing.
    pub get: extern "C" fn(context: *mut c_void, handle: u64, text: *mut Slice) -> i32,
    /// Stores in `handle` one that stands for a UTF-8 text, which the host copies. Returns [`OK`](crate::abi::OK), or
    /// [`FAILED`](crate::abi::FAILED) where it is not UTF-8 or there is no memory for it.
    pub add: extern "C" fn(context: *mut c_void, text: Slice, handle: *mut u64) -> i32,
}

/// The functions of a backend whose regions may have texts among their values. All are there.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StringsTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Lends the table to an executable that `load` gave, once and before its first run. The table is there until `free`.
    pub lend: extern "C" fn(executable: *mut c_void, texts: TextTable, error: Sink) -> i32,
}

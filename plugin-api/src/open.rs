//! The wire of an optional ability, `byoc.open`: the table that `extension` answers for a backend that opens files.

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use crate::abi::{Sink, Slice};

/// What `extension` is asked for; the answer is an [`OpenTable`].
pub(crate) const OPEN_ID: &str = "byoc.open";

/// The version that `extension` is asked for.
pub const OPEN_VERSION: u32 = 1;

/// The function of a backend whose description has `files`. It is static: the host may call it at any time.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpenTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Reads a file of one of the backend's formats, or code of a region, and writes a `CodeFile` to `out`.
    pub open: extern "C" fn(backend: usize, file: Slice, out: Sink, error: Sink) -> i32,
}

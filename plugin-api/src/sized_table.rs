//! The wire of the optional ability `byoc.sized`: regions with outputs of sizes that only their computation tells.

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use std::ffi::c_void;

use crate::abi::{Sink, TensorList};
use crate::dlpack::DLTensor;

/// What `extension` is asked for; the answer is a [`SizedTable`].
pub(crate) const SIZED_ID: &str = "byoc.sized";

/// The version that `extension` is asked for.
pub const SIZED_VERSION: u32 = 1;

/// Gives the memory of outputs, each once in a run, in any order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OutputAllocator {
    /// Given back to `allocate`.
    pub context: *mut c_void,
    /// Stores in `tensor` memory for the output of that index with this shape of `ndim` sizes: contiguous, at a multiple of 64
    /// bytes, of unspecified content. It is good until the run ends. Returns [`OK`](crate::abi::OK), or
    /// [`FAILED`](crate::abi::FAILED) where the host takes no output of that shape or has no memory for it: the run fails then.
    pub allocate: extern "C" fn(
        context: *mut c_void,
        output: usize,
        shape: *const i64,
        ndim: usize,
        tensor: *mut DLTensor,
    ) -> i32,
}

/// The functions of a backend whose regions may have outputs of sizes that only their computation tells. All are there.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SizedTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// As `run`, with outputs whose memory is asked for: every output of the region, once. `executable` is a handle of `load`.
    pub run_sized:
        extern "C" fn(executable: *mut c_void, inputs: TensorList, outputs: OutputAllocator, error: Sink) -> i32,
}

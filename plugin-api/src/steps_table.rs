//! The wire of the optional abilities `byoc.steps` and `byoc.device_steps`: what a run of a region consisted of, and how long
//! each part took.

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use std::ffi::c_void;

use crate::abi::Sink;

/// What `extension` is asked for; the answer is a [`StepsTable`].
pub(crate) const STEPS_ID: &str = "byoc.steps";

/// The version that `extension` is asked for.
pub const STEPS_VERSION: u32 = 1;

/// What `extension` is asked for where regions run on a device; the answer is a [`StepsTable`], too.
pub(crate) const DEVICE_STEPS_ID: &str = "byoc.device_steps";

/// The version that `extension` is asked for.
pub const DEVICE_STEPS_VERSION: u32 = 1;

/// The functions of a backend that tells what its regions consist of. All are there.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StepsTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Has the times of the steps taken in the runs that follow (`on` is 1), or no longer (0). Until the first call they are not
    /// taken, which must cost nothing. `executable` is a handle of `load`; in the answer to `byoc.device_steps` it is one of the `load`
    /// of `byoc.device`.
    pub time: extern "C" fn(executable: *mut c_void, on: u32, error: Sink) -> i32,
    /// Writes the steps of the last run, as JSON: a list of `{"kernel": "conv", "nodes": ["/conv1"], "start": 0.0, "seconds": 1e-3}` in
    /// the order in which they ran. `kernel` is what the backend calls it, `nodes` are the names of the nodes of the region that it
    /// computes, as far as they are known, and `start` is counted in seconds from the beginning of the run. Code that has no names
    /// has `indices` as well as `nodes` or instead of them: the positions of nodes in the region, such as `[0, 2]`. `operations` and
    /// `bytes`, where they are there, are how many multiplications and additions the step does and how many bytes it reads and
    /// writes: hosts show its time over them. On a device the host has waited for the run before it asks.
    pub read: extern "C" fn(executable: *mut c_void, out: Sink, error: Sink) -> i32,
}

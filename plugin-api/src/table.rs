//! The wire for plugins in C and C++: a plain table of the functions of [`crate::abi::PluginModule`]. The signatures
//! stand twice because abi_stable wants to see them and a C header as well; `host` copies one table into the other, so
//! the compiler sees to it that they are the same. `include/byoc_plugin.h` is generated from here, `abi.rs` and `dlpack.rs`.

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use std::ffi::c_void;

use crate::abi::{ConstantList, Output, Sink, Slice, SliceList, TensorList};

/// The same functions as a plugin written in C or C++ has them, under the symbol `byoc_plugin_table`. No function may be
/// null, and none may let an exception out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PluginTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Number of backends in the plugin.
    pub count: extern "C" fn() -> usize,
    /// Calls a method of a backend by its name. The request is JSON; `constants` are those of its region, `blobs` what else
    /// is lent: the code of a region, what its code generation has learnt, or a file. What each method is given and answers
    /// is in `docs/abi.md`. For a method that the backend does not have the answer is [`UNKNOWN`].
    pub call: extern "C" fn(
        backend: usize,
        method: Slice,
        request: Slice,
        constants: ConstantList,
        blobs: SliceList,
        out: Output,
        error: Sink,
    ) -> i32,
    /// Makes a region ready to run and stores a handle, not null, in `executable`.
    pub load: extern "C" fn(
        backend: usize,
        code: Slice,
        constants: ConstantList,
        environment: Slice,
        executable: *mut *mut c_void,
        error: Sink,
    ) -> i32,
    /// Computes `outputs` from `inputs`.
    pub run: extern "C" fn(executable: *mut c_void, inputs: TensorList, outputs: TensorList, error: Sink) -> i32,
    /// Ends an executable.
    pub free: extern "C" fn(executable: *mut c_void),
    /// The table of a group of functions that few backends have, by id and version, or null.
    pub extension: extern "C" fn(backend: usize, id: Slice, version: u32) -> *const c_void,
}

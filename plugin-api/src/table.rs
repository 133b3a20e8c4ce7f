//! The wire for plugins in C and C++: a plain table of the functions of [`crate::abi::PluginModule`]. The signatures
//! stand twice because abi_stable wants to see them and a C header as well; `host` copies one table into the other, so
//! the compiler sees to it that they are the same. `include/byoc_plugin.h` is generated from here, `abi.rs` and `dlpack.rs`.

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use std::ffi::c_void;

use crate::abi::{ClaimSink, ConstantList, Sink, Slice, TensorList};

/// The same functions as a plugin written in C or C++ has them, under the symbol `byoc_plugin_table`. No function may be
/// null, and none may let an exception out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PluginTable {
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: usize,
    /// Number of backends in the plugin.
    pub count: extern "C" fn() -> usize,
    /// Writes a `Description` to `out`.
    pub describe: extern "C" fn(backend: usize, out: Sink, error: Sink) -> i32,
    /// Writes a list of `Pattern` to `out`.
    pub patterns: extern "C" fn(backend: usize, options: Slice, out: Sink, error: Sink) -> i32,
    /// Accepts a candidate, or returns [`REFUSED`] and writes a `Refusal` to `out`.
    pub check: extern "C" fn(backend: usize, region: Slice, options: Slice, out: Sink, error: Sink) -> i32,
    /// Writes the code of a region to `code`.
    pub codegen: extern "C" fn(
        backend: usize,
        region: Slice,
        constants: ConstantList,
        options: Slice,
        code: Sink,
        error: Sink,
    ) -> i32,
    /// Claims every constant of a region once.
    pub constant_updater: extern "C" fn(
        backend: usize,
        region: Slice,
        constants: ConstantList,
        code: Slice,
        options: Slice,
        claims: ClaimSink,
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
    /// The table of an optional ability by id and version, or null.
    pub extension: extern "C" fn(backend: usize, id: Slice, version: u32) -> *const c_void,
}

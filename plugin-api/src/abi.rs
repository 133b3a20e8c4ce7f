//! The wire: what crosses the border between host and plugin. One flat prefix-type module of functions and a few plain
//! structs. Every struct here but the module is frozen for ever within ABI major 1; the module grows after
//! `extension` only. No memory changes its owner: results are written into sinks, everything else is borrowed for the
//! length of a call (code and constants given to `load`: for the life of the executable).

#![allow(unreachable_pub, reason = "the generator of the C header looks for public items")]

use std::ffi::c_void;

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::sabi_types::VersionStrings;

use crate::dlpack::DLTensor;

/// The ABI version that this crate speaks: its own number, not the product's. It changes only when something frozen does.
pub const ABI_VERSION: u32 = 1;

/// The oldest ABI version that a host built with this crate still loads.
pub const OLDEST_ABI_VERSION: u32 = 1;

/// First bytes of [`PluginInfo`].
pub(crate) const MAGIC: [u8; 8] = *b"byocplug";

/// Done.
pub const OK: i32 = 0;
/// Failed; the error sink has an `Error` as JSON, or the message alone as text.
pub const FAILED: i32 = 1;
/// `call`: the backend has no such method.
pub const UNKNOWN: i32 = 2;

/// Borrowed bytes; texts are UTF-8.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Slice {
    /// First byte; may be null when `len` is 0.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// Borrowed byte strings.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct SliceList {
    /// First entry; may be null when `len` is 0.
    pub data: *const Slice,
    /// Number of entries.
    pub len: usize,
}

/// Takes bytes, in as many calls as the writer likes. `write` returns [`OK`] or [`FAILED`].
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Sink {
    /// Given back to `write`.
    pub context: *mut c_void,
    /// Appends bytes.
    pub write: extern "C" fn(context: *mut c_void, bytes: Slice) -> i32,
}

/// Takes the answer of a call: `write` appends bytes, in as many calls as the writer likes, `item` says what the bytes
/// behind it are, as JSON, and `event` tells what happens meanwhile. All return [`OK`] or [`FAILED`].
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Output {
    /// Given back to the functions.
    pub context: *mut c_void,
    /// Begins an item.
    pub item: extern "C" fn(context: *mut c_void, json: Slice) -> i32,
    /// Appends bytes to the answer, or to the last item.
    pub write: extern "C" fn(context: *mut c_void, bytes: Slice) -> i32,
    /// Tells of an event, as JSON: a line of a log, or progress. No part of the answer; unknown events are ignored.
    pub event: extern "C" fn(context: *mut c_void, json: Slice) -> i32,
}

/// A constant: `layout` is empty for the original bytes and names the layout of packed ones.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct ConstantView {
    /// The region's id of the constant.
    pub id: u64,
    /// Layout tag.
    pub layout: Slice,
    /// The bytes; `data` is null where they were not asked for.
    pub tensor: DLTensor,
}

/// Borrowed constants.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct ConstantList {
    /// First entry; may be null when `len` is 0.
    pub data: *const ConstantView,
    /// Number of entries.
    pub len: usize,
}

/// Borrowed tensors.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct TensorList {
    /// First entry; may be null when `len` is 0.
    pub data: *const DLTensor,
    /// Number of entries.
    pub len: usize,
}

/// What a host reads before anything else of a plugin is touched, from the symbol `byoc_plugin_info`.
#[repr(C)]
pub struct PluginInfo {
    /// The bytes `byocplug`.
    pub magic: [u8; 8],
    /// Size of this struct in the plugin; it grows at the end only.
    pub struct_size: u32,
    /// The ABI version that the plugin speaks.
    pub abi_version: u32,
    /// The plugin's name.
    pub name: Slice,
    /// The plugin's version.
    pub version: Slice,
}

// SAFETY: the pointers are to static text that nobody writes.
unsafe impl Sync for PluginInfo {}

impl PluginInfo {
    /// The info of a plugin built with this crate.
    pub const fn new(name: &'static str, version: &'static str) -> PluginInfo {
        PluginInfo {
            magic: MAGIC,
            struct_size: size_of::<PluginInfo>() as u32,
            abi_version: ABI_VERSION,
            name: Slice { data: name.as_ptr(), len: name.len() },
            version: Slice { data: version.as_ptr(), len: version.len() },
        }
    }
}

/// The functions of a plugin written in Rust. `backend` is an index below `count`; environments are JSON; a function
/// returns [`OK`], [`FAILED`] or (`call` only) [`UNKNOWN`].
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginModuleRef)))]
#[sabi(missing_field(option))]
pub struct PluginModule {
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
    #[sabi(last_prefix_field)]
    pub extension: extern "C" fn(backend: usize, id: Slice, version: u32) -> *const c_void,
}

impl RootModule for PluginModuleRef {
    abi_stable::declare_root_module_statics! {PluginModuleRef}
    const BASE_NAME: &'static str = "byoc";
    const NAME: &'static str = "byoc plugin";
    const VERSION_STRINGS: VersionStrings = abi_stable::package_version_strings!();
}

impl SliceList {
    /// Borrows byte strings.
    pub fn new(slices: &[Slice]) -> SliceList {
        SliceList { data: slices.as_ptr(), len: slices.len() }
    }

    /// The byte strings.
    ///
    /// # Safety
    /// The list and all bytes must be readable and unchanged for `'a`.
    pub unsafe fn blobs<'a>(self) -> Vec<&'a [u8]> {
        if self.data.is_null() || self.len == 0 {
            return Vec::new();
        }
        // SAFETY: not null, and readable by the caller's contract.
        let slices = unsafe { std::slice::from_raw_parts(self.data, self.len) };
        // SAFETY: readable by the caller's contract.
        slices.iter().map(|slice| unsafe { slice.bytes() }).collect()
    }
}

impl Slice {
    /// Borrows bytes.
    pub fn new(bytes: &[u8]) -> Slice {
        Slice { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// The bytes must be readable and unchanged for `'a`.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.data.is_null() || self.len == 0 {
            return &[];
        }
        // SAFETY: not null, and readable by the caller's contract.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

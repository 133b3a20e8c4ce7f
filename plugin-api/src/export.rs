//! The plugin's side of the wire: turns the functions of [`crate::abi`] into calls of [`Backend`], catches every panic
//! and turns it into an error. Used through `export_plugin!` only.

pub(crate) mod device;
pub(crate) mod domain;
mod events;
mod sized;
mod steps;
mod strings;

use std::ffi::c_void;

use abi_stable::prefix_type::PrefixTypeTrait;
use serde::de::DeserializeOwned;

use crate::abi::{self, ConstantList, PluginModule, PluginModuleRef, Sink, Slice, SliceList, TensorList};
use crate::backend::Backend;
use crate::call::{self, Call, Part};
use crate::constants::{BoundConstant, BoundConstants, Constants};
use crate::domain_tables::{DEVICE_ID, DEVICE_VERSION, DOMAIN_ID, DOMAIN_VERSION};
use crate::error::Error;
use crate::events_table::{EVENTS_ID, EVENTS_VERSION};
use crate::panics::{Guard, caught, guarded, note_places, quietly};
use crate::region::ConstantId;
use crate::registry::registered;
use crate::runtime::{Environment, Executable, Runtime};
use crate::sized_table::{SIZED_ID, SIZED_VERSION};
use crate::steps_table::{DEVICE_STEPS_ID, DEVICE_STEPS_VERSION, STEPS_ID, STEPS_VERSION};
use crate::strings_table::{STRINGS_ID, STRINGS_VERSION};
use crate::tensor::{TensorView, TensorViewMut};

/// An executable behind an opaque handle, with the space for its views so that a run allocates nothing.
struct Loaded {
    executable: Guard<dyn Executable>,
    inputs: Vec<TensorView<'static>>,
    outputs: Vec<TensorViewMut<'static>>,
}

/// The root module that `export_plugin!` exports.
#[doc(hidden)]
pub fn module() -> PluginModuleRef {
    PluginModule { count, call, load, run, free, extension }.leak_into_prefix()
}

/// Runs `call`, turns a panic into an error, and writes an error into its sink.
fn guard(error: Sink, call: impl FnOnce() -> Result<(), Error>) -> i32 {
    status(error, || call().map(|()| abi::OK))
}

/// The same for a call with a status of its own.
fn status(error: Sink, call: impl FnOnce() -> Result<i32, Error>) -> i32 {
    note_places();
    guarded(call).unwrap_or_else(|failure| {
        // Nobody is left to tell when even the error sink fails.
        let _ = write_json(error, &failure);
        abi::FAILED
    })
}

fn write_json(sink: Sink, value: &impl serde::Serialize) -> Result<(), Error> {
    taken((sink.write)(sink.context, Slice::new(&serde_json::to_vec(value)?)))
}

/// What a sink answers.
fn taken(status: i32) -> Result<(), Error> {
    if status == abi::OK { Ok(()) } else { Err(Error::new("the host takes no more")) }
}

fn backend(index: usize) -> Result<&'static dyn Backend, Error> {
    registered().get(index).copied().ok_or_else(|| Error::new(format!("there is no backend {index}")))
}

fn parse<T: DeserializeOwned>(json: Slice) -> Result<T, Error> {
    // SAFETY: the host lends the bytes for the length of the call.
    Ok(serde_json::from_slice(unsafe { json.bytes() })?)
}

/// # Safety
/// The list and what it points to must live for `'a`.
unsafe fn constant_views<'a>(list: ConstantList) -> Result<Vec<BoundConstant<'a>>, Error> {
    if list.data.is_null() || list.len == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller vouches for the list.
    let entries = unsafe { std::slice::from_raw_parts(list.data, list.len) };
    // SAFETY: the caller vouches for what the list points to.
    entries.iter().map(|entry| unsafe { constant_view(entry) }).collect()
}

/// # Safety
/// What the entry points to must live for `'a`.
unsafe fn constant_view<'a>(entry: &abi::ConstantView) -> Result<BoundConstant<'a>, Error> {
    // SAFETY: the caller vouches for it.
    let (layout, view) = unsafe { (entry.layout.bytes(), TensorView::from_dlpack(&entry.tensor)?) };
    let layout = std::str::from_utf8(layout).map_err(|_| Error::new("a layout tag is not UTF-8"))?;
    Ok(BoundConstant { id: ConstantId(entry.id), layout: (!layout.is_empty()).then_some(layout), view })
}

fn constants<'a>(list: ConstantList) -> Result<Constants<'a>, Error> {
    // SAFETY: the host lends the list for the length of the call, and the result is dropped within it.
    let bound = unsafe { constant_views(list)? };
    Ok(Constants::new(bound.into_iter().map(|entry| (entry.id, entry.view)).collect()))
}

extern "C" fn count() -> usize {
    caught(|| registered().len()).unwrap_or(0)
}

extern "C" fn call(
    index: usize,
    method: Slice,
    request: Slice,
    list: ConstantList,
    blobs: SliceList,
    out: abi::Output,
    error: Sink,
) -> i32 {
    status(error, || {
        // SAFETY: the host lends all of them for the length of the call.
        let (method, request, blobs) = unsafe { (method.bytes(), request.bytes(), blobs.blobs()) };
        let method = std::str::from_utf8(method).unwrap_or_default();
        let call = Call { method, request, constants: &constants(list)?, blobs: &blobs };
        let mut answer = |part: Part<'_>| match part {
            Part::Item(json) => taken((out.item)(out.context, Slice::new(json))),
            Part::Bytes(bytes) => taken((out.write)(out.context, Slice::new(bytes))),
            Part::Event(json) => taken((out.event)(out.context, Slice::new(json))),
        };
        let known = call::make(backend(index)?, &call, &mut answer)?;
        Ok(if known { abi::OK } else { abi::UNKNOWN })
    })
}

extern "C" fn load(
    index: usize,
    code: Slice,
    list: ConstantList,
    environment: Slice,
    executable: *mut *mut c_void,
    error: Sink,
) -> i32 {
    guard(error, || {
        let environment: Environment = parse(environment)?;
        // SAFETY: the host keeps code and constants unchanged until it frees the executable, so `'static` is as long
        // as anything in the executable may look at them.
        let (code, bound): (&'static [u8], _) = unsafe { (code.bytes(), constant_views(list)?) };
        let loaded = backend(index)?.runtime().host()?.load(code, &BoundConstants::new(bound), &environment)?;
        let loaded = Box::new(Loaded { executable: Guard::new(loaded), inputs: Vec::new(), outputs: Vec::new() });
        // SAFETY: the host gives a valid place for the handle.
        unsafe { *executable = Box::into_raw(loaded).cast() };
        Ok(())
    })
}

extern "C" fn run(executable: *mut c_void, inputs: TensorList, outputs: TensorList, error: Sink) -> i32 {
    guard(error, || {
        // SAFETY: the handle came from `load`, is not freed yet, and the host makes one call at a time.
        let loaded = unsafe { &mut *executable.cast::<Loaded>() };
        loaded.inputs.clear();
        loaded.outputs.clear();
        // SAFETY: the host lends the tensors for the length of the call; the views are cleared before it ends, and at
        // the start of the next call if a panic cut this one short.
        unsafe {
            for tensor in tensors(&inputs) {
                loaded.inputs.push(TensorView::from_dlpack(tensor)?);
            }
            for tensor in tensors(&outputs) {
                loaded.outputs.push(TensorViewMut::from_dlpack(tensor)?);
            }
        }
        let result = loaded.executable.call(|executable| executable.run(&loaded.inputs, &mut loaded.outputs));
        loaded.inputs.clear();
        loaded.outputs.clear();
        result
    })
}

/// # Safety
/// The list must live as long as the borrow.
unsafe fn tensors(list: &TensorList) -> &[crate::dlpack::DLTensor] {
    if list.data.is_null() || list.len == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for the list.
    unsafe { std::slice::from_raw_parts(list.data, list.len) }
}

extern "C" fn free(executable: *mut c_void) {
    if executable.is_null() {
        return;
    }
    // SAFETY: the handle came from `load` and the host frees it once.
    let loaded = unsafe { Box::from_raw(executable.cast::<Loaded>()) };
    quietly(|| drop(loaded));
}

extern "C" fn extension(index: usize, id: Slice, version: u32) -> *const c_void {
    // SAFETY: the host lends the text for the length of the call.
    let id = std::str::from_utf8(unsafe { id.bytes() }).unwrap_or_default();
    let in_a_domain = || backend(index).is_ok_and(|backend| matches!(backend.runtime(), Runtime::Device(_)));
    match (id, version) {
        (DOMAIN_ID, DOMAIN_VERSION) if caught(in_a_domain).unwrap_or(false) => std::ptr::from_ref(domain::TABLE).cast(),
        (DEVICE_ID, DEVICE_VERSION) if caught(in_a_domain).unwrap_or(false) => std::ptr::from_ref(device::TABLE).cast(),
        (SIZED_ID, SIZED_VERSION) => std::ptr::from_ref(sized::TABLE).cast(),
        (DEVICE_STEPS_ID, DEVICE_STEPS_VERSION) if caught(in_a_domain).unwrap_or(false) => {
            std::ptr::from_ref(device::STEPS_TABLE).cast()
        }
        (STEPS_ID, STEPS_VERSION) => std::ptr::from_ref(steps::TABLE).cast(),
        (STRINGS_ID, STRINGS_VERSION) => std::ptr::from_ref(strings::TABLE).cast(),
        (EVENTS_ID, EVENTS_VERSION) => std::ptr::from_ref(events::TABLE).cast(),
        _ => std::ptr::null(),
    }
}

const _: () = assert!(abi::ABI_VERSION < 10, "a manifest has one digit for it");

/// Length of a manifest with these texts around the ABI version.
#[doc(hidden)]
pub const fn manifest_length(before: &str, after: &str) -> usize {
    before.len() + 1 + after.len()
}

/// A manifest, as the bytes of a section.
#[doc(hidden)]
pub const fn manifest<const N: usize>(before: &str, after: &str) -> [u8; N] {
    let (mut bytes, before, after) = ([b'0' + abi::ABI_VERSION as u8; N], before.as_bytes(), after.as_bytes());
    let mut at = 0;
    while at < before.len() {
        bytes[at] = before[at];
        at += 1;
    }
    at = 0;
    while at < after.len() {
        bytes[before.len() + 1 + at] = after[at];
        at += 1;
    }
    bytes
}

/// Exports the registered backends of this library as a plugin. The whole of a plugin crate's `lib.rs` may be this
/// line and a `use` of the crate that holds the backend. Plugins must unwind on panic, so that a panic becomes an error.
///
/// The library says in its section `.byoc` who it is, so that a host need not open it to know.
/// `export_plugin!("acme", "acme-dsp")` says there as well which backends it has, all of them, in the order of where they
/// are registered: a host that looks for another one then leaves the library alone.
#[macro_export]
macro_rules! export_plugin {
    () => { $crate::export_plugin!(@export "[]"); };
    ($first:literal $(, $more:literal)* $(,)?) => {
        $crate::export_plugin!(@export concat!("[\"", $first, "\"" $(, ",\"", $more, "\"")*, "]"));
    };
    (@export $backends:expr) => {
        #[cfg(target_os = "linux")]
        const _: () = {
            const BEFORE: &str =
                concat!("{\"name\":\"", env!("CARGO_PKG_NAME"), "\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\",\"abi\":");
            const AFTER: &str = concat!(",\"backends\":", $backends, "}");
            // Exported, because linkers drop what nobody refers to.
            #[used]
            #[allow(non_upper_case_globals, reason = "the symbol's name, as in C")]
            #[unsafe(no_mangle)]
            #[unsafe(link_section = ".byoc")]
            static byoc_plugin_manifest: [u8; $crate::__private::manifest_length(BEFORE, AFTER)] =
                $crate::__private::manifest(BEFORE, AFTER);
        };

        #[cfg(panic = "abort")]
        compile_error!("a byoc plugin must be built with panic = \"unwind\"");

        #[doc(hidden)]
        #[allow(non_upper_case_globals, unreachable_pub, missing_docs, reason = "the symbol's name is the contract")]
        #[unsafe(no_mangle)]
        pub static byoc_plugin_info: $crate::__private::PluginInfo =
            $crate::__private::PluginInfo::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));

        // The stock `#[export_root_module]` names the crate `abi_stable` by path, which every vendor would then depend on.
        #[doc(hidden)]
        #[allow(non_upper_case_globals, unreachable_pub, missing_docs, reason = "abi_stable looks for this name")]
        #[unsafe(no_mangle)]
        pub static _1as_0lib_1header_0root_bmodule_bloader: $crate::__private::library::LibHeader = {
            extern "C" fn root() -> $crate::__private::library::RootModuleResult {
                $crate::__private::library::__call_root_module_loader($crate::__private::module)
            }
            // SAFETY: the symbol's name and the module's type belong together, as the attribute macro would write it.
            unsafe {
                $crate::__private::library::LibHeader::from_constructor::<$crate::__private::PluginModuleRef>(
                    root,
                    $crate::__private::library::CheckTypeLayout::Yes,
                )
            }
        };
    };
}

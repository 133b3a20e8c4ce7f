//! The plugin's side of the wire: turns the functions of [`crate::abi`] into calls of [`Backend`], catches every panic
//! and turns it into an error. Used through `export_plugin!` only.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use abi_stable::prefix_type::PrefixTypeTrait;
use serde::de::DeserializeOwned;

use crate::abi::{self, ConstantList, PluginModule, PluginModuleRef, Sink, Slice, SliceList, TensorList};
use crate::backend::Backend;
use crate::call::{self, Call, Part};
use crate::constants::{BoundConstant, BoundConstants, Constants};
use crate::error::Error;
use crate::region::ConstantId;
use crate::registry::registered;
use crate::runtime::{Environment, Executable};
use crate::tensor::{TensorView, TensorViewMut};

/// An executable behind an opaque handle, with the space for its views so that a run allocates nothing.
struct Loaded {
    executable: Box<dyn Executable>,
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
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into());
        // Dropping a payload may panic again.
        std::mem::forget(payload);
        Err(Error::new(format!("backend panicked: {text}")))
    });
    outcome.unwrap_or_else(|failure| {
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
    entries
        .iter()
        .map(|entry| {
            // SAFETY: the caller vouches for what the list points to.
            let (layout, view) = unsafe { (entry.layout.bytes(), TensorView::from_dlpack(&entry.tensor)?) };
            let layout = std::str::from_utf8(layout).map_err(|_| Error::new("a layout tag is no UTF-8"))?;
            Ok(BoundConstant { id: ConstantId(entry.id), layout: (!layout.is_empty()).then_some(layout), view })
        })
        .collect()
}

fn constants<'a>(list: ConstantList) -> Result<Constants<'a>, Error> {
    // SAFETY: the host lends the list for the length of the call, and the result is dropped within it.
    let bound = unsafe { constant_views(list)? };
    Ok(Constants::new(bound.into_iter().map(|entry| (entry.id, entry.view)).collect()))
}

extern "C" fn count() -> usize {
    catch_unwind(|| registered().len()).unwrap_or(0)
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
        let loaded = Box::new(Loaded { executable: loaded, inputs: Vec::new(), outputs: Vec::new() });
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
        let result = loaded.executable.run(&loaded.inputs, &mut loaded.outputs);
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
    // A panic in a destructor must not cross the border; the executable is gone either way.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(loaded))) {
        std::mem::forget(payload);
    }
}

extern "C" fn extension(_backend: usize, _id: Slice, _version: u32) -> *const c_void {
    std::ptr::null()
}

/// Exports the registered backends of this library as a plugin. The whole of a plugin crate's `lib.rs` may be this
/// line and a `use` of the crate that holds the backend. Plugins must unwind on panic, so that a panic becomes an error.
#[macro_export]
macro_rules! export_plugin {
    () => {
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

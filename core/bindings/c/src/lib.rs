//! byoc's runtime as a C library: artifacts are opened and run. `include/byoc.h` is generated from this crate.
//!
//! Sessions are numbers, not pointers: a number that was closed, or never given, is an error and nothing else. Every function may be
//! called from any thread; calls for one session take turns. No function unwinds, and none frees what it did not allocate.

#![allow(non_camel_case_types, reason = "the names of C")]

mod device;
mod error;
mod open;
mod port;
mod run;
mod sessions;
mod tensor;
mod text;

use std::ffi::c_char;

pub use self::device::{byoc_device_at, byoc_device_count, byoc_device_info, byoc_device_input};
pub use self::error::{byoc_error_code, byoc_error_hint, byoc_error_message, byoc_status};
pub use self::open::{byoc_close, byoc_open, byoc_open_memory, byoc_open_with, byoc_options, byoc_read, byoc_variant};
pub use self::port::{byoc_element, byoc_input_count, byoc_input_port, byoc_output_count, byoc_output_port, byoc_port};
pub use self::run::{byoc_device_result, byoc_result, byoc_run, byoc_run_on_devices};
pub use self::tensor::{byoc_array, byoc_device_array};

/// The version of the library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn byoc_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

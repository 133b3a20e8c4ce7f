//! What a function says of its end: a number, and the texts of the last error of the thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use byoc_core::diagnostic::{Diagnostic, Result};

/// How a function ended. Further numbers may come; those that are not 0 are errors.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byoc_status {
    /// Well.
    BYOC_STATUS_OK = 0,
    /// With an error, which `byoc_error_code`, `byoc_error_message` and `byoc_error_hint` tell.
    BYOC_STATUS_FAILED = 1,
    /// By a defect of byoc. The session in question cannot be used any more.
    BYOC_STATUS_DEFECT = 2,
}

/// The texts of an error.
struct Texts {
    code: CString,
    message: CString,
    hint: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Option<Texts>> = const { RefCell::new(None) };
}

/// Runs a function's work, and keeps its error for the thread.
pub(crate) fn status(work: impl FnOnce() -> Result<()>) -> byoc_status {
    // What a panic leaves half-way is locked from then on.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => byoc_status::BYOC_STATUS_OK,
        Ok(Err(Diagnostic { code, message, hint })) => {
            keep(code.id(), &message, hint.as_deref());
            byoc_status::BYOC_STATUS_FAILED
        }
        Err(_) => {
            keep("", "byoc has a defect: a panic", Some("Report it, with what led to it"));
            byoc_status::BYOC_STATUS_DEFECT
        }
    }
}

fn keep(code: &str, message: &str, hint: Option<&str>) {
    // Names of a model may hold any character.
    let text = |text: &str| CString::new(text.replace('\0', "?")).unwrap_or_default();
    let texts = Texts { code: text(code), message: text(message), hint: hint.map(text) };
    // A thread that ends has no use for it.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(texts));
}

fn last(text: impl FnOnce(&Texts) -> *const c_char) -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ref().map_or(ptr::null(), text)).unwrap_or(ptr::null())
}

/// The code of the last error of this thread, such as `B701`; NULL where there was none. The text stays until the next error.
#[unsafe(no_mangle)]
pub extern "C" fn byoc_error_code() -> *const c_char {
    last(|texts| texts.code.as_ptr())
}

/// The last error of this thread in one line; NULL where there was none. The text stays until the next error.
#[unsafe(no_mangle)]
pub extern "C" fn byoc_error_message() -> *const c_char {
    last(|texts| texts.message.as_ptr())
}

/// What helps against the last error of this thread; NULL where nothing can be said. The text stays until the next error.
#[unsafe(no_mangle)]
pub extern "C" fn byoc_error_hint() -> *const c_char {
    last(|texts| texts.hint.as_ref().map_or(ptr::null(), |hint| hint.as_ptr()))
}

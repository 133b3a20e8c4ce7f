//! Texts of C.

use std::ffi::{CStr, c_char};

use byoc_core::diagnostic::{Code, Diagnostic, Result};

/// The text at `pointer`, which `what` names in errors; `None` for NULL.
///
/// # Safety
/// `pointer` is NULL, or what it points to ends with a zero byte and stays unchanged during the call.
pub(crate) unsafe fn optional<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller says so.
    let text = unsafe { CStr::from_ptr(pointer) };
    let wrong = |_| Diagnostic::new(Code::Usage, format!("{what} is not a text in UTF-8"));
    text.to_str().map(Some).map_err(wrong)
}

/// The same, where NULL is an error.
///
/// # Safety
/// As for [`optional`].
pub(crate) unsafe fn required<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    // SAFETY: the caller says so.
    unsafe { optional(pointer, what)? }.ok_or_else(|| null(what))
}

/// The error that something is NULL.
pub(crate) fn null(what: &str) -> Diagnostic {
    Diagnostic::new(Code::Usage, format!("{what} is NULL"))
}

/// The texts of an array.
///
/// # Safety
/// `texts` is NULL, or an array of `count` texts as for [`optional`].
pub(crate) unsafe fn list(texts: *const *const c_char, count: usize, what: &str) -> Result<Vec<String>> {
    if count > 0 && texts.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller says so, and there is none where the array is NULL.
    (0..count).map(|index| unsafe { required(*texts.add(index), what).map(str::to_owned) }).collect()
}

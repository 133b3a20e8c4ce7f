//! What is told of a backend's process that ended, or of this one that a backend ends.

use byoc_plugin_api::Error;

use crate::diagnostic::{Code, Diagnostic};

/// The remedy where a region runs.
pub const CRASH_HINT: &str = "Report this to the backend's maker; leave it out of --backend to compile without it";

/// The error of a worker that ended while `what`, about what is called `title`, of that backend.
pub(crate) fn crashed(title: &str, backend: &str, error: &Error, what: &str) -> Diagnostic {
    let message = format!("{title} of the backend '{backend}' {} while {what}", error.message);
    Diagnostic::new(Code::BackendCrashed, message).hint(error.hint.as_deref().unwrap_or(CRASH_HINT))
}

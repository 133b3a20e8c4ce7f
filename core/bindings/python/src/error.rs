//! Errors as `byoc.Error`.

use byoc_core::diagnostic::{Code, Diagnostic};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The exception for an error: `byoc.Error` with its code, message and hint.
pub(crate) fn raised(py: Python<'_>, error: Diagnostic) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let Diagnostic { code, message, hint } = error;
    let made = CLASS.import(py, "byoc._errors", "Error").and_then(|class| class.call1((code.id(), message, hint)));
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// The exception that a value does not fit an input.
pub(crate) fn bad_input(py: Python<'_>, message: String, hint: &str) -> PyErr {
    raised(py, Diagnostic::new(Code::BadInput, message).hint(hint))
}

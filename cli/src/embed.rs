//! The backends that are part of this program. The only place outside `backends/` that names one.

pub(crate) mod skeleton;

use byoc_core::diagnostic::Result;
use byoc_plugin_api::Backend;
use byoc_tools::request;

// Each line links a backend in, which registers itself.
use byoc_json_backend as _;
use byoc_kendryte_backend as _;

/// Every embedded backend, by name.
pub(crate) fn backends() -> Vec<&'static dyn Backend> {
    byoc_plugin_api::registered()
}

/// The backend for a command that names none: the first embedded host backend.
pub(crate) fn default_backend() -> Result<String> {
    request::default_backend(&backends())
}

/// The backend that has reference kernels, with the setting that chooses them, as (`backend.key`, value).
pub(crate) fn reference() -> Result<(String, (String, String))> {
    request::reference_backend(&backends())
}

//! Names of backends and of their options as users write them.

use byoc_plugin_api::Backend;

use crate::diagnostic::{Code, Diagnostic, Result};

/// What users call the embedded backend for the host.
const CPU: &str = "cpu";

/// The backend for a user who names none: the first embedded host backend.
pub fn default_backend(embedded: &[&'static dyn Backend]) -> Result<String> {
    let host = embedded.iter().map(|backend| backend.describe()).find(|description| description.host);
    let none =
        || Diagnostic::new(Code::UnknownBackend, "this byoc has no host backend").hint("Name one with --backend");
    host.map(|description| description.name).ok_or_else(none)
}

/// The backend that a user means by a name: `cpu` is the embedded one for the host, whatever it is called.
pub fn backend_named(name: &str, embedded: &[&'static dyn Backend]) -> Result<String> {
    match name {
        CPU => default_backend(embedded),
        name => Ok(name.to_owned()),
    }
}

/// The backend that a setting `backend.key` is about.
pub fn backend_of(key: &str) -> &str {
    key.split_once('.').map_or(key, |(backend, _)| backend)
}

/// The key of an option, such as `cpu.pack`, with the name of the backend that the user means.
pub fn option_named(key: &str, embedded: &[&'static dyn Backend]) -> Result<String> {
    match key.split_once('.') {
        Some((backend, key)) => Ok(format!("{}.{key}", backend_named(backend, embedded)?)),
        None => Ok(key.to_owned()),
    }
}

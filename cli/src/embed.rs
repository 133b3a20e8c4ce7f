//! The backends that are part of this program. The only place outside `backends/` that names one.

pub(crate) mod skeleton;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_plugin_api::{Backend, OptionKind};

// Each line links a backend in, which registers itself.
use byoc_json_backend as _;
use byoc_kendryte_backend as _;

/// A choice that a host backend offers for its option `kernels` when it has plain kernels to compare with.
const REFERENCE: (&str, &str) = ("kernels", "reference");

/// Every embedded backend, by name.
pub(crate) fn backends() -> Vec<&'static dyn Backend> {
    byoc_plugin_api::registered()
}

/// The backend for a command that names none: the first embedded host backend.
pub(crate) fn default_backend() -> Result<String> {
    let host = backends().into_iter().map(|backend| backend.describe()).find(|description| description.host);
    let none =
        || Diagnostic::new(Code::UnknownBackend, "this byoc has no host backend").hint("Name one with --backend");
    host.map(|description| description.name).ok_or_else(none)
}

/// The backend that has reference kernels, with the setting that chooses them, as (`backend.key`, value).
pub(crate) fn reference() -> Result<(String, (String, String))> {
    let (key, value) = REFERENCE;
    let offers =
        |kind: &OptionKind| matches!(kind, OptionKind::Choice(words) if words.iter().any(|word| word == value));
    let descriptions = backends().into_iter().map(|backend| backend.describe());
    let found = descriptions
        .filter(|description| description.host)
        .find(|description| description.options.iter().any(|option| option.name == key && offers(&option.kind)));
    let none = || Diagnostic::new(Code::UnknownBackend, "this byoc has no backend with reference kernels");
    let name = found.ok_or_else(none)?.name;
    let setting = (format!("{name}.{key}"), value.to_owned());
    Ok((name, setting))
}

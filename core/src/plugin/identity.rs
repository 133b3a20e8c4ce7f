//! The identity of a backend in an artifact, by which a runtime decides whether a backend of that name can load the code.

use byoc_plugin_api::{Options, Precision};

use super::Selected;

/// A backend's identity.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendIdentity {
    /// The name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// The version of its code format.
    pub code_version: u32,
    /// The plugin ABI it speaks.
    pub abi_version: u32,
    /// The kind of memory that its regions run in, if it is not the host's.
    pub domain: Option<String>,
    /// The options it was run with.
    pub options: Options,
    /// Whether it has other code for its regions.
    pub candidates: bool,
    /// How near to exact its results are.
    pub precision: Vec<Precision>,
}

impl BackendIdentity {
    /// The identity of a selected backend.
    pub fn of(selected: &Selected) -> BackendIdentity {
        let description = &selected.registered.description;
        BackendIdentity {
            name: description.name.clone(),
            version: description.version.clone(),
            code_version: description.code_version,
            abi_version: selected.registered.abi_version,
            domain: description.domain.clone(),
            options: selected.kept_options(),
            candidates: description.candidates,
            precision: description.precision.clone(),
        }
    }
}

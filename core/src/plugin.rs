//! Plugins: search, the registry of backends, and the user's selection.

mod bound;
mod crashed;
#[cfg(feature = "compiler")]
mod custom;
mod identity;
mod names;
mod registry;
mod search;
mod worker;

pub(crate) use bound::Bound;
pub use byoc_plugin_api::host::{LoadedBackend, Manifest, allow_lists, quiet_panics};
pub use crashed::CRASH_HINT;
pub(crate) use crashed::crashed;
#[cfg(feature = "compiler")]
pub use custom::custom_operators;
#[cfg(feature = "compiler")]
pub(crate) use custom::custom_operators_among;
pub use identity::BackendIdentity;
pub use names::{backend_named, backend_of, default_backend, option_named};
pub use registry::{
    Origin, PluginFile, Refused, Registered, Registry, Selected, Settings, Shadowed, digest, embedded, plugin_files,
};
pub use search::SearchPath;
pub use worker::{Group, Isolation, OutputBudget, end_process, end_with_parent, limit_memory, serve_where_asked};

//! Plugins: where they lie, which backends they hold, and what the user chose of them.

mod embedded;
mod identity;
mod registry;
mod search;
mod worker;

pub use byoc_plugin_api::host::{Manifest, allow_lists};
pub use embedded::{EmbeddedBackend, quiet_panics};
pub use identity::BackendIdentity;
pub use registry::{
    BackendCode, Origin, PluginFile, Refused, Registered, Registry, Selected, Settings, Shadowed, digest, plugin_files,
};
pub use search::SearchPath;
pub use worker::{Group, IsolatedBackend, Isolation, OutputBudget, end_process, end_with_parent, limit_memory, serve};

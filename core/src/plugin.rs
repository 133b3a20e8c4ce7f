//! Plugins: where they lie, which backends they hold, and what the user chose of them.

mod registry;
mod search;
mod worker;

pub use registry::{BackendCode, Origin, Refused, Registered, Registry, Selected, Shadowed};
pub use search::SearchPath;
pub use worker::{IsolatedBackend, Isolation, limit_memory, serve};

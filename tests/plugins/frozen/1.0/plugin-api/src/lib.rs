//! The part of byoc-plugin-api 1.0.0 that the plugin beside it is built with, as it was when the ABI was frozen. Never edit it: that
//! it goes on as it is, is what it is for. Left out are the host's side, and tests.

mod abi;
mod backend;
mod call;
mod constants;
pub mod dlpack;
mod dtype;
mod error;
mod export;
mod float_json;
mod job;
mod options;
mod pattern;
mod region;
mod registry;
mod runtime;
mod tensor;
pub use abi::{ABI_VERSION, OLDEST_ABI_VERSION};
pub use backend::*;
pub use constants::*;
pub use dtype::*;
pub use error::*;
pub use job::*;
pub use options::*;
pub use pattern::*;
pub use region::*;
pub use registry::*;
pub use runtime::*;
pub use tensor::*;

/// What the macros expand to. Not part of the contract.
#[doc(hidden)]
pub mod __private {
    pub use crate::abi::{PluginInfo, PluginModuleRef};
    pub use crate::export::module;
    pub use abi_stable::library;
    pub use inventory;
}

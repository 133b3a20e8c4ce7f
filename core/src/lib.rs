//! The byoc compiler and runtime: ONNX in, one artifact out, every constant stored once.
//!
//! Two towers share `plugin` and `artifact` and never see each other: the compile tower ([`compile`], behind the
//! feature `compiler`) and the run tower ([`runtime`]). `docs/architecture.md` has the picture and the invariants.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "a table of cases is best read in one piece"))]

pub use self::map::on_cut_files;
pub use byoc_dim as dim;

pub mod artifact;
mod buffer;
pub mod constants;
mod cpu;
pub mod diagnostic;
mod map;
pub mod memory;
pub mod overwrite;
pub mod plugin;
pub mod runtime;
pub mod whole;

#[cfg(feature = "compiler")]
pub mod calibrate;
#[cfg(feature = "compiler")]
mod codegen;
#[cfg(feature = "compiler")]
pub mod compile;
#[cfg(feature = "compiler")]
mod compute;
#[cfg(feature = "compiler")]
mod fold;
#[cfg(feature = "compiler")]
pub mod ir;
#[cfg(feature = "compiler")]
pub mod onnx;
#[cfg(feature = "compiler")]
pub mod ops;
#[cfg(feature = "compiler")]
pub mod ownership;
#[cfg(feature = "compiler")]
pub mod partition;
#[cfg(feature = "compiler")]
pub mod passes;
#[cfg(feature = "compiler")]
mod spool;
#[cfg(feature = "compiler")]
pub mod swap;
#[cfg(feature = "compiler")]
pub mod tune;

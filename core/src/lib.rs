//! The byoc compiler and runtime: ONNX in, one artifact out, every constant stored once.
//!
//! Two towers share `plugin` and `artifact` and do not use each other: the compile tower ([`compile`], behind the
//! feature `compiler`) and the run tower ([`runtime`]). `docs/architecture.md` has the picture and the invariants.
//!
//! ```no_run
//! # use byoc_core::{plugin::{Registry, SearchPath}, runtime::{LoadOptions, Session}};
//! # use byoc_plugin_api::{TensorView, contiguous_strides};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::discover(&SearchPath::default(), &byoc_plugin_api::registered(), None)?;
//! let mut session = Session::open("model.byoc".as_ref(), &registry, &LoadOptions::default())?;
//! let (shape, pixels) = ([1, 3, 224, 224], vec![0.5f32; 3 * 224 * 224]);
//! session.run(&[TensorView::from_slice(&pixels, &shape, &contiguous_strides(&shape))?])?;
//! println!("{:?}", session.output(0)?.to_vec::<f32>()?);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "a table of cases is best read in one piece"))]

pub use self::crash::{Ending, on_crashes};
pub use self::events::on_events;
pub use self::map::{mapped_files, on_cut_files};
pub use byoc_dim as dim;

pub mod artifact;
pub mod atomic_file;
mod buffer;
pub mod constants;
mod cpu;
mod crash;
pub mod diagnostic;
mod events;
pub mod file_kind;
mod map;
pub mod memory;
pub mod onnx_types;
pub mod overwrite;
pub mod plugin;
pub mod runtime;
mod signals;

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
pub mod merge;
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

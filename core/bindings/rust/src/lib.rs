//! Compiles ONNX models with plugin backends into one artifact in which every weight is stored once, and runs it: byoc as a library.
//!
//! ```no_run
//! use byoc::{Compiler, OpenOptions, TensorView, contiguous_strides};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let report = Compiler::new()
//!     .model("model.onnx")
//!     .backend("acme")
//!     .backend("cpu")
//!     .plugin("libbyoc_acme.so")
//!     .write("model.byoc")?;
//! println!("{} bytes, {} nodes, {} warnings", report.file_bytes, report.nodes.len(), report.warnings.len());
//!
//! let mut session = OpenOptions::new().plugin("libbyoc_acme.so").threads(2).open("model.byoc")?;
//! let (shape, pixels) = ([1, 3, 224, 224], vec![0.5f32; 3 * 224 * 224]);
//! session.run(&[TensorView::from_slice(&pixels, &shape, &contiguous_strides(&shape))?])?;
//! println!("{:?}", session.output(0)?.to_vec::<f32>()?);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Session`] runs one call at a time. Threads that run the same entry open a session each: the file is mapped once more, and no
//! weight is copied.
//!
//! # Features
//!
//! - `compiler` (default): [`Compiler`]. A program that only runs artifacts is built without it.
//! - `json`, `kendryte` (default): the backends that are part of the program. Others are plugins.
//! - `dataset`: samples for backends that choose ranges of numbers, from arrays and images.
//!
//! What is below this crate is in [`core`]: stages, ledger, partition, the text form of a model. Its interface changes more often.

#[cfg(feature = "compiler")]
mod compiler;
mod open;
mod plugins;

// Each links a backend in, which registers itself.
#[cfg(feature = "json")]
use byoc_json_backend as _;
#[cfg(feature = "kendryte")]
use byoc_kendryte_backend as _;

pub use byoc_core as core;
pub use byoc_core::diagnostic::{Code, Diagnostic as Error, Result};
pub use byoc_core::runtime::{ListView, PortInfo, Session};
pub use byoc_plugin_api::{DType, Dim, TensorView, contiguous_strides};

#[cfg(feature = "compiler")]
pub use self::compiler::{Compiler, Report, Variant};
pub use self::open::OpenOptions;
pub use self::plugins::Plugins;

//! Library for programs around the compiler and the runtime, such as the command line: tensors and their files, data sets,
//! generated inputs, measured and compared runs, compile requests, and the tuner.
//!
//! Nothing here prints or ends the process: results are values, and errors are
//! [`Diagnostic`](byoc_core::diagnostic::Diagnostic)s, whose hints name the flags of the command line.

pub mod bench;
pub mod ceilings;
pub mod compare;
#[cfg(feature = "dataset")]
pub mod dataset;
pub mod execution;
pub mod file;
pub mod fill;
pub mod inputs;
pub mod labels;
pub mod lists;
pub mod node_rows;
pub mod npy;
pub mod npz;
pub mod outputs;
pub mod package;
pub mod place;
pub mod process_memory;
pub mod profile;
pub mod reference;
pub mod regions;
pub mod request;
pub mod side_by_side;
pub mod statistics;
pub mod tensor;
pub mod text;
pub mod trace;
pub mod tune;

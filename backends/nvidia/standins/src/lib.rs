//! Stand-ins for CUDA's libraries, and processes that use them: for tests of what calls CUDA, on machines without a GPU.
//!
//! The libraries are in C beside this crate, and are built as a test asks for them. Which libraries a process uses is
//! fixed when it first opens them; so a test starts its own program again, with the name of what to do.
//!
//! Kernels run on the host: [`cpu`] compiles and launches single ones, within the process of the test; with the libraries of
//! [`all`] whatever compiles and launches by CUDA does so.

mod child;
pub mod cpu;
mod libraries;

pub use child::{ACTION, Child, FOLDER, say, tried};
pub use libraries::{all, both, build, compile, copy, shield, temporary, with_cutlass};

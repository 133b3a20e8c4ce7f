//! What CUDA backends share; no backend of its own.
//!
//! Nothing here links CUDA: its libraries are opened when they are first needed, from where the machine has them, so
//! that a backend builds, describes itself and compiles models on a machine without a GPU. [`cudarc`] makes the calls.
//! It panics where a library or a function of one is missing, so [`locate`] has to say yes before any call of it.
//! [`domain`] is a device's memory with a queue of work on it, and [`attached_domain`] is how a region of another library gets at both.
//! [`compile`] makes machine code of CUDA C++, with no GPU; [`build`] does so as a backend's options say, and [`program`]
//! is what a region of such kernels is in an artifact. [`launch`] runs it.
//! [`match_product`] reads a region as one [`product`] of matrices, and [`matmul`] turns products of row-major matrices into the
//! numbers of calls of cublasLt; neither needs a library.
//!
//! `standins/` has libraries in C that stand in for NVIDIA's in tests: what they show, and what only a GPU can, is said
//! at the head of each.

pub mod attached_domain;
pub mod attention;
pub mod build;
pub mod compile;
pub mod device;
pub mod device_buffer;
pub mod domain;
pub mod launch;
pub mod locate;
pub mod match_product;
pub mod matmul;
mod primary_context;
pub mod product;
pub mod program;
mod region_matcher;
pub mod tools;

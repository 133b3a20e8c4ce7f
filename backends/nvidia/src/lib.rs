//! Code that the CUDA backends share; not a backend itself.
//!
//! Nothing here links CUDA. Its libraries are loaded at run time when they are first needed, so that a backend builds,
//! describes itself and compiles models on a machine without a GPU. [`cudarc`] has the bindings; it panics where a library
//! or a function is missing, so [`locate`] must succeed before any call of it.
//!
//! - [`domain`]: a device's memory and stream. [`attached_domain`]: the same domain, used by another plugin.
//! - [`compile`]: CUDA C++ to cubin, without a GPU. [`build`]: the same with a backend's options.
//! - [`program`]: a region's kernels and launches in an artifact. [`launch`]: runs them. [`step_clock`]: how long each took.
//! - [`match_product`]: matches a region to one fused GEMM, a [`product`]. [`matmul`]: lowers it to calls of cublasLt.
//! - [`attention`]: fused attention, matched and generated.
//!
//! `standins/` has test doubles of NVIDIA's libraries, written in C; the head of each says what it checks.

pub mod attached_domain;
pub mod attention;
pub mod build;
pub mod claims;
pub mod compile;
pub mod device;
pub mod device_buffer;
pub mod domain;
pub mod launch;
pub mod locate;
mod marks;
pub mod match_product;
pub mod matmul;
mod primary_context;
pub mod product;
pub mod program;
mod region_matcher;
pub mod step_clock;
pub mod tools;

//! What CUDA backends share; no backend of its own.
//!
//! Nothing here links CUDA: its libraries are opened when they are first needed, from where the machine has them, so
//! that a backend builds, describes itself and compiles models on a machine without a GPU. [`cudarc`] makes the calls.
//! It panics where a library or a function of one is missing, so [`locate`] has to say yes before any call of it.
//! [`domain`] is a device's memory with a queue of work on it, and [`join`] is how a region of another library gets at both.
//! [`compile`] makes machine code of CUDA C++, with no GPU.
//! [`matmul`] turns products of row-major matrices into the numbers of those calls, and needs no library at all.
//!
//! `standins/` has libraries in C that stand in for NVIDIA's in tests: what they show, and what only a GPU can, is said
//! at the head of each.

pub mod compile;
pub mod device;
pub mod domain;
pub mod join;
pub mod locate;
pub mod matmul;
mod primary;

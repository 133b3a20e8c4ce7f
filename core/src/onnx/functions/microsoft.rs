//! Operators of onnxruntime's domain `com.microsoft`, in floating point: what its optimisers and its builder of language models
//! write. The formulas are those of onnxruntime's operator descriptions, and where these leave something open, of its
//! kernels for the CPU.

pub(super) mod activations;
pub(super) mod attention;
pub(super) mod attributes;
pub(super) mod conv;
pub(super) mod grouped;
pub(super) mod heads;
pub(super) mod masks;
pub(super) mod norm;
pub(super) mod products;
pub(super) mod renamed;
pub(super) mod rotary;

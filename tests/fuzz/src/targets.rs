//! The targets: one file, one kind of input.

pub(crate) mod arrays;
pub(crate) mod artifact;
pub(crate) mod code;
pub(crate) mod kmodel;
pub(crate) mod onnx;
pub(crate) mod plugin;
pub(crate) mod worker;

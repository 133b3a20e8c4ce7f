//! The harness of the whole-system tests: where the program and its plugins are, test data, tensors and how they are
//! compared, small models made on the spot, and tests that can be skipped by name with a reason.

pub mod c_plugin;
pub mod data;
pub mod digits;
pub mod engine;
pub mod fault;
pub mod fixture;
pub mod folder;
pub mod golden;
pub mod markdown;
pub mod mutations;
pub mod mutator;
pub mod netron;
pub mod npz;
pub mod onnx;
pub mod places;
pub mod program;
pub mod repack;
pub mod sample;
pub mod sources;
pub use byoc_conformance::tensor;
pub mod terminal;
pub mod trial;

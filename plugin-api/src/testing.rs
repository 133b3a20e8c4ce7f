//! A test kit for backends: regions in a few lines, data from seeds, and the way from a region to its results without
//! byoc. Behind the feature `testing`, for `[dev-dependencies]`. What it is given wrongly, or finds wrong, ends in a panic
//! that says so, as tests want it.
//!
//! ```no_run
//! # fn example(backend: &dyn byoc_plugin_api::Backend) {
//! use byoc_plugin_api::testing::{Limit, RegionBuilder, Tensor, assert_close};
//!
//! let mut net = RegionBuilder::new("mine");
//! let x = net.input("f32[n,2]");
//! let w = net.constant(Tensor::of([2], &[1f32, 2.0]));
//! let y = net.node("Add", &[x, w], "f32[n,2]", "");
//! net.output(y);
//!
//! let compiled = net.compile(backend, &[]).expect("it is taken");
//! assert_eq!(compiled.claims.words(), ["host"]);
//! let found = compiled.run(&[Tensor::of([1, 2], &[2f32, 1.0])], &[("n", 1)]).expect("it runs");
//! assert_close("the sum", &found[0].numbers(), &[3.0, 3.0], Limit::relative(1e-6));
//! # }
//! ```

mod allocation;
mod claims;
mod close;
mod elements;
mod layers;
mod region;
mod run;
mod tensor;
mod ty;

pub use allocation::Counting;
pub use claims::Claimed;
pub use close::{Limit, assert_close, compare};
pub use elements::{decode, encode, rounded};
/// The one source of random numbers: the same seed gives the same numbers, on every machine.
pub use fastrand::Rng;
pub use region::RegionBuilder;
pub use run::{Compiled, backend, options, run};
pub use tensor::{Lies, Tensor};
pub use ty::{Attributes, Type};

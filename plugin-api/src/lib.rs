//! What a vendor needs to write a backend for byoc, and nothing else.
//!
//! A backend says which subgraphs it takes ([`Backend::patterns`], [`Backend::check`]), writes code for them
//! ([`Backend::codegen`]), says for each constant where its bytes live ([`Backend::constant_updater`]), and runs the
//! code ([`HostRuntime::load`], [`Executable::run`]). This is all of one: it scales a tensor by a constant.
//!
//! ```
//! use byoc_plugin_api::*;
//!
//! struct Scale;
//!
//! impl Backend for Scale {
//!     fn describe(&self) -> Description {
//!         Description {
//!             name: "scale".into(),
//!             version: env!("CARGO_PKG_VERSION").into(),
//!             code_version: 1,
//!             summary: "Multiplies by one number".into(),
//!             host: false,
//!             constant_access: ConstantAccess::Load,
//!             ..Description::default()
//!         }
//!     }
//!
//!     fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
//!         Ok(vec![Pattern::new("scale", "(Mul ?x ?by:const)")])
//!     }
//!
//!     fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
//!         let by = &candidate.values[candidate.constants[0].value];
//!         match (by.dtype, by.fixed_shape().as_deref()) {
//!             (DType::F32, Some([] | [1])) => Ok(()),
//!             (DType::F32, _) => Err(Refusal::new(RefusalCode::Shape, "the factor must be one number")),
//!             (other, _) => Err(Refusal::new(RefusalCode::Type, format!("{other} is not f32"))),
//!         }
//!     }
//!
//!     fn codegen(&self, job: &Job, code: &mut dyn std::io::Write) -> Result<Generated, Error> {
//!         write!(code, "{}", job.region.constants[0].id)?;
//!         Ok(Generated::default())
//!     }
//!
//!     fn constant_updater(&self, job: &Job, _: &[u8], _: &[u8], claims: &mut Claims) -> Result<(), Error> {
//!         claims.host(job.region.constants[0].id)
//!     }
//!
//!     fn runtime(&self) -> Runtime<'_> {
//!         Runtime::Host(self)
//!     }
//! }
//!
//! impl HostRuntime for Scale {
//!     fn load<'a>(
//!         &self, code: &'a [u8], constants: &BoundConstants<'a>, _: &Environment,
//!     ) -> Result<Box<dyn Executable + 'a>, Error> {
//!         let id = std::str::from_utf8(code).ok().and_then(|text| text.parse().ok());
//!         let id = ConstantId(id.ok_or_else(|| Error::new("damaged code"))?);
//!         Ok(Box::new(Run { by: constants.host(id)?.to_vec::<f32>()?[0] }))
//!     }
//! }
//!
//! struct Run { by: f32 }
//!
//! impl Executable for Run {
//!     fn run(&mut self, inputs: &[TensorView], outputs: &mut [TensorViewMut]) -> Result<(), Error> {
//!         let (Some(x), Some(y)) = (inputs[0].as_slice::<f32>(), outputs[0].as_mut_slice::<f32>()) else {
//!             return Err(Error::new("expected tensors of f32"));
//!         };
//!         for (y, x) in y.iter_mut().zip(x) {
//!             *y = x * self.by;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! register_backend!(Scale); // in the crate that holds the backend
//! export_plugin!();         // in a crate of type `cdylib`: makes lib<name>.so a plugin
//! # let backend = registered()[0];
//! # assert_eq!(backend.describe().name, "scale");
//! # let data = [3f32];
//! # let view = TensorView::from_slice(&data, &[1], &[1]).unwrap();
//! # let bound = BoundConstants::new(vec![BoundConstant { id: ConstantId(7), layout: None, view }]);
//! # let environment = Environment { threads: 1, options: Options::default() };
//! # let mut run = backend.runtime().host().unwrap().load(b"7", &bound, &environment).unwrap();
//! # let (x, mut y) = ([1f32, 2.0], [0f32; 2]);
//! # let input = TensorView::from_slice(&x, &[2], &[1]).unwrap();
//! # let output = TensorViewMut::from_slice(&mut y, &[2], &[1]).unwrap();
//! # run.run(&[input], &mut [output]).unwrap();
//! # assert_eq!(y, [3.0, 6.0]);
//! ```
//!
//! What crosses the border between host and plugin is not visible here: regions travel as JSON, tensors as borrowed
//! DLPack views, results through sinks; a panic becomes an error. `docs/abi.md` tells what is promised to stay.

mod abi;
mod backend;
mod call;
mod constants;
pub mod dlpack;
mod domain;
mod domain_tables;
mod dtype;
#[cfg(feature = "host")]
mod elf;
mod error;
mod events;
mod events_table;
mod export;
pub mod float_json;
#[cfg(feature = "host")]
pub mod host;
mod job;
mod operator;
mod options;
mod packed_group;
mod panics;
mod pattern;
mod precision;
mod region;
mod registry;
mod runtime;
mod sized_table;
pub mod small;
mod steps_table;
mod strings_table;
#[cfg(feature = "host")]
mod table;
mod tensor;
#[cfg(feature = "testing")]
pub mod testing;
mod text_block;
mod texts;
mod window;
pub use abi::{ABI_VERSION, OLDEST_ABI_VERSION};
pub use backend::*;
pub use constants::*;
pub use domain::*;
pub use dtype::*;
pub use error::*;
pub use events::{log, progress};
/// The elements of [`DType::F16`] and [`DType::BF16`].
pub use half::{bf16, f16};
pub use job::*;
pub use operator::*;
pub use options::*;
pub use packed_group::*;
pub use pattern::*;
pub use precision::*;
pub use region::*;
pub use registry::*;
pub use runtime::*;
pub use tensor::*;
pub use text_block::*;
pub use texts::*;
pub use window::*;

/// What the macros expand to. Not part of the contract.
#[doc(hidden)]
pub mod __private {
    pub use crate::abi::{PluginInfo, PluginModuleRef};
    pub use crate::export::{manifest, manifest_length, module};
    pub use abi_stable::library;
    pub use inventory;
}

//! Products and convolutions on NVIDIA's GPUs, as generated CUDA C++ on CUTLASS's templates, compiled by NVRTC when the
//! model is compiled. Weights stay with the host; code names them and has none of their bytes.

pub mod all_kernels;
mod attention;
mod buffers;
mod candidates;
mod codegen;
mod constants;
mod conv;
mod math;
mod patterns;
mod product;
mod runtime;
mod source;
mod steps;

use std::io::Write;

use byoc_nvidia::compile::Needs;
use byoc_nvidia::{build, tools};
use byoc_plugin_api::{
    Backend, BoundConstants, Candidate, Claims, Constants, Description, DeviceConstants, DeviceExecutable, Domain,
    DomainHandles, Environment, Error, Executable, OptionKind, OptionSpec, Options, Pattern, Refusal, Region,
    RegionPolicy, Tool,
};

/// What the backend is called.
pub(crate) const NAME: &str = "cutlass";

/// The backend. It has no state: every call gets all that it needs.
struct CutlassBackend;

impl Backend for CutlassBackend {
    fn describe(&self) -> Description {
        let math = OptionSpec {
            name: math::NAME.into(),
            kind: OptionKind::Choice(vec!["f32".into(), "tf32".into()]),
            default: "f32".into(),
            help: "How f32 is multiplied: not at all here, or rounded to TF32".into(),
        };
        Description {
            name: NAME.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Products and convolutions on NVIDIA GPUs, by CUTLASS".into(),
            regions: RegionPolicy { merge: true, check_merged: true, ..RegionPolicy::default() },
            options: build::options().into_iter().chain([math]).collect(),
            domain: Some("cuda".into()),
            candidates: true,
            run_options: build::run_options(),
            ..Description::default()
        }
    }

    fn tools(&self, options: &Options) -> Result<Vec<Tool>, Error> {
        Ok(tools::tools(options, Needs { cutlass: true, ..Needs::default() }))
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(patterns::patterns())
    }

    fn check(&self, candidate: &Region, options: &Options) -> Result<(), Refusal> {
        patterns::check(candidate, options)
    }

    fn codegen(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        options: &Options,
        code: &mut dyn Write,
    ) -> Result<(), Error> {
        codegen::codegen(region, constants, options, code)
    }

    fn constant_updater(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        _: &[u8],
        options: &Options,
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        constants::constant_updater(region, constants, options, claims)
    }

    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        Err(Error::new("cutlass runs its regions on a device of the domain cuda, not in the host's memory"))
    }

    fn candidates(&self, code: &[u8], options: &Options) -> Result<Vec<Candidate>, Error> {
        candidates::candidates(code, options)
    }

    fn open_domain(&self, ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
        runtime::open_domain(ordinal, options)
    }

    fn load_on<'a>(
        &self,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &Environment,
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        runtime::load_on(code, constants, environment, domain)
    }
}

byoc_plugin_api::register_backend!(CutlassBackend);
byoc_plugin_api::export_plugin!("cutlass");

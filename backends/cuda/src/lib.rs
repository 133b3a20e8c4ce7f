//! What no library computes on NVIDIA's GPUs, as generated CUDA C++: neighbouring nodes become few kernels, which read their
//! operands once and write their results once. Constants are left to the host; the code is the machine code of the kernels
//! and how they are launched. NVRTC is needed to compile a region, and a GPU to run one.

pub mod all_kernels;
mod codegen;
mod constants;
mod index;
mod ir;
mod kernel;
mod kernels;
mod lower;
mod patterns;
mod plan;
mod runtime;
#[cfg(test)]
mod tests;

use std::io::Write;

use byoc_nvidia::compile::Needs;
use byoc_nvidia::{build, tools};
use byoc_plugin_api::{
    Backend, BoundConstants, Claims, ConstantAccess, Constants, Description, DeviceConstants, DeviceExecutable, Domain,
    DomainHandles, Environment, Error, Executable, Options, Pattern, Refusal, Region, RegionPolicy, Tool,
};

/// The backend. It has no state: every call gets all that it needs.
struct CudaBackend;

impl Backend for CudaBackend {
    fn describe(&self) -> Description {
        Description {
            name: "cuda".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "All but products on NVIDIA GPUs, by generated kernels".into(),
            regions: RegionPolicy { merge: true, ..RegionPolicy::default() },
            constant_access: ConstantAccess::Load,
            options: build::options(),
            domain: Some("cuda".into()),
            run_options: build::run_options(),
            ..Description::default()
        }
    }

    fn tools(&self, options: &Options) -> Result<Vec<Tool>, Error> {
        Ok(tools::tools(options, Needs::default()))
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(patterns::patterns())
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        patterns::check(candidate)
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
        code: &[u8],
        _: &Options,
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        constants::constant_updater(region, constants, code, claims)
    }

    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        Err(Error::new("cuda runs its regions on a device of the domain cuda, not in the host's memory"))
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

byoc_plugin_api::register_backend!(CudaBackend);
byoc_plugin_api::export_plugin!("cuda");

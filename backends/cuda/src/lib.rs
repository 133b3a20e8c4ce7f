//! What no library computes on NVIDIA's GPUs, as generated CUDA C++: neighbouring nodes become few kernels, which read their
//! operands once and write their results once. Constants are left to the host; the code is the machine code of the kernels
//! and how they are launched. NVRTC is needed to compile a region, and a GPU to run one.

pub mod all_kernels;
mod codegen;
mod constants;
mod expr;
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
    Backend, Claims, ConstantAccess, Description, Error, Generated, Job, Options, Pattern, Refusal, Region,
    RegionPolicy, Runtime, Tool,
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
            regions: RegionPolicy { merge: true, side_by_side: true, ..RegionPolicy::default() },
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

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        codegen::codegen(job, code)
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], learnt: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        constants::constant_updater(job, learnt, claims)
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Device(self)
    }
}

byoc_plugin_api::register_backend!(CudaBackend);
byoc_plugin_api::export_plugin!("cuda");

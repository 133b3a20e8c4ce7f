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
mod step;

use std::io::Write;

use byoc_nvidia::compile::Needs;
use byoc_nvidia::{build, tools};
use byoc_plugin_api::{
    Backend, Candidate, Claims, Description, Error, Generated, Job, OptionSpec, Options, Pattern, Refusal, Region,
    RegionPolicy, Runtime, Tool,
};

/// What the backend is called.
pub(crate) const NAME: &str = "cutlass";

/// The backend. It has no state: every call gets all that it needs.
struct CutlassBackend;

impl Backend for CutlassBackend {
    fn describe(&self) -> Description {
        let help = "How f32 is multiplied: not at all here, or rounded to TF32";
        let tile = "Only this tile for products, by the name that `byoc tune` gives it, such as '128x256x64_4 wgmma'";
        let tile = OptionSpec::text(product::TILE, "", tile);
        let math = OptionSpec::choice(math::NAME, &["f32", "tf32"], help);
        Description {
            name: NAME.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Products and convolutions on NVIDIA GPUs, by CUTLASS".into(),
            regions: RegionPolicy { merge: true, side_by_side: true, check_merged: true, ..RegionPolicy::default() },
            options: build::options().into_iter().chain([math, tile]).collect(),
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

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        codegen::codegen(job, code)
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], learnt: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        constants::constant_updater(job, learnt, claims)
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Device(self)
    }

    fn candidates(&self, code: &[u8], options: &Options) -> Result<Vec<Candidate>, Error> {
        candidates::candidates(code, options)
    }
}

byoc_plugin_api::register_backend!(CutlassBackend);
byoc_plugin_api::export_plugin!("cutlass");

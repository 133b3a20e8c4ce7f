//! Products of matrices on NVIDIA's GPUs: what cublasLt computes in one call, with a bias, a residual and an activation.
//! Constants are left to the host; the code is a JSON text that names the call. CUDA is needed to run a region, and for
//! nothing before that.

mod codegen;
mod constants;
mod patterns;
mod problem;
mod runtime;

use std::io::Write;

use byoc_nvidia::build::LIBRARY_PATH;
use byoc_plugin_api::{
    Backend, Claims, ConstantAccess, Description, Error, Generated, Job, OptionSpec, Options, Pattern, Refusal, Region,
    Runtime,
};

/// The backend. It has no state: every call gets all that it needs.
struct CublasBackend;

impl Backend for CublasBackend {
    fn describe(&self) -> Description {
        let gelu = "Take GELU with erf for the one with tanh, which differs by up to 4e-4";
        Description {
            name: "cublas".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Products of matrices on NVIDIA GPUs, by cublasLt".into(),
            constant_access: ConstantAccess::Load,
            options: vec![
                OptionSpec::choice(
                    codegen::MATH,
                    &["f32", "tf32"],
                    "How f32 is multiplied: as it is, or rounded to TF32, which is faster",
                ),
                OptionSpec::bool(patterns::GELU_TANH, false, gelu),
            ],
            domain: Some("cuda".into()),
            run_options: vec![
                OptionSpec::int(runtime::WORKSPACE, 32, "MiB of scratch memory that cublasLt may use"),
                OptionSpec::text(LIBRARY_PATH, "", "Folder with CUDA's libraries, searched first"),
            ],
            ..Description::default()
        }
    }

    fn patterns(&self, options: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(patterns::patterns(options))
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
}

byoc_plugin_api::register_backend!(CublasBackend);
byoc_plugin_api::export_plugin!("cublas");

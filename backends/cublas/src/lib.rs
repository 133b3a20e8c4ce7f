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
    Backend, BoundConstants, Claims, ConstantAccess, Constants, Description, DeviceConstants, DeviceExecutable, Domain,
    DomainHandles, Environment, Error, Executable, OptionKind, OptionSpec, Options, Pattern, Refusal, Region,
};

/// The backend. It has no state: every call gets all that it needs.
struct CublasBackend;

fn option(name: &str, kind: OptionKind, default: &str, help: &str) -> OptionSpec {
    OptionSpec { name: name.into(), kind, default: default.into(), help: help.into() }
}

impl Backend for CublasBackend {
    fn describe(&self) -> Description {
        let maths = OptionKind::Choice(vec!["f32".into(), "tf32".into()]);
        let gelu = "Take GELU with erf for the one with tanh, which differs by up to 4e-4";
        Description {
            name: "cublas".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Products of matrices on NVIDIA GPUs, by cublasLt".into(),
            constant_access: ConstantAccess::Load,
            options: vec![
                option(
                    codegen::MATH,
                    maths,
                    "f32",
                    "How f32 is multiplied: as it is, or rounded to TF32, which is faster",
                ),
                option(patterns::GELU_TANH, OptionKind::Bool, "false", gelu),
            ],
            domain: Some("cuda".into()),
            run_options: vec![
                option(runtime::WORKSPACE, OptionKind::Int, "32", "MiB of scratch memory that cublasLt may use"),
                option(LIBRARY_PATH, OptionKind::Text, "", "Folder with CUDA's libraries, looked into first"),
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

    fn codegen(
        &self,
        region: &Region,
        _: &Constants<'_>,
        options: &Options,
        code: &mut dyn Write,
    ) -> Result<(), Error> {
        codegen::codegen(region, options, code)
    }

    fn constant_updater(
        &self,
        region: &Region,
        _: &Constants<'_>,
        _: &[u8],
        options: &Options,
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        constants::constant_updater(region, options, claims)
    }

    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        Err(Error::new("cublas runs its regions on a device of the domain cuda, not in the host's memory"))
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

byoc_plugin_api::register_backend!(CublasBackend);
byoc_plugin_api::export_plugin!("cublas");

//! The Kendryte K210 backend: convolutional networks as bytes on the KPU, its code a genuine kmodel v3, its runtime a
//! simulator of the chip.

mod codegen;
mod constants;
mod files;
pub mod kmodel;
mod lower;
mod net;
mod patterns;
mod place;
pub mod quantize;
pub mod runtime;
pub mod simulator;
#[cfg(test)]
mod tests;
mod trailer;

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, CodeFile, ConstantAccess, Constants, Description, Environment, Error, Executable,
    OptionKind, OptionSpec, Options, Pattern, Refusal, Region, RegionPolicy,
};

/// Changes whenever `load` could not read older code.
const CODE_VERSION: u32 = 1;

/// The backend. It has no state.
struct KendryteBackend;

fn option(name: &str, kind: OptionKind, default: &str, help: &str) -> OptionSpec {
    OptionSpec { name: name.into(), kind, default: default.into(), help: help.into() }
}

impl Backend for KendryteBackend {
    fn describe(&self) -> Description {
        let methods = quantize::METHODS.map(|(name, _)| name.into());
        Description {
            name: "kendryte".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: CODE_VERSION,
            summary: "Convolutional networks in 8 bits for the Kendryte K210, as kmodel v3".into(),
            host: false,
            regions: RegionPolicy {
                merge: true,
                max_inputs: Some(1),
                starts_with: vec!["Conv".into()],
                check_merged: true,
            },
            constant_access: ConstantAccess::Codegen,
            options: vec![
                option(
                    "calibrate-method",
                    OptionKind::Choice(methods.into()),
                    "minmax",
                    "Which range of the observed values is kept (no_clip is minmax, cdf is percentile)",
                ),
                option("float-dense", OptionKind::Bool, "false", "Fully connected layers in f32 on the CPU"),
                option(
                    "require-whole-model",
                    OptionKind::Bool,
                    "false",
                    "Fail unless the whole model becomes one kmodel, for those who flash it",
                ),
            ],
            calibration: true,
            files: files::formats(),
            ..Description::default()
        }
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
        _: &Constants<'_>,
        _: &[u8],
        _: &Options,
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        constants::constant_updater(region, claims)
    }

    fn load<'a>(
        &self,
        code: &'a [u8],
        _: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        runtime::load(code, environment.threads)
    }

    fn open(&self, file: &[u8]) -> Result<CodeFile, Error> {
        files::open(file)
    }
}

byoc_plugin_api::register_backend!(KendryteBackend);

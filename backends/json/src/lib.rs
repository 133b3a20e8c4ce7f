//! The JSON runtime: the host backend of byoc. It takes every operator that has a reference kernel, lowers and fuses
//! the region, writes the steps as JSON, and runs them on the CPU.

mod codegen;
mod constants;
pub mod kernels;
mod patterns;
mod program;
pub mod reference;
mod runtime;
#[cfg(test)]
mod tests;

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, ConstantAccess, Constants, Description, Environment, Error, Executable,
    OptionKind, OptionSpec, Options, Pattern, Refusal, Region, RegionPolicy,
};

struct Json;

fn option(name: &str, kind: OptionKind, default: &str, help: &str) -> OptionSpec {
    OptionSpec { name: name.into(), kind, default: default.into(), help: help.into() }
}

impl Backend for Json {
    fn describe(&self) -> Description {
        let kernels = OptionKind::Choice(vec!["fast".into(), "reference".into()]);
        Description {
            name: "json".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: program::VERSION,
            summary: "The host: every operator on the CPU, fused".into(),
            host: true,
            regions: RegionPolicy { merge: true, ..RegionPolicy::default() },
            constant_access: ConstantAccess::Both,
            options: vec![
                option("kernels", kernels, "fast", "reference: plain kernels one node at a time, to compare with"),
                option("fusion", OptionKind::Bool, "true", "Whether neighbouring operators become one kernel"),
                option("pack", OptionKind::Bool, "true", "Whether weights are stored in the layout of the kernels"),
            ],
            ..Description::default()
        }
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
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        runtime::load(code, constants, environment)
    }
}

byoc_plugin_api::register_backend!(Json);

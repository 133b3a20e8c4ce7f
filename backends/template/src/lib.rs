//! The template backend: takes `Add` of two f32 tensors of one shape and leaves constants to the host. Each file has one
//! job; replace one after another by what the hardware needs.

mod codegen;
mod constants;
mod patterns;
mod runtime;
#[cfg(test)]
mod tests;

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, ConstantAccess, Constants, Description, Environment, Error, Executable, Options,
    Pattern, Refusal, Region, RegionPolicy,
};

/// The backend. It has no state: every call gets all that it needs.
struct TemplateBackend;

impl Backend for TemplateBackend {
    fn describe(&self) -> Description {
        Description {
            name: "template".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Element-wise Add of f32 tensors".into(),
            host: false,
            regions: RegionPolicy::default(),
            constant_access: ConstantAccess::Load,
            options: vec![],
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(patterns::patterns())
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        patterns::check(candidate)
    }

    fn codegen(&self, region: &Region, _: &Constants<'_>, _: &Options, code: &mut dyn Write) -> Result<(), Error> {
        codegen::codegen(region, code)
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
        constants: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        runtime::load(code, constants)
    }
}

byoc_plugin_api::register_backend!(TemplateBackend);
byoc_plugin_api::export_plugin!("template");

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
    Backend, Claims, ConstantAccess, Description, Error, Generated, Job, Options, Pattern, Refusal, Region,
    RegionPolicy, Runtime,
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

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        codegen::codegen(job, code)
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        constants::constant_updater(job.region, claims)
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

byoc_plugin_api::register_backend!(TemplateBackend);
byoc_plugin_api::export_plugin!("template");

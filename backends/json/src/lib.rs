//! The JSON runtime: the host backend of byoc. It takes every operator that has a reference kernel, lowers and fuses
//! the region, writes the steps as JSON, and runs them on the CPU.

mod codegen;
mod constants;
pub mod kernels;
mod operators;
mod patterns;
mod program;
mod runtime;
#[cfg(test)]
mod tests;

pub use byoc_json_reference as reference;

use std::io::Write;

use byoc_plugin_api::{
    Backend, Claims, ConstantAccess, DType, Description, Error, Generated, Job, OptionSpec, Options, OutputType,
    Pattern, Refusal, Region, RegionPolicy, Runtime,
};

struct Json;

impl Backend for Json {
    fn describe(&self) -> Description {
        Description {
            name: "json".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: program::VERSION,
            summary: "The host: every operator on the CPU, fused".into(),
            host: true,
            regions: RegionPolicy { merge: true, side_by_side: true, size_inputs: true, ..RegionPolicy::default() },
            constant_access: ConstantAccess::Both,
            options: vec![
                OptionSpec::choice(
                    "kernels",
                    &["fast", "reference"],
                    "reference: plain kernels one node at a time, to compare with",
                ),
                OptionSpec::bool("fusion", true, "Whether neighbouring operators become one kernel"),
                OptionSpec::bool("pack", true, "Whether weights are stored in the layout of the kernels"),
                OptionSpec::choice(
                    "weights",
                    &["model", "f16", "bf16", "int8"],
                    "Type in which weights of matrix products and filters of convolutions are stored: 16 bits round them, int8 rounds what they are multiplied by too",
                ),
                OptionSpec::choice(
                    "math",
                    &kernels::Math::NAMES,
                    "How f32 is computed where the processor is faster at products of bf16: bf16x6 as exactly and bf16x3 with 16 bits (AMX), bf16 with 8 (AMX, or AVX512-BF16 of AMD)",
                ),
                OptionSpec::bool(
                    "winograd",
                    true,
                    "Whether 3x3 convolutions may be computed by fewer multiplications (Winograd), which rounds differently",
                ),
            ],
            operators: operators::operators(),
            run_time_sizes: true,
            types: DType::all().filter(|dtype| dtype.is_asked_for()).collect(),
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

    fn constant_updater(&self, job: &Job<'_>, code: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        constants::constant_updater(job, code, claims)
    }

    fn infer(&self, candidate: &Region, _: &Options) -> Result<Vec<OutputType>, Error> {
        operators::infer(candidate)
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

byoc_plugin_api::register_backend!(Json);

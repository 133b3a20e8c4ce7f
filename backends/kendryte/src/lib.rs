//! The Kendryte K210 backend: convolutional networks as bytes on the KPU, its code a genuine kmodel v3, its runtime a
//! simulator of the chip.

mod codegen;
mod constants;
mod files;
mod given;
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
    Backend, Claims, CodeFile, ConstantAccess, Description, Error, Generated, Job, OptionSpec, Options, Pattern,
    Refusal, Region, RegionPolicy, Runtime,
};

use kmodel::check::GENERAL_MEMORY;

/// Changes whenever `load` could not read older code.
const CODE_VERSION: u32 = 2;

/// The backend. It has no state.
struct KendryteBackend;

impl Backend for KendryteBackend {
    fn describe(&self) -> Description {
        let methods = quantize::METHODS.map(|(name, _)| name);
        Description {
            name: "kendryte".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: CODE_VERSION,
            summary: "Convolutional networks in 8 bits for the Kendryte K210, as kmodel v3".into(),
            host: false,
            regions: RegionPolicy {
                merge: true,
                max_inputs: Some(1),
                // What stands in front of the first convolution goes into it.
                starts_with: ["Conv", "Pad", "Sub", "Div", "Mul"].map(String::from).into(),
                check_merged: true,
                side_by_side: true,
                ..RegionPolicy::default()
            },
            constant_access: ConstantAccess::Codegen,
            options: vec![
                OptionSpec::choice(
                    "calibrate-method",
                    &methods,
                    "Which range of the observed values is kept (no_clip is minmax, cdf is percentile)",
                ),
                OptionSpec::bool("float-dense", false, "Fully connected layers in f32 on the CPU"),
                OptionSpec::bool(
                    "require-whole-model",
                    false,
                    "Fail unless the whole model becomes one kmodel, for those who flash it",
                ),
                OptionSpec::int(
                    "memory-budget",
                    i64::from(GENERAL_MEMORY),
                    "Most bytes for the kmodel and its main memory; with require-whole-model, or below the 6 MiB of a K210, \
                     more is an error",
                ),
                OptionSpec::text(
                    "input-mean",
                    "",
                    "What the model takes from each pixel of 0 to 1, one number or one a channel, so that the input's bytes are \
                     pixels; a data set of images sets it",
                ),
                OptionSpec::text(
                    "input-std",
                    "",
                    "What the model divides each pixel by after that; a data set of images sets it",
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

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        codegen::codegen(job, code)
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        constants::constant_updater(job.region, claims)
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }

    fn open(&self, file: &[u8]) -> Result<CodeFile, Error> {
        files::open(file)
    }
}

byoc_plugin_api::register_backend!(KendryteBackend);

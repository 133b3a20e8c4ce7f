//! A backend as a vendor would write it, of a made-up DSP: convolutions with weights of 16 bits, products with weights of 16 or of 8
//! bits, each weight packed in a form of its own. It says how near to exact that is.

mod codegen;
mod constants;
mod packing;
mod patterns;
mod runtime;

use std::io::Write;

use byoc_plugin_api::{
    Backend, Claims, ConstantAccess, Description, Error, Generated, Job, OptionSpec, Options, Pattern, Precision,
    Refusal, Region, Runtime,
};

struct Tarn;

impl Backend for Tarn {
    fn describe(&self) -> Description {
        let precision =
            |op: &str, noise_db| Precision { ops: vec![op.into()], noise_db: Some(noise_db), ..Precision::default() };
        Description {
            name: "tarn".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Convolutions and products on the Tarn DSP".into(),
            constant_access: ConstantAccess::Both,
            options: vec![
                OptionSpec::choice("matrices", &["bf16", "int8"], "What the matrices of products are stored in"),
                OptionSpec::choice("bug", &["none", "plus-one", "scale-of-next"], "What is wrong, for the tests"),
            ],
            precision: vec![precision("Conv", 45.0), precision("MatMul", 30.0)],
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
        constants::constant_updater(job, claims)
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

byoc_plugin_api::register_backend!(Tarn);
byoc_plugin_api::export_plugin!("tarn");

//! Five small backends in one plugin. They compute alike and differ in where they keep constants, as real ones do: in
//! the code, with the host, or packed. Each constant of a region is named in the code with its home, so the claims
//! follow from the code.

mod codegen;
mod constants;
mod patterns;
mod program;
mod runtime;

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, ConstantAccess, Constants, Description, Environment, Error, Executable,
    OptionKind, OptionSpec, Options, Pattern, Refusal, Region, RegionPolicy,
};
use program::Home;

/// A backend: what it takes, and where it keeps constants.
struct Variant {
    name: &'static str,
    summary: &'static str,
    /// Pattern texts.
    takes: &'static [&'static str],
    /// Whether neighbouring nodes become one region.
    merge: bool,
    home: Home,
    /// The packed layout, unless an option names another.
    layout: &'static str,
}

const MATMUL: &[&str] = &["(MatMul ?x ?w:const)"];

/// As cuBLAS: one call a region, all weights by pointer.
const BLAS: Variant = Variant {
    name: "blas",
    summary: "Matrix products with weights by pointer",
    takes: MATMUL,
    merge: false,
    home: Home::Host,
    layout: "",
};

/// As CUTLASS: fused kernels in source form, every constant a parameter.
const CSOURCE: Variant = Variant {
    name: "csource",
    summary: "C source with constants as parameters",
    takes: &[
        "(MatMul ?x ?w:const)",
        "(Add ?x ?y)",
        "(Mul ?x ?y)",
        "(Div ?x ?y)",
        "(Erf ?x)",
        "(Where ?c:const ?x ?w:const)",
    ],
    merge: true,
    ..BLAS
};

/// As the compiler of Kendryte's accelerator: weights, quantised or not, are part of the code.
const EMBEDDER: Variant =
    Variant { name: "embedder", summary: "Matrix products with weights in the code", home: Home::Embedded, ..BLAS };

/// As a library of kernels for one processor: weights in panels of columns.
const PANELS: Variant = Variant {
    name: "panels",
    summary: "Matrix products with packed weights",
    home: Home::Packed,
    layout: "panels-8/1",
    ..BLAS
};

/// As `panels`, with other panels, for the other operator of matrix products.
const SLABS: Variant = Variant { name: "slabs", takes: &["(Gemm ?x ?w:const)"], layout: "panels-16/1", ..PANELS };

impl Variant {
    fn options(&self) -> Vec<OptionSpec> {
        let option = |name: &str, kind, default: &str, help: &str| OptionSpec {
            name: name.into(),
            kind,
            default: default.into(),
            help: help.into(),
        };
        let mut options = vec![option("most", OptionKind::Int, "0", "Bytes of the largest weight taken; 0 for any")];
        match self.home {
            Home::Embedded | Home::Quantised => {
                let words = OptionKind::Choice(vec!["f32".into(), "i8".into()]);
                options.push(option("precision", words, "f32", "Type of the weights in the code"));
            }
            Home::Packed => options.extend([
                option("layout", OptionKind::Text, self.layout, "panels-N/1: panels of N columns"),
                option("expect", OptionKind::Text, "", "The layout that load wants; the same where empty"),
                option("feature", OptionKind::Text, "", "Processor feature that the layout is for"),
                option("honour", OptionKind::Bool, "true", "Leave weights to the host that others need unpacked"),
            ]),
            Home::Host => {}
        }
        options
    }
}

impl Backend for Variant {
    fn describe(&self) -> Description {
        Description {
            name: self.name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: self.summary.into(),
            host: false,
            regions: RegionPolicy { merge: self.merge, ..RegionPolicy::default() },
            constant_access: ConstantAccess::Both,
            options: self.options(),
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(patterns::patterns(self))
    }

    fn check(&self, candidate: &Region, options: &Options) -> Result<(), Refusal> {
        patterns::check(self, candidate, options)
    }

    fn codegen(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        options: &Options,
        code: &mut dyn Write,
    ) -> Result<(), Error> {
        codegen::codegen(self, region, constants, options, code)
    }

    fn constant_updater(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        code: &[u8],
        options: &Options,
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        constants::constant_updater(region, constants, code, options, claims)
    }

    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        runtime::load(code, constants, &environment.options)
    }
}

byoc_plugin_api::register_backend!(BLAS);
byoc_plugin_api::register_backend!(CSOURCE);
byoc_plugin_api::register_backend!(EMBEDDER);
byoc_plugin_api::register_backend!(PANELS);
byoc_plugin_api::register_backend!(SLABS);
byoc_plugin_api::export_plugin!();

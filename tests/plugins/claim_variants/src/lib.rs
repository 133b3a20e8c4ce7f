//! Five small backends in one plugin. They compute alike and differ in where they keep constants, as real ones do: in
//! the code, with the host, or packed. Each constant of a region is named in the code with its placement, so the claims
//! follow from the code.

mod codegen;
mod constants;
mod patterns;
mod program;
mod runtime;

use std::io::Write;

use byoc_plugin_api::{
    Backend, Claims, ConstantAccess, Description, Error, Generated, Job, OptionSpec, Options, Pattern, Refusal, Region,
    RegionPolicy, Runtime,
};
use program::Placement;

/// A backend: what it takes, and where it keeps constants.
struct Variant {
    name: &'static str,
    summary: &'static str,
    /// Pattern texts.
    takes: &'static [&'static str],
    /// Whether neighbouring nodes become one region.
    merge: bool,
    placement: Placement,
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
    placement: Placement::Host,
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
const EMBEDDER: Variant = Variant {
    name: "embedder",
    summary: "Matrix products with weights in the code",
    placement: Placement::Embedded,
    ..BLAS
};

/// As a library of kernels for one processor: weights in panels of columns.
const PANELS: Variant = Variant {
    name: "panels",
    summary: "Matrix products with packed weights",
    placement: Placement::Packed,
    layout: "panels-8/1",
    ..BLAS
};

/// As `panels`, with other panels, for the other operator of matrix products.
const SLABS: Variant = Variant { name: "slabs", takes: &["(Gemm ?x ?w:const)"], layout: "panels-16/1", ..PANELS };

impl Variant {
    fn options(&self) -> Vec<OptionSpec> {
        let mut options = vec![OptionSpec::int("most", 0, "Bytes of the largest weight taken; 0 for any")];
        match self.placement {
            Placement::Embedded | Placement::Quantised => {
                options.push(OptionSpec::choice("precision", &["f32", "i8"], "Type of the weights in the code"));
            }
            Placement::Packed => options.extend([
                OptionSpec::text("layout", self.layout, "panels-N/1: panels of N columns"),
                OptionSpec::text("expect", "", "The layout that load wants; the same where empty"),
                OptionSpec::text("feature", "", "Processor feature that the layout is for"),
                OptionSpec::bool("honour", true, "Leave weights to the host that others need unpacked"),
            ]),
            Placement::Host => {}
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

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        codegen::codegen(self, job, code)
    }

    fn constant_updater(&self, job: &Job<'_>, code: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        constants::constant_updater(job, code, claims)
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

byoc_plugin_api::register_backend!(BLAS);
byoc_plugin_api::register_backend!(CSOURCE);
byoc_plugin_api::register_backend!(EMBEDDER);
byoc_plugin_api::register_backend!(PANELS);
byoc_plugin_api::register_backend!(SLABS);
byoc_plugin_api::export_plugin!();

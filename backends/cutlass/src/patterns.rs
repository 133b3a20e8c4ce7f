//! What the backend takes, and why not.

use byoc_nvidia::attention;
use byoc_nvidia::form::{self, Erf, Takes};
use byoc_plugin_api::{DType, Options, Pattern, Refusal, Region};

use crate::{conv, steps};

/// The option that says with what precision f32 is multiplied.
pub(crate) const MATH: &str = "math";

/// Whether f32 may be rounded to TF32.
pub(crate) fn tf32(options: &Options) -> bool {
    options.text(MATH) == "tf32"
}

/// Attention, then convolutions and products, the longest of each first.
pub(crate) fn patterns() -> Vec<Pattern> {
    let products = form::patterns("(or (MatMul ?x ?w) (Gemm ?x ?w ?c?))", &TAKES);
    attention::patterns().into_iter().chain(conv::patterns()).chain(products).collect()
}

/// What is read as a product. f32 is among its types, so that the reason why it is not taken can be told.
pub(crate) const TAKES: Takes =
    Takes { types: &[DType::F16, DType::BF16, DType::F32], erf: Erf::Taken, silu: true, wide_bias: true };

/// Accepts what kernels are generated for.
pub(crate) fn check(candidate: &Region, options: &Options) -> Result<(), Refusal> {
    if conv::is_one(candidate) {
        return conv::check(candidate, tf32(options));
    }
    steps::read(candidate, options, &|_| None).map(drop)
}

//! Which regions the backend supports, and why it refuses others.

use byoc_nvidia::attention;
use byoc_nvidia::match_product;
use byoc_plugin_api::{Options, Pattern, Refusal, Region};

use crate::{conv, math, product, step};

/// Attention, then convolutions and products, the longest of each first.
pub(crate) fn patterns() -> Vec<Pattern> {
    let products = match_product::patterns("(or (MatMul ?x ?w) (Gemm ?x ?w ?c?))", &product::SUPPORTED);
    attention::patterns().into_iter().chain(conv::patterns()).chain(products).collect()
}

/// Accepts a region for which kernels can be generated.
pub(crate) fn check(candidate: &Region, options: &Options) -> Result<(), Refusal> {
    if conv::is_one(candidate) {
        return conv::check(candidate, math::tf32(options));
    }
    step::read(candidate, options, &|_| None).map(drop)
}

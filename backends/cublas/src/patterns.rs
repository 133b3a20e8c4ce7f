//! Which regions the backend supports, and why it refuses others.

use byoc_nvidia::match_product::{self, Erf, MatchedProduct, Supported};
use byoc_nvidia::matmul;
use byoc_nvidia::product::{Activation, Factor, MatrixView, Product};
use byoc_plugin_api::{DType, Dim, Options, Pattern, Refusal, RefusalCode, Region, contiguous_strides};

use crate::problem::{Matrices, Tensor, problem};

/// The option that approximates GELU with erf by GELU with tanh.
pub(crate) const GELU_TANH: &str = "gelu-tanh";

/// Products with the epilogues that one call computes, the longest first.
pub(crate) fn patterns(options: &Options) -> Vec<Pattern> {
    match_product::patterns("(or (MatMul ?x ?w) (Gemm ?x ?w ?c?) (Conv ?x ?w ?b?))", &supported(options))
}

/// The fused GEMMs that cublasLt supports with these options.
fn supported(options: &Options) -> Supported {
    let erf = if options.bool(GELU_TANH) { Erf::AsTanh } else { Erf::Refused };
    Supported { types: &[DType::F32, DType::F64, DType::F16, DType::BF16], erf, silu: false, wide_bias: false }
}

/// Matches a region to one product that cublasLt computes.
pub(crate) fn read(region: &Region, options: &Options) -> Result<MatchedProduct, Refusal> {
    let matched = match_product::read(region, &supported(options))?;
    if matched.product.dtype == DType::F64 && matched.product.activation != Activation::None {
        return Err(Refusal::new(RefusalCode::Type, "the product is f64, to which cublasLt applies no activation"));
    }
    Ok(matched)
}

/// Accepts a region that is one product, in layouts that cublasLt supports.
pub(crate) fn check(candidate: &Region, options: &Options) -> Result<(), Refusal> {
    let product = read(candidate, options)?.product;
    match (fixed(&product.x), fixed(&product.w)) {
        (Some(x), Some(w)) => calls(&product, &x, &w).map(|_| ()),
        _ => unknown_sizes(&product),
    }
}

/// The number of calls for a product of contiguous operands.
fn calls(product: &Product<usize>, x: &[i64], w: &[i64]) -> Result<usize, Refusal> {
    let read = |read: MatrixView, shape: &[i64]| {
        let tensor = Tensor { shape, strides: &contiguous_strides(shape) };
        Matrices::read(read, tensor).ok_or_else(|| Refusal::new(RefusalCode::Shape, "a factor is not a matrix"))
    };
    let problem = problem(product, &read(product.x.read, x)?, &read(product.w.read, w)?);
    let problem = problem.map_err(|message| Refusal::new(RefusalCode::Shape, message))?;
    Ok(matmul::plan(&problem)?.offsets.len())
}

/// Layouts do not depend on sizes, but the number of calls may, where a batch broadcasts in more than one dimension, and it
/// has a limit. So it must not depend on an unknown size.
fn unknown_sizes(product: &Product<usize>) -> Result<(), Refusal> {
    if (product.x.read, product.w.read) != (MatrixView::Matrix, MatrixView::Matrix) {
        return Ok(());
    }
    let counts = [64, 96].map(|size| {
        let (x, w) = assumed(&product.x.shape, &product.w.shape, size);
        calls(product, &x, &w)
    });
    match counts {
        [Err(refusal), _] | [_, Err(refusal)] => Err(refusal),
        [Ok(one), Ok(other)] if one == other => Ok(()),
        _ => {
            let shapes = [&product.x, &product.w].map(|factor| match_product::shape_text(&factor.shape));
            let message =
                format!("the number of calls for {} by {} depends on sizes not known yet", shapes[0], shapes[1]);
            Err(Refusal::new(RefusalCode::Shape, message))
        }
    }
}

/// Shapes of 2 x 2 matrices with these batches. Unknown sizes are `size`, or the size of the other shape.
fn assumed(x: &[Dim], w: &[Dim], size: usize) -> (Vec<i64>, Vec<i64>) {
    let of = |own: &[Dim], other: &[Dim]| -> Vec<i64> {
        let (own, other) = (&own[..own.len() - 2], &other[..other.len() - 2]);
        let batch = own.iter().rev().enumerate().map(|(from_last, dim)| {
            let beside = other.iter().rev().nth(from_last).and_then(Dim::fixed).filter(|&size| size != 1);
            dim.fixed().or(beside).unwrap_or(size) as i64
        });
        let mut shape: Vec<_> = [2, 2].into_iter().chain(batch).collect();
        shape.reverse();
        shape
    };
    (of(x, w), of(w, x))
}

fn fixed(factor: &Factor<usize>) -> Option<Vec<i64>> {
    factor.shape.iter().map(|dim| dim.fixed().and_then(|size| i64::try_from(size).ok())).collect()
}

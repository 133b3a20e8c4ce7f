//! Emits the C++ that both kinds of GEMM kernel have in common: parameters, batch offsets, names of types.

use byoc_nvidia::product::Activation;
use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::{DType, Dim, Error};

use super::Sizes;
use super::gemm::{Batch, Gemm, Matrix, Order};

/// The parameters: the factors, the bias and c if there are any, y, and the sizes. `places` are the buffers of all but sizes.
pub(super) fn parameters(
    gemm: &Gemm,
    factors: [String; 2],
    places: &[BufferRef],
    sizes: &Sizes,
) -> Result<String, Error> {
    let element = element(gemm.dtype)?;
    let mut all = factors.to_vec();
    if let Some(bias) = gemm.bias {
        // Loads of a constant may pass stores to y. What a kernel in front computes is not constant to all of this one.
        let restrict = if matches!(places.get(2), Some(BufferRef::Constant(_))) { "__restrict__ " } else { "" };
        all.push(format!("{} const *{restrict}bias", self::element(bias)?));
    }
    if gemm.beta.is_some() {
        all.push(format!("{element} const *c"));
    }
    all.push(format!("{element} *y"));
    all.extend((0..sizes.0.len()).map(|at| format!("long long s{at}")));
    Ok(all.join(", "))
}

/// The index of the batch's member `z` along each of its dimensions, the outermost first.
pub(super) fn indices(gemm: &Gemm, sizes: &mut Sizes) -> Vec<String> {
    let mut inner = String::new();
    let mut all = Vec::new();
    for (at, batch) in gemm.batch.iter().enumerate().rev() {
        let count = sizes.text(&batch.count);
        // The outermost index needs no remainder.
        all.push(if at == 0 { format!("z{inner}") } else { format!("z{inner} % {count}") });
        inner += &format!(" / {count}");
    }
    all.reverse();
    all
}

/// The offset of one operand of the batch's member `z`.
fn offset(gemm: &Gemm, sizes: &mut Sizes, name: &str, step: &dyn Fn(&Batch) -> &Dim) -> String {
    let indices = indices(gemm, sizes);
    let mut terms = Vec::new();
    for (index, batch) in indices.iter().zip(&gemm.batch).filter(|(_, batch)| *step(batch) != Dim::Fixed(0)) {
        terms.push(format!("{index} * {}", sizes.text(step(batch))));
    }
    let sum = if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") };
    format!("long long const at_{name} = {sum};")
}

/// The offsets of x, w and y of the batch's member `z`.
pub(super) fn offsets(gemm: &Gemm, sizes: &mut Sizes) -> String {
    let (x, w) = (offset(gemm, sizes, "x", &|batch| &batch.x), offset(gemm, sizes, "w", &|batch| &batch.w));
    format!("  {x}\n  {w}\n  {}", offset_y(gemm, sizes))
}

/// The offset of y of the batch's member `z`.
pub(super) fn offset_y(gemm: &Gemm, sizes: &mut Sizes) -> String {
    offset(gemm, sizes, "y", &|batch| &batch.y)
}

pub(super) fn order(matrix: &Matrix) -> &'static str {
    match matrix.order {
        Order::Rows => "Rows",
        Order::Columns => "Columns",
    }
}

/// CUTLASS's name of a type.
pub(super) fn element(dtype: DType) -> Result<&'static str, Error> {
    match dtype {
        DType::F16 => Ok("cutlass::half_t"),
        DType::BF16 => Ok("cutlass::bfloat16_t"),
        DType::F32 => Ok("float"),
        _ => Err(Error::new(format!("no kernel multiplies {dtype}"))),
    }
}

/// The name of an activation in `epilogue.cuh`.
pub(super) fn activation(activation: Activation) -> &'static str {
    match activation {
        Activation::None => "Same",
        Activation::Relu => "Relu",
        Activation::Gelu => "GeluErf",
        Activation::GeluTanh => "GeluTanh",
        Activation::Silu => "Silu",
    }
}

//! Operators that put elements by index, after ONNX: ScatterElements 18, ScatterND 18.

use byoc_plugin_api::{DType, Dim};

use super::gather::elements_at;
use super::infer::{Infer, mismatch, unknown};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;
use crate::ir::TensorType;

const REDUCTIONS: &[&str] = &["none", "add", "mul", "max", "min"];

/// ScatterElements: the data with elements replaced or combined.
pub(super) fn scatter_elements(infer: &mut Infer<'_>) -> Result<()> {
    let (x, indices) = elements_at(infer)?;
    let updates = infer.like_first(2)?;
    reduction(infer)?;
    fits(&indices.shape, &updates)?;
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

/// Fails where what is no number would be combined with another.
fn reduction(infer: &Infer<'_>) -> Result<()> {
    let (x, how) = (infer.input(0)?, infer.choice("reduction", REDUCTIONS)?);
    if how == REDUCTIONS[0] || x.dtype.is_number() {
        return Ok(());
    }
    Err(Diagnostic::new(Code::TypeMismatch, format!("input 0 is {x}, and nothing is added to that")))
}

/// Fails where the updates are not of that shape.
fn fits(expected: &[Dim], updates: &TensorType) -> Result<()> {
    let same = |(a, b)| dim::same(a, b).is_some();
    if expected.len() == updates.shape.len() && expected.iter().zip(&updates.shape).all(same) {
        return Ok(());
    }
    let sizes = expected.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    Err(mismatch(format!("input 2 (updates) is {updates}, expected the shape [{sizes}]")))
}

/// ScatterND: the data with slices replaced or combined.
pub(super) fn scatter_nd(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let indices = infer.typed(1, &[DType::I64])?;
    let updates = infer.like_first(2)?;
    reduction(infer)?;
    let last = indices
        .shape
        .last()
        .ok_or_else(|| mismatch(format!("input 1 (indices) is {indices}, expected at least one dimension")))?;
    let depth = last.fixed().ok_or_else(|| unknown("the last size of input 1 (indices) is known only at run time"))?;
    if depth > x.shape.len() {
        return Err(mismatch(format!("input 1 (indices) is {indices}: rows of {depth} indices into {x}")));
    }
    let mut expected = indices.shape[..indices.shape.len() - 1].to_vec();
    expected.extend_from_slice(&x.shape[depth..]);
    fits(&expected, &updates)?;
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const SCATTERS: &[Case] = &[
        ("ScatterElements", "axis=1", "f32[b,4] i32[2,3] f32[2,3]", "f32[b,4]"),
        ("ScatterElements", "reduction=max", "u8[4] i64[9] u8[9]", "u8[4]"),
        ("ScatterElements", "", "f32[4] i64[2] f32[3]", "[B202] input 2 (updates) is f32[3], expected the shape [2]"),
        (
            "ScatterElements",
            "",
            "f32[4] i64[1]=4 f32[1]",
            "[B202] input 1 (indices) holds 4, but the axis has the size 4",
        ),
        ("ScatterND", "", "f32[4,4,4] i64[2,1] f32[2,4,4]", "f32[4,4,4]"),
        ("ScatterND", "reduction=add", "f32[n] i64[4,1] f32[4]", "f32[n]"),
        (
            "ScatterND",
            "reduction=or",
            "f32[n] i64[4,1] f32[4]",
            "[B106] attribute 'reduction' is 'or', expected one of none, add, mul, max, min",
        ),
        ("ScatterND", "", "f32[8] i64[4,1] f32[3]", "[B202] input 2 (updates) is f32[3], expected the shape [4]"),
        (
            "ScatterND",
            "",
            "f32[8] i64[4,2] f32[4]",
            "[B202] input 1 (indices) is i64[4,2]: rows of 2 indices into f32[8]",
        ),
        ("ScatterND", "", "f32[8] i64[] f32[4]", "[B202] input 1 (indices) is i64[], expected at least one dimension"),
    ];

    #[test]
    fn scatters() {
        check(SCATTERS);
    }
}

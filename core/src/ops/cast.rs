//! Cast, CastLike and BitCast, after ONNX: Cast 24, BitCast 26. The attribute `to` is ONNX's number of an element type.

use byoc_plugin_api::{DType, Dim};

use super::elements::{Scalar, round_to};
use super::infer::{Infer, bad};
use crate::diagnostic::{Code, Diagnostic, Result};
pub use crate::onnx_types::{from_onnx, to_onnx};

/// Cast.
pub(super) fn cast(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let to = infer.optional_int("to")?.ok_or_else(|| bad("attribute 'to' is missing"))?;
    let dtype = from_onnx(to)
        .ok_or_else(|| bad(format!("attribute 'to' is {to}, which is not an element type that byoc has")))?;
    if matches!(dtype, DType::C64 | DType::C128) {
        return Err(bad(format!("attribute 'to' is {to}, and nothing is cast to {dtype}")));
    }
    infer.choice("round_mode", &["up", "down", "nearest"])?;
    set(infer, dtype, x.shape);
    Ok(())
}

/// BitCast: the bits of another type of the same size.
pub(super) fn bit_cast(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let to = infer.optional_int("to")?.ok_or_else(|| bad("attribute 'to' is missing"))?;
    let dtype = from_onnx(to)
        .ok_or_else(|| bad(format!("attribute 'to' is {to}, which is not an element type that byoc has")))?;
    if dtype.bits() != x.dtype.bits() {
        let (bits, others) = (x.dtype.bits(), dtype.bits());
        let text = format!("input 0 is {x}, of {bits} bits an element, and {dtype} has {others}");
        return Err(Diagnostic::new(Code::TypeMismatch, text));
    }
    infer.set(0, dtype, x.shape);
    Ok(())
}

/// CastLike: a Cast to the type of input 1, which it is replaced by.
pub(super) fn cast_like(infer: &mut Infer<'_>) -> Result<()> {
    let (x, target) = (infer.input(0)?, infer.input(1)?);
    set(infer, target.dtype, x.shape);
    Ok(())
}

fn set(infer: &mut Infer<'_>, dtype: DType, shape: Vec<Dim>) {
    let cast_one = |value: &Scalar| cast_element(value, dtype);
    let elements = infer.known(0).and_then(|values| values.iter().map(cast_one).collect());
    infer.set(0, dtype, shape);
    infer.set_elements(elements);
}

fn cast_element(value: &Scalar, dtype: DType) -> Option<Scalar> {
    if dtype == DType::Bool {
        // A symbolic size may be 0; a number with a fraction is not.
        return match value {
            Scalar::Int(expr) => Some(Scalar::from(expr.equals(&crate::dim::Expr::from(0)).ok()?.map(|zero| !zero)?)),
            Scalar::Float(_) => Some(Scalar::from(true)),
        };
    }
    match value {
        // Towards zero. A number out of range wraps or saturates as the machine likes, so it is left unknown.
        Scalar::Float(value) if !dtype.is_float() => round_to(Scalar::from_f64(value.trunc() + 0.0)?, dtype),
        _ => round_to(value.clone(), dtype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, check};

    const CASTS: &[Case] = &[
        ("Cast", "to=7", "f32[2,n]", "i64[2,n]"),
        ("Cast", "to=1", "i64[2]=batch,3", "f32[2] = batch,3"),
        ("Cast", "to=7", "f32[2]=batch,-3.7", "i64[2] = batch,-3"),
        ("Cast", "to=7", "f32[1]=-0.5", "i64[1] = 0"),
        ("Cast", "to=9", "i64[2]=2,0", "bool[2] = 1,0"),
        ("Cast", "to=9", "i64[1]=batch", "bool[1] = unknown"),
        ("Cast", "to=3", "i64[1]=300", "i8[1] = unknown"),
        ("Cast", "to=3", "i64[1]=batch", "i8[1] = unknown"),
        ("Cast", "to=30", "i64[1]", "[B106] attribute 'to' is 30, which is not an element type that byoc has"),
        ("Cast", "", "i64[1]", "[B106] attribute 'to' is missing"),
        ("Cast", "to=22", "f8e5m2[n]", "i4[n]"),
        ("Cast", "to=26", "i64[2]=1,0", "i2[2] = unknown"),
        (
            "Cast",
            "to=24 round_mode=even",
            "f32[1]",
            "[B106] attribute 'round_mode' is 'even', expected one of up, down, nearest",
        ),
        ("BitCast", "to=6", "f32[2,n]", "i32[2,n]"),
        ("BitCast", "to=22", "u4[3]", "i4[3]"),
        ("BitCast", "to=7", "f32[2]", "[B201] input 0 is f32[2], of 32 bits an element, and i64 has 64"),
        ("BitCast", "", "f32[2]", "[B106] attribute 'to' is missing"),
        ("CastLike", "", "i64[2]=batch,3 f32[]", "f32[2] = batch,3"),
    ];

    #[test]
    fn casts() {
        check(CASTS);
    }

    #[test]
    fn every_type_has_a_number() {
        for dtype in DType::all() {
            assert_eq!(from_onnx(to_onnx(dtype)), Some(dtype));
        }
    }
}

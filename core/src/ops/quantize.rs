//! Quantisation and integer products, after ONNX: QuantizeLinear 25, DequantizeLinear 25, DynamicQuantizeLinear 11,
//! MatMulInteger 10, ConvInteger 10, QLinearMatMul 21, QLinearConv 10; QLinearMatMul without its floats of 8 bits.

use byoc_plugin_api::{DType, Dim};

use super::infer::{Infer, bad, mismatch};
use super::{cast, conv, matmul};
use crate::diagnostic::Result;
use crate::dim;
use crate::ir::TensorType;

/// Integers of 8 bits.
const BYTE: &[DType] = &[DType::I8, DType::U8];
/// Types of quantised elements.
#[rustfmt::skip]
const QUANTISED: &[DType] = &[
    DType::I8, DType::U8, DType::I16, DType::U16, DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ,
    DType::F4E2M1, DType::I4, DType::U4, DType::I2, DType::U2,
];
/// Types of what stands for quantised elements.
const REAL: &[DType] = &[DType::F32, DType::F16, DType::BF16];
/// Types of scales.
const SCALE: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F8E8M0];

/// QuantizeLinear.
pub(super) fn quantize(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, &[REAL, &[DType::I32]].concat())?;
    let scale = infer.typed(1, &[SCALE, &[DType::I32]].concat())?;
    scales(infer, &x, &scale)?;
    let wanted = element_type(infer, "output_dtype", QUANTISED)?;
    element_type(infer, "precision", REAL)?;
    let dtype = match infer.has(2) {
        false => wanted.unwrap_or(DType::U8),
        true => {
            let zero = infer.typed(2, QUANTISED)?;
            like_scale(&zero, &scale)?;
            match wanted.filter(|wanted| *wanted != zero.dtype) {
                Some(wanted) => {
                    return Err(bad(format!("the zero point is {zero}, and attribute 'output_dtype' says {wanted}")));
                }
                None => zero.dtype,
            }
        }
    };
    infer.set(0, dtype, x.shape);
    Ok(())
}

/// DequantizeLinear.
pub(super) fn dequantize(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, &[QUANTISED, &[DType::I32]].concat())?;
    let scale = infer.typed(1, SCALE)?;
    scales(infer, &x, &scale)?;
    if infer.has(2) {
        like_scale(&infer.like_first(2)?, &scale)?;
    }
    let dtype = element_type(infer, "output_dtype", REAL)?.unwrap_or(scale.dtype);
    if !REAL.contains(&dtype) {
        return Err(bad(format!("the scale is {scale}, and attribute 'output_dtype' does not say what the output is")));
    }
    infer.set(0, dtype, x.shape);
    Ok(())
}

/// DynamicQuantizeLinear: the elements, their scale and their zero point.
pub(super) fn dynamic(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, &[DType::F32])?;
    infer.set(0, DType::U8, x.shape);
    infer.set(1, DType::F32, vec![]);
    infer.set(2, DType::U8, vec![]);
    Ok(())
}

/// MatMulInteger: zero points are for a whole factor, for its rows (A) or for its columns (B).
pub(super) fn matmul_integer(infer: &mut Infer<'_>) -> Result<()> {
    let (a, b) = (infer.typed(0, BYTE)?, infer.typed(1, BYTE)?);
    let shape = matmul::output(&a, &b)?;
    let matrices = a.shape.len() > 1 && b.shape.len() > 1;
    for (factor, index) in [(&a, 2), (&b, 3)] {
        if infer.has(index) {
            along(&infer.typed(index, &[factor.dtype])?, index, factor, index == 2, matrices)?;
        }
    }
    infer.set(0, DType::I32, shape);
    Ok(())
}

/// QLinearMatMul.
pub(super) fn linear_matmul(infer: &mut Infer<'_>) -> Result<()> {
    let (a, b) = (infer.typed(0, BYTE)?, infer.typed(3, BYTE)?);
    let shape = matmul::output(&a, &b)?;
    let scale = infer.typed(1, REAL)?;
    let matrices = a.shape.len() > 1 && b.shape.len() > 1;
    for (factor, first) in [(&a, 1), (&b, 4)] {
        let own = infer.typed(first, &[scale.dtype])?;
        along(&own, first, factor, first == 1, matrices)?;
        like_scale(&infer.typed(first + 1, &[factor.dtype])?, &own)?;
    }
    infer.typed(6, &[scale.dtype])?;
    let zero = infer.typed(7, BYTE)?;
    for index in [6, 7] {
        single(&infer.input(index)?, index)?;
    }
    infer.set(0, zero.dtype, shape);
    Ok(())
}

/// ConvInteger: the zero point of the weights is for all of them, or for each filter.
pub(super) fn conv_integer(infer: &mut Infer<'_>) -> Result<()> {
    let (x, w) = (infer.typed(0, BYTE)?, infer.typed(1, BYTE)?);
    let shape = conv::output(infer, &x, &w)?;
    if infer.has(2) {
        single(&infer.typed(2, &[x.dtype])?, 2)?;
    }
    if infer.has(3) {
        per_filter(&infer.typed(3, &[w.dtype])?, 3, &w)?;
    }
    infer.set(0, DType::I32, shape);
    Ok(())
}

/// QLinearConv.
pub(super) fn linear_conv(infer: &mut Infer<'_>) -> Result<()> {
    let (x, w) = (infer.typed(0, BYTE)?, infer.typed(3, BYTE)?);
    let shape = conv::output(infer, &x, &w)?;
    single(&infer.typed(1, &[DType::F32])?, 1)?;
    single(&infer.typed(2, &[x.dtype])?, 2)?;
    let scale = infer.typed(4, &[DType::F32])?;
    per_filter(&scale, 4, &w)?;
    like_scale(&infer.typed(5, &[w.dtype])?, &scale)?;
    single(&infer.typed(6, &[DType::F32])?, 6)?;
    let zero = infer.typed(7, BYTE)?;
    single(&zero, 7)?;
    if infer.has(8) {
        infer.typed(8, &[DType::I32])?;
        conv::bias(infer, 8, &w.shape[0])?;
    }
    infer.set(0, zero.dtype, shape);
    Ok(())
}

/// The element type whose number in ONNX an attribute holds; `None` for 0.
fn element_type(infer: &Infer<'_>, name: &str, allowed: &[DType]) -> Result<Option<DType>> {
    let code = infer.int(name, 0)?;
    if code == 0 {
        return Ok(None);
    }
    match cast::from_onnx(code).filter(|dtype| allowed.contains(dtype)) {
        Some(dtype) => Ok(Some(dtype)),
        None => {
            let names: Vec<_> = allowed.iter().map(|dtype| dtype.name()).collect();
            Err(bad(format!("attribute '{name}' is {code}, expected the number of one of {}", names.join(", "))))
        }
    }
}

/// Fails where the scales do not fit `x`: one for all elements, one for each index of an axis, or one for each block along it.
fn scales(infer: &Infer<'_>, x: &TensorType, scale: &TensorType) -> Result<()> {
    let (rank, block) = (x.shape.len(), infer.int("block_size", 0)?);
    if block < 0 {
        return Err(bad(format!("attribute 'block_size' is {block}, expected at least 0")));
    }
    if block == 0 && is_single(scale) {
        return Ok(());
    }
    let axis = infer.axis("axis", 1, rank)?;
    let fits = if block == 0 {
        scale.shape.len() == 1 && dim::same(&scale.shape[0], &x.shape[axis]).is_some()
    } else {
        let blocks = dim::ceil_div(&x.shape[axis], &Dim::Fixed(block as usize))?;
        let expected = |at: usize| if at == axis { &blocks } else { &x.shape[at] };
        scale.shape.len() == rank && (0..rank).all(|at| dim::same(&scale.shape[at], expected(at)).is_some())
    };
    let blocks = if block == 0 { String::new() } else { format!(" in blocks of {block}") };
    if fits {
        Ok(())
    } else {
        Err(mismatch(format!("the scale is {scale}, which does not fit {x} along axis {axis}{blocks}")))
    }
}

/// Fails where a zero point has another shape than its scale.
fn like_scale(zero: &TensorType, scale: &TensorType) -> Result<()> {
    let same = zero.shape.len() == scale.shape.len()
        && zero.shape.iter().zip(&scale.shape).all(|(zero, scale)| dim::same(zero, scale).is_some());
    if same || (is_single(zero) && is_single(scale)) {
        return Ok(());
    }
    Err(mismatch(format!("the zero point is {zero} and the scale is {scale}, expected the same shape")))
}

/// Whether there is one element for all: exporters also write it as a list of one.
fn is_single(ty: &TensorType) -> bool {
    ty.shape.is_empty() || ty.shape == [Dim::Fixed(1)]
}

fn single(ty: &TensorType, index: usize) -> Result<()> {
    if is_single(ty) { Ok(()) } else { Err(mismatch(format!("input {index} is {ty}, expected one element"))) }
}

fn per_filter(ty: &TensorType, index: usize, w: &TensorType) -> Result<()> {
    match ty.shape.as_slice() {
        [size] if dim::same(size, &w.shape[0]).is_some() => Ok(()),
        _ if is_single(ty) => Ok(()),
        _ => Err(mismatch(format!(
            "input {index} is {ty}, expected one element, or one for each of {} filters",
            w.shape[0]
        ))),
    }
}

/// Fails where scales or zero points of a factor are neither for all of it nor for its rows, or its columns: as a list, or
/// with the other dimension 1 beside those of the batch. A product with a vector has one of each.
fn along(ty: &TensorType, index: usize, factor: &TensorType, rows: bool, matrices: bool) -> Result<()> {
    if is_single(ty) {
        return Ok(());
    }
    if !matrices {
        return Err(mismatch(format!("input {index} is {ty}, expected one element, since a factor is a vector")));
    }
    let rank = factor.shape.len();
    let (kept, other) = if rows { (rank - 2, rank - 1) } else { (rank - 1, rank - 2) };
    let list = matches!(ty.shape.as_slice(), [one] if dim::same(one, &factor.shape[kept]).is_some());
    let whole = ty.shape.len() == rank
        && (0..rank).all(|at| {
            let expected = if at == other { &Dim::Fixed(1) } else { &factor.shape[at] };
            dim::same(&ty.shape[at], expected).is_some()
        });
    if list || whole {
        return Ok(());
    }
    let lines = if rows { "row" } else { "column" };
    Err(mismatch(format!("input {index} is {ty}, expected one element, or one for each {lines} of {factor}")))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const QUANTIZE: &[Case] = &[
        ("QuantizeLinear", "", "f32[2,n] f32[]", "u8[2,n]"),
        ("QuantizeLinear", "output_dtype=5", "f32[2,3] f32[1]", "i16[2,3]"),
        ("QuantizeLinear", "axis=0", "f16[2,3] f16[2] i8[2]", "i8[2,3]"),
        ("QuantizeLinear", "axis=-1 block_size=2", "f32[2,5] f32[2,3] u16[2,3]", "u16[2,5]"),
        (
            "QuantizeLinear",
            "output_dtype=3",
            "f32[2] f32[] u8[]",
            "[B106] the zero point is u8[], and attribute 'output_dtype' says i8",
        ),
        (
            "QuantizeLinear",
            "output_dtype=1",
            "f32[2] f32[]",
            "[B106] attribute 'output_dtype' is 1, expected the number of one of i8, u8, i16, u16, f8e4m3fn, f8e4m3fnuz, \
             f8e5m2, f8e5m2fnuz, f4e2m1, i4, u4, i2, u2",
        ),
        ("QuantizeLinear", "output_dtype=22", "f32[2] f32[]", "i4[2]"),
        ("QuantizeLinear", "axis=0 block_size=2", "f16[4,n] f8e8m0[2,n] f4e2m1[2,n]", "f4e2m1[4,n]"),
        ("DequantizeLinear", "axis=1", "i4[2,n] f32[n] i4[n]", "f32[2,n]"),
        ("DequantizeLinear", "output_dtype=16", "f8e5m2[2] f8e8m0[]", "bf16[2]"),
        (
            "DequantizeLinear",
            "",
            "f8e5m2[2] f8e8m0[]",
            "[B106] the scale is f8e8m0[], and attribute 'output_dtype' does not say what the output is",
        ),
        (
            "QuantizeLinear",
            "",
            "f32[2,3] f32[2]",
            "[B202] the scale is f32[2], which does not fit f32[2,3] along axis 1",
        ),
        (
            "QuantizeLinear",
            "axis=0",
            "f32[2,3] f32[2] u8[3]",
            "[B202] the zero point is u8[3] and the scale is f32[2], expected the same shape",
        ),
        (
            "QuantizeLinear",
            "block_size=2",
            "f32[2,5] f32[2,2]",
            "[B202] the scale is f32[2,2], which does not fit f32[2,5] along axis 1 in blocks of 2",
        ),
        ("QuantizeLinear", "axis=2", "f32[2,3] f32[3]", "[B106] axis 2 is out of range for 2 dimensions"),
        ("DequantizeLinear", "axis=0", "i32[4] f32[4] i32[4]", "f32[4]"),
        ("DequantizeLinear", "output_dtype=10", "u8[b,3] f32[3]", "f16[b,3]"),
        (
            "DequantizeLinear",
            "",
            "u8[2] f32[] i8[]",
            "[B201] input 2 is i8[], but input 0 is u8[2]: both must have the same element type",
        ),
        (
            "DequantizeLinear",
            "",
            "i64[2] f32[]",
            "[B201] input 0 is i64[2], expected one of i8, u8, i16, u16, f8e4m3fn, f8e4m3fnuz, \
                          f8e5m2, f8e5m2fnuz, f4e2m1, i4, u4, i2, u2, i32",
        ),
        (
            "DequantizeLinear",
            "block_size=-1",
            "u8[2] f32[]",
            "[B106] attribute 'block_size' is -1, expected at least 0",
        ),
        ("DynamicQuantizeLinear", "", "f32[2,n]", "u8[2,n] f32[] u8[]"),
    ];

    const PRODUCTS: &[Case] = &[
        ("MatMulInteger", "", "u8[b,2,3] i8[3,4] u8[] i8[4]", "i32[b,2,4]"),
        ("MatMulInteger", "", "u8[2,3] u8[3,4] u8[2] u8[1,4]", "i32[2,4]"),
        (
            "MatMulInteger",
            "",
            "u8[2,3] u8[3,4] u8[3]",
            "[B202] input 2 is u8[3], expected one element, or one for each row of u8[2,3]",
        ),
        ("MatMulInteger", "", "u8[2,3] u8[3,4] i8[]", "[B201] input 2 is i8[], expected u8"),
        ("MatMulInteger", "", "u8[3] u8[3,4] u8[1] u8[]", "i32[4]"),
        (
            "MatMulInteger",
            "",
            "u8[3] u8[3,4] u8[] u8[4]",
            "[B202] input 3 is u8[4], expected one element, since a factor is a vector",
        ),
        ("QLinearMatMul", "", "u8[2,3] f32[] u8[] i8[3,4] f32[4] i8[4] f32[] i8[]", "i8[2,4]"),
        (
            "QLinearMatMul",
            "",
            "u8[2,3] f32[] u8[] i8[3,4] f32[4] i8[4] f32[2] i8[]",
            "[B202] input 6 is f32[2], expected one element",
        ),
        (
            "QLinearMatMul",
            "",
            "u8[2,3] f32[] u8[] i8[3,4] f32[4] i8[] f32[] i8[]",
            "[B202] the zero point is i8[] and the scale is f32[4], expected the same shape",
        ),
        ("ConvInteger", "pads=[1,1,1,1]", "u8[1,3,5,5] i8[4,3,3,3] u8[] i8[4]", "i32[1,4,5,5]"),
        (
            "ConvInteger",
            "",
            "u8[1,3,5,5] i8[4,3,3,3] - i8[3]",
            "[B202] input 3 is i8[3], expected one element, or one for each of 4 filters",
        ),
        ("QLinearConv", "", "u8[1,3,5,5] f32[] u8[] u8[4,3,3,3] f32[4] u8[4] f32[] u8[] i32[4]", "u8[1,4,3,3]"),
        (
            "QLinearConv",
            "",
            "u8[1,3,5,5] f32[] u8[] u8[4,3,3,3] f32[] u8[] f32[] u8[] i32[3]",
            "[B202] B is i32[3], expected one number for each of 4 output channels",
        ),
        (
            "QLinearConv",
            "",
            "u8[1,3,5,5] f32[] u8[] u8[4,3,3,3] f32[] u8[4] f32[] u8[]",
            "[B202] the zero point is u8[4] and the scale is f32[], expected the same shape",
        ),
    ];

    #[test]
    fn quantisation() {
        check(QUANTIZE);
    }

    #[test]
    fn products() {
        check(PRODUCTS);
    }
}

//! Operators that read shapes or make tensors of them, after ONNX: Shape 24, Size 24, ConstantOfShape 24, EyeLike 22, Range 27,
//! Expand 13.

use byoc_plugin_api::{Attribute, DType, Dim, from_hex};

use super::cast::from_onnx;
use super::elements::{self, Scalar};
use super::infer::{Infer, bad, mismatch, unknown, unsupported};
use super::layout::shape_input;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::{self, Expr};

/// Shape, or the part of it from `start` to `end`.
pub(super) fn shape(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let rank = x.shape.len() as i64;
    let place = |value: i64| (if value < 0 { value.saturating_add(rank) } else { value }).clamp(0, rank) as usize;
    let (start, end) = (place(infer.int("start", 0)?), place(infer.int("end", i64::MAX)?));
    let part = if start < end { &x.shape[start..end] } else { &[] };
    infer.set(0, DType::I64, vec![Dim::Fixed(part.len())]);
    let elements = part.iter().map(|dim| Expr::of(dim).ok().map(Scalar::Int)).collect();
    infer.set_elements(elements);
    Ok(())
}

/// Size: the number of elements.
pub(super) fn size(infer: &mut Infer<'_>) -> Result<()> {
    let count = dim::product(&infer.input(0)?.shape);
    infer.set(0, DType::I64, Vec::new());
    infer.set_elements(elements::checked_int(count).map(|count| vec![count]));
    Ok(())
}

/// EyeLike.
pub(super) fn eye_like(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    if x.shape.len() != 2 {
        return Err(mismatch(format!("input 0 is {x}, expected 2 dimensions")));
    }
    let dtype = match infer.optional_int("dtype")? {
        None => x.dtype,
        Some(code) => from_onnx(code)
            .filter(|dtype| dtype.is_number())
            .ok_or_else(|| unsupported(format!("attribute 'dtype' is {code}, a type that is not supported")))?,
    };
    infer.set(0, dtype, x.shape);
    Ok(())
}

/// ConstantOfShape.
pub(super) fn constant_of_shape(infer: &mut Infer<'_>) -> Result<()> {
    let sizes = shape_input(infer, 0)?;
    let (dtype, value) = fill(infer)?;
    let shape = sizes.iter().map(Expr::to_dim).collect::<std::result::Result<Vec<_>, _>>()?;
    let count = elements::count(&shape);
    infer.set(0, dtype, shape);
    infer.set_elements(count.zip(value).map(|(count, value)| vec![value; count]));
    Ok(())
}

/// The type of the elements of a ConstantOfShape, and their value where it is known.
pub(super) fn fill(infer: &Infer<'_>) -> Result<(DType, Option<Scalar>)> {
    Ok(match infer.node.attributes.get("value") {
        None => (DType::F32, Some(Scalar::from(0))),
        Some(Attribute::Tensor { dtype, shape, hex }) if shape.iter().product::<usize>() == 1 => {
            if !dtype.is_number() {
                let text = format!("attribute 'value' is of {dtype}, of which no tensor is made so");
                return Err(Diagnostic::new(Code::TypeMismatch, text));
            }
            let bytes = from_hex(hex).filter(|bytes| bytes.len() == dtype.unpacked_bytes());
            let bytes = bytes.ok_or_else(|| bad("attribute 'value' does not hold one element"))?;
            (*dtype, elements::read(*dtype, &bytes).and_then(|values| values.into_iter().next()))
        }
        Some(_) => return Err(bad("attribute 'value' must be a tensor of one element")),
    })
}

/// Range.
pub(super) fn range(infer: &mut Infer<'_>) -> Result<()> {
    // The half types came with operator set 27; for them, what is computed in between is f32.
    let types = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I16, DType::I32, DType::I64];
    let dtype = infer.typed(0, &types)?.dtype;
    let stash = infer.int("stash_type", 1)?;
    if stash != 1 && matches!(dtype, DType::F16 | DType::BF16) {
        return Err(unsupported(format!("attribute 'stash_type' is {stash}, but only 1 (f32) is supported")));
    }
    let names = ["start", "limit", "delta"];
    let mut values = Vec::with_capacity(3);
    for (index, name) in names.iter().enumerate() {
        let ty = infer.like_first(index)?;
        if ty.shape.iter().any(|dim| dim.fixed().is_some_and(|size| size != 1)) {
            return Err(mismatch(format!("input {index} ({name}) is {ty}, expected one element")));
        }
        let value = infer.known(index).and_then(|values| values.first().cloned());
        values.push(value.ok_or_else(|| {
            unknown(format!(
                "the shape of the output depends on input {index} ({name}), which is known only at run time"
            ))
        })?);
    }
    if values[2].as_f64() == Some(0.0) {
        return Err(bad("input 2 (delta) is 0"));
    }
    let (count, elements) = match (values[0].int(), values[1].int(), values[2].int()) {
        (Some(start), Some(limit), Some(delta)) => whole_range(start, limit, delta)?,
        _ => float_range(&values, dtype)?,
    };
    infer.set(0, dtype, vec![count.to_dim()?]);
    infer.set_elements(elements);
    Ok(())
}

fn whole_range(start: &Expr, limit: &Expr, delta: &Expr) -> Result<(Expr, Option<Vec<Scalar>>)> {
    // Rounding up takes the divisor to be positive.
    if delta.as_constant().is_none() && delta.lower_bound().is_none_or(|least| least < 0) {
        return Err(unknown(format!("the sign of input 2 (delta), {delta}, is known only at run time")));
    }
    let span = limit.minus(start)?;
    // From 0 to a size by 1 is the common case; `max(0, ..)` is left away wherever the sign is certain.
    let count = span.ceil_div(delta)?.larger(&Expr::from(0))?;
    let number = count.as_constant().and_then(|count| usize::try_from(count).ok());
    let Some(number) = number.filter(|&number| number <= elements::ELEMENT_LIMIT) else {
        return Ok((count, None));
    };
    let element = |index: usize| elements::checked_int(start.plus(&delta.scale(index as i64).ok()?));
    Ok((count, (0..number).map(element).collect()))
}

/// The number of elements is that of the runtime's own formula, in double precision. The elements are left to it.
fn float_range(values: &[Scalar], dtype: DType) -> Result<(Expr, Option<Vec<Scalar>>)> {
    let numbers = values.iter().map(Scalar::as_f64).collect::<Option<Vec<_>>>();
    let numbers = numbers.ok_or_else(|| unknown("the range has a symbolic bound and a fraction"))?;
    let count = ((numbers[1] - numbers[0]) / numbers[2]).ceil().max(0.0);
    if !count.is_finite() || count > 1e15 {
        return Err(mismatch(format!("the range of {dtype} has too many elements")));
    }
    Ok((Expr::from(count as i64), None))
}

/// Expand: broadcasts with the given shape, so a 1 in it keeps the input's size. Of two different symbols the shape's is
/// taken: it is what the model asks for, and the input's may be 1.
pub(super) fn expand(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let sizes = shape_input(infer, 1)?;
    let target = sizes.iter().map(Expr::to_dim).collect::<std::result::Result<Vec<_>, _>>()?;
    // Broadcasting takes the one with the shorter text, which here could make a node that does nothing.
    let mut shape = dim::broadcast(&x.shape, &target).ok_or_else(|| {
        let sizes = target.iter().map(Dim::to_string).collect::<Vec<_>>().join(",");
        Diagnostic::new(Code::ShapeMismatch, format!("input 0 is {x}, which does not broadcast with [{sizes}]"))
    })?;
    for (size, wanted) in shape.iter_mut().rev().zip(target.into_iter().rev()) {
        if matches!((&*size, &wanted), (Dim::Symbolic(_), Dim::Symbolic(_))) {
            *size = wanted;
        }
    }
    infer.set(0, x.dtype, shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const SHAPES: &[Case] = &[
        ("Shape", "", "f32[batch,3,4]", "i64[3] = batch,3,4"),
        ("Shape", "start=-2", "f32[batch,3,4]", "i64[2] = 3,4"),
        ("Shape", "start=1 end=-1", "f32[batch,3,4]", "i64[1] = 3"),
        ("Shape", "start=2 end=1", "f32[batch,3,4]", "i64[0] = "),
        ("Shape", "start=-9223372036854775808 end=9223372036854775807", "f32[2]", "i64[1] = 2"),
        ("Shape", "", "f32[]", "i64[0] = "),
        ("Size", "", "f32[batch,3,4]", "i64[] = batch*12"),
        ("Size", "", "f32[]", "i64[] = 1"),
        ("EyeLike", "k=1", "i32[b,3]", "i32[b,3]"),
        ("EyeLike", "dtype=11", "i32[b,3]", "f64[b,3]"),
        ("EyeLike", "dtype=8", "i32[b,3]", "[B102] attribute 'dtype' is 8, a type that is not supported"),
        ("EyeLike", "", "i32[3]", "[B202] input 0 is i32[3], expected 2 dimensions"),
        ("ConstantOfShape", "", "i64[2]=batch,3", "f32[batch,3]"),
        ("ConstantOfShape", "value=i64:0700000000000000", "i64[1]=2", "i64[2] = 7,7"),
        ("ConstantOfShape", "value=i64:07", "i64[1]=2", "[B106] attribute 'value' does not hold one element"),
        ("ConstantOfShape", "value=1", "i64[1]=2", "[B106] attribute 'value' must be a tensor"),
        ("ConstantOfShape", "", "i64[1]=-2", "[B106] input 0 (shape) holds the negative size -2"),
        ("ConstantOfShape", "", "i64[0]=", "f32[] = 0"),
        ("Expand", "", "f32[3,1] i64[3]=batch,1,4", "f32[batch,3,4]"),
        ("Expand", "", "f32[a,b] i64[2]=b,b", "f32[b,b]"),
        ("Expand", "", "f32[a] i64[2]=n*2,1", "f32[n*2,a]"),
        ("Expand", "", "f32[3] i64[1]=4", "[B202] input 0 is f32[3], which does not broadcast with [4]"),
        ("Expand", "", "f32[3] i64[1]=-1", "[B106] input 1 (shape) holds the negative size -1"),
    ];

    #[test]
    fn shapes() {
        check(SHAPES);
    }

    const RANGES: &[Case] = &[
        ("Range", "", "i64[]=0 i64[]=3 i64[]=1", "i64[3] = 0,1,2"),
        ("Range", "", "i64[]=10 i64[]=4 i64[]=-2", "i64[3] = 10,8,6"),
        ("Range", "", "i64[]=0 i64[]=seq i64[]=1", "i64[seq]"),
        ("Range", "", "i64[]=past i64[]=past+seq i64[]=1", "i64[seq] = unknown"),
        ("Range", "", "i64[]=0 i64[]=h i64[]=2", "i64[floor((h + 1)/2)]"),
        ("Range", "", "i64[]=5 i64[]=3 i64[]=1", "i64[0] = "),
        ("Range", "", "f32[]=1 f32[]=5.5 f32[]=2", "f32[3]"),
        ("Range", "", "f32[]=0.5 f32[]=batch f32[]=1", "f32[n_size0]"),
        ("Range", "", "i64[]=0 i64[]=9 i64[]=n-5", "i64[n_size0]"),
        ("Range", "stash_type=1", "f16[]=0 f16[]=3 f16[]=1", "f16[3] = 0,1,2"),
        (
            "Range",
            "stash_type=10",
            "f16[]=0 f16[]=3 f16[]=1",
            "[B102] attribute 'stash_type' is 10, but only 1 (f32) is supported",
        ),
        ("Range", "", "i64[]=0 i64[]=3 i64[]=0", "[B106] input 2 (delta) is 0"),
        ("Range", "", "i64[]=0 i64[] i64[]=1", "i64[n_size0]"),
        (
            "Range",
            "",
            "i64[]=-9223372036854775808 i64[]=9223372036854775807 i64[]=1",
            "[B202] a size is too large to compute with",
        ),
        ("Range", "", "i64[2]=0,1 i64[]=3 i64[]=1", "[B202] input 0 (start) is i64[2], expected one element"),
    ];

    #[test]
    fn ranges() {
        check(RANGES);
    }
}

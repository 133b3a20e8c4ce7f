//! Operators that choose elements by their values, after ONNX: NonZero 13, Compress 11, Unique 11, NonMaxSuppression 11,
//! TopK 24; and OneHot 11, which turns a choice into a tensor. How many elements they choose is known only at run time, as a rule.

use byoc_plugin_api::{DType, Dim};

use super::elements::{self, Scalar};
use super::infer::{BOOL, Infer, NUMERIC, axis_in, bad, mismatch, unknown};
use super::run_time::{PartialType, Size};
use crate::diagnostic::{Diagnostic, Result};
use crate::dim::{self, Expr};

/// What is known of the outputs before a run.
type Known = Result<Option<Vec<PartialType>>>;

fn depends(index: usize, what: &str) -> Diagnostic {
    unknown(format!("the shape of the output depends on input {index} ({what}), which is known only at run time"))
}

/// The number of elements of an input that must hold one.
fn one_element(infer: &Infer<'_>, index: usize, what: &str, types: &[DType]) -> Result<()> {
    let ty = infer.typed(index, types)?;
    match ty.shape.iter().any(|dim| dim.fixed().is_some_and(|size| size != 1)) {
        true => Err(mismatch(format!("input {index} ({what}) is {ty}, expected one element"))),
        false => Ok(()),
    }
}

/// The axis in attribute `axis`, if it is there.
fn optional_axis(infer: &Infer<'_>, rank: usize) -> Result<Option<usize>> {
    infer.optional_int("axis")?.map(|axis| axis_in(axis, rank)).transpose()
}

/// The sizes with another one along `axis`, or only that one.
fn along(shape: &[Dim], axis: Option<usize>, size: Size) -> Vec<Size> {
    let Some(axis) = axis else { return vec![size] };
    let mut sizes: Vec<Size> = shape.iter().cloned().map(Size::Known).collect();
    sizes[axis] = size;
    sizes
}

/// NonZero: one row of indices for each axis.
pub(super) fn non_zero(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let sizes = elements::fixed(&x.shape).zip(infer.known(0));
    let numbers = |values: &[Scalar]| values.iter().map(Scalar::as_f64).collect::<Option<Vec<_>>>();
    let found = sizes.and_then(|(sizes, values)| Some((sizes, numbers(values)?)));
    let (sizes, values) = found.ok_or_else(|| depends(0, "X"))?;
    let places: Vec<usize> = (0..values.len()).filter(|&place| values[place] != 0.0).collect();
    infer.set(0, DType::I64, vec![Dim::Fixed(sizes.len()), Dim::Fixed(places.len())]);
    let row = |axis: usize| {
        let inner: usize = sizes[axis + 1..].iter().product();
        let size = sizes[axis];
        places.iter().map(move |place| Scalar::from((place / inner % size) as i64))
    };
    let rows = (0..sizes.len()).flat_map(row).collect();
    infer.set_elements(Some(rows));
    Ok(())
}

/// NonZero, of elements that are not known.
pub(super) fn some_non_zero(infer: &Infer<'_>) -> Known {
    let rank = Dim::Fixed(infer.input(0)?.shape.len());
    Ok(Some(vec![PartialType { dtype: DType::I64, shape: vec![Size::Known(rank), Size::Open(0)] }]))
}

/// Compress: the slices along an axis, or the elements, for which the condition holds.
pub(super) fn compress(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    infer.ranked(1, BOOL, 1)?;
    let axis = optional_axis(infer, x.shape.len())?;
    let all = match axis {
        Some(axis) => x.shape[axis].fixed(),
        None => x.shape.iter().try_fold(1usize, |product, size| product.checked_mul(size.fixed()?)),
    };
    let condition = infer.known(1).zip(all).ok_or_else(|| depends(1, "condition"))?;
    let kept = condition.0.iter().take(condition.1).filter(|value| value.as_i64() == Some(1)).count();
    let mut shape = if axis.is_some() { x.shape } else { vec![Dim::Fixed(kept)] };
    if let Some(axis) = axis {
        shape[axis] = Dim::Fixed(kept);
    }
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// Compress, by a condition that is not known.
pub(super) fn compressed(infer: &Infer<'_>) -> Known {
    let x = infer.input(0)?;
    let shape = along(&x.shape, optional_axis(infer, x.shape.len())?, Size::Open(0));
    Ok(Some(vec![PartialType { dtype: x.dtype, shape }]))
}

/// Unique: how many are different is known only at run time.
pub(super) fn unique(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    optional_axis(infer, x.shape.len())?;
    Err(depends(0, "X"))
}

/// Unique: values, their first places, for each element its value, and how often each occurs.
pub(super) fn different(infer: &Infer<'_>) -> Known {
    let x = infer.input(0)?;
    let axis = optional_axis(infer, x.shape.len())?;
    let all = match axis {
        Some(axis) => x.shape[axis].clone(),
        None => dim::product(&x.shape)?.to_dim()?,
    };
    let list = |size: Size| PartialType { dtype: DType::I64, shape: vec![size] };
    let values = PartialType { dtype: x.dtype, shape: along(&x.shape, axis, Size::Open(0)) };
    Ok(Some(vec![values, list(Size::Open(0)), list(Size::Known(all)), list(Size::Open(0))]))
}

/// NonMaxSuppression: how many boxes are left is known only at run time.
pub(super) fn suppression(infer: &mut Infer<'_>) -> Result<()> {
    let boxes = infer.ranked(0, &[DType::F32], 3)?;
    let scores = infer.ranked(1, &[DType::F32], 3)?;
    if boxes.shape[2].fixed().is_some_and(|size| size != 4) {
        return Err(mismatch(format!("input 0 (boxes) is {boxes}, expected 4 numbers a box")));
    }
    let fits = |a: usize, b: usize| dim::same(&boxes.shape[a], &scores.shape[b]).is_some();
    if !fits(0, 0) || !fits(1, 2) {
        return Err(mismatch(format!("input 1 (scores) is {scores}, but input 0 (boxes) is {boxes}")));
    }
    let limits =
        [("max_output_boxes_per_class", DType::I64), ("iou_threshold", DType::F32), ("score_threshold", DType::F32)];
    for (index, (what, dtype)) in (2..).zip(limits).filter(|(index, _)| infer.has(*index)) {
        one_element(infer, index, what, &[dtype])?;
    }
    Err(depends(0, "boxes"))
}

/// NonMaxSuppression: batch, class and box of each that is left.
pub(super) fn boxes_left(_: &Infer<'_>) -> Known {
    let shape = vec![Size::Open(0), Size::Known(Dim::Fixed(3))];
    Ok(Some(vec![PartialType { dtype: DType::I64, shape }]))
}

/// TopK: as many along the axis as input 1 says.
pub(super) fn top_k(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, NUMERIC)?;
    let axis = infer.axis("axis", -1, x.shape.len())?;
    one_element(infer, 1, "K", &[DType::I64])?;
    let k = infer.sizes(1, "K")?.into_iter().next().ok_or_else(|| depends(1, "K"))?;
    if let Some(number) = k.as_constant() {
        let size = x.shape[axis].fixed();
        if number < 0 || size.is_some_and(|size| number as u64 > size as u64) {
            return Err(mismatch(format!("input 1 (K) is {number}, but axis {axis} of {x} has {}", x.shape[axis])));
        }
    }
    let mut shape = x.shape;
    shape[axis] = k.to_dim()?;
    infer.set(0, x.dtype, shape.clone());
    infer.set(1, DType::I64, shape);
    Ok(())
}

/// TopK, of as many as only the run tells.
pub(super) fn some_of(infer: &Infer<'_>) -> Known {
    let x = infer.input(0)?;
    let shape = along(&x.shape, Some(infer.axis("axis", -1, x.shape.len())?), Size::Open(0));
    Ok(Some(vec![PartialType { dtype: x.dtype, shape: shape.clone() }, PartialType { dtype: DType::I64, shape }]))
}

/// Where OneHot puts the new axis, and the element type of its output.
fn new_axis(infer: &Infer<'_>) -> Result<(usize, DType)> {
    let indices = infer.typed(0, NUMERIC)?;
    one_element(infer, 1, "depth", NUMERIC)?;
    let values = infer.input(2)?;
    if values.shape.len() != 1 || values.shape[0].fixed().is_some_and(|size| size != 2) {
        return Err(mismatch(format!("input 2 (values) is {values}, expected two elements")));
    }
    Ok((infer.axis("axis", -1, indices.shape.len() + 1)?, values.dtype))
}

/// OneHot.
pub(super) fn one_hot(infer: &mut Infer<'_>) -> Result<()> {
    let (axis, dtype) = new_axis(infer)?;
    let depth = match infer.known(1).and_then(|values| values.first()) {
        Some(Scalar::Int(depth)) => depth.clone(),
        Some(Scalar::Float(depth)) => Expr::from(*depth as i64),
        None => return Err(depends(1, "depth")),
    };
    if depth.as_constant().is_some_and(|depth| depth < 1) {
        return Err(bad(format!("input 1 (depth) is {depth}, expected at least 1")));
    }
    let mut shape = infer.input(0)?.shape;
    shape.insert(axis, depth.to_dim()?);
    infer.set(0, dtype, shape);
    Ok(())
}

/// OneHot, of a depth that only the run tells.
pub(super) fn some_depth(infer: &Infer<'_>) -> Known {
    let (axis, dtype) = new_axis(infer)?;
    let mut shape: Vec<Size> = infer.input(0)?.shape.into_iter().map(Size::Known).collect();
    shape.insert(axis, Size::Open(0));
    Ok(Some(vec![PartialType { dtype, shape }]))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const CHOICES: &[Case] = &[
        ("NonZero", "", "f32[b,3]", "i64[2,n_size0]"),
        ("NonZero", "", "bool[]", "i64[0,n_size0]"),
        ("NonZero", "", "i64[2,2]=1,0,-2,3", "i64[2,3] = 0,1,1,0,0,1"),
        ("NonZero", "", "f32[3]=0.5,0,0", "i64[1,1] = 0"),
        ("NonZero", "", "i64[0]=", "i64[1,0] = "),
        ("NonZero", "", "i64[]=5", "i64[0,1] = "),
        ("NonZero", "", "i64[2]=batch,0", "i64[1,n_size0] = unknown"),
        ("Compress", "", "f32[b,3] bool[4]", "f32[n_size0]"),
        ("Compress", "axis=-1", "f32[b,3] bool[4]", "f32[b,n_size0]"),
        ("Compress", "axis=1", "f32[b,3] bool[4]=1,0,1,1", "f32[b,2]"),
        ("Compress", "", "f32[2,3] bool[4]=1,0,1,1", "f32[3]"),
        ("Compress", "", "f32[b,3] bool[2]=1,0", "f32[n_size0]"),
        ("Compress", "axis=2", "f32[b,3] bool[4]", "[B106] axis 2 is out of range for 2 dimensions"),
        ("Compress", "", "f32[b,3] i64[4]", "[B201] input 1 is i64[4], expected bool"),
        ("Compress", "", "f32[b,3] bool[4,1]", "[B202] input 1 is bool[4,1], expected 1 dimensions"),
        ("Unique", "", "f32[b,3]", "f32[n_size0] i64[n_size0] i64[b*3] i64[n_size0]"),
        ("Unique", "axis=0 sorted=0", "f32[b,3]", "f32[n_size0,3] i64[n_size0] i64[b] i64[n_size0]"),
        ("Unique", "axis=-3", "f32[b,3]", "[B106] axis -3 is out of range for 2 dimensions"),
    ];

    #[test]
    fn choices() {
        check(CHOICES);
    }

    const SUPPRESSIONS: &[Case] = &[
        ("NonMaxSuppression", "", "f32[b,n,4] f32[b,80,n] i64[1] f32[] f32[1]", "i64[n_size0,3]"),
        ("NonMaxSuppression", "center_point_box=1", "f32[b,n,4] f32[b,80,n] - f32[1]", "i64[n_size0,3]"),
        (
            "NonMaxSuppression",
            "",
            "f32[b,n,5] f32[b,80,n]",
            "[B202] input 0 (boxes) is f32[b,n,5], expected 4 numbers a box",
        ),
        (
            "NonMaxSuppression",
            "",
            "f32[1,7,4] f32[1,2,6]",
            "[B202] input 1 (scores) is f32[1,2,6], but input 0 (boxes) is f32[1,7,4]",
        ),
        (
            "NonMaxSuppression",
            "",
            "f32[1,7,4] f32[1,2,7] i64[2]",
            "[B202] input 2 (max_output_boxes_per_class) is i64[2], expected one element",
        ),
        ("NonMaxSuppression", "", "f32[7,4] f32[1,2,7]", "[B202] input 0 is f32[7,4], expected 3 dimensions"),
    ];

    #[test]
    fn suppressions() {
        check(SUPPRESSIONS);
    }

    const LARGEST: &[Case] = &[
        ("TopK", "", "f32[b,9] i64[1]=3", "f32[b,3] i64[b,3]"),
        ("TopK", "axis=0 largest=0 sorted=0", "u8[b,9] i64[1]=3", "u8[3,9] i64[3,9]"),
        ("TopK", "", "f32[b,9] i64[1]=k", "f32[b,k] i64[b,k]"),
        ("TopK", "", "f32[b,9] i64[1]", "f32[b,n_size0] i64[b,n_size0]"),
        ("TopK", "", "f32[b,9] i64[1]=10", "[B202] input 1 (K) is 10, but axis 1 of f32[b,9] has 9"),
        ("TopK", "", "f32[b,9] i64[1]=-1", "[B202] input 1 (K) is -1, but axis 1 of f32[b,9] has 9"),
        ("TopK", "", "f32[b,9] i64[2]", "[B202] input 1 (K) is i64[2], expected one element"),
        ("TopK", "", "f32[b,9] i32[1]", "[B201] input 1 is i32[1], expected i64"),
        ("TopK", "", "f32[] i64[1]=1", "[B106] axis -1 is out of range for 0 dimensions"),
        ("OneHot", "", "i64[b,2] i64[]=10 f32[2]", "f32[b,2,10]"),
        ("OneHot", "axis=0", "f32[b] f32[1]=4.5 bool[2]", "bool[4,b]"),
        ("OneHot", "axis=-2", "i32[b] i64[]=n f32[2]", "f32[n,b]"),
        ("OneHot", "", "i64[b] i64[] f32[2]", "f32[b,n_size0]"),
        ("OneHot", "", "i64[b] i64[]=0 f32[2]", "[B106] input 1 (depth) is 0, expected at least 1"),
        ("OneHot", "", "i64[b] i64[]=2 f32[3]", "[B202] input 2 (values) is f32[3], expected two elements"),
        ("OneHot", "axis=2", "i64[b] i64[]=2 f32[2]", "[B106] axis 2 is out of range for 2 dimensions"),
    ];

    #[test]
    fn largest() {
        check(LARGEST);
    }
}

//! Fourier transforms and what follows them, after ONNX: DFT 20, STFT 17, MelWeightMatrix 17.

use byoc_plugin_api::{DType, Dim};

use super::attributes::{List, int, int_or};
use super::cast::from_onnx;
use super::infer::{FLOAT, INDEX, Infer, NUMERIC, axis_in, bad, mismatch, unknown};
use super::run_time::{PartialType, Size};
use crate::diagnostic::Result;
use crate::dim::{self, Expr};
use crate::ir::TensorType;

/// The axis was an attribute before it became input 2.
pub(super) const DFT: List = &[int("axis").until(19), int_or("inverse", 0), int_or("onesided", 0)];
pub(super) const MEL_WEIGHT_MATRIX: List = &[int_or("output_datatype", 1)];
pub(super) const STFT: List = &[int_or("onesided", 1)];

/// A number that is an input: a size, which may be symbolic.
fn number(infer: &Infer<'_>, index: usize, what: &str) -> Result<Expr> {
    match infer.sizes(index, what)?.as_slice() {
        [number] => Ok(number.clone()),
        other => Err(mismatch(format!("input {index} ({what}) has {} elements, expected one", other.len()))),
    }
}

/// A number that is at least 1, as far as that is known.
fn positive(infer: &Infer<'_>, index: usize, what: &str) -> Result<Expr> {
    let number = number(infer, index, what)?;
    match number.as_constant() {
        Some(value) if value < 1 => Err(bad(format!("input {index} ({what}) is {value}, expected at least 1"))),
        _ => Ok(number),
    }
}

/// 0 or 1.
fn flag(infer: &Infer<'_>, name: &str, default: i64) -> Result<bool> {
    match infer.int(name, default)? {
        value @ (0 | 1) => Ok(value == 1),
        other => Err(bad(format!("attribute '{name}' is {other}, expected 0 or 1"))),
    }
}

/// The number of frequencies that are different for a real signal of that length.
fn half(length: &Expr) -> Result<Expr> {
    Ok(length.floor_div(&Expr::from(2))?.plus(&Expr::from(1))?)
}

/// Whether the last dimension holds complex numbers; real ones have it too. `None` where that is not known.
fn is_complex(ty: &TensorType) -> Result<Option<bool>> {
    match ty.shape.last().map(Dim::fixed) {
        Some(None) => Ok(None),
        Some(Some(parts @ (1 | 2))) => Ok(Some(parts == 2)),
        _ => Err(mismatch(format!("input 0 is {ty}, expected 1 or 2 elements in the last dimension"))),
    }
}

/// What a DFT is told by its attributes.
struct Transform {
    x: TensorType,
    inverse: bool,
    onesided: bool,
}

impl Transform {
    fn read(infer: &Infer<'_>) -> Result<Transform> {
        let x = infer.typed(0, FLOAT)?;
        let (inverse, onesided) = (flag(infer, "inverse", 0)?, flag(infer, "onesided", 0)?);
        if x.shape.len() < 2 {
            return Err(mismatch(format!("input 0 is {x}, expected at least 2 dimensions")));
        }
        let complex = is_complex(&x)?;
        if onesided && complex == Some(!inverse) {
            let expected = if inverse { "complex" } else { "real" };
            return Err(mismatch(format!(
                "input 0 is {x}, but this transform with onesided = 1 takes {expected} numbers"
            )));
        }
        Ok(Transform { x, inverse, onesided })
    }

    /// Numbers in the last dimension of the output: complex ones have two.
    fn parts(&self) -> Dim {
        Dim::Fixed(if self.inverse && self.onesided { 1 } else { 2 })
    }

    /// The axis, which is not that of the parts.
    fn axis(&self, infer: &Infer<'_>) -> Result<usize> {
        let rank = self.x.shape.len();
        if !infer.has(2) {
            return Ok(rank - 2);
        }
        infer.typed(2, &[DType::I64])?;
        let given = number(infer, 2, "axis")?;
        let given =
            given.as_constant().ok_or_else(|| unknown("input 2 (axis) is a symbolic size, expected a number"))?;
        match axis_in(given, rank)? {
            axis if axis + 1 < rank => Ok(axis),
            _ => Err(bad(format!("axis {given} is that of the parts of complex numbers"))),
        }
    }
}

/// DFT.
pub(super) fn dft(infer: &mut Infer<'_>) -> Result<()> {
    let transform = Transform::read(infer)?;
    let axis = transform.axis(infer)?;
    let size = Expr::of(&transform.x.shape[axis])?;
    let length = if infer.has(1) {
        positive(infer, 1, "dft_length")?
    } else if transform.inverse && transform.onesided {
        size.minus(&Expr::from(1))?.scale(2)?
    } else {
        size
    };
    if length.as_constant().is_some_and(|length| length < 1) {
        return Err(mismatch(format!("input 0 is {}: no signal of length {length} has a transform", transform.x)));
    }
    let mut shape = transform.x.shape.clone();
    shape[axis] = if transform.onesided && !transform.inverse { half(&length)? } else { length }.to_dim()?;
    let last = shape.len() - 1;
    shape[last] = transform.parts();
    infer.set(0, transform.x.dtype, shape);
    Ok(())
}

/// DFT of a length, or along an axis, that is known at run time only.
pub(super) fn some_length(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let transform = Transform::read(infer)?;
    let axis = transform.axis(infer).ok();
    let size = |(place, size): (usize, &Dim)| match axis {
        Some(axis) if axis != place => Size::Known(size.clone()),
        _ => Size::Open(place),
    };
    let mut shape: Vec<Size> = transform.x.shape.iter().enumerate().map(size).collect();
    let last = shape.len() - 1;
    shape[last] = Size::Known(transform.parts());
    Ok(Some(vec![PartialType { dtype: transform.x.dtype, shape }]))
}

/// The signals of an STFT, and whether only half of the frequencies are given.
fn signals(infer: &Infer<'_>) -> Result<(TensorType, bool)> {
    let x = infer.ranked(0, FLOAT, 3)?;
    let onesided = flag(infer, "onesided", 1)?;
    if is_complex(&x)? == Some(true) && onesided {
        return Err(mismatch(format!("input 0 is {x}, but onesided = 1 takes real numbers")));
    }
    infer.typed(1, INDEX)?;
    if infer.has(2) {
        infer.ranked(2, FLOAT, 1)?;
        infer.like_first(2)?;
    }
    Ok((x, onesided))
}

/// STFT.
pub(super) fn stft(infer: &mut Infer<'_>) -> Result<()> {
    let (x, onesided) = signals(infer)?;
    let step = positive(infer, 1, "frame_step")?;
    let window = if infer.has(2) { Some(infer.input(2)?.shape[0].clone()) } else { None };
    let length = match (infer.has(3), &window) {
        (true, _) => positive(infer, 3, "frame_length")?,
        (false, Some(window)) => Expr::of(window)?,
        (false, None) => Expr::of(&x.shape[1])?,
    };
    if window.is_some_and(|window| length.to_dim().is_ok_and(|length| dim::same(&window, &length).is_none())) {
        return Err(mismatch(format!("input 2 (window) is {}, but frames are {length} long", infer.input(2)?)));
    }
    let room = Expr::of(&x.shape[1])?.minus(&length)?;
    if room.as_constant().is_some_and(|room| room < 0) || length.as_constant().is_some_and(|length| length < 1) {
        return Err(mismatch(format!("input 0 is {x}, which has no frame of {length}")));
    }
    if step.as_constant().is_none() && step.lower_bound().is_none_or(|least| least < 0) {
        return Err(unknown("the sign of input 1 (frame_step) is known only at run time"));
    }
    let frames = room.floor_div(&step)?.plus(&Expr::from(1))?;
    let bins = if onesided { half(&length)? } else { length };
    infer.set(0, x.dtype, vec![x.shape[0].clone(), frames.to_dim()?, bins.to_dim()?, Dim::Fixed(2)]);
    Ok(())
}

/// STFT of frames whose length or step is known at run time only.
pub(super) fn some_frames(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let (x, _) = signals(infer)?;
    let shape = vec![Size::Known(x.shape[0].clone()), Size::Open(0), Size::Open(1), Size::Known(Dim::Fixed(2))];
    Ok(Some(vec![PartialType { dtype: x.dtype, shape }]))
}

/// The type of a MelWeightMatrix's elements; its inputs are single numbers.
fn weights(infer: &Infer<'_>) -> Result<DType> {
    for index in 0..5 {
        let ty = infer.typed(index, if index < 3 { INDEX } else { FLOAT })?;
        if ty.shape.iter().any(|size| size.fixed().is_some_and(|size| size != 1)) {
            return Err(mismatch(format!("input {index} is {ty}, expected one element")));
        }
    }
    let code = infer.int("output_datatype", 1)?;
    let dtype = from_onnx(code).filter(|dtype| NUMERIC.contains(dtype));
    dtype.ok_or_else(|| bad(format!("attribute 'output_datatype' is {code}, which is not a type of numbers")))
}

/// MelWeightMatrix.
pub(super) fn mel_weight_matrix(infer: &mut Infer<'_>) -> Result<()> {
    let dtype = weights(infer)?;
    let (bins, length) = (positive(infer, 0, "num_mel_bins")?, positive(infer, 1, "dft_length")?);
    infer.set(0, dtype, vec![half(&length)?.to_dim()?, bins.to_dim()?]);
    Ok(())
}

/// MelWeightMatrix of sizes that are known at run time only.
pub(super) fn some_weights(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let dtype = weights(infer)?;
    Ok(Some(vec![PartialType { dtype, shape: vec![Size::Open(0), Size::Open(1)] }]))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const TRANSFORMS: &[Case] = &[
        ("DFT", "", "f32[n,10,1]", "f32[n,10,2]"),
        ("DFT", "onesided=1", "f32[n,t,1]", "f32[n,floor(t/2) + 1,2]"),
        ("DFT", "inverse=1 onesided=1", "f32[n,6,2]", "f32[n,10,1]"),
        ("DFT", "inverse=1 onesided=1", "f32[n,6,2] i64[]=9", "f32[n,9,1]"),
        ("DFT", "", "f64[n,10,4,2] i64[]=16 i64[]=1", "f64[n,16,4,2]"),
        ("DFT", "", "f32[n,10,4,2] - i64[]=-3", "f32[n,10,4,2]"),
        ("DFT", "", "f32[n,10,4,2] i64[] i64[]=1", "f32[n,n_size1,4,2]"),
        ("DFT", "", "f32[n,10,4,1] - i64[]", "f32[n_size0,n_size1,n_size2,2]"),
        ("DFT", "", "f32[n,10,1] - i64[]=2", "[B106] axis 2 is that of the parts of complex numbers"),
        ("DFT", "", "f32[n,10,1] i64[]=0", "[B106] input 1 (dft_length) is 0, expected at least 1"),
        ("DFT", "", "f32[n,10,3]", "[B202] input 0 is f32[n,10,3], expected 1 or 2 elements in the last dimension"),
        (
            "DFT",
            "onesided=1",
            "f32[n,10,2]",
            "[B202] input 0 is f32[n,10,2], but this transform with onesided = 1 takes real numbers",
        ),
        ("DFT", "inverse=2", "f32[n,10,2]", "[B106] attribute 'inverse' is 2, expected 0 or 1"),
        (
            "DFT",
            "inverse=1 onesided=1",
            "f32[n,1,2]",
            "[B202] input 0 is f32[n,1,2]: no signal of length 0 has a transform",
        ),
        ("STFT", "", "f32[b,128,1] i64[]=8 - i64[]=16", "f32[b,15,9,2]"),
        ("STFT", "onesided=0", "f32[b,t,2] i64[]=8 f32[16]", "f32[b,floor(t/8) - 1,16,2]"),
        ("STFT", "", "f32[b,t,1] i64[]=8", "f32[b,1,floor(t/2) + 1,2]"),
        ("STFT", "", "f32[b,128,1] i64[] f32[16]", "f32[b,n_size0,n_size1,2]"),
        ("STFT", "", "f32[b,8,1] i64[]=8 f32[16]", "[B202] input 0 is f32[b,8,1], which has no frame of 16"),
        (
            "STFT",
            "",
            "f32[b,128,1] i64[]=8 f32[16] i64[]=17",
            "[B202] input 2 (window) is f32[16], but frames are 17 long",
        ),
        ("STFT", "", "f32[b,8,1] i64[]=0", "[B106] input 1 (frame_step) is 0, expected at least 1"),
        ("STFT", "", "f32[b,8,2] i64[]=1", "[B202] input 0 is f32[b,8,2], but onesided = 1 takes real numbers"),
    ];

    #[test]
    fn transforms() {
        check(TRANSFORMS);
    }

    const MEL: &[Case] = &[
        ("MelWeightMatrix", "", "i64[]=8 i64[]=16 i64[]=8192 f32[] f32[]", "f32[9,8]"),
        ("MelWeightMatrix", "output_datatype=11", "i32[]=8 i32[] i32[] f32[] f32[]", "f64[n_size0,n_size1]"),
        (
            "MelWeightMatrix",
            "output_datatype=9",
            "i64[]=8 i64[]=16 i64[]=8192 f32[] f32[]",
            "[B106] attribute 'output_datatype' is 9, which is not a type of numbers",
        ),
        (
            "MelWeightMatrix",
            "",
            "i64[]=0 i64[]=16 i64[] f32[] f32[]",
            "[B106] input 0 (num_mel_bins) is 0, expected at least 1",
        ),
        ("MelWeightMatrix", "", "i64[] i64[] i64[2] f32[] f32[]", "[B202] input 2 is i64[2], expected one element"),
    ];

    #[test]
    fn mel_weights() {
        check(MEL);
    }
}

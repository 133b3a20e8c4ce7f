//! Transposed convolution, after ONNX: ConvTranspose 22.

use byoc_plugin_api::Dim;

use super::attributes::{AUTO_PAD, List, int_or, ints};
use super::conv::{self, Window, kernel_sizes};
use super::infer::{FLOAT, Infer, bad, mismatch};
use crate::diagnostic::Result;
use crate::dim::{self, Expr};

pub(super) const ATTRIBUTES: List = &[
    AUTO_PAD,
    ints("dilations").by_shapes(),
    int_or("group", 1),
    ints("kernel_shape").by_shapes(),
    ints("output_padding").by_shapes(),
    ints("output_shape"),
    ints("pads").by_shapes(),
    ints("strides").by_shapes(),
];

/// ConvTranspose.
pub(super) fn conv_transpose(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let w = infer.like_first(1)?;
    let rank = x.shape.len();
    if rank < 3 || w.shape.len() != rank {
        return Err(mismatch(format!("X is {x} and W is {w}, expected the same number of dimensions, at least 3")));
    }
    let group = conv::groups(infer, "group")?;
    if dim::same(&x.shape[1], &w.shape[0]).is_none() {
        return Err(mismatch(format!("X is {x} and W is {w}: {} channels against {}", x.shape[1], w.shape[0])));
    }
    if w.shape[0].fixed().is_some_and(|channels| channels % group != 0) {
        return Err(mismatch(format!("W is {w}: {} channels do not divide into {group} groups", w.shape[0])));
    }
    let filters = dim::mul(&w.shape[1], &Dim::Fixed(group))?;
    if infer.has(2) {
        infer.ranked(2, FLOAT, 1)?;
        infer.like_first(2)?;
        conv::bias(infer, 2, &filters)?;
    }
    let window = Window::read(infer, kernel_sizes(infer, &w.shape[2..])?)?;
    let spatial = spatial(infer, &window, &x.shape[2..])?;
    infer.set(0, x.dtype, [vec![x.shape[0].clone(), filters], spatial].concat());
    Ok(())
}

/// The spatial sizes of the output: those that are wished for, or by ONNX's formulas.
fn spatial(infer: &Infer<'_>, window: &Window, input: &[Dim]) -> Result<Vec<Dim>> {
    let axes = input.len();
    let list = |name: &str| match infer.ints(name)? {
        Some(values) if values.len() != axes => {
            Err(bad(format!("attribute '{name}' has {} numbers, expected {axes}", values.len())))
        }
        Some(values) if values.iter().any(|&value| value < 0) => {
            Err(bad(format!("attribute '{name}' is {values:?}, expected no negative number")))
        }
        values => Ok(values),
    };
    let extra = list("output_padding")?;
    if let Some(wanted) = list("output_shape")? {
        return Ok(wanted.iter().map(|&size| Dim::Fixed(size as usize)).collect());
    }
    let axis = |(axis, size): (usize, &Dim)| -> Result<Dim> {
        let (size, stride) = (Expr::of(size)?, Expr::from(window.strides[axis]));
        if window.same {
            return Ok(size.times(&stride)?.to_dim()?);
        }
        let (before, after) = window.pads[axis];
        let steps = size.minus(&Expr::from(1))?.times(&stride)?;
        let full = steps.plus(&Expr::from(window.reach(axis)?))?.plus(&Expr::from(extra.map_or(0, |all| all[axis])))?;
        let left = full.minus(&Expr::from(before))?.minus(&Expr::from(after))?;
        if left.as_constant().is_some_and(|left| left < 0) {
            return Err(mismatch(format!("the padding of spatial axis {axis} is larger than what it cuts, {full}")));
        }
        Ok(left.to_dim()?)
    };
    input.iter().enumerate().map(axis).collect()
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const CASES: &[Case] = &[
        ("ConvTranspose", "", "f32[1,1,3,3] f32[1,2,3,3]", "f32[1,2,5,5]"),
        ("ConvTranspose", "strides=[2,2] pads=[1,1,1,1]", "f32[n,4,h,w] f32[4,8,4,4] f32[8]", "f32[n,8,h*2,w*2]"),
        (
            "ConvTranspose",
            "strides=[3] output_padding=[1] dilations=[2] group=2",
            "f16[n,4,5] f16[4,3,2]",
            "f16[n,6,16]",
        ),
        ("ConvTranspose", "auto_pad=SAME_UPPER strides=[2]", "f32[1,1,l] f32[1,1,3]", "f32[1,1,l*2]"),
        ("ConvTranspose", "output_shape=[7] strides=[2]", "f32[1,1,l] f32[1,1,3]", "f32[1,1,7]"),
        (
            "ConvTranspose",
            "output_shape=[7,7]",
            "f32[1,1,l] f32[1,1,3]",
            "[B106] attribute 'output_shape' has 2 numbers, expected 1",
        ),
        (
            "ConvTranspose",
            "output_padding=[-1]",
            "f32[1,1,l] f32[1,1,3]",
            "[B106] attribute 'output_padding' is [-1], expected no negative number",
        ),
        (
            "ConvTranspose",
            "pads=[3,3]",
            "f32[1,1,3] f32[1,1,3]",
            "[B202] the padding of spatial axis 0 is larger than what it cuts, 5",
        ),
        (
            "ConvTranspose",
            "",
            "f32[1,3,5] f32[4,1,3]",
            "[B202] X is f32[1,3,5] and W is f32[4,1,3]: 3 channels against 4",
        ),
        (
            "ConvTranspose",
            "group=2",
            "f32[1,3,5] f32[3,1,3]",
            "[B202] W is f32[3,1,3]: 3 channels do not divide into 2 groups",
        ),
        (
            "ConvTranspose",
            "group=3",
            "f32[1,3,5] f32[3,2,3] f32[2]",
            "[B202] B is f32[2], expected one number for each of 6 output channels",
        ),
    ];

    #[test]
    fn transposed_convolutions() {
        check(CASES);
    }
}

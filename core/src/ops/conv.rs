//! Convolution, after ONNX: Conv 22; and the window arithmetic that pooling shares.

use byoc_plugin_api::Dim;

use super::infer::{FLOAT, Infer, bad, mismatch};
use crate::diagnostic::Result;
use crate::dim::{self, Expr};
use crate::ir::TensorType;

/// Sizes of a sliding window, one entry a spatial axis.
pub(super) struct Window {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    /// Padding before and after each axis.
    pub(super) pads: Vec<(i64, i64)>,
    /// `auto_pad` is SAME_UPPER or SAME_LOWER.
    pub(super) same: bool,
    /// The last window may start inside the input and end beyond it.
    pub(super) ceil: bool,
}

impl Window {
    /// Reads and checks the attributes of a window over `axes` axes of the sizes `kernel`.
    pub(super) fn read(infer: &Infer<'_>, kernel: Vec<i64>) -> Result<Window> {
        let axes = kernel.len();
        let list = |name: &str| -> Result<Vec<i64>> {
            let values = infer.ints(name)?.map_or_else(|| vec![1; axes], <[i64]>::to_vec);
            checked(name, values, axes)
        };
        let auto_pad = infer.choice("auto_pad", &["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])?;
        let pads = match infer.ints("pads")? {
            Some(pads) if pads.len() != 2 * axes => {
                return Err(bad(format!("attribute 'pads' has {} numbers, expected {}", pads.len(), 2 * axes)));
            }
            Some(pads) if pads.iter().any(|&pad| pad < 0) => {
                return Err(bad(format!("attribute 'pads' is {pads:?}, expected no negative number")));
            }
            // `auto_pad` overrides them.
            Some(pads) if auto_pad == "NOTSET" => {
                pads[..axes].iter().copied().zip(pads[axes..].iter().copied()).collect()
            }
            _ => vec![(0, 0); axes],
        };
        let ceil = infer.int("ceil_mode", 0)? != 0 && auto_pad == "NOTSET";
        let (strides, dilations) = (list("strides")?, list("dilations")?);
        let kernel = checked("kernel_shape", kernel, axes)?;
        Ok(Window { kernel, strides, dilations, pads, same: auto_pad.starts_with("SAME"), ceil })
    }

    /// The output size on each spatial axis.
    pub(super) fn output(&self, input: &[Dim]) -> Result<Vec<Dim>> {
        input.iter().enumerate().map(|(axis, size)| self.output_axis(axis, size)).collect()
    }

    /// Elements that a window spans along an axis.
    pub(super) fn reach(&self, axis: usize) -> Result<i64> {
        let steps = (self.kernel[axis] - 1).checked_mul(self.dilations[axis]);
        let reach = steps.and_then(|steps| steps.checked_add(1));
        reach.ok_or_else(|| bad("kernel_shape, dilations or pads are too large"))
    }

    fn output_axis(&self, axis: usize, input: &Dim) -> Result<Dim> {
        let size = Expr::of(input)?;
        let stride = Expr::from(self.strides[axis]);
        if self.same {
            return Ok(size.ceil_div(&stride)?.to_dim()?);
        }
        let reach = self.reach(axis)?;
        let (before, after) = self.pads[axis];
        let padded = size.plus(&Expr::from(before))?.plus(&Expr::from(after))?;
        let room = padded.minus(&Expr::from(reach))?;
        if room.as_constant().is_some_and(|room| room < 0) {
            return Err(mismatch(format!(
                "a window of {reach} does not fit into the padded size {padded} of spatial axis {axis}"
            )));
        }
        let one = Expr::from(1);
        if !self.ceil {
            return Ok(room.floor_div(&stride)?.plus(&one)?.to_dim()?);
        }
        // A window that would start in the padding behind the input does not count.
        let starts = size.plus(&Expr::from(before))?.ceil_div(&stride)?;
        Ok(room.ceil_div(&stride)?.plus(&one)?.smaller(&starts)?.to_dim()?)
    }
}

/// A list of `axes` numbers, each at least 1.
pub(super) fn checked(name: &str, values: Vec<i64>, axes: usize) -> Result<Vec<i64>> {
    if values.len() != axes {
        return Err(bad(format!("attribute '{name}' has {} numbers, expected {axes}", values.len())));
    }
    if values.iter().any(|&value| value < 1) {
        return Err(bad(format!("attribute '{name}' is {values:?}, expected numbers of at least 1")));
    }
    Ok(values)
}

/// Conv.
pub(super) fn conv(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let w = infer.like_first(1)?;
    let shape = output(infer, &x, &w)?;
    if infer.has(2) {
        infer.ranked(2, FLOAT, 1)?;
        infer.like_first(2)?;
        bias(infer, 2, &w.shape[0])?;
    }
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// Fails where the bias at that input does not have one number for each of the filters.
pub(super) fn bias(infer: &Infer<'_>, index: usize, filters: &Dim) -> Result<()> {
    let bias = infer.input(index)?;
    match bias.shape.as_slice() {
        [size] if dim::same(size, filters).is_some() => Ok(()),
        _ => Err(mismatch(format!("B is {bias}, expected one number for each of {filters} output channels"))),
    }
}

/// How many groups the attribute says there are.
pub(super) fn groups(infer: &Infer<'_>, name: &str) -> Result<usize> {
    let group = infer.int(name, 1)?;
    let count = usize::try_from(group).ok().filter(|&count| count >= 1);
    count.ok_or_else(|| bad(format!("attribute '{name}' is {group}, expected at least 1")))
}

/// The shape of a convolution of `x` with the weights `w`.
pub(super) fn output(infer: &Infer<'_>, x: &TensorType, w: &TensorType) -> Result<Vec<Dim>> {
    let rank = x.shape.len();
    if rank < 3 || w.shape.len() != rank {
        return Err(mismatch(format!("X is {x} and W is {w}, expected the same number of dimensions, at least 3")));
    }
    let group = groups(infer, "group")?;
    let channels = dim::mul(&w.shape[1], &Dim::Fixed(group))?;
    if dim::same(&x.shape[1], &channels).is_none() {
        return Err(mismatch(format!(
            "X is {x} and W is {w}: {} channels against {} x group {group}",
            x.shape[1], w.shape[1]
        )));
    }
    if w.shape[0].fixed().is_some_and(|maps| maps % group != 0) {
        return Err(mismatch(format!("W is {w}: {} output channels do not divide into {group} groups", w.shape[0])));
    }
    let kernel = kernel_sizes(infer, &w.shape[2..])?;
    let window = Window::read(infer, kernel)?;
    let mut shape = vec![x.shape[0].clone(), w.shape[0].clone()];
    shape.extend(window.output(&x.shape[2..])?);
    Ok(shape)
}

/// The kernel's sizes: from the attribute, which must agree with the weights, or from the weights.
pub(super) fn kernel_sizes(infer: &Infer<'_>, weights: &[Dim]) -> Result<Vec<i64>> {
    let sizes =
        weights.iter().map(|dim| dim.fixed().and_then(|size| i64::try_from(size).ok())).collect::<Option<Vec<_>>>();
    match (infer.ints("kernel_shape")?, sizes) {
        (Some(given), Some(sizes)) if given != sizes => {
            Err(bad(format!("attribute 'kernel_shape' is {given:?}, but the weights have {sizes:?}")))
        }
        (Some(given), _) => Ok(given.to_vec()),
        (None, Some(sizes)) => Ok(sizes),
        (None, None) => Err(super::infer::unknown("the kernel's size is known only at run time")),
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const CONVOLUTIONS: &[Case] = &[
        ("Conv", "", "f32[1,3,224,224] f32[64,3,7,7]", "f32[1,64,218,218]"),
        ("Conv", "pads=[3,3,3,3] strides=[2,2]", "f32[n,3,224,224] f32[64,3,7,7] f32[64]", "f32[n,64,112,112]"),
        ("Conv", "dilations=[2]", "f32[1,3,10] f32[4,3,3]", "f32[1,4,6]"),
        ("Conv", "group=3", "f32[1,3,5,5] f32[6,1,3,3]", "f32[1,6,3,3]"),
        ("Conv", "auto_pad=SAME_UPPER strides=[2,2]", "f32[1,1,5,4] f32[1,1,3,3]", "f32[1,1,3,2]"),
        (
            "Conv",
            "pads=[1,1,1,1] strides=[2,2]",
            "f32[1,3,h,w] f32[8,3,3,3]",
            "f32[1,8,floor((h + 1)/2),floor((w + 1)/2)]",
        ),
        ("Conv", "pads=[1,1]", "f32[1,1,5,4] f32[1,1,3,3]", "[B106] attribute 'pads' has 2 numbers, expected 4"),
        (
            "Conv",
            "pads=[-1,0]",
            "f32[1,1,5] f32[1,1,3]",
            "[B106] attribute 'pads' is [-1, 0], expected no negative number",
        ),
        (
            "Conv",
            "strides=[0]",
            "f32[1,1,5] f32[1,1,3]",
            "[B106] attribute 'strides' is [0], expected numbers of at least 1",
        ),
        (
            "Conv",
            "dilations=[9223372036854775807]",
            "f32[1,1,5] f32[1,1,3]",
            "[B106] kernel_shape, dilations or pads are too large",
        ),
        (
            "Conv",
            "pads=[9223372036854775807,9223372036854775807]",
            "f32[1,1,5] f32[1,1,3]",
            "[B202] a size is too large to compute with",
        ),
        ("Conv", "group=0", "f32[1,1,5] f32[1,1,3]", "[B106] attribute 'group' is 0, expected at least 1"),
        (
            "Conv",
            "group=2",
            "f32[1,4,5] f32[3,2,3]",
            "[B202] W is f32[3,2,3]: 3 output channels do not divide into 2 groups",
        ),
        (
            "Conv",
            "",
            "f32[1,4,5] f32[3,2,3]",
            "[B202] X is f32[1,4,5] and W is f32[3,2,3]: 4 channels against 2 x group 1",
        ),
        (
            "Conv",
            "",
            "f32[1,1,2] f32[1,1,3]",
            "[B202] a window of 3 does not fit into the padded size 2 of spatial axis 0",
        ),
        (
            "Conv",
            "",
            "f32[1,1,2,2] f32[1,1,3]",
            "[B202] X is f32[1,1,2,2] and W is f32[1,1,3], expected the same number of dimensions, at least 3",
        ),
        (
            "Conv",
            "kernel_shape=[2]",
            "f32[1,1,5] f32[1,1,3]",
            "[B106] attribute 'kernel_shape' is [2], but the weights have [3]",
        ),
        (
            "Conv",
            "",
            "f32[1,1,5] f32[2,1,3] f32[3]",
            "[B202] B is f32[3], expected one number for each of 2 output channels",
        ),
        (
            "Conv",
            "auto_pad=X",
            "f32[1,1,5] f32[2,1,3]",
            "[B106] attribute 'auto_pad' is 'X', expected one of NOTSET, VALID, SAME_UPPER, SAME_LOWER",
        ),
    ];

    #[test]
    fn convolutions() {
        check(CONVOLUTIONS);
    }
}

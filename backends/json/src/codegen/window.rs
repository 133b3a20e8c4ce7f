//! The window of a convolution or a pooling: strides, dilations, and padding in numbers.

use byoc_plugin_api::Dim;

use crate::program::Step;

/// A window over two spatial dimensions.
pub(super) struct Window {
    pub(super) strides: [usize; 2],
    pub(super) dilations: [usize; 2],
    /// Above, left, below, right.
    pub(super) pads: [usize; 4],
}

impl Window {
    /// The window of a node over images `x` to images `y`; `None` where it has another rank, negative padding, or
    /// padding that follows from sizes not known yet.
    pub(super) fn of(step: &Step, x: &[Dim], y: &[Dim], kernel: [usize; 2]) -> Option<Window> {
        if x.len() != 4 || y.len() != 4 {
            return None;
        }
        let strides = positive(step.ints("strides"))?;
        let dilations = positive(step.ints("dilations"))?;
        let pads = match step.text("auto_pad", "NOTSET") {
            "NOTSET" | "" => match step.ints("pads") {
                None => [0; 4],
                Some(pads) => {
                    let pads: Vec<usize> = pads.iter().map(|&pad| usize::try_from(pad).ok()).collect::<Option<_>>()?;
                    pads.try_into().ok()?
                }
            },
            "VALID" => [0; 4],
            same @ ("SAME_UPPER" | "SAME_LOWER") => {
                let mut pads = [0; 4];
                for i in 0..2 {
                    let (size, out) = (x[i + 2].fixed()?, y[i + 2].fixed()?);
                    let last = out.checked_sub(1)?.checked_mul(strides[i])?;
                    let span = kernel[i].checked_sub(1)?.checked_mul(dilations[i])?.checked_add(1)?;
                    let total = last.checked_add(span)?.saturating_sub(size);
                    let before = if same == "SAME_UPPER" { total / 2 } else { total.div_ceil(2) };
                    pads[i] = before;
                    pads[i + 2] = total - before;
                }
                pads
            }
            _ => return None,
        };
        Some(Window { strides, dilations, pads })
    }
}

fn positive(values: Option<&[i64]>) -> Option<[usize; 2]> {
    let Some(values) = values else { return Some([1, 1]) };
    let values: Vec<usize> =
        values.iter().map(|&value| usize::try_from(value).ok().filter(|&value| value > 0)).collect::<Option<_>>()?;
    values.try_into().ok()
}

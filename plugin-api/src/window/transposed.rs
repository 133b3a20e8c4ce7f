//! The windows of transposed convolutions, in numbers.

use super::{Window, list, refusal};
use crate::error::Refusal;
use crate::region::Node;

/// How the windows of `ConvTranspose` lie on its output: each element of the input has one. One number for each spatial axis
/// in each list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransposedWindow {
    /// Elements of a window, at least 1.
    pub kernel: Vec<usize>,
    /// Distance from one window to the next, at least 1.
    pub strides: Vec<usize>,
    /// Distance from one element of a window to the next, at least 1.
    pub dilations: Vec<usize>,
    /// How many elements in front of the output the first window begins.
    pub begin: Vec<usize>,
    /// Size of the output.
    pub output: Vec<usize>,
}

impl TransposedWindow {
    /// The windows of a node over an input with these spatial sizes; `weights` are those of the weights. `auto_pad` and
    /// `output_shape` become padding.
    pub fn over(node: &Node, input: &[usize], weights: &[usize]) -> Result<TransposedWindow, Refusal> {
        let axes = input.len();
        let read = Window::unpadded(node, axes, Some(weights))?;
        let extra = list(node, "output_padding", axes, 0)?.unwrap_or_else(|| vec![0; axes]);
        let wanted = list(node, "output_shape", axes, 0)?;
        let auto_pad = node.string("auto_pad", "NOTSET");
        let pads = list(node, "pads", 2 * axes, 0)?.filter(|_| auto_pad == "NOTSET");
        let pads = pads.unwrap_or_else(|| vec![0; 2 * axes]);
        let mut window = TransposedWindow {
            kernel: read.kernel.clone(),
            strides: read.strides.clone(),
            dilations: read.dilations.clone(),
            begin: pads[..axes].to_vec(),
            output: wanted.clone().unwrap_or_default(),
        };
        let same = auto_pad.starts_with("SAME");
        for axis in 0..axes {
            let sizes = || {
                let number = |value: usize| i64::try_from(value).ok();
                let (size, stride) = (number(input[axis])?, number(read.strides[axis])?);
                let steps = stride.checked_mul(size.checked_sub(1)?)?;
                let full = steps.checked_add(number(read.span(axis)?)?)?.checked_add(number(extra[axis])?)?;
                let output = match &wanted {
                    Some(wanted) => number(wanted[axis])?,
                    None if same => size.checked_mul(stride)?,
                    None => full.checked_sub(number(pads[axis])?)?.checked_sub(number(pads[axis + axes])?)?,
                };
                Some((full.checked_sub(output)?, usize::try_from(output).ok()?))
            };
            let (surplus, output) = sizes().ok_or_else(|| refusal(node, "sizes that leave no output"))?;
            if same || wanted.is_some() {
                let begin = transposed_padding(surplus, auto_pad == "SAME_UPPER").0;
                window.begin[axis] = usize::try_from(begin).unwrap_or_default();
            }
            if wanted.is_none() {
                window.output.push(output);
            }
        }
        Ok(window)
    }
}

/// The padding in front and behind by which a transposed convolution loses `surplus` elements along an axis: half of them each, an odd one
/// behind for SAME_UPPER and in front otherwise. Padding is not negative: where elements are missing, they are appended, and the third
/// number says how many.
pub fn transposed_padding(surplus: i64, upper: bool) -> (i64, i64, i64) {
    let total = surplus.max(0);
    let less = total / 2;
    let (begin, end) = if upper { (less, total - less) } else { (total - less, less) };
    (begin, end, surplus.min(0).saturating_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Attribute;

    /// Begin and output of one axis of 4 elements under a window of 3.
    fn of(attributes: &[(&str, Attribute)]) -> Result<(usize, usize), Refusal> {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let node = Node { name: "n".into(), op: "ConvTranspose".into(), attributes, ..Node::default() };
        TransposedWindow::over(&node, &[4], &[3]).map(|window| (window.begin[0], window.output[0]))
    }

    #[test]
    fn padding_takes_away_what_is_not_wanted() {
        let ints = |values: &[i64]| Attribute::Ints(values.to_vec());
        let text = |value: &str| Attribute::String(value.into());
        assert_eq!(of(&[]), Ok((0, 6)));
        assert_eq!(of(&[("pads", ints(&[1, 2])), ("output_padding", ints(&[1]))]), Ok((1, 4)));
        let stride = ("strides", ints(&[2]));
        assert_eq!(of(&[stride.clone(), ("auto_pad", text("SAME_UPPER"))]), Ok((0, 8)));
        assert_eq!(of(&[stride.clone(), ("auto_pad", text("SAME_LOWER"))]), Ok((1, 8)));
        assert_eq!(of(&[stride.clone(), ("output_shape", ints(&[6])), ("pads", ints(&[0, 3]))]), Ok((2, 6)));
        // More than there is: the rest has no term.
        assert_eq!(of(&[stride, ("output_shape", ints(&[11]))]), Ok((0, 11)));
        for (name, values) in [("pads", vec![4, 4]), ("strides", vec![i64::MAX]), ("output_padding", vec![-1])] {
            assert!(of(&[(name, ints(&values))]).is_err(), "{name}");
        }
        assert_eq!([transposed_padding(3, true), transposed_padding(-2, false)], [(1, 2, 0), (0, 0, 2)]);
    }
}

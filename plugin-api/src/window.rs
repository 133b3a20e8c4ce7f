//! The windows of convolutions and poolings, in numbers.

mod transposed;

use std::fmt::Debug;

use crate::error::{Refusal, RefusalCode};
use crate::region::Node;

pub use self::transposed::{TransposedWindow, transposed_padding};

/// How the windows of `Conv`, `AveragePool` or `MaxPool` lie on the input: one number for each spatial axis in each list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Elements of a window, at least 1.
    pub kernel: Vec<usize>,
    /// Distance from one window to the next, at least 1.
    pub strides: Vec<usize>,
    /// Distance from one element of a window to the next, at least 1.
    pub dilations: Vec<usize>,
    /// Padding in front of the input.
    pub begin: Vec<usize>,
    /// Padding behind the input, without what a window hangs over where `ceil` is set.
    pub end: Vec<usize>,
    /// Whether the last window may reach beyond the padding (`ceil_mode`); the output's shape tells how many there are.
    pub ceil: bool,
}

impl Window {
    /// The windows of a node over an input with `axes` spatial axes; `weights` are the spatial sizes of a convolution's
    /// weights, `None` for a pooling. Core writes every attribute of windows as numbers (`docs/operators.md`); one that is
    /// absent has ONNX's default, but a pooling's `kernel_shape` must be there. `auto_pad` is there only where the padding
    /// follows from sizes that are not known yet, which is refused.
    pub fn of(node: &Node, axes: usize, weights: Option<&[usize]>) -> Result<Window, Refusal> {
        let mut window = Window::unpadded(node, axes, weights)?;
        let auto_pad = node.string("auto_pad", "NOTSET");
        if auto_pad != "NOTSET" {
            let message = format!("'{}' has auto_pad {auto_pad}, and its padding is not known yet", node.name);
            return Err(Refusal::new(RefusalCode::Shape, message));
        }
        if let Some(pads) = list(node, "pads", 2 * axes, 0)? {
            window.begin.copy_from_slice(&pads[..axes]);
            window.end.copy_from_slice(&pads[axes..]);
        }
        Ok(window)
    }

    /// As [`Window::of`], for code that knows the spatial sizes of the input, such as a kernel that runs: `auto_pad` becomes
    /// padding.
    pub fn over(node: &Node, input: &[usize], weights: Option<&[usize]>) -> Result<Window, Refusal> {
        let upper = match node.string("auto_pad", "NOTSET") {
            "SAME_UPPER" => true,
            "SAME_LOWER" => false,
            _ => return Window::of(node, input.len(), weights),
        };
        let mut window = Window::unpadded(node, input.len(), weights)?;
        for (axis, &size) in input.iter().enumerate() {
            let padding = window.span(axis).and_then(|span| same_padding(size, window.strides[axis], span, upper));
            (window.begin[axis], window.end[axis]) =
                padding.ok_or_else(|| refusal(node, "a kernel, stride or dilation that is too large"))?;
        }
        Ok(window)
    }

    fn unpadded(node: &Node, axes: usize, weights: Option<&[usize]>) -> Result<Window, Refusal> {
        let kernel = match weights {
            Some(weights) => weights.to_vec(),
            None => list(node, "kernel_shape", axes, 1)?.ok_or_else(|| refusal(node, "no kernel_shape"))?,
        };
        if kernel.len() != axes || kernel.contains(&0) {
            return Err(refusal(node, &not_a_list("a kernel", &kernel, axes, 1)));
        }
        let ones = |name: &str| Ok::<_, Refusal>(list(node, name, axes, 1)?.unwrap_or_else(|| vec![1; axes]));
        let (strides, dilations) = (ones("strides")?, ones("dilations")?);
        let ceil = node.int("ceil_mode", 0) != 0;
        Ok(Window { kernel, strides, dilations, begin: vec![0; axes], end: vec![0; axes], ceil })
    }

    /// Elements that a window spans along an axis; `None` if they cannot be counted.
    pub fn span(&self, axis: usize) -> Option<usize> {
        self.kernel[axis].checked_sub(1)?.checked_mul(self.dilations[axis])?.checked_add(1)
    }
}

/// The padding in front and behind by which windows that span `span` elements and lie `stride` apart are as many as strides
/// fit into `size` elements: ONNX's SAME_UPPER, or SAME_LOWER, which has an odd element in front. No elements, no padding.
/// `None` if it cannot be counted.
pub fn same_padding(size: usize, stride: usize, span: usize, upper: bool) -> Option<(usize, usize)> {
    let Some(last) = size.div_ceil(stride).checked_sub(1) else { return Some((0, 0)) };
    let total = last.checked_mul(stride)?.checked_add(span)?.saturating_sub(size);
    let begin = if upper { total / 2 } else { total.div_ceil(2) };
    Some((begin, total - begin))
}

/// A list attribute of `count` numbers, each at least `least`.
fn list(node: &Node, name: &str, count: usize, least: usize) -> Result<Option<Vec<usize>>, Refusal> {
    let Some(values) = node.ints(name) else { return Ok(None) };
    let sizes = values.iter().map(|&value| usize::try_from(value).ok().filter(|&size| size >= least)).collect();
    let sizes: Option<Vec<usize>> = sizes;
    sizes
        .filter(|sizes| sizes.len() == count)
        .map(Some)
        .ok_or_else(|| refusal(node, &not_a_list(name, values, count, least)))
}

fn not_a_list(name: &str, values: &[impl Debug], count: usize, least: usize) -> String {
    format!("{name} {values:?}, which is not a list of length {count} of numbers from {least} on")
}

fn refusal(node: &Node, what: &str) -> Refusal {
    Refusal::new(RefusalCode::Attribute, format!("'{}' has {what}", node.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Attribute;

    fn node(attributes: &[(&str, Attribute)]) -> Node {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Node { name: "n".into(), op: "Conv".into(), attributes, ..Node::default() }
    }

    fn ints(values: &[i64]) -> Attribute {
        Attribute::Ints(values.to_vec())
    }

    #[test]
    fn attributes_are_read_and_absent_ones_have_their_defaults() {
        let window = Window::of(&node(&[]), 2, Some(&[3, 2])).expect("defaults");
        assert_eq!((window.strides, window.begin, window.end), (vec![1, 1], vec![0, 0], vec![0, 0]));
        let full = [
            ("kernel_shape", ints(&[3, 2])),
            ("strides", ints(&[2, 1])),
            ("dilations", ints(&[1, 4])),
            ("pads", ints(&[0, 1, 2, 3])),
            ("ceil_mode", Attribute::Int(1)),
        ];
        let window = Window::of(&node(&full), 2, None).expect("a window");
        assert_eq!((window.span(0), window.span(1)), (Some(3), Some(5)));
        let expected = Window {
            kernel: vec![3, 2],
            strides: vec![2, 1],
            dilations: vec![1, 4],
            begin: vec![0, 1],
            end: vec![2, 3],
            ceil: true,
        };
        assert_eq!(window, expected);
    }

    #[test]
    fn what_is_no_window_is_refused() {
        let same = ("auto_pad", Attribute::String("SAME_UPPER".into()));
        let cases = [
            (vec![], "'n' has no kernel_shape"),
            (
                vec![("kernel_shape", ints(&[3]))],
                "'n' has kernel_shape [3], which is not a list of length 2 of numbers from 1 on",
            ),
            (
                vec![("strides", ints(&[1, 0]))],
                "'n' has strides [1, 0], which is not a list of length 2 of numbers from 1 on",
            ),
            (
                vec![("pads", ints(&[0, 0, 0, -1]))],
                "'n' has pads [0, 0, 0, -1], which is not a list of length 4 of numbers from 0 on",
            ),
            (vec![same], "'n' has auto_pad SAME_UPPER, and its padding is not known yet"),
        ];
        for (attributes, message) in cases {
            let kernel = ("kernel_shape", ints(&[3, 3]));
            let whole = attributes.iter().any(|(name, _)| *name == "kernel_shape") || attributes.is_empty();
            let all: Vec<_> = attributes.into_iter().chain((!whole).then_some(kernel)).collect();
            assert_eq!(Window::of(&node(&all), 2, None).expect_err(message).message, message);
        }
        let error = Window::of(&node(&[]), 1, Some(&[0])).expect_err("no element");
        assert_eq!(error.message, "'n' has a kernel [0], which is not a list of length 1 of numbers from 1 on");
    }

    #[test]
    fn sizes_that_are_known_make_padding() {
        let same = |how: &str| node(&[("auto_pad", Attribute::String(how.into())), ("strides", ints(&[2]))]);
        let pads = |node: &Node, size| {
            let window = Window::over(node, &[size], Some(&[3])).expect("a window");
            (window.begin[0], window.end[0])
        };
        assert_eq!((pads(&same("SAME_UPPER"), 6), pads(&same("SAME_LOWER"), 6)), ((0, 1), (1, 0)));
        assert_eq!((pads(&same("SAME_UPPER"), 5), pads(&same("SAME_UPPER"), 0)), ((1, 1), (0, 0)));
        assert_eq!(pads(&node(&[("pads", ints(&[4, 5]))]), 6), (4, 5));
        // Windows apart from each other leave elements out.
        assert_eq!(same_padding(9, 5, 2, true), Some((0, 0)));
        assert_eq!(same_padding(5, 2, usize::MAX, true), None);
        let large = [("auto_pad", Attribute::String("SAME_LOWER".into())), ("dilations", ints(&[i64::MAX]))];
        let error = Window::over(&node(&large), &[5], Some(&[4])).expect_err("too large");
        assert_eq!(error.message, "'n' has a kernel, stride or dilation that is too large");
    }
}

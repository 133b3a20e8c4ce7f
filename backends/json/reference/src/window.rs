//! The geometry that convolution and pooling share: windows that slide over up to three spatial axes.

use byoc_plugin_api::{Error, Node};

/// Spatial axes that a window can have. Fewer are filled up in front with axes of one element.
pub(crate) const AXES: usize = 3;

/// Windows over a padded input.
#[derive(Debug, PartialEq)]
pub(crate) struct Window {
    /// Size of the input.
    pub(crate) input: [usize; AXES],
    /// Size of the kernel.
    pub(crate) kernel: [usize; AXES],
    /// Distance from one window to the next.
    pub(crate) stride: [usize; AXES],
    /// Distance from one element of a window to the next.
    pub(crate) dilation: [usize; AXES],
    /// Padding in front.
    pub(crate) begin: [usize; AXES],
    /// Padding behind.
    pub(crate) end: [usize; AXES],
    /// Number of windows.
    pub(crate) output: [usize; AXES],
    /// How many of the axes the tensor really has.
    pub(crate) rank: usize,
}

/// `values`, filled up in front.
pub(crate) fn filled(values: &[usize], default: usize) -> [usize; AXES] {
    let mut all = [default; AXES];
    all[AXES - values.len()..].copy_from_slice(values);
    all
}

impl Window {
    /// The windows of `node` over an input with these spatial sizes; the kernel's size where the weights give it.
    pub(crate) fn new(node: &Node, spatial: &[usize], weights: Option<&[usize]>) -> Result<Window, Error> {
        let rank = spatial.len();
        if !(1..=AXES).contains(&rank) {
            return Err(Error::new(format!("{} over {rank} spatial axes", node.op)));
        }
        let read =
            byoc_plugin_api::Window::over(node, spatial, weights).map_err(|refusal| Error::new(refusal.message))?;
        let mut window = Window {
            input: filled(spatial, 1),
            kernel: filled(&read.kernel, 1),
            stride: filled(&read.strides, 1),
            dilation: filled(&read.dilations, 1),
            begin: filled(&read.begin, 0),
            end: filled(&read.end, 0),
            output: [1; AXES],
            rank,
        };
        for axis in 0..AXES {
            let fits = window.count(axis, read.ceil)?;
            fits.ok_or_else(|| Error::new("a kernel, stride, dilation or padding is too large"))?;
        }
        Ok(window)
    }

    /// Elements that a window spans; `None` if they cannot be counted, as in what follows.
    fn span(&self, axis: usize) -> Option<usize> {
        (self.kernel[axis] - 1).checked_mul(self.dilation[axis])?.checked_add(1)
    }

    /// From the first element of the first window past the last one of the last.
    fn reach(&self, axis: usize) -> Option<usize> {
        self.output[axis].saturating_sub(1).checked_mul(self.stride[axis])?.checked_add(self.span(axis)?)
    }

    /// Sets the number of windows; `None` where they cannot be counted.
    fn count(&mut self, axis: usize, ceil: bool) -> Result<Option<()>, Error> {
        let stride = self.stride[axis];
        let Some(input) = self.input[axis].checked_add(self.begin[axis]) else { return Ok(None) };
        let (Some(padded), Some(span)) = (input.checked_add(self.end[axis]), self.span(axis)) else { return Ok(None) };
        let Some(free) = padded.checked_sub(span) else {
            if self.input[axis] == 0 {
                self.output[axis] = 0;
                return Ok(Some(()));
            }
            return Err(Error::new(format!("the window is larger than the padded input {:?}", self.input)));
        };
        let steps = if ceil { free.div_ceil(stride) } else { free / stride };
        // With ceil_mode the last window may hang over the end, but it must start inside the input or its front padding.
        let over = ceil && steps.checked_mul(stride).is_none_or(|start| start >= input);
        self.output[axis] = if over { steps } else { steps + 1 };
        Ok(self.reach(axis).map(drop))
    }

    /// Sizes of the output's spatial axes.
    pub(crate) fn output_shape(&self) -> &[usize] {
        &self.output[AXES - self.rank..]
    }

    /// The input coordinate that element `tap` of window `position` is on, unless that is padding.
    pub(crate) fn source(&self, axis: usize, position: usize, tap: usize) -> Option<usize> {
        let padded = position * self.stride[axis] + tap * self.dilation[axis];
        padded.checked_sub(self.begin[axis]).filter(|&source| source < self.input[axis])
    }

    /// The coordinates of window number `position`.
    pub(crate) fn unravel(&self, position: usize) -> [usize; AXES] {
        let [_, rows, columns] = self.output;
        [position / columns / rows, position / columns % rows, position % columns]
    }

    /// How many elements of window `position` begin before `end`, which counts from the start of the padding.
    fn before(&self, axis: usize, position: usize, end: usize) -> usize {
        let start = position * self.stride[axis];
        end.saturating_sub(start).div_ceil(self.dilation[axis]).min(self.kernel[axis])
    }

    /// Calls `visit` with the coordinates of each input element under the window at `position`. Padding is not walked: a
    /// window may be much larger than its input.
    pub(crate) fn visit(&self, position: [usize; AXES], mut visit: impl FnMut([usize; AXES])) {
        let sources = |axis: usize| {
            let [first, last] = [self.begin[axis], self.begin[axis] + self.input[axis]]
                .map(|end| self.before(axis, position[axis], end));
            (first..last).filter_map(move |tap| self.source(axis, position[axis], tap))
        };
        for d in sources(0) {
            for h in sources(1) {
                for w in sources(2) {
                    visit([d, h, w]);
                }
            }
        }
    }

    /// Elements of the window at `position` that are on the input or its padding.
    pub(crate) fn padded_count(&self, position: [usize; AXES]) -> usize {
        let on = |axis: usize| self.before(axis, position[axis], self.begin[axis] + self.input[axis] + self.end[axis]);
        (0..AXES).map(on).fold(1, usize::saturating_mul)
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{list as ints, node, text};
    use super::*;

    #[test]
    fn outputs_and_padding_follow_the_attributes() {
        let strided = ("strides", ints(&[2]));
        let cases = [
            (4, vec![("pads", ints(&[1, 1]))], (4, 1, 1)),
            (4, vec![strided.clone()], (1, 0, 0)),
            (6, vec![strided.clone()], (2, 0, 0)),
            (6, vec![strided.clone(), ("ceil_mode", Attribute::Int(1))], (3, 0, 0)),
            (1, vec![strided.clone(), ("ceil_mode", Attribute::Int(1)), ("pads", ints(&[1, 2]))], (1, 1, 2)),
            (6, vec![strided.clone(), ("auto_pad", text("SAME_UPPER"))], (3, 0, 1)),
            (6, vec![strided.clone(), ("auto_pad", text("SAME_LOWER"))], (3, 1, 0)),
            (6, vec![("dilations", ints(&[2]))], (2, 0, 0)),
            // No tap: one that is only on padding would not be counted either.
            (0, vec![("pads", ints(&[1, 1]))], (0, 1, 1)),
            (0, vec![strided.clone(), ("auto_pad", text("SAME_UPPER"))], (0, 0, 0)),
        ];
        for (size, attributes, expected) in cases {
            let window = Window::new(&node("MaxPool", 1, &attributes), &[size], Some(&[3])).expect("window");
            assert_eq!((window.output[2], window.begin[2], window.end[2]), expected, "{size} {attributes:?}");
        }
        assert!(Window::new(&node("MaxPool", 1, &[]), &[2], Some(&[3])).is_err());
        assert!(Window::new(&node("MaxPool", 1, &[]), &[2], None).is_err());
    }

    #[test]
    fn windows_of_any_size_end_at_once_or_are_refused() {
        let same = [("auto_pad", text("SAME_UPPER"))];
        let window = Window::new(&node("MaxPool", 1, &same), &[5], Some(&[(1 << 31) - 1])).expect("window");
        let mut seen = Vec::new();
        window.visit([0, 0, 4], |at| seen.push(at[2]));
        assert_eq!((seen, window.padded_count([0, 0, 4])), (vec![0, 1, 2, 3, 4], (1 << 31) - 1));
        let dilated = [("dilations", ints(&[i64::MAX])), ("auto_pad", text("SAME_LOWER"))];
        for attributes in [&dilated[..], &dilated[..1], &[("pads", ints(&[i64::MAX; 2]))]] {
            let error = Window::new(&node("MaxPool", 1, attributes), &[5], Some(&[4])).expect_err("too large");
            assert!(error.message.ends_with("is too large"), "{attributes:?}: {}", error.message);
        }
    }
}

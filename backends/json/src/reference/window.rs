//! The geometry that convolution and pooling share: windows that slide over up to three spatial axes.

use byoc_plugin_api::{Error, Node};

use super::array::dims;

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

/// A list attribute with one entry an axis, filled up in front.
fn list(node: &Node, name: &str, rank: usize, default: usize) -> Result<[usize; AXES], Error> {
    let values = match node.ints(name) {
        Some(values) if values.len() == rank => dims(values)?,
        None => vec![default; rank],
        Some(values) => {
            return Err(Error::new(format!("{name} has {} entries for {rank} axes", values.len())));
        }
    };
    Ok(filled(&values, default))
}

/// `values`, filled up in front.
pub(crate) fn filled(values: &[usize], default: usize) -> [usize; AXES] {
    let mut all = [default; AXES];
    all[AXES - values.len()..].copy_from_slice(values);
    all
}

impl Window {
    /// The windows of `node` over an input with these spatial sizes; the kernel's size where the weights give it.
    pub(crate) fn new(node: &Node, spatial: &[usize], kernel: Option<&[usize]>) -> Result<Window, Error> {
        let rank = spatial.len();
        if !(1..=AXES).contains(&rank) {
            return Err(Error::new(format!("{} over {rank} spatial axes", node.op)));
        }
        let kernel = match kernel {
            Some(kernel) if kernel.len() == rank => filled(kernel, 1),
            Some(_) => return Err(Error::new("weights and input differ in rank")),
            None if node.ints("kernel_shape").is_some() => list(node, "kernel_shape", rank, 1)?,
            None => return Err(Error::new("kernel_shape is not set")),
        };
        let (stride, dilation) = (list(node, "strides", rank, 1)?, list(node, "dilations", rank, 1)?);
        if kernel.iter().chain(&stride).chain(&dilation).any(|&value| value == 0) {
            return Err(Error::new("a kernel, stride or dilation is 0"));
        }
        let (mut begin, mut end) = ([0; AXES], [0; AXES]);
        let auto_pad = node.string("auto_pad", "NOTSET");
        if let ("NOTSET" | "", Some(pads)) = (auto_pad, node.ints("pads")) {
            if pads.len() != 2 * rank {
                return Err(Error::new(format!("pads has {} entries for {rank} axes", pads.len())));
            }
            let pads = dims(pads)?;
            (begin, end) = (filled(&pads[..rank], 0), filled(&pads[rank..], 0));
        }
        let mut window =
            Window { input: filled(spatial, 1), kernel, stride, dilation, begin, end, output: [1; AXES], rank };
        let ceil = node.int("ceil_mode", 0) != 0;
        for axis in 0..AXES {
            match auto_pad {
                "SAME_UPPER" | "SAME_LOWER" => window.same(axis, auto_pad == "SAME_UPPER"),
                "NOTSET" | "VALID" | "" => window.explicit(axis, ceil)?,
                other => return Err(Error::new(format!("unknown auto_pad '{other}'"))),
            }
        }
        Ok(window)
    }

    /// Elements that a window spans.
    fn span(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }

    /// As many windows as strides fit into the input; the padding follows, the odd element goes behind or in front.
    fn same(&mut self, axis: usize, upper: bool) {
        let (input, stride) = (self.input[axis], self.stride[axis]);
        self.output[axis] = input.div_ceil(stride);
        let needed = (self.output[axis].saturating_sub(1) * stride + self.span(axis)).saturating_sub(input);
        self.begin[axis] = if upper { needed / 2 } else { needed.div_ceil(2) };
        self.end[axis] = needed - self.begin[axis];
    }

    fn explicit(&mut self, axis: usize, ceil: bool) -> Result<(), Error> {
        let (input, stride) = (self.input[axis] + self.begin[axis], self.stride[axis]);
        let free = (input + self.end[axis]).checked_sub(self.span(axis));
        let free =
            free.ok_or_else(|| Error::new(format!("the window is larger than the padded input {:?}", self.input)))?;
        self.output[axis] = 1 + if ceil { free.div_ceil(stride) } else { free / stride };
        // With ceil_mode the last window may hang over the end, but it must start inside the input or its front padding.
        if ceil && (self.output[axis] - 1) * stride >= input {
            self.output[axis] -= 1;
        }
        Ok(())
    }

    /// Sizes of the output's spatial axes.
    pub(crate) fn output_shape(&self) -> &[usize] {
        &self.output[AXES - self.rank..]
    }

    /// The input coordinate that element `tap` of window `position` lies on, unless that is padding.
    pub(crate) fn source(&self, axis: usize, position: usize, tap: usize) -> Option<usize> {
        let padded = position * self.stride[axis] + tap * self.dilation[axis];
        padded.checked_sub(self.begin[axis]).filter(|&source| source < self.input[axis])
    }

    /// The coordinates of window number `position`.
    pub(crate) fn unravel(&self, position: usize) -> [usize; AXES] {
        let [_, rows, columns] = self.output;
        [position / columns / rows, position / columns % rows, position % columns]
    }

    /// Calls `visit` with the coordinates of each input element under the window at `position`.
    pub(crate) fn visit(&self, position: [usize; AXES], mut visit: impl FnMut([usize; AXES])) {
        let sources =
            |axis: usize| (0..self.kernel[axis]).filter_map(move |tap| self.source(axis, position[axis], tap));
        for d in sources(0) {
            for h in sources(1) {
                for w in sources(2) {
                    visit([d, h, w]);
                }
            }
        }
    }

    /// Elements of the window at `position` that lie on the input or its padding.
    pub(crate) fn padded_count(&self, position: [usize; AXES]) -> usize {
        let on = |axis: usize| {
            let limit = self.begin[axis] + self.input[axis] + self.end[axis];
            let padded = |tap: usize| position[axis] * self.stride[axis] + tap * self.dilation[axis];
            (0..self.kernel[axis]).filter(|&tap| padded(tap) < limit).count()
        };
        (0..AXES).map(on).product()
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
            (6, vec![strided, ("auto_pad", text("VALID")), ("pads", ints(&[1, 1]))], (2, 0, 0)),
            (6, vec![("dilations", ints(&[2]))], (2, 0, 0)),
        ];
        for (size, attributes, expected) in cases {
            let window = Window::new(&node("MaxPool", 1, &attributes), &[size], Some(&[3])).expect("window");
            assert_eq!((window.output[2], window.begin[2], window.end[2]), expected, "{size} {attributes:?}");
        }
        assert!(Window::new(&node("MaxPool", 1, &[]), &[2], Some(&[3])).is_err());
        assert!(Window::new(&node("MaxPool", 1, &[]), &[2], None).is_err());
    }
}

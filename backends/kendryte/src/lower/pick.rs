//! Convolutions whose windows are not where the accelerator has them: which of all pixels they are.
//!
//! The accelerator computes a kernel of 3x3 with a border of one pixel around the image, at every pixel. With other paddings and
//! strides each result is one of those: `out[y][x] = all[y * stride + 1 - padding][x * stride + 1 - padding]`. So the whole map
//! goes to main memory, and a maximum pooling with windows of one pixel takes the results out of it; it reads from the first of
//! them on, and stays inside the map. That is how `SAME` of TensorFlow at a stride of 2 (which pads at the end only), convolutions
//! without padding and strides over odd sizes are computed.

use byoc_plugin_api::{Node, Refusal, RefusalCode};

use super::conv::LEAST;
use super::{Lowering, read};
use crate::kmodel::arguments::Kernel;
use crate::kmodel::bodies::Shape;
use crate::net::{Conv, Form, TensorId, Window, Work};

/// Which pixels of the whole map are the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pixels {
    All,
    /// The upper left of each 2x2.
    UpperLeft,
    /// Those from this row and column on, as far apart as the stride says.
    At([u32; 2]),
}

impl Pixels {
    pub(super) fn of(window: &Window, kernel: Kernel) -> Result<Pixels, Refusal> {
        let (border, size) = (kernel.border(), kernel.size());
        let pads = [window.begin, window.end].concat();
        if pads.iter().any(|&pad| pad > border) {
            return Err(read::attribute(format!(
                "pads {pads:?}, a kernel of {size}x{size} has at most {border} on each side"
            )));
        }
        // The accelerator's own picking wants whole pairs, and has a least size.
        let even =
            [window.image.width, window.image.height].iter().all(|size| size.is_multiple_of(2) && size / 2 >= LEAST);
        let usual = window.begin == [border; 2] && window.end == [border; 2];
        Ok(match window.stride {
            [1, 1] if usual => Pixels::All,
            [2, 2] if usual && even => Pixels::UpperLeft,
            _ => Pixels::At(window.begin.map(|pad| border - pad)),
        })
    }
}

/// Zeros that a node puts around an image, in rows and columns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Padding {
    begin: [u32; 2],
    end: [u32; 2],
}

impl Padding {
    /// The window with these zeros as its own.
    pub(super) fn around(self, window: Window) -> Window {
        let sum = |a: [u32; 2], b: [u32; 2]| [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])];
        Window { begin: sum(window.begin, self.begin), end: sum(window.end, self.end), ..window }
    }
}

impl Lowering<'_> {
    /// Zeros around an image, which the convolution that reads it has as its padding.
    pub(super) fn pad(&mut self, node: &Node) -> Result<(), Refusal> {
        let (input, output) = (read::input(node, 0)?, read::output(node)?);
        let reader = self.only_reader(output).map(|reader| self.region.nodes[reader].op.as_str());
        if reader != Some("Conv") {
            return Err(super::other("Pad is taken in front of a convolution only"));
        }
        let mode = node.string("mode", "constant");
        if mode != "constant" {
            return Err(read::attribute(format!("mode '{mode}', only constant has code")));
        }
        if let Some(value) = node.input(2) {
            let value = self.region.constant_floats(value).ok_or_else(|| constant("the value"))?;
            if value.iter().any(|&value| value != 0.0) {
                return Err(read::attribute(format!("it pads with {value:?}, only 0 has code")));
            }
        }
        self.map(input)?;
        self.padded[output] = Some((input, self.padding(node)?));
        Ok(())
    }

    fn padding(&self, node: &Node) -> Result<Padding, Refusal> {
        let list = |index: usize, what: &str| {
            let value = node.input(index);
            value.map(|value| self.region.constant_ints(value).ok_or_else(|| constant(what))).transpose()
        };
        let pads = list(1, "the pads")?.unwrap_or_default();
        let axes = list(3, "the axes")?.unwrap_or_else(|| (0..4).collect());
        if pads.len() != 2 * axes.len() {
            return Err(read::shape(format!("{} pads for {} axes", pads.len(), axes.len())));
        }
        let mut padding = Padding::default();
        for (index, &axis) in axes.iter().enumerate() {
            let pair = [pads[index], pads[index + axes.len()]];
            let axis = if axis < 0 { axis + 4 } else { axis };
            match (axis, pair.map(u32::try_from)) {
                (_, [Ok(0), Ok(0)]) => {}
                (2 | 3, [Ok(begin), Ok(end)]) => {
                    let axis = axis as usize - 2;
                    (padding.begin[axis], padding.end[axis]) = (begin, end);
                }
                _ => return Err(read::attribute(format!("pads {pads:?}, only rows and columns are padded"))),
            }
        }
        Ok(padding)
    }

    /// The image without the zeros around it, and these.
    pub(super) fn unpadded(&self, value: usize) -> (usize, Padding) {
        self.padded[value].unwrap_or((value, Padding::default()))
    }

    /// A convolution of which some pixels are the results: the whole map goes to main memory, and they are taken out of it.
    pub(super) fn place_picked(
        &mut self,
        conv: Conv,
        source: TensorId,
        window: &Window,
        first: [u32; 2],
        value: usize,
    ) -> Result<(), Refusal> {
        let (image, result) = (window.image, self.map(value)?);
        let full = Shape { width: image.width, height: image.height, channels: result.channels };
        let last = |axis: usize, size: u32, results: u32| {
            let last = u64::from(first[axis]) + u64::from(window.stride[axis]) * u64::from(results - 1);
            last < u64::from(size)
        };
        if !last(0, full.height, result.height) || !last(1, full.width, result.width) {
            return Err(read::shape(format!(
                "{}x{} results of {}x{}",
                result.height, result.width, full.height, full.width
            )));
        }
        let mut pixels = Window { image: full, kernel: [1, 1], stride: window.stride, begin: [0, 0], end: [0, 0] };
        let mut value = value;
        self.fuse_maximum(&mut pixels, &result, &mut value)?;
        let (map, step) = self.add_conv(conv, source, full, value)?;
        let copy = self.copy_out(map, step);
        let tensor = read::tensor(Form::Bytes, self.map(value)?, value);
        self.known[value].bytes = Some(self.net.step(Work::Pick { pixels, first }, vec![copy], tensor));
        Ok(())
    }
}

impl Lowering<'_> {
    /// Takes along a maximum pooling of the results, which the layer that takes them out computes as well.
    fn fuse_maximum(&mut self, pixels: &mut Window, results: &Shape, value: &mut usize) -> Result<(), Refusal> {
        let region = self.region;
        let next =
            self.only_reader(*value).filter(|&next| pixels.stride == [1, 1] && region.nodes[next].op == "MaxPool");
        let Some(next) = next else { return Ok(()) };
        let Ok(window) = self.pool_window(&region.nodes[next]) else { return Ok(()) };
        let output = self.map(read::output(&region.nodes[next])?)?;
        let reach = |axis: usize, count: u32| (count - 1) * window.stride[axis] + window.kernel[axis];
        let inside = reach(0, output.height) <= results.height && reach(1, output.width) <= results.width;
        if window.begin != [0, 0] || !inside {
            return Ok(());
        }
        (pixels.kernel, pixels.stride) = (window.kernel, window.stride);
        self.take(next, value)
    }
}

fn constant(what: &str) -> Refusal {
    Refusal::new(RefusalCode::ConstantNeeded, format!("{what} must be constant"))
}

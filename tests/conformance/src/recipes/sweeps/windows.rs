//! What goes over images by windows: convolutions and pooling.

use byoc_plugin_api::{Attribute, DType};

use super::super::{CHANNELS, Operand, Wish, any, filled};
use super::{List, int, list, word};
use crate::onnx::Fill;

/// Attributes of a window over one, two or three spatial axes.
#[derive(Clone, Default)]
struct Window {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    /// Before each axis, then behind each.
    pads: Vec<usize>,
}

impl Window {
    fn of(kernel: &[usize]) -> Window {
        let axes = kernel.len();
        Window { kernel: kernel.to_vec(), strides: vec![1; axes], dilations: vec![1; axes], pads: vec![0; 2 * axes] }
    }

    fn strides(mut self, strides: &[usize]) -> Window {
        self.strides = strides.to_vec();
        self
    }

    fn dilations(mut self, dilations: &[usize]) -> Window {
        self.dilations = dilations.to_vec();
        self
    }

    fn pads(mut self, pads: &[usize]) -> Window {
        self.pads = pads.to_vec();
        self
    }

    /// How far a window reaches along an axis.
    fn reach(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilations[axis] + 1
    }

    /// Padding along an axis, on both sides.
    fn padding(&self, axis: usize) -> usize {
        self.pads[axis] + self.pads[axis + self.kernel.len()]
    }

    /// Sizes of the input whose windows give an output of these sizes, without `less` of its last elements along each axis.
    fn input(&self, output: &[usize], less: usize) -> Option<Vec<usize>> {
        let size = |axis: usize| {
            let all = output[axis].checked_sub(1)? * self.strides[axis] + self.reach(axis);
            all.checked_sub(self.padding(axis) + less).filter(|&size| size > 0)
        };
        (0..output.len()).map(size).collect()
    }

    fn attributes(&self) -> Vec<(&'static str, Attribute)> {
        let ints = |values: &[usize]| Attribute::Ints(values.iter().map(|&value| value as i64).collect());
        vec![
            ("kernel_shape", ints(&self.kernel)),
            ("strides", ints(&self.strides)),
            ("dilations", ints(&self.dilations)),
            ("pads", ints(&self.pads)),
        ]
    }
}

pub(super) fn sweep(op: &str, wish: &Wish, found: &mut List) {
    match (op, wish.shape.len()) {
        ("Conv", 3..=5) => conv(wish, found),
        ("ConvTranspose", 4) => transposed(wish, found),
        ("MaxPool" | "AveragePool" | "LpPool", 4) => pool(op, wish, found),
        ("GlobalAveragePool" | "GlobalMaxPool", 4) if wish.shape[2..] == [1, 1] => {
            let of = |sizes: &[usize]| vec![any(wish.dtype, &[&wish.shape[..2], sizes].concat())];
            found.add("of 1x1", of(&[1, 1]), &[]);
            found.add("of 7x9", of(&[7, 9]), &[]);
        }
        _ => {}
    }
}

/// Windows with a name.
fn windows(axes: usize) -> Vec<(&'static str, Window)> {
    match axes {
        1 => vec![
            ("kernel=4", Window::of(&[4])),
            ("pads=2,0", Window::of(&[3]).pads(&[2, 0])),
            ("strides=2", Window::of(&[3]).strides(&[2]).pads(&[1, 1])),
            ("dilations=3", Window::of(&[3]).dilations(&[3]).pads(&[3, 3])),
        ],
        2 => vec![
            ("kernel=1x1", Window::of(&[1, 1])),
            ("kernel=2x5", Window::of(&[2, 5]).pads(&[0, 2, 1, 2])),
            ("pads=1,0,2,3", Window::of(&[4, 4]).pads(&[1, 0, 2, 3])),
            ("pads=0,2,1,0", Window::of(&[3, 3]).pads(&[0, 2, 1, 0])),
            ("strides=2,1", Window::of(&[3, 3]).strides(&[2, 1]).pads(&[1, 1, 1, 1])),
            ("strides=1,3", Window::of(&[3, 2]).strides(&[1, 3]).pads(&[1, 0, 1, 1])),
            ("strides=2,2", Window::of(&[1, 1]).strides(&[2, 2])),
            ("dilations=2,1", Window::of(&[3, 3]).dilations(&[2, 1]).pads(&[2, 1, 2, 1])),
            ("dilations=1,3", Window::of(&[2, 3]).dilations(&[1, 3]).pads(&[0, 3, 1, 3])),
        ],
        _ => vec![("kernel=2x3x1", Window::of(&[2, 3, 1]).pads(&[0, 1, 0, 1, 1, 0]).strides(&[1, 2, 1]))],
    }
}

/// Operands of a convolution in groups: image, weights and bias.
fn operands(dtype: DType, image: &[usize], weights: &[usize], bias: usize) -> Vec<Operand> {
    vec![any(dtype, image), filled(dtype, weights, Fill::Finite), any(dtype, &[bias])]
}

fn conv(Wish { dtype, shape }: &Wish, found: &mut List) {
    let [batch, channels, spatial @ ..] = shape.as_slice() else { return };
    let mut add = |name: &str, window: &Window, inputs: usize, group: usize| {
        if group == 0 || channels % group != 0 || !inputs.is_multiple_of(group) {
            return;
        }
        let Some(sizes) = window.input(spatial, 0) else { return };
        let image = [&[*batch, inputs], sizes.as_slice()].concat();
        let weights = [&[*channels, inputs / group], window.kernel.as_slice()].concat();
        let attributes = [window.attributes(), vec![("group", int(group as i64))]].concat();
        found.optional(name, operands(*dtype, &image, &weights, *channels), 2, &attributes);
    };
    for (name, window) in windows(spatial.len()) {
        add(name, &window, CHANNELS, 1);
    }
    let axes = spatial.len();
    let usual = Window::of(&vec![3; axes]).pads(&vec![1; 2 * axes]);
    let half = usual.clone().strides(&vec![2; axes]);
    add("group=2", &usual, 4, 2);
    add("depthwise", &usual, *channels, *channels);
    add("depthwise strides=2", &half, *channels, *channels);
    add("depthwise, 2 outputs a channel", &usual, channels / 2, channels / 2);
    for inputs in [1, 8, 17, 33, 100] {
        add(&format!("{inputs} input channels"), &usual, inputs, 1);
    }
    if axes == 2 {
        padded_by_name(*dtype, shape, found);
    }
}

/// Padding that the operator chooses, the odd one at the end or at the start.
fn padded_by_name(dtype: DType, shape: &[usize], found: &mut List) {
    for name in ["SAME_UPPER", "SAME_LOWER"] {
        let image = [shape[0], CHANNELS, 2 * shape[2], 2 * shape[3]];
        let attributes = [("auto_pad", word(name)), ("kernel_shape", list(&[3, 3])), ("strides", list(&[2, 2]))];
        found.optional(name, operands(dtype, &image, &[shape[1], CHANNELS, 3, 3], shape[1]), 2, &attributes);
    }
}

fn transposed(Wish { dtype, shape }: &Wish, found: &mut List) {
    let [batch, channels, spatial @ ..] = shape.as_slice() else { return };
    let mut add = |name: &str, window: Window, inputs: usize, group: usize| {
        if channels % group != 0 || !inputs.is_multiple_of(group) {
            return;
        }
        // Sizes of the image, and what they leave open at the end of the output.
        let size = |axis: usize| {
            let all = (spatial[axis] + window.padding(axis)).checked_sub(window.reach(axis))?;
            Some((all / window.strides[axis] + 1, all % window.strides[axis]))
        };
        let Some(sizes) = (0..spatial.len()).map(size).collect::<Option<Vec<_>>>() else { return };
        let image: Vec<usize> = [*batch, inputs].into_iter().chain(sizes.iter().map(|size| size.0)).collect();
        let weights = [&[inputs, channels / group], window.kernel.as_slice()].concat();
        let open = Attribute::Ints(sizes.iter().map(|size| size.1 as i64).collect());
        let more = vec![("group", int(group as i64)), ("output_padding", open)];
        let attributes = [window.attributes(), more].concat();
        found.optional(name, operands(*dtype, &image, &weights, *channels), 2, &attributes);
    };
    add("kernel=2x3", Window::of(&[2, 3]), CHANNELS, 1);
    add("strides=2,2", Window::of(&[2, 2]).strides(&[2, 2]), CHANNELS, 1);
    // What output_padding adds is within the windows where the padding at the end is as large.
    add("strides=2,2 pads=0,0,1,1", Window::of(&[3, 3]).strides(&[2, 2]).pads(&[0, 0, 1, 1]), CHANNELS, 1);
    add("strides=2,3", Window::of(&[3, 4]).strides(&[2, 3]).pads(&[1, 0, 0, 1]), CHANNELS, 1);
    add("pads=2,0,0,1", Window::of(&[3, 3]).pads(&[2, 0, 0, 1]), CHANNELS, 1);
    add("dilations=2,1", Window::of(&[2, 3]).dilations(&[2, 1]), CHANNELS, 1);
    add("group=2", Window::of(&[3, 3]).pads(&[1, 1, 1, 1]), 4, 2);
    add("33 input channels", Window::of(&[3, 3]).pads(&[1, 1, 1, 1]), 33, 1);
}

fn pool(op: &str, Wish { dtype, shape }: &Wish, found: &mut List) {
    let mut add = |name: &str, window: Window, less: usize, more: &[(&'static str, Attribute)]| {
        let Some(sizes) = window.input(&shape[2..], less) else { return };
        let image = [&shape[..2], sizes.as_slice()].concat();
        found.add(name, vec![any(*dtype, &image)], &[&window.attributes(), more].concat());
    };
    let small = || Window::of(&[3, 2]);
    add("kernel=3x2", small(), 0, &[]);
    add("pads=2,0,1,1", small().pads(&[2, 0, 1, 1]), 0, &[]);
    add("strides=2,1", small().strides(&[2, 1]).pads(&[1, 0, 1, 1]), 0, &[]);
    add("strides=1,2", small().strides(&[1, 2]), 0, &[]);
    add("dilations=2,3", small().dilations(&[2, 3]), 0, &[]);
    // The last window reaches one element beyond the image.
    add("ceil_mode", small().strides(&[2, 2]), 1, &[("ceil_mode", int(1))]);
    if op == "AveragePool" {
        let counted = ("count_include_pad", int(1));
        add("count_include_pad", small().pads(&[1, 0, 1, 1]), 0, std::slice::from_ref(&counted));
        let both = [counted, ("ceil_mode", int(1))];
        add("count_include_pad and ceil_mode", small().strides(&[2, 2]).pads(&[1, 0, 1, 1]), 1, &both);
    }
    if op == "LpPool" {
        add("p=1", small(), 0, &[("p", int(1))]);
    }
    let image = [shape[0], shape[1], 2 * shape[2], 2 * shape[3]];
    let same = [("auto_pad", word("SAME_LOWER")), ("kernel_shape", list(&[3, 3])), ("strides", list(&[2, 2]))];
    found.add("SAME_LOWER", vec![any(*dtype, &image)], &same);
}

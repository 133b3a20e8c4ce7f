//! The IR of a region of convolutions: steps over images. Values are those of the region.

use std::collections::BTreeMap;
use std::fmt;

use byoc_dim::{self as dim, DimError};
use byoc_plugin_api::{ConstantId, DType, Dim, Node, Refusal};
use serde::{Deserialize, Serialize};

/// The steps in the order in which they run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Net {
    /// The type of all images.
    pub(crate) dtype: DType,
    pub(crate) images: BTreeMap<usize, Image>,
    pub(crate) steps: Vec<Step>,
    /// Constants whose numbers are in the code, which does not read them otherwise.
    pub(crate) numbers: Vec<usize>,
}

/// A tensor [batch, channels, height, width], stored as [batch, height, width, pitch].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Image {
    pub(crate) batch: Dim,
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Channels as stored. Padding channels are finite and do not affect others.
    pub(crate) pitch: usize,
}

/// One computation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) op: Op,
    pub(crate) to: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Conv(Conv),
    MaxPool {
        from: usize,
        window: Window,
    },
    /// With `padded`, padding counts: all above and to the left, and so many pixels below and to the right.
    AveragePool {
        from: usize,
        window: Window,
        padded: Option<[usize; 2]>,
    },
    GlobalAverage {
        from: usize,
    },
    Map {
        from: usize,
        act: Act,
    },
    /// The second operand may have one pixel an image.
    Pair {
        from: [usize; 2],
        pair: Pair,
    },
    /// Concatenated along the channels.
    Concat {
        from: Vec<usize>,
    },
}

/// `after(before(conv(x) + bias) + residual)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conv {
    pub(crate) from: usize,
    pub(crate) weights: Weights,
    pub(crate) window: Window,
    pub(crate) before: Option<Act>,
    pub(crate) residual: Option<usize>,
    pub(crate) after: Option<Act>,
}

/// The constants that are packed to the weights and the bias of a convolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Weights {
    /// [K, C, R, S]. The packed form replaces this constant.
    pub(crate) filters: ConstantId,
    pub(crate) bias: Option<ConstantId>,
    pub(crate) norm: Option<Norm>,
    /// Whether it is depthwise: C is 1.
    pub(crate) depthwise: bool,
    /// K as stored.
    pub(crate) pitch_out: usize,
    /// C as stored; 1 if depthwise.
    pub(crate) pitch_in: usize,
}

/// Batch normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Norm {
    pub(crate) scale: ConstantId,
    pub(crate) shift: ConstantId,
    pub(crate) mean: ConstantId,
    pub(crate) variance: ConstantId,
    /// Added to the variance.
    pub(crate) epsilon: f32,
}

/// A window over images: each pair is rows, then columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) strides: [usize; 2],
    pub(crate) dilations: [usize; 2],
    /// Above and to the left. The padding below and to the right follows from the size of the result.
    pub(crate) pads: [usize; 2],
}

impl Window {
    /// The window of a node over images whose weights have these rows and columns, and its padding below and to the right.
    pub(crate) fn read(node: &Node, weights: Option<&[usize]>) -> Result<(Window, [usize; 2]), Refusal> {
        let read = byoc_plugin_api::Window::of(node, 2, weights)?;
        let pair = |list: Vec<usize>| [list[0], list[1]];
        let (kernel, strides, dilations) = (pair(read.kernel), pair(read.strides), pair(read.dilations));
        Ok((Window { kernel, strides, dilations, pads: pair(read.begin) }, pair(read.end)))
    }
}

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    Relu,
    Clip(f32, f32),
    Sigmoid,
    Silu,
    HardSigmoid(f32, f32),
    HardSwish,
    LeakyRelu(f32),
    Tanh,
}

/// A function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    Add,
    Mul,
}

impl Net {
    /// The convolutions, in the order of the steps.
    pub(crate) fn convolutions(&self) -> impl Iterator<Item = &Conv> {
        self.steps.iter().filter_map(|step| match &step.op {
            Op::Conv(conv) => Some(conv),
            _ => None,
        })
    }

    /// The most elements of an image: CUTLASS has 32-bit offsets, and with few channels they count bits.
    pub(crate) fn most_elements(&self, value: usize) -> usize {
        let few = self.images[&value].has_few_channels(self.dtype);
        let counts_bits = few && self.convolutions().any(|conv| conv.from == value && !conv.weights.depthwise);
        i32::MAX as usize / if counts_bits { 8 * self.dtype.unpacked_bytes() } else { 1 }
    }
}

impl Image {
    /// Pixels of one image.
    pub(crate) fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Whether one access has all channels of a pixel, so that a tile covers several pixels of the filter.
    pub(crate) fn has_few_channels(&self, dtype: DType) -> bool {
        self.pitch * dtype.unpacked_bytes() <= 16
    }

    /// Elements of all images.
    pub(crate) fn elements(&self) -> Result<Dim, DimError> {
        let sizes = [self.height, self.width, self.pitch];
        sizes.iter().try_fold(self.batch.clone(), |elements, &size| dim::mul(&elements, &size.into()))
    }

    /// Whether its layout is that of the tensor in the model.
    pub(crate) fn is_plain(&self) -> bool {
        self.pixels() == 1 && self.pitch == self.channels
    }
}

impl Op {
    /// The images that are read.
    pub(crate) fn reads(&self) -> Vec<usize> {
        match self {
            Op::Conv(conv) => std::iter::once(conv.from).chain(conv.residual).collect(),
            Op::MaxPool { from, .. } | Op::AveragePool { from, .. } | Op::GlobalAverage { from } => vec![*from],
            Op::Map { from, .. } => vec![*from],
            Op::Pair { from, .. } => from.to_vec(),
            Op::Concat { from } => from.clone(),
        }
    }
}

impl fmt::Display for Net {
    /// A line for each step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let image = &self.images[&step.to];
            let Image { batch, channels, height, width, pitch } = image;
            write!(f, "v{} [{batch},{height},{width},{channels}", step.to)?;
            if pitch != channels {
                write!(f, " of {pitch}")?;
            }
            writeln!(f, "] = {}", step.op)?;
        }
        Ok(())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Conv(conv) => conv.fmt(f),
            Op::MaxPool { from, window } => write!(f, "most of v{from}, {window}"),
            Op::AveragePool { from, window, padded: None } => write!(f, "mean of v{from}, {window}"),
            Op::AveragePool { from, window, padded: Some(pads) } => {
                write!(f, "mean of v{from} and its padding {pads:?}, {window}")
            }
            Op::GlobalAverage { from } => write!(f, "mean of all of v{from}"),
            Op::Map { from, act } => write!(f, "{act:?} of v{from}"),
            Op::Pair { from: [a, b], pair } => write!(f, "{pair:?} of v{a} and v{b}"),
            Op::Concat { from } => write!(f, "channels of {from:?}"),
        }
    }
}

impl fmt::Display for Conv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conv { from, weights, window, before, residual, after } = self;
        let kind = if weights.depthwise { "each channel of " } else { "" };
        write!(f, "{kind}v{from} by c{}, {window}", weights.filters)?;
        if let Some(bias) = weights.bias {
            write!(f, ", bias c{bias}")?;
        }
        if let Some(norm) = weights.norm {
            write!(f, ", normalised by c{}", norm.scale)?;
        }
        if let Some(act) = before {
            write!(f, ", {act:?}")?;
        }
        if let Some(residual) = residual {
            write!(f, ", plus v{residual}")?;
        }
        after.iter().try_for_each(|act| write!(f, ", {act:?}"))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { kernel: [r, s], strides, dilations, pads } = self;
        write!(f, "{r}x{s}")?;
        for (what, pair, usual) in [("stride", strides, 1), ("dilation", dilations, 1), ("pad", pads, 0)] {
            if *pair != [usual; 2] {
                write!(f, " {what} {}x{}", pair[0], pair[1])?;
            }
        }
        Ok(())
    }
}

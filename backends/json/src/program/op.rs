//! The kernels a step can call, with the parameters that do not follow from shapes.

use std::collections::BTreeMap;

use byoc_plugin_api::{Attribute, float_json as float};
use serde::{Deserialize, Serialize};

use super::{Combine, IntegerAverage, IntegerConv, IntegerGemm, IntegerPool, NBits};
use crate::kernels::{Activation, Beyond, Binary, Cell, ConvKind, ConvParams, Math, Reduce, Sampling, Unary};

/// A kernel and its parameters, as far as they do not follow from shapes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    /// An ONNX operator by its reference kernel.
    Reference {
        /// The operator.
        op: String,
        /// Its attributes.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        attributes: BTreeMap<String, Attribute>,
    },
    /// The bytes of the input under another shape: nothing is computed.
    View,
    /// `act(conv(x, w) + bias + residual)`; inputs: x, packed weights, bias, residual.
    Conv(Conv),
    /// `act(alpha A B + bias + residual)`, batched; inputs: A, B, bias (of a row, or of a column as [M, 1]), residual.
    Gemm(Gemm),
    /// Max or average pooling.
    Pool(Pool),
    /// Mean or maximum of each channel.
    GlobalPool {
        /// Maximum, not mean.
        max: bool,
    },
    /// `act(x * scale + shift)` by channel; inputs: x, scale, shift.
    Affine {
        /// Applied last.
        act: Activation,
    },
    /// Local response normalisation across channels.
    Lrn {
        /// Channels of the window.
        size: usize,
        /// Factor of the mean square.
        #[serde(with = "float")]
        alpha: f32,
        /// Exponent.
        #[serde(with = "float")]
        beta: f32,
        /// Added to the mean square.
        #[serde(with = "float")]
        bias: f32,
    },
    /// A function of each element.
    Unary {
        /// Which one.
        function: Unary,
    },
    /// A function of two broadcast tensors.
    Binary {
        /// Which one.
        function: Binary,
        /// Applied last.
        act: Activation,
    },
    /// Softmax over one axis.
    Softmax {
        /// The axis.
        axis: usize,
        /// Its logarithm.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        log: bool,
    },
    /// Layer (or RMS) normalisation; inputs: x, scale, bias, residual; outputs: y, x + residual.
    LayerNorm {
        /// First normalised axis.
        axis: usize,
        /// Added to the variance.
        #[serde(with = "float")]
        eps: f32,
        /// Without subtraction of the mean.
        rms: bool,
    },
    /// Reduction over neighbouring axes.
    Reduce {
        /// Which one.
        function: Reduce,
        /// First axis.
        from: usize,
        /// Past the last axis.
        to: usize,
    },
    /// `softmax(scale * Q K^T + mask) V`; inputs: Q, K, V, mask.
    Attention(Attention),
    /// A recurrent layer; inputs: x, packed weights of the input and of the state, bias, lengths, first states, first cells;
    /// outputs: all states, the last ones, the last cells.
    Recurrent(Recurrent),
    /// Permuted dimensions.
    Transpose {
        /// Axis of the input for each axis of the output.
        perm: Vec<usize>,
    },
    /// One after another along an axis.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// Cut along an axis into the sizes of the outputs.
    Split {
        /// The axis.
        axis: usize,
    },
    /// Every `step`th element of each axis from `start` on, as many as the output has.
    Slice {
        /// First index by axis; negative ones count from the end.
        starts: Vec<i64>,
        /// Distance by axis.
        steps: Vec<i64>,
    },
    /// Rows by index; inputs: data, indices.
    Gather {
        /// The axis that is indexed.
        axis: usize,
    },
    /// Columns by index of the right side of a product that is packed in the kernel's panels; inputs: data, indices.
    Columns {
        /// Its rows and columns.
        packed: [usize; 2],
    },
    /// The same elements in another type: f32, or one of 16 bits.
    Convert,
    /// Filters for [`ConvKind::Blocked`] with windows of one pixel, times a factor for each input channel; inputs: filters, factors.
    ScaleFilters {
        /// How many filters: output channels.
        filters: usize,
    },
    /// Broadcast to the shape of the output.
    Expand,
    /// `condition ? a : b`, broadcast; inputs: condition, a, b.
    Choose,
    /// The first input with elements put in it; inputs: data, indices, updates.
    Scatter {
        /// The axis that is indexed.
        axis: usize,
    },
    /// As ONNX's operator, of f32; inputs: x.
    Resize {
        /// Those of the operator, and its inputs `roi`, `scales` and `sizes` where they are given.
        attributes: BTreeMap<String, Attribute>,
    },
    /// Pixels between those of images; inputs: images, places.
    GridSample(GridSample),
    /// The best of each row; inputs: x; outputs: values, indices.
    TopK {
        /// The smallest are the best, not the largest.
        smallest: bool,
    },
    /// Surrounded by one value, or cut; inputs: x, widths, value.
    Pad {
        /// The axes that the widths are of.
        axes: Vec<usize>,
    },
    /// NCHW to NCHW16c.
    ToBlocked,
    /// NCHW16c to NCHW.
    FromBlocked,
    /// A product of matrices of 8 bits.
    IntegerGemm(IntegerGemm),
    /// A convolution of 8 bits.
    IntegerConv(IntegerConv),
    /// The largest of each window, of 8 bits; inputs: x.
    IntegerPool(IntegerPool),
    /// The mean of each window, of 8 bits; inputs: x, its scale and zero point, those of the result.
    IntegerAverage(IntegerAverage),
    /// The mean of each channel of [N, ..., C], of 8 bits; inputs: x, its scale and zero point, those of the result.
    IntegerMean,
    /// `act((x - zero point) * scale * factor + offset)` by channel, of 8 bits.
    IntegerAffine {
        /// A clamp, which is applied last.
        act: Activation,
    },
    /// A function of two tensors of 8 bits, of one shape.
    Combine(Combine),
    /// `round(x / scale) + zero point`; inputs: x, scale, zero point.
    Quantize,
    /// `(x - zero point) * scale`; inputs: x, scale, zero point.
    Dequantize {
        /// The axis for whose elements there are scales of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        axis: Option<usize>,
    },
    /// As `Quantize`; outputs: y, and the scale and zero point that the range of x gives.
    DynamicQuantize,
    /// A product with weights of a few bits; inputs: A, B, scales, zero points, bias.
    NBits(NBits),
    /// A table of 256 bytes, by element.
    Lookup {
        /// As hex text.
        table: String,
    },
}

impl Op {
    /// Whether an operand may be in NCHW16c.
    pub(crate) fn takes_blocked(&self) -> bool {
        match self {
            Op::View | Op::Conv(_) | Op::Pool(_) | Op::GlobalPool { .. } | Op::Affine { .. } | Op::Lrn { .. } => true,
            Op::Unary { .. } | Op::Binary { .. } | Op::Concat { .. } | Op::ToBlocked | Op::FromBlocked => true,
            Op::Reference { .. } | Op::Gemm(_) | Op::Softmax { .. } | Op::LayerNorm { .. } | Op::Reduce { .. } => false,
            Op::Attention(_) | Op::Transpose { .. } | Op::Split { .. } | Op::Slice { .. } => false,
            Op::Gather { .. } | Op::Columns { .. } | Op::Convert | Op::ScaleFilters { .. } => false,
            Op::Expand | Op::Recurrent(_) => false,
            Op::Choose
            | Op::Scatter { .. }
            | Op::Pad { .. }
            | Op::Resize { .. }
            | Op::GridSample(_)
            | Op::TopK { .. } => false,
            Op::IntegerGemm(_) | Op::IntegerConv(_) | Op::IntegerPool(_) | Op::IntegerAverage(_) => false,
            Op::IntegerMean | Op::IntegerAffine { .. } | Op::Combine(_) => false,
            Op::Quantize | Op::Dequantize { .. } | Op::DynamicQuantize | Op::Lookup { .. } | Op::NBits(_) => false,
        }
    }
}

/// Parameters of a convolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Conv {
    /// Which kernel: it fixes the layouts.
    pub(crate) kind: ConvKind,
    /// Height and width of the window.
    pub(crate) kernel: [usize; 2],
    /// Distance of windows.
    pub(crate) strides: [usize; 2],
    /// Zeros above and to the left.
    pub(crate) pads: [usize; 2],
    /// Distance of taps.
    pub(crate) dilations: [usize; 2],
    /// Groups of channels.
    pub(crate) group: usize,
    /// Applied last.
    pub(crate) act: Activation,
    /// How exactly its products are computed.
    #[serde(default, skip_serializing_if = "Math::is_f32")]
    pub(crate) math: Math,
    /// Whether its filters are of 8 bits.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub(crate) rounded: bool,
}

impl Conv {
    /// The kernel's parameters for images of `[n, channels, height, width]` in and out.
    pub(crate) fn params(&self, x: &[usize; 4], y: &[usize; 4]) -> ConvParams {
        ConvParams {
            n: x[0],
            ic: x[1],
            ih: x[2],
            iw: x[3],
            oc: y[1],
            oh: y[2],
            ow: y[3],
            kh: self.kernel[0],
            kw: self.kernel[1],
            stride: self.strides,
            pad: self.pads,
            dilation: self.dilations,
            group: self.group,
            act: self.act,
            math: self.math,
            narrow: false,
        }
    }
}

/// Parameters of a matrix product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gemm {
    /// A is [K, M].
    pub(crate) trans_a: bool,
    /// B is [N, K].
    pub(crate) trans_b: bool,
    /// K and N of a constant B that is packed in the kernel's panels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) packed: Option<[usize; 2]>,
    /// Factor of the product.
    #[serde(with = "float")]
    pub(crate) alpha: f32,
    /// Applied last.
    pub(crate) act: Activation,
    /// How exactly its products are computed, where B is packed.
    #[serde(default, skip_serializing_if = "Math::is_f32")]
    pub(crate) math: Math,
}

/// Parameters of a pooling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pool {
    /// Maximum, not mean.
    pub(crate) max: bool,
    /// Whether the mean counts the zeros around the image.
    pub(crate) count_include_pad: bool,
    /// Height and width of the window.
    pub(crate) kernel: [usize; 2],
    /// Distance of windows.
    pub(crate) strides: [usize; 2],
    /// Padding above, left, below, right.
    pub(crate) pads: [usize; 4],
    /// Distance of taps.
    pub(crate) dilations: [usize; 2],
}

/// Parameters of an attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attention {
    /// Number of heads.
    pub(crate) heads: usize,
    /// Number of heads of keys and values, where there are fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kv_heads: Option<usize>,
    /// Size of a query and of a key.
    pub(crate) head_dim: usize,
    /// Size of a value.
    pub(crate) value_dim: usize,
    /// Factor of the scores.
    #[serde(with = "float")]
    pub(crate) scale: f32,
    /// Query i sees the keys up to i.
    pub(crate) causal: bool,
    /// Layouts of Q, K and V.
    pub(crate) sides: [Side; 3],
    /// Whether the output is [batch, row, head, column] rather than [batch, head, row, column].
    pub(crate) rows_first: bool,
    /// Whether a query whose keys are all masked gives zeros, as ONNX's operator does, and not NaN, as its softmax does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) hidden_gives_zeros: bool,
    /// How exactly its products are computed.
    #[serde(default, skip_serializing_if = "Math::is_f32")]
    pub(crate) math: Math,
}

/// Parameters of a recurrent layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recurrent {
    /// The equations.
    pub(crate) cell: Cell,
    /// Directions.
    pub(crate) directions: usize,
    /// Elements of a state.
    pub(crate) hidden: usize,
    /// Whether the first direction starts at the end.
    pub(crate) backwards: bool,
    /// Whether tensors begin with the sequences.
    pub(crate) by_batch: bool,
}

/// Parameters of a sampling of images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GridSample {
    /// How a pixel is made of its neighbours.
    pub(crate) sampling: Sampling,
    /// What is beyond the edges.
    pub(crate) beyond: Beyond,
    /// Whether -1 and 1 are the centres of the outer pixels rather than their edges.
    pub(crate) align_corners: bool,
}

/// Layout of an operand's heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    /// As [batch, head, row, column].
    HeadsFirst,
    /// Side by side in rows of `width` columns, from column `start` on.
    RowsFirst {
        /// Columns of a row, of all heads and of anything else in it.
        width: usize,
        /// Where the first head begins.
        start: usize,
    },
}

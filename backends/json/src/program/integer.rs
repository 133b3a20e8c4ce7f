//! The calls on integers of 8 bits, with the parameters that do not follow from shapes.

use serde::{Deserialize, Serialize};

use crate::kernels::{Activation, Binary};

/// Positions of the inputs of [`IntegerGemm`] and [`IntegerConv`].
///
/// A and B, their zero points and scales (of B one, or one for each column), the bias of each column (added to the sums where it
/// is of i32), and scale and zero point of the result. Which there are, follows from the type of the result: i32 has the bias
/// only, f32 has scales, and 8 bits have all of them.
pub(crate) mod product {
    /// The left side, or the images with their channels last.
    pub(crate) const A: usize = 0;
    /// The right side, or the filters.
    pub(crate) const B: usize = 1;
    /// The zero point of A.
    pub(crate) const A_ZERO: usize = 2;
    /// Those of B.
    pub(crate) const B_ZERO: usize = 3;
    /// The scale of A, or of the sums.
    pub(crate) const A_SCALE: usize = 4;
    /// Those of B.
    pub(crate) const B_SCALE: usize = 5;
    /// The bias.
    pub(crate) const BIAS: usize = 6;
    /// The scale of the result.
    pub(crate) const Y_SCALE: usize = 7;
    /// Its zero point.
    pub(crate) const Y_ZERO: usize = 8;
    /// How many there are.
    pub(crate) const COUNT: usize = 9;
}

/// Positions of the inputs of [`super::Op::IntegerAffine`].
pub(crate) mod affine {
    /// Images with their channels last, or rows, their scale and their zero point.
    pub(crate) const X: usize = 0;
    /// The factor of each channel, or of each channel of each image; 1 if absent.
    pub(crate) const FACTORS: usize = 3;
    /// The offsets; 0 if absent.
    pub(crate) const OFFSETS: usize = 4;
    /// Scale of the result, and its zero point.
    pub(crate) const Y_SCALE: usize = 5;
    /// How many there are.
    pub(crate) const COUNT: usize = 7;
}

/// Positions of the inputs of [`super::Op::Combine`].
pub(crate) mod combine {
    /// One operand, its scale and its zero point.
    pub(crate) const A: usize = 0;
    /// The other one, its scale and its zero point.
    pub(crate) const B: usize = 3;
    /// Scale of the result, and its zero point.
    pub(crate) const Y_SCALE: usize = 6;
    /// How many there are.
    pub(crate) const COUNT: usize = 8;
}

/// Parameters of a matrix product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IntegerGemm {
    /// B is [N, K].
    pub(crate) trans_b: bool,
    /// K and N of a constant B that is packed in the kernel's panels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) packed: Option<[usize; 2]>,
    /// Whether B was of u8 before it was packed.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub(crate) unsigned: bool,
    /// A clamp, which is applied last.
    pub(crate) act: Activation,
}

/// Parameters of a convolution over images [N, H, W, C], with packed filters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IntegerConv {
    /// One filter for each channel.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub(crate) depthwise: bool,
    /// Whether the filters were of u8 before they were packed.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub(crate) unsigned: bool,
    /// Height and width of the window.
    pub(crate) kernel: [usize; 2],
    /// Distance of windows.
    pub(crate) strides: [usize; 2],
    /// Padding above and to the left.
    pub(crate) pads: [usize; 2],
    /// Distance of taps.
    pub(crate) dilations: [usize; 2],
    /// A clamp, which is applied last.
    pub(crate) act: Activation,
}

/// Parameters of a pooling over images [N, H, W, C] of 8 bits; the result has their scale and zero point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IntegerPool {
    /// Height and width of the window.
    pub(crate) kernel: [usize; 2],
    /// Distance of windows.
    pub(crate) strides: [usize; 2],
    /// Padding above and to the left.
    pub(crate) pads: [usize; 2],
    /// Distance of taps.
    pub(crate) dilations: [usize; 2],
}

/// Parameters of a pooling by means over images [N, H, W, C] of 8 bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IntegerAverage {
    /// The windows.
    pub(crate) pool: IntegerPool,
    /// Padding below and to the right, where padding counts; without it, only what is in the image does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counted: Option<[usize; 2]>,
}

/// Parameters of a product with weights of a few bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NBits {
    /// Rows of the weights.
    pub(crate) k: usize,
    /// Their columns.
    pub(crate) n: usize,
    /// Bits of a weight.
    pub(crate) bits: usize,
    /// Weights that have one scale.
    pub(crate) block: usize,
    /// Whether few rows may be quantised to 8 bits.
    #[serde(default)]
    pub(crate) bytes: bool,
}

/// Parameters of a function of two tensors of 8 bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Combine {
    /// Which one.
    pub(crate) function: Binary,
    /// A clamp, which is applied last.
    pub(crate) act: Activation,
}

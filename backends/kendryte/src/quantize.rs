//! Post-training quantisation: from float layers and observed ranges to the integer tables of a kmodel. Pure functions;
//! the arithmetic that they aim at is in kmodel v3, section 4.
//!
//! Bytes stand for real numbers by `real = (q - zero_point) * scale`. What is outside an image is the zero point, so
//! every range contains 0.
//!
//! - [`choose`]: which range of an observed tensor its 256 levels cover;
//! - [`conv`]: weights, batch-norm words and activation table of a convolution;
//! - [`add`]: the factors of a sum of bytes;
//! - [`table`]: bytes to bytes, with a function on the way.

mod activation;
mod add;
mod bins;
mod conv;
mod curve;
mod entropy;
mod fit;
mod range;
mod table;
mod weights;

pub use activation::Activation;
pub use add::add;
pub use conv::{FloatConv, QuantizedConv, conv};
pub use range::{Choice, METHODS, Method, choose};
pub use table::table;
pub use weights::Weights;

#[cfg(test)]
pub(crate) use {bins::Bins, curve::Curve};

use crate::kmodel::bodies;

/// The highest level of a byte.
const TOP: f64 = 255.0;

/// What the bytes of a tensor mean: `real = (q - zero_point) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantization {
    /// The step from one byte to the next; positive, and its inverse is finite.
    pub scale: f32,
    /// The byte that stands for 0.
    pub zero_point: u8,
}

impl Quantization {
    /// The finest that covers `low` to `high` and 0, up to half a step at either end, since 0 must be a level. A range
    /// too small for a step in `f32` gets the step 1: what was only ever 0 may have any.
    pub fn of(low: f32, high: f32) -> Self {
        // `min` and `max` prefer 0 to NaN.
        let (low, high) = (f32::MIN.max(low.min(0.0)), f32::MAX.min(high.max(0.0)));
        let scale = ((f64::from(high) - f64::from(low)) / TOP) as f32;
        if scale < f32::MIN_POSITIVE {
            return Quantization { scale: 1.0, zero_point: 0 };
        }
        Quantization { scale, zero_point: (-f64::from(low) / f64::from(scale)).round().clamp(0.0, TOP) as u8 }
    }

    /// The byte of a number, as the layer QUANTIZE finds it (kmodel v3, section 4).
    pub fn quantize(&self, real: f32) -> u8 {
        let bodies::Quantization { scale, bias } = self.body();
        ((real - bias) * (1.0 / scale)).round().clamp(0.0, 255.0) as u8
    }

    /// The byte of a number, as `QuantizeLinear` of ONNX finds it.
    pub fn nearest(&self, real: f32) -> u8 {
        ((real / self.scale).round_ties_even() + f32::from(self.zero_point)).clamp(0.0, 255.0) as u8
    }

    /// The number that a byte stands for.
    pub fn dequantize(&self, byte: u8) -> f32 {
        (f32::from(byte) - f32::from(self.zero_point)) * self.scale
    }

    /// The numbers that bytes 0 and 255 stand for.
    pub fn range(&self) -> (f32, f32) {
        (self.dequantize(0), self.dequantize(255))
    }

    /// The same as layers of a kmodel have it: `real = q * scale + bias`.
    pub fn body(&self) -> bodies::Quantization {
        bodies::Quantization { scale: self.scale, bias: (0.0 - f32::from(self.zero_point)) * self.scale }
    }

    /// Where a number is among the levels, before rounding and clamping.
    fn level(&self, real: f64) -> f64 {
        real / f64::from(self.scale) + f64::from(self.zero_point)
    }
}

//! A convolution in real numbers to the integers of a K210 convolution (kmodel v3, section 4: zero points).
//!
//! With `arg_x = -z_w`, `arg_w = -z_x`, `arg_add = k * k * z_x * z_w`, no shifts and the padding `z_x`, the sum `acc`
//! is exactly that of `(x - z_x) * (w - z_w)`, where `z_x` is the input's zero point and `z_w` that of the weights: 128 where
//! they are chosen here. So in real numbers `sum = acc * input scale * weight step`, and with a step of the weights for each
//! channel:
//!
//! `v = sum + bias` in units of `2^-e` output steps; `y = activation(v)` in output steps, plus the output's zero point.
//!
//! One `e` serves the whole layer, since the activation table does.

use byoc_plugin_api::Error;

use super::curve::{Curve, Table};
use super::weights::{Channel, NoRoom, Numbers, Units, Weights, i32_of};
use super::{Activation, Quantization};
use crate::kmodel::arguments::Kernel;
use crate::kmodel::tables::{BatchNorm, SEGMENTS, Segment};

/// A convolution in real numbers.
#[derive(Clone, Debug)]
pub struct FloatConv<'a> {
    /// `[oc][ic][kh][kw]`, or `[c][kh][kw]` when depthwise.
    pub weights: Weights<'a>,
    /// One an output channel.
    pub bias: Vec<f32>,
    /// One an output channel: what the sum of the channel is multiplied by before the bias is added, such as the factor
    /// of a batch normalisation.
    pub scale: Option<Vec<f32>>,
    /// Output channels.
    pub output_channels: usize,
    /// Input channels; as many as output channels when depthwise.
    pub input_channels: usize,
    /// The kernel.
    pub kernel: Kernel,
    /// Whether each channel has a kernel of its own.
    pub depthwise: bool,
}

/// The same in integers: what goes into a [`Conv`](crate::kmodel::conv::Conv) and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedConv {
    /// In the order of the float weights.
    pub weights: Vec<u8>,
    /// One an output channel.
    pub batch_norm: Vec<BatchNorm>,
    /// By rising start.
    pub activation: [Segment; SEGMENTS],
    /// Factor of the sum of the input.
    pub arg_x: i32,
    /// Bits by which that product goes to the right.
    pub shr_x: u32,
    /// Factor of the sum of the weights.
    pub arg_w: i32,
    /// Bits by which that product goes to the right.
    pub shr_w: u32,
    /// Added for each input channel.
    pub arg_add: i64,
    /// The byte outside the image.
    pub pad_value: u8,
    /// What 1 in `v` is in real numbers. The step of a channel's weights is
    /// `norm_mul / 2^norm_shift * unit / input scale`.
    pub unit: f64,
}

impl<'a> FloatConv<'a> {
    /// Weights of an output channel.
    fn channel_weights(&self) -> usize {
        let size = self.kernel.size() as usize;
        size * size * if self.depthwise { 1 } else { self.input_channels }
    }

    /// That lengths agree and all numbers are finite.
    fn check(&self) -> Result<(), Error> {
        let (channels, size) = (self.output_channels, self.channel_weights());
        let scales = self.scale.as_ref().map_or(channels, Vec::len);
        let steps = if let Weights::Levels { steps, .. } = self.weights { steps.len() } else { channels };
        for (found, expected, what) in [
            (self.weights.len(), channels * size, "weights"),
            (self.bias.len(), channels, "biases"),
            (scales, channels, "factors"),
            (steps, channels, "steps of weights"),
        ] {
            if found != expected {
                return Err(Error::new(format!(
                    "a convolution of {channels} channels has {found} {what}, not {expected}"
                )));
            }
        }
        for channel in 0..channels {
            let scale = self.scale.as_ref().map_or(1.0, |scale| scale[channel]);
            if !self.numbers(channel).is_finite() || !self.bias[channel].is_finite() || !scale.is_finite() {
                let message = format!("output channel {channel}: a weight, the bias or the factor is not finite");
                return Err(Error::new(message).hint("repair the model: no range holds such a number"));
            }
        }
        Ok(())
    }

    /// The weights of a channel.
    fn numbers(&self, channel: usize) -> Numbers<'a> {
        let size = self.channel_weights();
        let own = channel * size..(channel + 1) * size;
        match self.weights {
            Weights::Real(weights) => Numbers::Real(&weights[own]),
            Weights::Levels { bytes, zero, steps } => {
                Numbers::Levels { bytes: &bytes[own], zero, step: steps[channel].into() }
            }
        }
    }

    /// The channels, with biases in output steps.
    fn channels(&self, output: Quantization) -> impl Iterator<Item = Channel<'a>> {
        (0..self.output_channels).map(move |channel| Channel {
            weights: self.numbers(channel),
            scale: self.scale.as_ref().map_or(1.0, |scale| f64::from(scale[channel])),
            bias: f64::from(self.bias[channel]) / f64::from(output.scale),
        })
    }
}

/// Quantises a convolution with the meaning of its input's and its output's bytes. Each result is the real one rounded
/// to a byte, but for three things: weights are rounded (by half a step each), or where they are bytes the factors of their
/// sums (by a quarter of an output step in all, mostly a thousandth); the table's line may be off, with curved
/// functions only (see `fit::curve`); and numbers of the table are rounded. That last one costs `2^-14` of an output
/// step where slopes are 0 or 1, and less than 0.02 otherwise, except with [`Activation::LeakyRelu`] where the negative
/// part has more of the output's range than its slope suggests: 0.13 with a slope of 0.01 and half of the range.
///
/// Errors when lengths disagree, a number is not finite, the function falls somewhere, or when the sums of a channel
/// are so large against the output's steps that `v` has no room for them; the message names the channel.
pub fn conv(
    float: &FloatConv<'_>,
    input: Quantization,
    output: Quantization,
    activation: Activation,
) -> Result<QuantizedConv, Error> {
    float.check()?;
    if !activation.is_monotone() {
        return Err(Error::new(format!("{activation:?} is not a rising function")));
    }
    let curve = Curve::new(activation, output);
    let (low, high) = output.range();
    let mut refused = format!("{activation:?} has no room in a table for the range {low} to {high}");
    for table in curve.tables() {
        match with_table(float, input, output, &curve, &table) {
            Ok(quantized) => return Ok(quantized),
            Err((channel, room)) => refused = format!("output channel {channel}: {}", cause(float, output, room)),
        }
    }
    Err(Error::new(refused).hint(match float.weights {
        Weights::Real(_) => "calibrate with data like those that the model is for",
        Weights::Levels { .. } => "quantise the model with other scales there",
    }))
}

fn cause(float: &FloatConv<'_>, output: Quantization, room: NoRoom) -> String {
    let (low, high) = output.range();
    match (float.weights, room) {
        (Weights::Real(_), _) => {
            format!("its sums are too large for the observed range of the output, {low} to {high}")
        }
        (_, NoRoom::Sums) => format!("its sums are too large for the range of the output, {low} to {high}: 36 bits"),
        (_, NoRoom::Factor(steps)) => {
            format!("a unit of its sums is {:e} steps of the output: 24 bits and a shift of 15", steps as f32)
        }
    }
}

/// The integers with one unit of `v`. Errors with the first channel that has no room, and why.
fn with_table(
    float: &FloatConv<'_>,
    input: Quantization,
    output: Quantization,
    curve: &Curve,
    table: &Table,
) -> Result<QuantizedConv, (usize, NoRoom)> {
    let gain = f64::from(input.scale) / f64::from(output.scale);
    let units = Units { gain, input_zero: input.zero_point, exponent: table.exponent };
    let mut weights = Vec::with_capacity(float.weights.len());
    let mut batch_norm = Vec::with_capacity(float.output_channels);
    for (index, channel) in float.channels(output).enumerate() {
        let flat = |v: f64| i32_of(v).map(|add| BatchNorm { mul: 0, add, shift: 0 }).ok_or(NoRoom::Sums);
        let word = match (channel.weights, constant(&channel, curve, units)) {
            (Numbers::Real(numbers), Some(v)) => {
                weights.resize(weights.len() + numbers.len(), float.weights.zero());
                flat(v)
            }
            (_, Some(v)) => channel.quantize(units, &mut weights).or_else(|_| flat(v)),
            (_, None) => channel.quantize(units, &mut weights),
        };
        batch_norm.push(word.map_err(|room| (index, room))?);
    }
    let size = i64::from(float.kernel.size());
    let (zero, weight_zero) = (input.zero_point, float.weights.zero());
    Ok(QuantizedConv {
        weights,
        batch_norm,
        activation: table.segments,
        arg_x: -i32::from(weight_zero),
        shr_x: 0,
        arg_w: -i32::from(zero),
        shr_w: 0,
        arg_add: size * size * i64::from(zero) * i64::from(weight_zero),
        pad_value: zero,
        unit: f64::from(output.scale) * 2f64.powi(-table.exponent),
    })
}

/// The `v` of a channel that no input whatever brings out of a flat end of the curve, such as one with a bias far off.
fn constant(channel: &Channel<'_>, curve: &Curve, units: Units) -> Option<f64> {
    let Some((low, high)) = curve.ends() else { return Some(0.0) };
    let (least, most) = channel.reach(units.gain, units.input_zero);
    let v = |steps: f64| (steps * 2f64.powi(units.exponent)).round();
    if most < low {
        Some(v(low))
    } else if least > high {
        Some(v(high) + 1.0)
    } else {
        None
    }
}

//! Layers in `f32`, in the order of the SDK's operations and without fused multiply-add (kmodel v3, SDK CPU-layer
//! details).

use byoc_plugin_api::Error;

use super::memory::Memories;
use super::quantized::window;
use crate::kmodel::bodies::{
    Binary, ChannelwiseDequantize, Dequantize, FullyConnected, GlobalAveragePool, Pool, Quantization, Quantize, Shape,
    Vector,
};

/// What the SDK's softmax starts its maximum at.
const FLT_MIN: f32 = f32::MIN_POSITIVE;

/// The least square sum that the SDK's normalisation divides by.
const EPSILON: f32 = 1e-10;

pub(super) fn add(body: &Binary, memories: &mut Memories) -> Result<(), Error> {
    let count = u64::from(body.count);
    let (a, b) = (memories.floats(body.a, count)?, memories.floats(body.b, count)?);
    let sums: Vec<_> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    memories.write_floats(body.output, &sums)
}

pub(super) fn global_average_pool(body: &GlobalAveragePool, memories: &mut Memories) -> Result<(), Error> {
    let (size, channels) = (body.kernel_size as usize, body.channels as usize);
    let input = memories.floats(body.input, u64::from(body.kernel_size).saturating_mul(u64::from(body.channels)))?;
    let mean = |channel: usize| {
        let sum = input[channel * size..][..size].iter().fold(0.0, |sum, x| sum + x);
        sum / body.kernel_size as f32
    };
    let means: Vec<_> = (0..channels).map(mean).collect();
    memories.write_floats(body.output, &means)
}

/// Divides by the number of cells that lie inside the input.
pub(super) fn average_pool(body: &Pool, memories: &mut Memories) -> Result<(), Error> {
    let (width, height) = (body.input_shape.width as usize, body.input_shape.height as usize);
    let input = Shape { channels: body.output_shape.channels, ..body.input_shape };
    let input = memories.floats(body.input, input.count())?;
    let count = body.output_shape.count() as usize;
    let mut out = Vec::with_capacity(count);
    for channel in 0..if count == 0 { 0 } else { body.output_shape.channels as usize } {
        let channel = &input[channel * width * height..];
        for y in 0..body.output_shape.height {
            for x in 0..body.output_shape.width {
                let (rows, columns) = window(body, y, x);
                let cells = (rows.len() * columns.len()) as f32;
                let line = |row: usize| channel[row * width..][columns.clone()].iter();
                out.push(rows.flat_map(line).fold(0.0, |sum, x| sum + x) / cells);
            }
        }
    }
    memories.write_floats(body.output, &out)
}

/// `roundf` goes from a tie away from zero, as `f32::round` does.
pub(super) fn quantize(body: &Quantize, memories: &mut Memories) -> Result<(), Error> {
    let input = memories.floats(body.input, u64::from(body.count))?;
    let Quantization { scale, bias } = body.quantization;
    let scale = 1.0 / scale;
    let bytes: Vec<_> = input.iter().map(|x| ((x - bias) * scale).round().clamp(0.0, 255.0) as u8).collect();
    memories.write(body.output, &bytes)
}

fn real(byte: u8, quantization: &Quantization) -> f32 {
    f32::from(byte) * quantization.scale + quantization.bias
}

pub(super) fn dequantize(body: &Dequantize, memories: &mut Memories) -> Result<(), Error> {
    let input = memories.read(body.input, u64::from(body.count))?;
    let values: Vec<_> = input.iter().map(|&byte| real(byte, &body.quantization)).collect();
    memories.write_floats(body.output, &values)
}

pub(super) fn channelwise_dequantize(body: &ChannelwiseDequantize, memories: &mut Memories) -> Result<(), Error> {
    let size = body.channel_size as usize;
    let input = memories.read(body.input, (body.channels.len() as u64).saturating_mul(size as u64))?;
    let channels = input.chunks_exact(size.max(1)).zip(&body.channels);
    let values: Vec<_> =
        channels.flat_map(|(bytes, quantization)| bytes.iter().map(move |&byte| real(byte, quantization))).collect();
    memories.write_floats(body.output, &values)
}

pub(super) fn l2_normalization(body: &Vector, memories: &mut Memories) -> Result<(), Error> {
    let input = memories.floats(body.input, u64::from(body.count))?;
    let sum = input.iter().fold(0.0, |sum, x| sum + x * x);
    let factor = 1.0 / if sum < EPSILON { EPSILON } else { sum }.sqrt();
    let values: Vec<_> = input.iter().map(|x| x * factor).collect();
    memories.write_floats(body.output, &values)
}

/// Starts its maximum at the least positive number, as the SDK does: logits all below about -103 give NaN.
pub(super) fn softmax(body: &Vector, memories: &mut Memories) -> Result<(), Error> {
    let input = memories.floats(body.input, u64::from(body.count))?;
    let most = input.iter().fold(FLT_MIN, |most, &x| most.max(x));
    let powers: Vec<f32> = input.iter().map(|x| (x - most).exp()).collect();
    let sum = powers.iter().fold(0.0, |sum, x| sum + x);
    let values: Vec<_> = powers.iter().map(|x| x / sum).collect();
    memories.write_floats(body.output, &values)
}

pub(super) fn logistic(body: &Vector, memories: &mut Memories) -> Result<(), Error> {
    let input = memories.floats(body.input, u64::from(body.count))?;
    let values: Vec<_> = input.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
    memories.write_floats(body.output, &values)
}

pub(super) fn fully_connected(body: &FullyConnected, memories: &mut Memories) -> Result<(), Error> {
    let sizes = &body.sizes;
    let input = memories.floats(sizes.input, u64::from(sizes.input_channels))?;
    #[expect(clippy::manual_clamp, reason = "NaN becomes 0 here, as in the SDK, and would stay NaN there")]
    let activate = |x: f32| match sizes.activation {
        1 => x.max(0.0),
        2 => x.max(0.0).min(6.0),
        _ => x,
    };
    let output = |(channel, bias): (usize, &f32)| {
        let weights = &body.weights[channel * input.len()..][..input.len()];
        let sum = input.iter().zip(weights).fold(0.0, |sum, (x, weight)| sum + x * weight);
        activate(sum + bias)
    };
    let values: Vec<_> = body.bias.iter().enumerate().map(output).collect();
    memories.write_floats(sizes.output, &values)
}

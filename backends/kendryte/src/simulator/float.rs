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

/// Output channels that are summed up side by side.
const ROWS: usize = 8;

/// The least square sum that the SDK's normalisation divides by.
const EPSILON: f32 = 1e-10;

/// A number as it is in memory.
fn float(bytes: &[u8; 4]) -> f32 {
    f32::from_le_bytes(*bytes)
}

/// The sum from the first on.
fn sum<'a>(values: impl IntoIterator<Item = &'a [u8; 4]>) -> f32 {
    values.into_iter().fold(0.0, |sum, x| sum + float(x))
}

fn append(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = f32>) {
    let start = out.len();
    out.resize(start + 4 * values.len(), 0);
    let targets = out[start..].as_chunks_mut().0;
    targets.iter_mut().zip(values).for_each(|(target, value)| *target = value.to_le_bytes());
}

/// A layer that computes one number from each.
fn map(body: &Vector, memories: &mut Memories, function: impl Fn(f32) -> f32) -> Result<(), Error> {
    memories.compute(body.output, |main, out| {
        let input = main.elements(body.input, u64::from(body.count))?;
        append(out, input.iter().map(|x| function(float(x))));
        Ok(())
    })
}

pub(super) fn add(body: &Binary, memories: &mut Memories) -> Result<(), Error> {
    let count = u64::from(body.count);
    memories.compute(body.output, |main, out| {
        let (a, b) = (main.elements(body.a, count)?, main.elements(body.b, count)?);
        append(out, a.iter().zip(b).map(|(a, b)| float(a) + float(b)));
        Ok(())
    })
}

pub(super) fn global_average_pool(body: &GlobalAveragePool, memories: &mut Memories) -> Result<(), Error> {
    let (size, channels) = (body.kernel_size as usize, body.channels as usize);
    let count = u64::from(body.kernel_size).saturating_mul(u64::from(body.channels));
    memories.compute(body.output, |main, out| {
        let input = main.elements(body.input, count)?;
        let mean = |channel: usize| sum(&input[channel * size..][..size]) / body.kernel_size as f32;
        append(out, (0..channels).map(mean));
        Ok(())
    })
}

/// Divides by the number of cells that are inside the input.
pub(super) fn average_pool(body: &Pool, memories: &mut Memories) -> Result<(), Error> {
    let (width, height) = (body.input_shape.width as usize, body.input_shape.height as usize);
    let shape = Shape { channels: body.output_shape.channels, ..body.input_shape };
    memories.compute(body.output, |main, out| {
        let input = main.elements(body.input, shape.count())?;
        for channel in 0..if body.output_shape.count() == 0 { 0 } else { shape.channels as usize } {
            let channel = &input[channel * width * height..];
            for y in 0..body.output_shape.height {
                let mean = |x| {
                    let (rows, columns) = window(body, y, x);
                    let cells = (rows.len() * columns.len()) as f32;
                    sum(rows.flat_map(|row| &channel[row * width..][columns.clone()])) / cells
                };
                append(out, (0..body.output_shape.width).map(mean));
            }
        }
        Ok(())
    })
}

/// `roundf` goes from a tie away from zero, as `f32::round` does.
pub(super) fn quantize(body: &Quantize, memories: &mut Memories) -> Result<(), Error> {
    let Quantization { scale, bias } = body.quantization;
    let scale = 1.0 / scale;
    memories.compute(body.output, |main, out| {
        let input = main.elements(body.input, u64::from(body.count))?;
        out.extend(input.iter().map(|x| ((float(x) - bias) * scale).round().clamp(0.0, 255.0) as u8));
        Ok(())
    })
}

fn real(byte: u8, quantization: &Quantization) -> f32 {
    f32::from(byte) * quantization.scale + quantization.bias
}

pub(super) fn dequantize(body: &Dequantize, memories: &mut Memories) -> Result<(), Error> {
    memories.compute(body.output, |main, out| {
        let input = main.read(body.input, u64::from(body.count))?;
        append(out, input.iter().map(|&byte| real(byte, &body.quantization)));
        Ok(())
    })
}

pub(super) fn channelwise_dequantize(body: &ChannelwiseDequantize, memories: &mut Memories) -> Result<(), Error> {
    let size = body.channel_size as usize;
    memories.compute(body.output, |main, out| {
        let input = main.read(body.input, (body.channels.len() as u64).saturating_mul(size as u64))?;
        for (bytes, quantization) in input.chunks_exact(size.max(1)).zip(&body.channels) {
            append(out, bytes.iter().map(|&byte| real(byte, quantization)));
        }
        Ok(())
    })
}

pub(super) fn l2_normalization(body: &Vector, memories: &mut Memories) -> Result<(), Error> {
    let input = memories.read(body.input, 4 * u64::from(body.count))?.as_chunks().0;
    let sum = input.iter().map(float).fold(0.0, |sum, x| sum + x * x);
    let factor = 1.0 / if sum < EPSILON { EPSILON } else { sum }.sqrt();
    map(body, memories, |x| x * factor)
}

/// Starts its maximum at the least positive number, as the SDK does: logits all below about -103 give NaN.
pub(super) fn softmax(body: &Vector, memories: &mut Memories) -> Result<(), Error> {
    memories.compute(body.output, |main, out| {
        let input = main.elements(body.input, u64::from(body.count))?;
        let most = input.iter().map(float).fold(FLT_MIN, f32::max);
        append(out, input.iter().map(|x| (float(x) - most).exp()));
        let powers = out.as_chunks_mut().0;
        let sum = sum(&*powers);
        powers.iter_mut().for_each(|power| *power = (float(power) / sum).to_le_bytes());
        Ok(())
    })
}

pub(super) fn logistic(body: &Vector, memories: &mut Memories) -> Result<(), Error> {
    map(body, memories, |x| 1.0 / (1.0 + (-x).exp()))
}

pub(super) fn fully_connected(body: &FullyConnected, memories: &mut Memories) -> Result<(), Error> {
    let (sizes, inputs) = (&body.sizes, body.sizes.input_channels as usize);
    #[expect(clippy::manual_clamp, reason = "NaN becomes 0 here, as in the SDK, and would stay NaN there")]
    let activate = |x: f32| match sizes.activation {
        1 => x.max(0.0),
        2 => x.max(0.0).min(6.0),
        _ => x,
    };
    memories.compute(sizes.output, |main, out| {
        let input = main.elements(sizes.input, u64::from(sizes.input_channels))?;
        // Each sum goes from the first input to the last; some side by side need not wait for one another.
        for (first, biases) in body.bias.chunks(ROWS).enumerate() {
            // Beyond the last channel the last one is computed again.
            let row = |row: usize| &body.weights[(first * ROWS + row.min(biases.len() - 1)) * inputs..][..inputs];
            let rows: [&[f32]; ROWS] = std::array::from_fn(row);
            let mut sums = [0.0; ROWS];
            for (index, x) in input.iter().enumerate() {
                let x = float(x);
                sums.iter_mut().zip(&rows).for_each(|(sum, row)| *sum += x * row[index]);
            }
            append(out, sums.iter().zip(biases).map(|(sum, bias)| activate(sum + bias)));
        }
        Ok(())
    })
}

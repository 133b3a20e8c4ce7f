//! Normalisations.

use byoc_plugin_api::Error;

use crate::call::Call;
use crate::tensor::{Tensor, View, count, flat};

/// Mean and variance of some elements.
fn moments(values: &[f32]) -> (f32, f32) {
    let number = values.len() as f32;
    let mean = values.iter().sum::<f32>() / number;
    (mean, values.iter().map(|value| (value - mean) * (value - mean)).sum::<f32>() / number)
}

/// As many elements of a tensor from a place on.
fn part(x: View<'_>, start: usize, elements: usize) -> Vec<f32> {
    (start..start + elements).map(|place| x.nth(place)).collect()
}

pub(super) fn layer(call: &Call<'_>) -> Result<Tensor, Error> {
    let (x, scale, bias) = (call.x(0)?, call.x(1)?, call.maybe(2)?);
    let mut axis = call.axis(-1, x.shape.len())?;
    if call.has("layer-last-axis") {
        axis = x.shape.len() - 1;
    }
    let epsilon = if call.has("layer-epsilon") { 1e-5 } else { call.node.float("epsilon", 1e-5) };
    let elements = count(&x.shape[axis..]);
    Ok(Tensor::of(x.shape, |index| {
        let place = flat(index, x.shape);
        let values = part(x, place / elements * elements, elements);
        let (mean, mut variance) = moments(&values);
        if call.has("layer-variance-unbiased") {
            variance *= elements as f32 / (elements as f32 - 1.0);
        }
        if call.has("layer-one-pass") {
            let squares = values.iter().map(|value| value * value).sum::<f32>() / elements as f32;
            variance = (squares - mean * mean).max(0.0);
        }
        let mut deviation = (variance + epsilon).sqrt();
        if call.has("layer-epsilon-outside") {
            deviation = variance.sqrt() + epsilon;
        }
        let by = match call.has("layer-scale-first") {
            true => scale.nth(place / elements % scale.data.len().max(1)),
            false => scale.broadcast(index),
        };
        let normal = (x.nth(place) - mean) / deviation * by;
        match bias.filter(|_| !call.has("layer-bias-ignored")) {
            Some(bias) => normal + bias.broadcast(index),
            None => normal,
        }
    }))
}

pub(super) fn batch(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let [mut scale, mut bias, mean, variance] = [call.x(1)?, call.x(2)?, call.x(3)?, call.x(4)?];
    if call.has("batch-scale-and-bias") {
        (scale, bias) = (bias, scale);
    }
    let epsilon = if call.has("batch-epsilon") { 1e-5 } else { call.node.float("epsilon", 1e-5) };
    Ok(Tensor::of(x.shape, |index| {
        let value = x.at(index);
        let mut channel = index[1];
        if call.has("batch-channel-last") {
            channel = index[index.len() - 1] % scale.data.len().max(1);
        }
        if call.has("batch-channels-8") && channel >= 8 {
            return value;
        }
        let centre = if call.has("batch-mean-ignored") { 0.0 } else { mean.nth(channel) };
        let mut deviation = (variance.nth(channel) + epsilon).sqrt();
        if call.has("batch-deviation") {
            deviation = variance.nth(channel) + epsilon;
        }
        (value - centre) / deviation * scale.nth(channel) + bias.nth(channel)
    }))
}

pub(super) fn instance(call: &Call<'_>) -> Result<Tensor, Error> {
    let (x, scale, bias) = (call.x(0)?, call.x(1)?, call.x(2)?);
    let epsilon = if call.has("instance-epsilon") { 1e-5 } else { call.node.float("epsilon", 1e-5) };
    let elements = count(&x.shape[2..]);
    Ok(Tensor::of(x.shape, |index| {
        let image = if call.has("instance-over-batch") { 0 } else { index[0] };
        let (mean, variance) = moments(&part(x, (image * x.shape[1] + index[1]) * elements, elements));
        (x.at(index) - mean) / (variance + epsilon).sqrt() * scale.nth(index[1]) + bias.nth(index[1])
    }))
}

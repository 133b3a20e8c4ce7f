//! Normalisation: `BatchNormalization`, `LayerNormalization`, `RMSNormalization`, `LRN`.

use byoc_plugin_api::{DType, Error};
use ndarray::{Array1, ArrayD};

use super::array::{Array, shaped};
use super::binary::zip;
use super::call::{Call, Outputs, around};
use super::reduce::fold;
use super::{FLOAT, Kernel, SAME, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("BatchNormalization", batch_norm, &[FLOAT]),
    kernel("LRN", lrn, &[FLOAT]),
    kernel("LayerNormalization", layer_norm, &[FLOAT, SAME]),
    kernel("RMSNormalization", rms_norm, &[FLOAT]),
];

/// The elements of a float input with one element a channel.
fn per_channel(call: &Call<'_, '_>, index: usize, channels: usize) -> Result<Vec<f64>, Error> {
    let values = call.input(index)?.to_f64().into_raw_vec_and_offset().0;
    if values.len() != channels {
        return Err(Error::new(format!("input {index} has {} elements for {channels} channels", values.len())));
    }
    Ok(values)
}

/// `BatchNormalization`, at inference by the given mean and variance, in training mode by those of the batch.
pub(crate) fn batch_norm(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let Some(&channels) = x.shape().get(1) else {
        return Err(Error::new("BatchNormalization needs a tensor of rank 2 or more"));
    };
    let training = call.node.int("training_mode", 0) != 0;
    let epsilon = f64::from(call.node.float("epsilon", 1e-5));
    let [scale, bias, mut mean, mut variance] = [1, 2, 3, 4].map(|index| per_channel(call, index, channels));
    let (scale, bias) = (scale?, bias?);
    let mut y = x.to_f64();
    let mut running = Vec::new();
    if training {
        let others: Vec<usize> = (0..y.ndim()).filter(|&axis| axis != 1).collect();
        let batch_mean = fold(&y.view(), &others, false, average)?;
        let batch_variance = fold(&y.view(), &others, false, deviation)?;
        let momentum = f64::from(call.node.float("momentum", 0.9));
        let dtype = call.input(3)?.dtype();
        for (given, batch) in [(&mut mean, batch_mean), (&mut variance, batch_variance)] {
            let batch = batch.into_raw_vec_and_offset().0;
            let old = std::mem::replace(given, Ok(batch.clone()))?;
            let moved = old.iter().zip(&batch).map(|(old, batch)| old * momentum + batch * (1.0 - momentum));
            running.push(Array::from_f64(dtype, moved.collect::<Array1<f64>>().into_dyn()));
        }
    }
    let (mean, variance) = (mean?, variance?);
    for (c, mut channel) in y.axis_iter_mut(ndarray::Axis(1)).enumerate() {
        let factor = scale[c] / (variance[c] + epsilon).sqrt();
        channel.mapv_inplace(|value| (value - mean[c]) * factor + bias[c]);
    }
    let mut outputs = vec![Array::from_f64(x.dtype(), y)];
    outputs.append(&mut running);
    Ok(outputs)
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The variance.
fn deviation(values: &[f64]) -> f64 {
    let mean = average(values);
    values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64
}

/// Normalised elements, and the two statistics of each row.
type Rows = (ArrayD<f64>, Vec<(f64, f64)>);

/// `x` with each row (all axes from `axis` on) shifted by its first statistic and scaled by the second.
fn by_rows(x: &ArrayD<f64>, axis: usize, statistics: impl Fn(&[f64]) -> (f64, f64)) -> Result<Rows, Error> {
    let run: usize = x.shape()[axis..].iter().product();
    let rows: usize = x.shape()[..axis].iter().product();
    let mut data = x.iter().copied().collect::<Vec<_>>();
    let mut all = Vec::with_capacity(rows);
    for row in 0..rows {
        let row = &mut data[row * run..(row + 1) * run];
        let (shift, scale) = statistics(row);
        row.iter_mut().for_each(|value| *value = (*value - shift) * scale);
        all.push((shift, scale));
    }
    Ok((shaped(x.shape(), data)?, all))
}

/// `LayerNormalization`, with the mean and the inverse standard deviation of each row.
pub(crate) fn layer_norm(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axis = call.axis("axis", -1, x.shape().len())?;
    let epsilon = f64::from(call.node.float("epsilon", 1e-5));
    let statistics = |row: &[f64]| (average(row), 1.0 / (deviation(row) + epsilon).sqrt());
    let (mut y, rows) = by_rows(&x.to_f64(), axis, statistics)?;
    y = zip(&y.view(), &call.input(1)?.to_f64().view(), |y, scale| y * scale)?;
    if let Some(bias) = call.optional(2) {
        y = zip(&y.view(), &bias.to_f64().view(), |y, bias| y + bias)?;
    }
    let mut shape = x.shape().to_vec();
    shape[axis..].fill(1);
    // The statistics have the type of the first stage (stash_type 1 is f32), unless the node says otherwise.
    let stash = if call.node.int("stash_type", 1) == 1 { DType::F32 } else { x.dtype() };
    let (means, scales) = rows.into_iter().unzip();
    let statistic = |index: usize, values: Vec<f64>| -> Result<Array<'static>, Error> {
        Ok(Array::from_f64(call.output_type(index).unwrap_or(stash), shaped(&shape, values)?))
    };
    Ok(vec![Array::from_f64(x.dtype(), y), statistic(1, means)?, statistic(2, scales)?])
}

/// `RMSNormalization`; the output has the scale's type.
pub(crate) fn rms_norm(call: &Call<'_, '_>) -> Outputs {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", -1, x.shape().len())?;
    let epsilon = f64::from(call.node.float("epsilon", 1e-5));
    let square_mean = |row: &[f64]| row.iter().map(|value| value * value).sum::<f64>() / row.len() as f64;
    let (y, _) = by_rows(&x.to_f64(), axis, |row| (0.0, 1.0 / (square_mean(row) + epsilon).sqrt()))?;
    let y = zip(&y.view(), &scale.to_f64().view(), |y, scale| y * scale)?;
    Ok(vec![Array::from_f64(scale.dtype(), y)])
}

/// `LRN`: each element divided by a power of the squares around it in the channel axis.
pub(crate) fn lrn(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?.to_f64();
    if x.ndim() < 2 {
        return Err(Error::new("LRN needs a tensor of rank 2 or more"));
    }
    let (alpha, beta) = (f64::from(call.node.float("alpha", 1e-4)), f64::from(call.node.float("beta", 0.75)));
    let bias = f64::from(call.node.float("bias", 1.0));
    let size = usize::try_from(call.node.int("size", 0)).unwrap_or(0);
    if size == 0 {
        return Err(Error::new("LRN needs a size"));
    }
    let (before, after) = ((size - 1) / 2, size / 2);
    let (batch, channels, inner) = around(x.shape(), 1);
    let data = x.as_slice().unwrap_or_default();
    let mut y = Vec::with_capacity(data.len());
    for (n, c) in (0..batch).flat_map(|n| (0..channels).map(move |c| (n, c))) {
        let near = c.saturating_sub(before)..(c + after + 1).min(channels);
        for i in 0..inner {
            let at = |channel: usize| data[(n * channels + channel) * inner + i];
            let squares: f64 = near.clone().map(|channel| at(channel) * at(channel)).sum();
            y.push(at(c) / (bias + alpha / size as f64 * squares).powf(beta));
        }
    }
    call.rounded(shaped(x.shape(), y)?)
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::{Attribute, DType};

    use super::super::testing::{all, counting, first, tensor};

    fn near(found: &[f64], expected: &[f64]) {
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(close && found.len() == expected.len(), "{found:?} is not {expected:?}");
    }

    #[test]
    fn rows_are_normalised_and_statistics_kept_in_f32() {
        let half = |values: &[f32]| values.iter().map(|&value| half::f16::from_f32(value)).collect::<Vec<_>>();
        let inputs = vec![tensor(&[2, 2], &half(&[1.0, 3.0, 5.0, 5.0])), tensor(&[2], &half(&[1.0, 2.0]))];
        let outputs = all("LayerNormalization", &[("epsilon", Attribute::Float(1.0))], inputs).expect("norm");
        let types: Vec<DType> = outputs.iter().map(super::Array::dtype).collect();
        assert_eq!(types, [DType::F16, DType::F32, DType::F32]);
        assert_eq!((outputs[1].shape(), outputs[1].to_ints()), (&[2, 1][..], vec![2, 5]));
        let root = std::f64::consts::FRAC_1_SQRT_2;
        near(outputs[2].to_f64().as_slice().expect("order"), &[root, 1.0]);
        let rms = first("RMSNormalization", &[], vec![tensor(&[1, 2], &[3f32, 4.0]), tensor(&[2], &[1f32, 1.0])]);
        near(&rms.1, &[3.0 / 12.5f64.sqrt(), 4.0 / 12.5f64.sqrt()]);
    }

    #[test]
    fn channels_are_normalised() {
        let one = |value: f32| tensor(&[1], &[value]);
        let inputs = || vec![counting(&[2, 1, 2]), one(2.0), one(1.0), one(1.0), one(4.0)];
        near(&first("BatchNormalization", &[], inputs()).1, &[1.0, 2.0, 3.0, 4.0]);
        let training = [("training_mode", Attribute::Int(1)), ("momentum", Attribute::Float(0.5))];
        let outputs = all("BatchNormalization", &training, inputs()).expect("norm");
        near(outputs[1].to_f64().as_slice().expect("order"), &[1.75]);
        near(outputs[2].to_f64().as_slice().expect("order"), &[2.625]);
        // An even window reaches one channel further to the right.
        let attributes =
            [("size", Attribute::Int(2)), ("alpha", Attribute::Float(2.0)), ("beta", Attribute::Float(1.0))];
        near(&first("LRN", &attributes, vec![counting(&[1, 3, 1])]).1, &[1.0 / 6.0, 2.0 / 14.0, 0.3]);
    }
}

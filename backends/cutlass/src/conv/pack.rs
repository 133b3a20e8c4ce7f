//! Packs weights at compile time: filters with channels innermost and padded, scaled by the folded batch normalisation, and
//! followed by the biases as `f32`.

use std::io::Write;

use byoc_plugin_api::{ConstantId, DType, Error, Packed, TensorView};
use half::{bf16, f16};

use super::net::Weights;

/// Filters [K, R, S, C], K and C padded.
const DENSE: &str = "cutlass-krsc/1";

/// Depthwise filters: [R, S, K].
const DEPTHWISE: &str = "cutlass-rsk/1";

/// The layout of packed weights and their number of elements.
pub(crate) fn packed(weights: &Weights, kernel: [usize; 2], dtype: DType) -> Packed {
    Packed::new(layout(weights), dtype, &[elements(weights, kernel, dtype)]).aligned(256)
}

/// The layout's name.
pub(crate) fn layout(weights: &Weights) -> &'static str {
    if weights.depthwise { DEPTHWISE } else { DENSE }
}

/// Elements of the filters and of the biases after them.
pub(crate) fn elements(weights: &Weights, [r, s]: [usize; 2], dtype: DType) -> usize {
    let &Weights { pitch_out, pitch_in, .. } = weights;
    pitch_out * r * s * pitch_in + pitch_out * (size_of::<f32>() / dtype.unpacked_bytes())
}

/// Writes the packed weights of a convolution.
///
/// # Errors
///
/// When a constant is missing or is not what its shape says, and those of `out`.
pub(crate) fn pack<'a>(
    weights: &Weights,
    kernel: [usize; 2],
    dtype: DType,
    view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let &Weights { filters, depthwise, pitch_out, pitch_in, .. } = weights;
    let filters_view = view(filters)?;
    let &[k, c, r, s] = filters_view.shape() else {
        return Err(Error::new("weights are not two-dimensional filters"));
    };
    let [k, c, r, s] = [k, c, r, s].map(|size| usize::try_from(size).unwrap_or(0));
    let filters = numbers(&filters_view)?;
    if k > pitch_out || c > pitch_in || filters.len() != k * c * r * s || [r, s] != kernel {
        return Err(Error::new(format!("weights of {k}x{c}x{r}x{s} for {pitch_out}x{pitch_in}")));
    }
    let (factors, shifts) = affine(weights, k, view)?;
    let taps = r * s;
    let scaled = |filter: usize, channel: usize, tap: usize| match filter < k && channel < c {
        true => f64::from(filters[(filter * c + channel) * taps + tap]) * factors[filter],
        false => 0.0,
    };
    let mut row = Vec::new();
    if depthwise {
        for tap in 0..taps {
            (0..pitch_out).for_each(|filter| put(scaled(filter, 0, tap), dtype, &mut row));
        }
        out.write_all(&row)?;
    } else {
        for filter in 0..pitch_out {
            row.clear();
            for tap in 0..taps {
                (0..pitch_in).for_each(|channel| put(scaled(filter, channel, tap), dtype, &mut row));
            }
            out.write_all(&row)?;
        }
    }
    row.clear();
    for filter in 0..pitch_out {
        put(shifts.get(filter).copied().unwrap_or(0.0), DType::F32, &mut row);
    }
    Ok(out.write_all(&row)?)
}

/// The scale of each filter, and its bias.
fn affine<'a>(
    weights: &Weights,
    count: usize,
    view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let vector = |id: ConstantId| -> Result<Vec<f64>, Error> {
        let values: Vec<f64> = numbers(&view(id)?)?.into_iter().map(f64::from).collect();
        if values.len() == count {
            return Ok(values);
        }
        Err(Error::new(format!("{} values for {count} channels", values.len())))
    };
    let mut shifts = weights.bias.map_or_else(|| Ok(vec![0.0; count]), vector)?;
    let mut factors = vec![1.0; count];
    if let Some(norm) = weights.norm {
        let [scale, shift, mean, variance] = [norm.scale, norm.shift, norm.mean, norm.variance].map(vector);
        let (scale, shift, mean, variance) = (scale?, shift?, mean?, variance?);
        for channel in 0..count {
            factors[channel] = scale[channel] / (variance[channel] + f64::from(norm.epsilon)).sqrt();
            shifts[channel] = (shifts[channel] - mean[channel]) * factors[channel] + shift[channel];
        }
    }
    Ok((factors, shifts))
}

/// The elements of a constant in row-major order.
fn numbers(view: &TensorView<'_>) -> Result<Vec<f32>, Error> {
    match view.dtype() {
        DType::F16 => Ok(view.to_vec::<f16>()?.into_iter().map(f32::from).collect()),
        DType::BF16 => Ok(view.to_vec::<bf16>()?.into_iter().map(f32::from).collect()),
        _ => view.to_vec::<f32>(),
    }
}

fn put(number: f64, dtype: DType, bytes: &mut Vec<u8>) {
    match dtype {
        DType::F16 => bytes.extend(f16::from_f64(number).to_le_bytes()),
        DType::BF16 => bytes.extend(bf16::from_f64(number).to_le_bytes()),
        _ => bytes.extend((number as f32).to_le_bytes()),
    }
}

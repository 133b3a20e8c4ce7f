//! What is folded into filters: functions of each output channel, one after another.

use std::borrow::Cow;

use byoc_plugin_api::{ConstantId, DType, Error, TensorView, bf16, f16, float_json as float};
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

use crate::kernels::product;

/// One function `x * a + b` by channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Batch normalisation.
    Norm {
        /// Factor.
        scale: ConstantId,
        /// Offset.
        bias: ConstantId,
        /// Mean.
        mean: ConstantId,
        /// Variance.
        variance: ConstantId,
        /// Added to the variance.
        #[serde(with = "float")]
        eps: f32,
    },
    /// Times a constant.
    Mul(ConstantId),
    /// Plus a constant.
    Add(ConstantId),
}

impl Part {
    /// The constants it reads, those first that could as well hold an offset.
    pub(super) fn sources(&self) -> Vec<ConstantId> {
        match self {
            Part::Norm { scale, bias, mean, variance, .. } => vec![*bias, *mean, *scale, *variance],
            Part::Mul(id) | Part::Add(id) => vec![*id],
        }
    }
}

/// The elements in order as f32, without a copy where they lie so.
pub(super) fn plain<'v>(view: &'v TensorView<'_>) -> Result<Cow<'v, [f32]>, Error> {
    Ok(match (view.as_slice::<f32>(), view.dtype()) {
        (Some(values), _) => Cow::Borrowed(values),
        (None, DType::F16) => Cow::Owned(view.to_vec::<f16>()?.to_f32_vec()),
        (None, DType::BF16) => Cow::Owned(view.to_vec::<bf16>()?.to_f32_vec()),
        _ => Cow::Owned(view.to_vec()?),
    })
}

/// Filters of [OC, IC / group, KH, KW] with what is folded in.
pub(super) fn filters<'v, 'a>(
    weights: &'v TensorView<'_>,
    shape: &[usize; 4],
    parts: &[Part],
    view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
) -> Result<Cow<'v, [f32]>, Error> {
    let (scale, _) = compose(shape[0], None, parts, view)?;
    let plain = plain(weights)?;
    let oihw = if parts.is_empty() { plain } else { Cow::Owned(scaled(plain.into_owned(), &scale)) };
    match Some(oihw.len()) == product(shape) {
        true => Ok(oihw),
        false => Err(Error::new(format!("{} weights for the shape {shape:?}", oihw.len()))),
    }
}

fn scaled(mut weights: Vec<f32>, scale: &[f64]) -> Vec<f32> {
    let each = weights.len() / scale.len().max(1);
    for (filter, &factor) in weights.chunks_exact_mut(each.max(1)).zip(scale) {
        filter.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
    }
    weights
}

/// Factor and offset of all parts one after another, in double precision: one for each channel, or one for all of them.
pub(super) fn compose<'a>(
    channels: usize,
    start: Option<ConstantId>,
    parts: &[Part],
    view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    // What is read decides how much is computed, so that a number in code is no reason to take memory.
    let mut all_alike = true;
    for id in start.into_iter().chain(parts.iter().flat_map(Part::sources)) {
        let len = view(id)?.len();
        if len != 1 && len != channels {
            return Err(Error::new(format!("{len} values for {channels} channels")));
        }
        all_alike &= len == 1;
    }
    let channels = if all_alike { 1 } else { channels };
    let vector = |id: ConstantId| -> Result<Vec<f64>, Error> {
        let view = view(id)?;
        let values = plain(&view)?;
        Ok(if values.len() == 1 {
            vec![f64::from(values[0]); channels]
        } else {
            values.iter().copied().map(f64::from).collect()
        })
    };
    let mut scale = vec![1.0; channels];
    let mut shift = start.map_or_else(|| Ok(vec![0.0; channels]), vector)?;
    for part in parts {
        let (factor, offset) = match part {
            Part::Norm { scale, bias, mean, variance, eps } => {
                let (scale, bias, mean) = (vector(*scale)?, vector(*bias)?, vector(*mean)?);
                let root = vector(*variance)?.into_iter().map(|variance| (variance + f64::from(*eps)).sqrt());
                let factor: Vec<f64> = scale.iter().zip(root).map(|(scale, root)| scale / root).collect();
                let offset = (0..channels).map(|c| bias[c] - mean[c] * factor[c]).collect();
                (factor, offset)
            }
            Part::Mul(id) => (vector(*id)?, vec![0.0; channels]),
            Part::Add(id) => (vec![1.0; channels], vector(*id)?),
        };
        for channel in 0..channels {
            scale[channel] *= factor[channel];
            shift[channel] = shift[channel] * factor[channel] + offset[channel];
        }
    }
    Ok((scale, shift))
}

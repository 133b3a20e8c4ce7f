//! What is folded into filters: functions of each output channel, one after another.
//!
//! They read lists of numbers, which a model has as they are or quantised.

use std::borrow::Cow;

use byoc_plugin_api::{ConstantId, DType, Error, TensorView, bf16, f16, float_json as float};
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

use crate::kernels::product;

/// A list of numbers: one for each channel, or one for all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Numbers {
    /// A constant of floats.
    Floats(ConstantId),
    /// What the integers of a constant stand for, `(integer - zero) * scale`.
    Integers {
        /// The integers.
        integers: ConstantId,
        /// The scale of each, or of all.
        scale: ConstantId,
        /// The zero point of each, or of all; 0 if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zero: Option<ConstantId>,
    },
}

impl Numbers {
    /// The constants it reads.
    pub(super) fn sources(&self) -> Vec<ConstantId> {
        match self {
            Numbers::Floats(id) => vec![*id],
            Numbers::Integers { integers, scale, zero } => [*integers, *scale].into_iter().chain(*zero).collect(),
        }
    }

    /// The one in whose place something else may be stored.
    pub(super) fn carrier(&self) -> ConstantId {
        match self {
            Numbers::Floats(id) | Numbers::Integers { integers: id, .. } => *id,
        }
    }

    /// The numbers, `len` of them.
    fn read<'a>(
        &self,
        len: usize,
        view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
    ) -> Result<Vec<f64>, Error> {
        let spread = |values: Vec<f64>| if values.len() == 1 { vec![values[0]; len] } else { values };
        let floats = |id: ConstantId| -> Result<Vec<f64>, Error> {
            Ok(spread(plain(&view(id)?)?.iter().copied().map(f64::from).collect()))
        };
        let integers = |id: ConstantId| -> Result<Vec<f64>, Error> { Ok(spread(integers_of(&view(id)?)?)) };
        match self {
            Numbers::Floats(id) => floats(*id),
            Numbers::Integers { integers: id, scale, zero } => {
                let (mut values, scales) = (integers(*id)?, floats(*scale)?);
                let zeros = zero.map_or_else(|| Ok(vec![0.0; len]), integers)?;
                let each = values.iter_mut().zip(scales.iter().zip(&zeros));
                each.for_each(|(value, (scale, zero))| *value = (*value - zero) * scale);
                Ok(values)
            }
        }
    }
}

/// The elements of a tensor of integers.
fn integers_of(view: &TensorView<'_>) -> Result<Vec<f64>, Error> {
    Ok(match view.dtype() {
        DType::I8 => view.to_vec::<i8>()?.into_iter().map(f64::from).collect(),
        DType::U8 => view.to_vec::<u8>()?.into_iter().map(f64::from).collect(),
        _ => view.to_vec::<i32>()?.into_iter().map(f64::from).collect(),
    })
}

/// One function `x * a + b` by channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Batch normalisation.
    Norm {
        /// Factor.
        scale: Numbers,
        /// Offset.
        bias: Numbers,
        /// Mean.
        mean: Numbers,
        /// Variance.
        variance: Numbers,
        /// Added to the variance.
        #[serde(with = "float")]
        eps: f32,
    },
    /// Times a constant.
    Mul(Numbers),
    /// Plus a constant.
    Add(Numbers),
}

impl Part {
    /// The lists it reads, those first in whose place an offset could as well be.
    pub(super) fn lists(&self) -> Vec<&Numbers> {
        match self {
            Part::Norm { scale, bias, mean, variance, .. } => vec![bias, mean, scale, variance],
            Part::Mul(list) | Part::Add(list) => vec![list],
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
    start: Option<&Numbers>,
    parts: &[Part],
    view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    // What is read decides how much is computed, so that a number in code is no reason to take memory.
    let mut all_alike = true;
    for id in start.into_iter().chain(parts.iter().flat_map(Part::lists)).flat_map(Numbers::sources) {
        let len = view(id)?.len();
        if len != 1 && len != channels {
            return Err(Error::new(format!("{len} values for {channels} channels")));
        }
        all_alike &= len == 1;
    }
    let channels = if all_alike { 1 } else { channels };
    let vector = |list: &Numbers| list.read(channels, view);
    let mut scale = vec![1.0; channels];
    let mut shift = start.map_or_else(|| Ok(vec![0.0; channels]), vector)?;
    for part in parts {
        let (factor, offset) = match part {
            Part::Norm { scale, bias, mean, variance, eps } => {
                let (scale, bias, mean) = (vector(scale)?, vector(bias)?, vector(mean)?);
                let root = vector(variance)?.into_iter().map(|variance| (variance + f64::from(*eps)).sqrt());
                let factor: Vec<f64> = scale.iter().zip(root).map(|(scale, root)| scale / root).collect();
                let offset = (0..channels).map(|c| bias[c] - mean[c] * factor[c]).collect();
                (factor, offset)
            }
            Part::Mul(list) => (vector(list)?, vec![0.0; channels]),
            Part::Add(list) => (vec![1.0; channels], vector(list)?),
        };
        for channel in 0..channels {
            scale[channel] *= factor[channel];
            shift[channel] = shift[channel] * factor[channel] + offset[channel];
        }
    }
    Ok((scale, shift))
}

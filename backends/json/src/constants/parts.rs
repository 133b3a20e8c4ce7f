//! What is folded into filters: functions of each output channel, one after another.
//!
//! They read lists of numbers, which a model has as they are or quantised.

use std::borrow::Cow;
use std::ops::Range;

use byoc_plugin_api::{ConstantId, DType, Error, TensorView, bf16, f16, float_json as float};
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

use crate::kernels::{Narrow, product};

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

/// Filters of [OC, IC / group, KH, KW] with what is folded in, computed when they are asked for.
pub(super) struct Filters<'v> {
    elements: Elements<'v>,
    count: usize,
    /// Elements of a filter.
    each: usize,
    /// One for each filter, or one for all of them; nothing is folded in without.
    factors: Option<Vec<f64>>,
}

/// Elements in order.
enum Elements<'v> {
    F32(Cow<'v, [f32]>),
    F16(&'v [f16]),
    Bf16(&'v [bf16]),
}

impl<'v> Filters<'v> {
    pub(super) fn new<'a>(
        weights: &'v TensorView<'_>,
        shape: &[usize; 4],
        parts: &[Part],
        view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
    ) -> Result<Filters<'v>, Error> {
        let (factors, _) = compose(shape[0], None, parts, view)?;
        if Some(weights.len()) != product(shape) {
            return Err(Error::new(format!("{} weights for the shape {shape:?}", weights.len())));
        }
        let elements = match (weights.as_slice::<f16>(), weights.as_slice::<bf16>()) {
            (Some(elements), _) => Elements::F16(elements),
            (_, Some(elements)) => Elements::Bf16(elements),
            _ => Elements::F32(plain(weights)?),
        };
        let factors = (!parts.is_empty()).then_some(factors);
        Ok(Filters { elements, count: shape[0], each: weights.len() / shape[0].max(1), factors })
    }

    /// Writes those of a range, one behind another.
    pub(super) fn write(&self, filters: Range<usize>, out: &mut [f32]) {
        let range = filters.start * self.each..filters.end * self.each;
        match &self.elements {
            Elements::F32(elements) => out.copy_from_slice(&elements[range]),
            Elements::F16(elements) => f16::widen(&elements[range], out),
            Elements::Bf16(elements) => bf16::widen(&elements[range], out),
        }
        let Some(factors) = &self.factors else { return };
        for (filter, out) in filters.zip(out.chunks_exact_mut(self.each.max(1))) {
            let factor = factors[filter % factors.len()];
            out.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
        }
    }

    /// All of them, without a copy where nothing is computed.
    pub(super) fn all(&self) -> Cow<'_, [f32]> {
        if let (Elements::F32(elements), None) = (&self.elements, &self.factors) {
            return Cow::Borrowed(elements);
        }
        let mut all = vec![0.0; self.count * self.each];
        self.write(0..self.count, &mut all);
        Cow::Owned(all)
    }
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

//! How a constant is computed from others: the same code runs at compile time, where the result is stored, and at load,
//! where it is not.

use std::borrow::Cow;

use byoc_plugin_api::{ConstantId, DType, Error, TensorView, bf16, f16, float_json as float};
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

use super::integer::Form;
use super::matrix::Matrix;
use crate::kernels::{
    Activation, ConvKind, ConvParams, GATES_LAYOUT, INT8_LAYOUT, Math, Narrow, PACKED_B_LAYOUT, int8_len, pack_gates,
    packed_b_len, packed_gates_len, product,
};

/// The layout tag of folded vectors.
const VECTOR: &str = "json-bias/1";

/// The layout tag of what was of 16 bits.
const FLOATS: &str = "json-floats/1";

/// A computation over constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Recipe {
    /// The weights of a convolution in the layout of its kernel, scaled by output channel.
    Weights {
        /// The original, [OC, IC / group, KH, KW].
        weights: ConstantId,
        /// The kernel.
        kind: ConvKind,
        /// OC, IC / group, KH, KW.
        shape: [usize; 4],
        /// Groups of channels.
        group: usize,
        /// What is folded in.
        parts: Vec<Part>,
    },
    /// The right side of a matrix product in the panels of its kernel.
    Matrix {
        /// The original, [K, N], or [N, K] where it is `transposed`.
        matrix: ConstantId,
        /// Whether it is.
        transposed: bool,
        /// Rows.
        k: usize,
        /// Columns.
        n: usize,
        /// What the elements are stored as; as i8 with a scale for each column.
        #[serde(default = "f32_type", skip_serializing_if = "is_f32")]
        dtype: DType,
    },
    /// The elements of a constant of 16 bits as f32.
    Floats {
        /// The original.
        constant: ConstantId,
        /// How many.
        len: usize,
    },
    /// The weights of a recurrent layer's gates, each in the panels of its kernel.
    Gates {
        /// The original, [count, N, K].
        weights: ConstantId,
        /// Gates of all directions.
        count: usize,
        /// Elements of what they are multiplied by.
        k: usize,
        /// Elements of a gate.
        n: usize,
    },
    /// Weights of 8 bits in the layout of their kernel, as i8.
    Integer {
        /// The original.
        weights: ConstantId,
        /// What it is.
        form: Form,
        /// Whether it is of u8.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unsigned: bool,
    },
    /// The factor of each channel.
    Scale {
        /// How many.
        channels: usize,
        /// What it is made of.
        parts: Vec<Part>,
    },
    /// The offset of each channel.
    Shift {
        /// How many.
        channels: usize,
        /// What it is before the parts; 0 if absent.
        start: Option<ConstantId>,
        /// What follows.
        parts: Vec<Part>,
    },
}

fn f32_type() -> DType {
    DType::F32
}

fn is_f32(dtype: &DType) -> bool {
    *dtype == DType::F32
}

/// Where a recipe writes.
pub(crate) enum Values<'o> {
    /// Single precision.
    F32(&'o mut [f32]),
    /// Integers of 8 bits.
    I8(&'o mut [i8]),
}

impl Values<'_> {
    fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::I8(values) => values.len(),
        }
    }
}

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
    fn sources(&self) -> Vec<ConstantId> {
        match self {
            Part::Norm { scale, bias, mean, variance, .. } => vec![*bias, *mean, *scale, *variance],
            Part::Mul(id) | Part::Add(id) => vec![*id],
        }
    }
}

impl Recipe {
    /// The constants it reads.
    pub(crate) fn sources(&self) -> Vec<ConstantId> {
        let of = |parts: &[Part]| parts.iter().flat_map(Part::sources).collect::<Vec<_>>();
        match self {
            Recipe::Weights { weights, parts, .. } => std::iter::once(*weights).chain(of(parts)).collect(),
            Recipe::Matrix { matrix, .. } => vec![*matrix],
            Recipe::Floats { constant, .. } => vec![*constant],
            Recipe::Integer { weights, .. } | Recipe::Gates { weights, .. } => vec![*weights],
            Recipe::Scale { parts, .. } => of(parts),
            Recipe::Shift { start, parts, .. } => start.iter().copied().chain(of(parts)).collect(),
        }
    }

    /// The constants in whose place the result may be stored, the best first.
    pub(crate) fn carriers(&self) -> Vec<ConstantId> {
        match self {
            Recipe::Weights { weights, .. } => vec![*weights],
            Recipe::Matrix { matrix, .. } => vec![*matrix],
            Recipe::Floats { constant, .. } => vec![*constant],
            Recipe::Integer { weights, .. } | Recipe::Gates { weights, .. } => vec![*weights],
            Recipe::Shift { .. } => self.sources(),
            // From behind: the offset is carried by the first ones.
            Recipe::Scale { .. } => self.sources().into_iter().rev().collect(),
        }
    }

    /// Names the layout of the result.
    pub(crate) fn layout(&self) -> &'static str {
        match self {
            Recipe::Weights { kind, .. } => kind.layout_tag(),
            Recipe::Floats { .. } => FLOATS,
            Recipe::Matrix { dtype: DType::I8, .. } => INT8_LAYOUT,
            Recipe::Matrix { .. } => PACKED_B_LAYOUT,
            Recipe::Gates { .. } => GATES_LAYOUT,
            Recipe::Integer { form, .. } => form.layout(),
            Recipe::Scale { .. } | Recipe::Shift { .. } => VECTOR,
        }
    }

    /// The type of the result.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Recipe::Integer { .. } => DType::I8,
            Recipe::Matrix { dtype, .. } => *dtype,
            _ => DType::F32,
        }
    }

    /// Elements of the result; `None` if they cannot be counted, or no kernel takes weights like these.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Recipe::Weights { kind, shape, group, .. } => kind.packed_len(&params(shape, *group)),
            Recipe::Floats { len, .. } => Some(*len),
            Recipe::Matrix { k, n, dtype: DType::I8, .. } => int8_len(*k, *n),
            Recipe::Matrix { k, n, .. } => packed_b_len(*k, *n),
            Recipe::Gates { count, k, n, .. } => packed_gates_len(*count, *k, *n),
            Recipe::Integer { form, .. } => form.len(),
            Recipe::Scale { channels, .. } | Recipe::Shift { channels, .. } => Some(*channels),
        }
    }

    /// Computes the result from the constants that `view` finds; that of a matrix by [`Recipe::compute_matrix`].
    pub(crate) fn compute<'a>(
        &self,
        view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
        out: Values<'_>,
    ) -> Result<(), Error> {
        if self.len() != Some(out.len()) {
            return Err(Error::new(format!("{} values for a recipe that makes {:?}", out.len(), self.len())));
        }
        match (self, out) {
            (Recipe::Integer { weights, form, unsigned }, Values::I8(out)) => {
                form.pack(&view(*weights)?, *unsigned, out)
            }
            (_, Values::F32(out)) => self.compute_floats(view, out),
            _ => Err(Error::new("a recipe that makes another type")),
        }
    }

    /// The bytes of a matrix in panels, stored as `dtype`, a part at a time; an error of any other recipe.
    pub(crate) fn compute_matrix<'a>(
        &self,
        view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
        dtype: DType,
        write: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let &Recipe::Matrix { matrix, transposed, k, n, .. } = self else {
            return Err(Error::new("a recipe that makes another type"));
        };
        Matrix { k, n, transposed, dtype }.pack(&view(matrix)?, write)
    }

    fn compute_floats<'a>(
        &self,
        view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        match self {
            Recipe::Integer { .. } | Recipe::Matrix { .. } => {
                return Err(Error::new("a recipe that makes another type"));
            }
            Recipe::Weights { weights, kind, shape, group, parts } => {
                let view_of_weights = view(*weights)?;
                let (scale, _) = compose(shape[0], None, parts, view)?;
                let plain = plain(&view_of_weights)?;
                let oihw = if parts.is_empty() { plain } else { Cow::Owned(scaled(plain.into_owned(), &scale)) };
                if Some(oihw.len()) != product(shape) {
                    return Err(Error::new(format!("{} weights for the shape {shape:?}", oihw.len())));
                }
                kind.pack(&params(shape, *group), &oihw, out);
            }
            Recipe::Gates { weights, count, k, n } => {
                let view = view(*weights)?;
                let plain = plain(&view)?;
                if Some(plain.len()) != product(&[*count, *k, *n]) {
                    return Err(Error::new(format!("{} values for {count} gates of {n} by {k}", plain.len())));
                }
                pack_gates(*count, *k, *n, &plain, out);
            }
            Recipe::Floats { constant, len } => {
                let view = view(*constant)?;
                if view.len() != *len {
                    return Err(Error::new(format!("{} values for {len}", view.len())));
                }
                match (view.as_slice::<f16>(), view.as_slice::<bf16>()) {
                    (Some(elements), _) => f16::widen(elements, out),
                    (_, Some(elements)) => bf16::widen(elements, out),
                    _ => out.copy_from_slice(&plain(&view)?),
                }
            }
            Recipe::Scale { channels, parts } => {
                fill(out, &compose(*channels, None, parts, view)?.0);
            }
            Recipe::Shift { channels, start, parts } => {
                fill(out, &compose(*channels, *start, parts, view)?.1);
            }
        }
        Ok(())
    }
}

/// The elements in order as f32, without a copy where they lie so.
fn plain<'v>(view: &'v TensorView<'_>) -> Result<Cow<'v, [f32]>, Error> {
    Ok(match (view.as_slice::<f32>(), view.dtype()) {
        (Some(values), _) => Cow::Borrowed(values),
        (None, DType::F16) => Cow::Owned(view.to_vec::<f16>()?.to_f32_vec()),
        (None, DType::BF16) => Cow::Owned(view.to_vec::<bf16>()?.to_f32_vec()),
        _ => Cow::Owned(view.to_vec()?),
    })
}

/// Rounds one value for each channel, or the one for all of them.
fn fill(out: &mut [f32], values: &[f64]) {
    out.iter_mut().zip(values.iter().cycle()).for_each(|(out, &value)| *out = value as f32);
}

fn scaled(mut weights: Vec<f32>, scale: &[f64]) -> Vec<f32> {
    let each = weights.len() / scale.len().max(1);
    for (filter, &factor) in weights.chunks_exact_mut(each.max(1)).zip(scale) {
        filter.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
    }
    weights
}

/// The parameters that packing reads.
fn params(shape: &[usize; 4], group: usize) -> ConvParams {
    ConvParams {
        n: 1,
        ic: shape[1].saturating_mul(group),
        ih: 1,
        iw: 1,
        oc: shape[0],
        oh: 1,
        ow: 1,
        kh: shape[2],
        kw: shape[3],
        stride: [1, 1],
        pad: [0, 0],
        dilation: [1, 1],
        group,
        act: Activation::None,
        math: Math::F32,
    }
}

/// Factor and offset of all parts one after another, in double precision: one for each channel, or one for all of them.
fn compose<'a>(
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

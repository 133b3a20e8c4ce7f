//! How a constant is computed from others: the same code runs at compile time, where the result is stored, and at load,
//! where it is not.

use byoc_plugin_api::{ConstantId, DType, Error, TensorView, bf16, f16};
use serde::{Deserialize, Serialize};

use super::integer::Form;
use super::matrix::Matrix;
use super::parts::{Filters, Numbers, Part, compose, plain};
use crate::kernels::{
    Activation, ConvKind, ConvParams, GATES_LAYOUT, INT8_FILTERS_LAYOUT, INT8_LAYOUT, Math, Narrow, PACKED_B_LAYOUT,
    int8_filters_len, int8_len, pack_gates, packed_b_len, packed_gates_len, product, round_filters,
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
        /// What the elements are stored as: f32, or 16 bits where the kernel reads those.
        #[serde(default = "f32_type", skip_serializing_if = "is_f32")]
        dtype: DType,
    },
    /// The filters of a convolution in one group as i8, each with a scale.
    Rounded {
        /// The original, [OC, IC, KH, KW].
        weights: ConstantId,
        /// OC, IC, KH, KW.
        shape: [usize; 4],
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
        start: Option<Numbers>,
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

impl Recipe {
    /// The constants it reads.
    pub(crate) fn sources(&self) -> Vec<ConstantId> {
        let of = |parts: &[Part]| parts.iter().flat_map(Part::lists).flat_map(Numbers::sources).collect::<Vec<_>>();
        match self {
            Recipe::Weights { weights, parts, .. } | Recipe::Rounded { weights, parts, .. } => {
                std::iter::once(*weights).chain(of(parts)).collect()
            }
            Recipe::Matrix { matrix, .. } => vec![*matrix],
            Recipe::Floats { constant, .. } => vec![*constant],
            Recipe::Integer { weights, .. } | Recipe::Gates { weights, .. } => vec![*weights],
            Recipe::Scale { parts, .. } => of(parts),
            Recipe::Shift { start, parts, .. } => start.iter().flat_map(Numbers::sources).chain(of(parts)).collect(),
        }
    }

    /// The constants in whose place the result may be stored, the best first.
    pub(crate) fn carriers(&self) -> Vec<ConstantId> {
        match self {
            Recipe::Weights { weights, .. } | Recipe::Rounded { weights, .. } => vec![*weights],
            Recipe::Matrix { matrix, .. } => vec![*matrix],
            Recipe::Floats { constant, .. } => vec![*constant],
            Recipe::Integer { weights, .. } | Recipe::Gates { weights, .. } => vec![*weights],
            Recipe::Shift { start, parts, .. } => {
                start.iter().chain(parts.iter().flat_map(Part::lists)).map(Numbers::carrier).collect()
            }
            // From behind: the offset is carried by the first ones.
            Recipe::Scale { parts, .. } => parts.iter().flat_map(Part::lists).map(Numbers::carrier).rev().collect(),
        }
    }

    /// Names the layout of the result.
    pub(crate) fn layout(&self) -> &'static str {
        match self {
            Recipe::Weights { kind, .. } => kind.layout_tag(),
            Recipe::Rounded { .. } => INT8_FILTERS_LAYOUT,
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
            Recipe::Integer { .. } | Recipe::Rounded { .. } => DType::I8,
            Recipe::Matrix { dtype, .. } | Recipe::Weights { dtype, .. } => *dtype,
            _ => DType::F32,
        }
    }

    /// Elements of the result; `None` if they cannot be counted, or no kernel takes weights like these.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Recipe::Weights { kind, shape, group, .. } => kind.packed_len(&params(shape, *group)),
            Recipe::Rounded { shape, .. } => int8_filters_len(*shape),
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
            (Recipe::Rounded { weights, shape, parts }, Values::I8(out)) => {
                let weights = view(*weights)?;
                round_filters(*shape, &Filters::new(&weights, shape, parts, view)?.all(), out);
                Ok(())
            }
            (_, Values::F32(out)) => self.compute_floats(view, out),
            _ => Err(Error::new("a recipe that makes another type")),
        }
    }

    /// Whether filters can be rounded: `fits` says so of each number.
    pub(crate) fn all_filters<'a>(
        &self,
        view: &dyn Fn(ConstantId) -> Result<TensorView<'a>, Error>,
        fits: impl Fn(f32) -> bool,
    ) -> bool {
        let (Recipe::Rounded { weights, shape, parts } | Recipe::Weights { weights, shape, parts, .. }) = self else {
            return false;
        };
        let all = view(*weights).and_then(|weights| {
            Ok(Filters::new(&weights, shape, parts, view)?.all().iter().all(|&weight| fits(weight)))
        });
        self.len().is_some() && all.unwrap_or(false)
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
            Recipe::Integer { .. } | Recipe::Rounded { .. } | Recipe::Matrix { .. } => {
                return Err(Error::new("a recipe that makes another type"));
            }
            Recipe::Weights { weights, kind, shape, group, parts, dtype: _ } => {
                let weights = view(*weights)?;
                let filters = Filters::new(&weights, shape, parts, view)?;
                kind.pack_some(&params(shape, *group), &mut |range, to| filters.write(range, to), out);
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
                fill(out, &compose(*channels, start.as_ref(), parts, view)?.1);
            }
        }
        Ok(())
    }
}

/// Rounds one value for each channel, or the one for all of them.
fn fill(out: &mut [f32], values: &[f64]) {
    out.iter_mut().zip(values.iter().cycle()).for_each(|(out, &value)| *out = value as f32);
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
        narrow: false,
    }
}

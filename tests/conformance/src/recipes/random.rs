//! Shape makers of operators that draw random numbers: with distributions of one value, so that it does not matter how they are drawn.

use byoc_plugin_api::{Attribute, DType};

use super::{Recipe, Wish, any, filled, with};
use crate::onnx::Fill;

/// The recipe for such an operator.
pub(super) fn find(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let float = |value: f32| Attribute::Float(value);
    let like = |attributes| with(vec![any(*dtype, shape)], 1, attributes);
    match (op, shape.as_slice()) {
        // Chances of 0 and 1.
        ("Bernoulli", _) if dtype.is_float() => with(vec![filled(*dtype, shape, Fill::Below(2))], 1, &[]),
        ("RandomUniformLike", _) if dtype.is_float() => like(&[("low", float(0.5)), ("high", float(0.5))]),
        ("RandomNormalLike", _) if dtype.is_float() => like(&[("mean", float(0.5)), ("scale", float(0.0))]),
        // Of one class.
        ("Multinomial", &[rows, samples]) if *dtype == DType::I32 => {
            with(vec![any(DType::F32, &[rows, 1])], 1, &[("sample_size", Attribute::Int(samples as i64))])
        }
        _ => None,
    }
}

//! Shape makers of the steps of optimisers, which are operators of `ai.onnx.preview.training`.

use byoc_plugin_api::{Attribute, DType};

use super::{Recipe, Wish, any, filled, with};
use crate::onnx::Fill;

/// The recipe for such an operator: a rate, how many steps were made, a tensor, its gradient and its states.
pub(super) fn find(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let states = match op {
        "Adagrad" | "Momentum" => 1,
        "Adam" => 2,
        _ => return None,
    };
    let mode = [("mode", Attribute::String("nesterov".into()))];
    let numbers = ["alpha", "beta", "norm_coefficient"].map(|name| (name, Attribute::Float(0.125)));
    let attributes = if op == "Momentum" { &[&numbers[..], &mode].concat()[..] } else { &[] };
    let positive = |dtype, shape: &[usize]| filled(dtype, shape, Fill::Positive);
    let start = [positive(*dtype, &[]), positive(DType::I64, &[]), any(*dtype, shape), any(*dtype, shape)];
    let operands = [start.as_slice(), &vec![positive(*dtype, shape); states]].concat();
    let count = operands.len();
    let recipe = with(operands, count, attributes)?;
    (dtype.is_float()).then_some(Recipe { more_outputs: vec![*dtype; states], ..recipe })
}

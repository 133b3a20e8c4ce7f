//! Shape makers of operators whose result has a size that the run tells: what is wished for says its type only.

use byoc_plugin_api::DType;

use super::{Operand, Recipe, Wish, any, below, filled, recipe};
use crate::onnx::Fill;

/// What each of these operators is to give.
pub(super) fn wish(op: &str) -> Option<Wish> {
    let (dtype, rank) = match op {
        "Compress" | "Range" | "Unique" => (DType::F32, 1),
        "ConstantOfShape" | "MelWeightMatrix" => (DType::F32, 2),
        "NonMaxSuppression" | "NonZero" => (DType::I64, 2),
        _ => return None,
    };
    Some(Wish { dtype, shape: vec![3; rank] })
}

/// The recipe for such an operator.
pub(super) fn find(op: &str, given: &Wish) -> Option<Recipe> {
    wish(op).filter(|wish| wish == given)?;
    let int = |value| Operand::Ints(vec![value], vec![]);
    let number = |value| Operand::Number(value, DType::F32);
    let few = |shape: &[usize]| filled(DType::F32, shape, Fill::Few);
    match op {
        "Compress" => recipe(vec![any(DType::F32, &[3, 5]), any(DType::Bool, &[15])], 2),
        "ConstantOfShape" => recipe(vec![below(5, &[2])], 1),
        "MelWeightMatrix" => {
            let lowest = filled(DType::F32, &[], Fill::Positive);
            recipe(vec![int(3), int(16), int(16_000), lowest, number(8000.0)], 5)
        }
        "NonMaxSuppression" => {
            let (boxes, scores) = (any(DType::F32, &[1, 6, 4]), any(DType::F32, &[1, 2, 6]));
            recipe(vec![boxes, scores, Operand::Ints(vec![3], vec![1]), number(0.5), number(0.0)], 5)
        }
        "NonZero" => recipe(vec![few(&[3, 4])], 1),
        "Range" => recipe(vec![few(&[]), number(7.0), filled(DType::F32, &[], Fill::Positive)], 3),
        "Unique" => {
            let recipe = recipe(vec![few(&[12])], 1)?;
            Some(Recipe { more_outputs: vec![DType::I64; 3], ..recipe })
        }
        _ => None,
    }
}

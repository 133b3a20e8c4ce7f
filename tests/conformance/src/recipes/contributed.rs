//! Shape makers of operators of `com.microsoft` that published models have.

use byoc_plugin_api::{Attribute, DType};

use super::{INNER, Operand, Recipe, Wish, any, filled, last, with};
use crate::onnx::Fill;

/// What one of them is to give that gives nothing of what others are asked for.
pub(super) fn wish(op: &str) -> Option<Wish> {
    (op == "DynamicQuantizeLSTM").then(|| Wish { dtype: DType::F32, shape: vec![3, 1, 2, 4] })
}

/// The recipe for such an operator.
pub(super) fn find(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let int = |value: usize| Attribute::Int(value as i64);
    match (op, dtype, shape.as_slice()) {
        ("MatMulNBits", DType::F32, &[_, .., columns]) => {
            // Two blocks of 16 elements of 4 bits.
            let (depth, block) = (32, 16);
            let weights = filled(DType::U8, &[columns, depth / block, block / 2], Fill::Bytes);
            let scales = any(DType::F32, &[columns * depth / block]);
            let sizes = [("K", int(depth)), ("N", int(columns)), ("bits", int(4)), ("block_size", int(block))];
            with(vec![any(DType::F32, &last(shape, depth)), weights, scales], 3, &sizes)
        }
        ("DynamicQuantizeLSTM", DType::F32, &[steps, 1, batch, hidden]) => {
            let weights = |rows: usize| filled(DType::I8, &[1, rows, 4 * hidden], Fill::Bytes);
            let scale = || filled(DType::F32, &[1], Fill::Positive);
            let zero = || any(DType::I8, &[1]);
            let x = any(DType::F32, &[steps, batch, INNER]);
            let bias = any(DType::F32, &[1, 8 * hidden]);
            let absent = vec![Operand::Absent; 4];
            let scales = vec![scale(), zero(), scale(), zero()];
            let operands = [vec![x, weights(INNER), weights(hidden), bias], absent, scales].concat();
            with(operands, 12, &[("hidden_size", int(hidden))])
        }
        _ => None,
    }
}

//! Quantisation and integer products.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Value, fixed};
use super::super::values::Mood;

/// The scales for `x`, with its attributes: one, or one for each index of an axis.
fn scales(builder: &mut Builder, x: &Value) -> (Value, Vec<(&'static str, Attribute)>) {
    if x.rank() > 0 && builder.random.chance(50) {
        let axis = builder.random.below(x.rank());
        if builder.declarable(&x.dims[axis]) {
            let scale = builder.leaf(DType::F32, &[x.dims[axis]], Mood::Positive);
            return (scale, vec![("axis", Attribute::Int(builder.signed_axis(axis, x.rank())))]);
        }
    }
    (builder.leaf(DType::F32, &[], Mood::Positive), vec![])
}

/// A zero point of that type beside the scale, or none.
fn zero_point(builder: &mut Builder, dtype: DType, scale: &Value) -> String {
    let there = builder.random.chance(70);
    if there { builder.leaf(dtype, &scale.dims, Mood::Tame).name } else { String::new() }
}

pub(crate) fn dequantize(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 4), |_| true);
    let (scale, attributes) = scales(builder, &x);
    // onnxruntime takes no other zero point of i32 than 0.
    let zero = if x.dtype == DType::I32 { String::new() } else { zero_point(builder, x.dtype, &scale) };
    let y = builder.node(op, &[&x.name, &scale.name, &zero], attributes, DType::F32, x.dims.clone());
    builder.keeps(&y, &[&x]);
    Some(())
}

/// QuantizeLinear, of what was not rounded before: a number just beside the middle of two may become either.
pub(crate) fn quantize(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 4), |x| x.exact && x.tame);
    let (scale, attributes) = scales(builder, &x);
    let dtype = builder.random.of(&[DType::U8, DType::I8]);
    let zero = builder.leaf(dtype, &scale.dims, Mood::Tame).name;
    let y = builder.node(op, &[&x.name, &scale.name, &zero], attributes, dtype, x.dims.clone());
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn matmul_integer(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let a = builder.pick(types, (2, 4), |_| true);
    let inner = *a.dims.last()?;
    // Of no columns, onnxruntime gives whatever was in memory.
    if !builder.declarable(&inner) || inner.contains(&0) {
        return None;
    }
    let columns = fixed(builder.random.of(&[1, 2, 5, 8, 17]));
    let other = builder.random.of(types);
    let b = builder.leaf(other, &[inner, columns], Mood::Tame);
    let a_zero = if builder.random.chance(60) { builder.leaf(a.dtype, &[], Mood::Tame).name } else { String::new() };
    let b_zero = match builder.random.below(3) {
        0 => String::new(),
        1 => builder.leaf(other, &[], Mood::Tame).name,
        _ => builder.leaf(other, &[columns], Mood::Tame).name,
    };
    let dims = [&a.dims[..a.rank() - 1], &[columns]].concat();
    let y = builder.node(op, &[&a.name, &b.name, &a_zero, &b_zero], vec![], DType::I32, dims);
    builder.exact(&y, true);
    Some(())
}

//! Short forms of what many functions that draw a node write.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Size, Value, fixed};
use super::super::values::Mood;

pub(super) type Attributes = Vec<(&'static str, Attribute)>;

pub(super) fn int(value: usize) -> Attribute {
    Attribute::Int(value as i64)
}

pub(super) fn ints(values: &[usize]) -> Attribute {
    Attribute::Ints(values.iter().map(|&value| value as i64).collect())
}

pub(super) fn text(value: &str) -> Attribute {
    Attribute::String(value.into())
}

/// 0 or 1.
pub(super) fn flag(builder: &mut Builder) -> Attribute {
    int(builder.random.below(2))
}

/// Sizes that are numbers.
pub(super) fn sizes(values: &[usize]) -> Vec<Size> {
    values.iter().copied().map(fixed).collect()
}

/// A new leaf of usual numbers.
pub(super) fn fresh(builder: &mut Builder, dtype: DType, dims: &[Size]) -> String {
    builder.leaf(dtype, dims, Mood::Tame).name
}

/// A new leaf, or none, as often as not.
pub(super) fn perhaps(builder: &mut Builder, dtype: DType, dims: &[Size]) -> String {
    if builder.random.chance(50) { fresh(builder, dtype, dims) } else { String::new() }
}

/// A size that is no 0 in any run.
pub(super) fn some(builder: &mut Builder) -> Size {
    let size = builder.size();
    if size.contains(&0) { fixed(2) } else { size }
}

/// A new image: any number of samples, that many channels, and that many axes of a few elements.
pub(super) fn image(builder: &mut Builder, dtype: DType, channels: usize, axes: usize) -> Value {
    let mut dims = vec![some(builder), fixed(channels)];
    for _ in 0..axes {
        dims.push(fixed(builder.random.of(&[1, 2, 3, 5, 6])));
    }
    builder.leaf(dtype, &dims, Mood::Tame)
}

/// Adds a node of these inputs by name, whose result is what operands without rounding make of it, or not.
pub(super) fn node(
    builder: &mut Builder,
    op: &'static str,
    inputs: &[String],
    attributes: Attributes,
    (dtype, dims): (DType, Vec<Size>),
) -> Value {
    builder.node(op, &inputs.iter().map(String::as_str).collect::<Vec<_>>(), attributes, dtype, dims)
}

/// As [`node`], with several outputs.
pub(super) fn nodes(
    builder: &mut Builder,
    op: &'static str,
    inputs: &[String],
    attributes: Attributes,
    outputs: Vec<(DType, Vec<Size>)>,
) -> Vec<Value> {
    builder.nodes_outputs(op, &inputs.iter().map(String::as_str).collect::<Vec<_>>(), attributes, outputs)
}

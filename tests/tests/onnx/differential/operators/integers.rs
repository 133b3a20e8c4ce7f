//! What is computed in integers between scales. Scales are powers of two, with which floats are exact, so that both sides must give
//! the same level, and rounding decides ties alone.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Size, Value, fixed};
use super::super::values::{self, Mood};
use super::short::{flag, int, ints, node, nodes, sizes, some};

/// A scale: one, or one for each of so many.
pub(super) fn scale(builder: &mut Builder, each: Option<usize>) -> String {
    let count = each.unwrap_or(1);
    let all: Vec<f64> = (0..count).map(|_| builder.random.of(&[1.0, 0.5, 0.25, 0.125, 0.0625])).collect();
    let tensor = if each.is_some() { values::vector(DType::F32, &all) } else { values::scalar(DType::F32, all[0]) };
    builder.structural(tensor)
}

/// A zero point: one, or one for each of so many, which are 0 where the type is signed.
pub(super) fn zero(builder: &mut Builder, dtype: DType, each: Option<usize>) -> String {
    let count = each.unwrap_or(1);
    let all: Vec<f64> = (0..count).map(|_| builder.random.between(0, 9) as f64).collect();
    let all = if dtype == DType::I8 && each.is_some() { vec![0.0; count] } else { all };
    let tensor = if each.is_some() { values::vector(dtype, &all) } else { values::scalar(dtype, all[0]) };
    builder.structural(tensor)
}

/// Either type of eight bits.
pub(super) fn byte(builder: &mut Builder) -> DType {
    builder.random.of(&[DType::U8, DType::I8])
}

/// The type of weights that onnxruntime multiplies activations of `dtype` with.
pub(super) fn other(builder: &mut Builder, dtype: DType) -> DType {
    if dtype == DType::I8 { DType::I8 } else { byte(builder) }
}

/// Any bytes.
pub(super) fn bytes(builder: &mut Builder, dtype: DType, dims: &[Size]) -> String {
    builder.leaf(dtype, dims, Mood::Any).name
}

/// Weights: small, because onnxruntime adds pairs of products in 16 bits on some processors.
pub(super) fn weights(builder: &mut Builder, dtype: DType, dims: &[Size]) -> String {
    builder.leaf(dtype, dims, Mood::Tame).name
}

/// A tensor with its scale and its zero point.
pub(super) fn scaled(builder: &mut Builder, dtype: DType, dims: &[Size]) -> [String; 3] {
    [bytes(builder, dtype, dims), scale(builder, None), zero(builder, dtype, None)]
}

/// The sizes of a convolution, and its attributes.
pub(super) struct Shape {
    pub(super) image: Vec<Size>,
    pub(super) filters: Vec<usize>,
    pub(super) output: Vec<Size>,
    pub(super) attributes: super::short::Attributes,
}

/// Draws a convolution with one or two axes of space.
pub(super) fn convolution(builder: &mut Builder) -> Option<Shape> {
    let axes = builder.random.of(&[1, 2, 2, 2]);
    let (per_group, group) = (builder.random.of(&[1, 2, 4]), builder.random.of(&[1, 1, 2, 4]));
    let made = group * builder.random.of(&[1, 2, 5]);
    let (stride, pad, dilation) =
        (builder.random.of(&[1, 1, 2]), builder.random.below(2), builder.random.of(&[1, 1, 2]));
    let mut image = vec![some(builder), fixed(per_group * group)];
    let (mut filters, mut output) = (vec![made, per_group], vec![image[0], fixed(made)]);
    for _ in 0..axes {
        let (size, kernel) = (builder.random.of(&[3, 4, 7, 9]), builder.random.of(&[1, 2, 3]));
        let reach = (kernel - 1) * dilation + 1;
        image.push(fixed(size));
        filters.push(kernel);
        output.push(fixed((size + 2 * pad).checked_sub(reach)? / stride + 1));
    }
    let attributes = vec![
        ("dilations", ints(&vec![dilation; axes])),
        ("group", int(group)),
        ("pads", ints(&vec![pad; 2 * axes])),
        ("strides", ints(&vec![stride; axes])),
    ];
    Some(Shape { image, filters, output, attributes })
}

/// QLinearConv and ConvInteger.
pub(crate) fn conv(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let Shape { image, filters, output, attributes } = convolution(builder)?;
    let linear = op == "QLinearConv";
    let dtype = if linear { byte(builder) } else { DType::U8 };
    let kind = other(builder, dtype);
    let w = weights(builder, kind, &sizes(&filters));
    let inputs = if linear {
        let each = builder.random.chance(50).then_some(filters[0]);
        let mut inputs = scaled(builder, dtype, &image).to_vec();
        inputs.extend([w, scale(builder, each), zero(builder, kind, each.filter(|_| kind == DType::I8))]);
        if each.is_some() && kind == DType::U8 {
            return None;
        }
        inputs.extend([scale(builder, None), zero(builder, dtype, None)]);
        if builder.random.chance(50) {
            inputs.push(builder.leaf(DType::I32, &[fixed(filters[0])], Mood::Tame).name);
        }
        inputs
    } else {
        let x = bytes(builder, dtype, &image);
        let zeros = [zero(builder, dtype, None), zero(builder, kind, None)];
        [vec![x, w], zeros[..builder.random.below(3)].to_vec()].concat()
    };
    let y = node(builder, op, &inputs, attributes, (if linear { dtype } else { DType::I32 }, output));
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn linear_matmul(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let dtype = byte(builder);
    let kind = other(builder, dtype);
    let (batch, rows) = (some(builder), builder.random.of(&[1, 3, 8]));
    let (inner, columns) = (builder.random.of(&[1, 4, 17]), builder.random.of(&[1, 5, 16]));
    let mut inputs = scaled(builder, dtype, &[batch, fixed(rows), fixed(inner)]).to_vec();
    let each = (builder.random.chance(50) && kind == DType::I8).then_some(columns);
    inputs.push(weights(builder, kind, &sizes(&[inner, columns])));
    inputs.extend([scale(builder, each), zero(builder, kind, each)]);
    inputs.extend([scale(builder, None), zero(builder, dtype, None)]);
    let y = node(builder, op, &inputs, vec![], (dtype, vec![batch, fixed(rows), fixed(columns)]));
    builder.exact(&y, true);
    Some(())
}

/// DynamicQuantizeLinear of numbers with ends that give a scale without rounding.
pub(crate) fn dynamic(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let dims = [some(builder), fixed(builder.random.of(&[1, 4, 9]))];
    let x = builder.leaf(DType::F32, &dims, Mood::Ties);
    let outputs = vec![(DType::U8, dims.to_vec()), (DType::F32, vec![]), (DType::U8, vec![])];
    let made = nodes(builder, op, &[x.name], vec![], outputs);
    builder.exact(&made[2], true);
    // A number in the middle between two levels is either, where the scale is rounded.
    builder.unread(&made[..1]);
    Some(())
}

/// What stands between DequantizeLinear and QuantizeLinear in models that were quantised: a convolution, a product, a sum, a factor by
/// channel, a function or what moves elements. json computes the group in integers.
pub(crate) fn group(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let dtype = byte(builder);
    let made = match builder.random.below(6) {
        0 => conv_between(builder, dtype)?,
        5 => channels_between(builder, dtype),
        1 => matmul_between(builder, dtype),
        2 => two_between(builder, dtype),
        3 => pool_between(builder, dtype),
        _ => one_between(builder, dtype),
    };
    let made = match builder.random.chance(40) {
        true => node(builder, "Relu", &[made.name], vec![], (DType::F32, made.dims)),
        false => made,
    };
    let inputs = [made.name, scale(builder, None), zero(builder, dtype, None)];
    let y = node(builder, op, &inputs, vec![], (dtype, made.dims));
    builder.exact(&y, true);
    Some(())
}

/// A tensor that is dequantised.
fn dequantised(builder: &mut Builder, dtype: DType, dims: &[Size]) -> String {
    let there = builder.values.iter().filter(|value| value.dtype == dtype && value.dims == dims && value.exact);
    let there: Vec<_> = there.map(|value| value.name.clone()).collect();
    let x = if there.is_empty() { bytes(builder, dtype, dims) } else { builder.random.of(&there) };
    let inputs = [x, scale(builder, None), zero(builder, dtype, None)];
    node(builder, "DequantizeLinear", &inputs, vec![], (DType::F32, dims.to_vec())).name
}

/// Weights that are dequantised: with one scale, or one for each of the last or first axis.
fn dequantised_weights(builder: &mut Builder, shape: &[usize], axis: usize) -> String {
    let w = weights(builder, DType::I8, &sizes(shape));
    let each = builder.random.chance(50).then_some(shape[axis]);
    let inputs = [w, scale(builder, each), zero(builder, DType::I8, each)];
    let attributes = if each.is_some() { vec![("axis", int(axis))] } else { vec![] };
    node(builder, "DequantizeLinear", &inputs, attributes, (DType::F32, sizes(shape))).name
}

fn conv_between(builder: &mut Builder, dtype: DType) -> Option<Value> {
    let Shape { image, filters, output, attributes } = convolution(builder)?;
    let inputs = [dequantised(builder, dtype, &image), dequantised_weights(builder, &filters, 0)];
    Some(node(builder, "Conv", &inputs, attributes, (DType::F32, output)))
}

fn matmul_between(builder: &mut Builder, dtype: DType) -> Value {
    let (rows, inner) = (some(builder), builder.random.of(&[1, 4, 17]));
    let columns = builder.random.of(&[1, 5, 16]);
    let x = dequantised(builder, dtype, &[rows, fixed(inner)]);
    let inputs = [x, dequantised_weights(builder, &[inner, columns], 1)];
    node(builder, "MatMul", &inputs, vec![], (DType::F32, vec![rows, fixed(columns)]))
}

fn two_between(builder: &mut Builder, dtype: DType) -> Value {
    let dims = [some(builder), fixed(builder.random.of(&[1, 3, 16])), fixed(3)];
    let op = builder.random.of(&["Add", "Mul", "Add", "Concat"]);
    let inputs = [dequantised(builder, dtype, &dims), dequantised(builder, dtype, &dims)];
    let (mut attributes, mut made) = (vec![], dims.to_vec());
    if op == "Concat" {
        attributes.push(("axis", int(1)));
        made[1] = made[1].map(|size| 2 * size);
    }
    node(builder, op, &inputs, attributes, (DType::F32, made))
}

/// A factor or an offset for each channel: weights, or computed for each image.
fn channels_between(builder: &mut Builder, dtype: DType) -> Value {
    let channels = builder.random.of(&[1, 3, 16, 40]);
    let dims = [some(builder), fixed(channels), fixed(3), fixed(2)];
    let x = dequantised(builder, dtype, &dims);
    let numbers = match builder.random.chance(50) {
        true => dequantised_weights(builder, &[channels, 1, 1], 0),
        false => dequantised(builder, dtype, &[dims[0], dims[1], fixed(1), fixed(1)]),
    };
    let mut inputs = [x, numbers];
    if builder.random.chance(30) {
        inputs.reverse();
    }
    let op = builder.random.of(&["Add", "Mul"]);
    node(builder, op, &inputs, vec![], (DType::F32, dims.to_vec()))
}

fn pool_between(builder: &mut Builder, dtype: DType) -> Value {
    let dims = [some(builder), fixed(builder.random.of(&[1, 3, 8])), fixed(4), fixed(4)];
    let x = dequantised(builder, dtype, &dims);
    let op = builder.random.of(&["MaxPool", "AveragePool"]);
    let attributes = vec![("kernel_shape", ints(&[2, 2])), ("strides", ints(&[2, 2]))];
    node(builder, op, &[x], attributes, (DType::F32, vec![dims[0], dims[1], fixed(2), fixed(2)]))
}

fn one_between(builder: &mut Builder, dtype: DType) -> Value {
    let dims = [some(builder), fixed(builder.random.of(&[2, 6])), fixed(4)];
    let mut inputs = vec![dequantised(builder, dtype, &dims)];
    let (op, attributes, made) = match builder.random.below(5) {
        0 => ("Transpose", vec![("perm", ints(&[0, 2, 1]))], vec![dims[0], dims[2], dims[1]]),
        1 => ("Abs", vec![], dims.to_vec()),
        2 => ("LeakyRelu", vec![("alpha", Attribute::Float(0.25))], dims.to_vec()),
        3 => {
            inputs.push(dequantised_weights(builder, &[1], 0));
            ("Mul", vec![], dims.to_vec())
        }
        _ => ("Neg", vec![], dims.to_vec()),
    };
    node(builder, op, &inputs, attributes, (DType::F32, made))
}

/// QuantizeLinear and DequantizeLinear with a scale for each block of an axis, and to types of 16 bits.
pub(crate) fn blocked(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let (block, blocks, axis) = (builder.random.of(&[2, 3]), 1 + builder.random.below(3), builder.random.below(2));
    let cut = builder.random.below(block);
    let (mut shape, mut scales) = ([3, 3], [3, 3]);
    (shape[axis], scales[axis]) = (block * blocks - cut, blocks);
    let quantizes = op == "QuantizeLinear";
    let x = match quantizes {
        true => builder.leaf(DType::F32, &sizes(&shape), Mood::Ties).name,
        false => bytes(builder, dtype, &sizes(&shape)),
    };
    let count = scales[0] * scales[1];
    let numbers: Vec<f64> = (0..count).map(|_| builder.random.of(&[1.0, 0.5, 0.25])).collect();
    let mut scale = values::vector(DType::F32, &numbers);
    scale.shape = scales.map(|size| size as i64).to_vec();
    let zeros: Vec<f64> = (0..count).map(|_| builder.random.below(4) as f64).collect();
    let mut zero = values::vector(dtype, &zeros);
    zero.shape.clone_from(&scale.shape);
    let inputs = [x, builder.structural(scale), builder.structural(zero)];
    let mut attributes = vec![("axis", int(axis)), ("block_size", int(block))];
    if quantizes && builder.random.chance(30) {
        attributes.push(("saturate", flag(builder)));
    }
    let y = node(builder, op, &inputs, attributes, (if quantizes { dtype } else { DType::F32 }, sizes(&shape)));
    builder.exact(&y, true);
    Some(())
}

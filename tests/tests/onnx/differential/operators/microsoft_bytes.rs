//! Operators of `com.microsoft` on quantised tensors, with scales that are powers of two as in [`super::integers`].

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Size, broadcast, fixed};
use super::super::values::{self, Mood};
use super::integers::{Shape, byte, bytes, convolution, other, scale, scaled, weights, zero};
use super::short::{Attributes, flag, fresh, int, ints, node, nodes, perhaps, sizes, some};

/// Adds the node; what it gives is exact.
fn exact(
    builder: &mut Builder,
    op: &'static str,
    inputs: &[String],
    attributes: Attributes,
    (dtype, dims): (DType, Vec<Size>),
) -> Option<()> {
    let y = node(builder, op, inputs, attributes, (dtype, dims));
    builder.exact(&y, true);
    Some(())
}

/// QLinearAdd and QLinearMul.
pub(crate) fn binary(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let dtype = byte(builder);
    let dims = vec![some(builder), fixed(builder.random.of(&[1, 3, 16]))];
    let other = if builder.random.chance(50) { dims.clone() } else { dims[1..].to_vec() };
    let mut inputs = [scaled(builder, dtype, &dims), scaled(builder, dtype, &other)].concat();
    inputs.extend([scale(builder, None), zero(builder, dtype, None)]);
    exact(builder, op, &inputs, vec![], (dtype, broadcast(&dims, &other)?))
}

/// QLinearSigmoid, QLinearLeakyRelu and QLinearSoftmax: what one element or row becomes.
pub(crate) fn unary(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let dtype = byte(builder);
    let dims = vec![some(builder), fixed(builder.random.of(&[1, 3, 16]))];
    let mut inputs = scaled(builder, dtype, &dims).to_vec();
    let softmax = op == "com.microsoft.QLinearSoftmax";
    // What is beyond the type is the next number in it for onnxruntime's softmax.
    let out = if op == "com.microsoft.QLinearLeakyRelu" { 0.25 } else { 1.0 / 64.0 };
    inputs.push(builder.structural(values::scalar(DType::F32, out)));
    inputs.push(zero(builder, dtype, None));
    let attributes = match op {
        _ if softmax => vec![("axis", Attribute::Int(-1)), ("opset", int(13))],
        "com.microsoft.QLinearLeakyRelu" => vec![("alpha", Attribute::Float(builder.random.of(&[0.25, 0.5, 0.0])))],
        _ => vec![],
    };
    exact(builder, op, &inputs, attributes, (dtype, dims))
}

/// QLinearAveragePool and QLinearGlobalAveragePool.
pub(crate) fn pool(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (dtype, channels, side) = (byte(builder), fixed(builder.random.of(&[1, 3, 8])), fixed(4));
    let (batch, last) = (some(builder), builder.random.chance(50));
    let image = |size: Size| if last { vec![batch, size, size, channels] } else { vec![batch, channels, size, size] };
    let mut inputs = scaled(builder, dtype, &image(side)).to_vec();
    inputs.extend([scale(builder, None), zero(builder, dtype, None)]);
    let mut attributes = vec![("channels_last", int(last.into()))];
    let global = op == "com.microsoft.QLinearGlobalAveragePool";
    if !global {
        attributes.extend([("kernel_shape", ints(&[2, 2])), ("strides", ints(&[2, 2]))]);
    }
    exact(builder, op, &inputs, attributes, (dtype, image(fixed(if global { 1 } else { 2 }))))
}

pub(crate) fn concat(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (dtype, rows) = (byte(builder), some(builder));
    let mut inputs = vec![scale(builder, None), zero(builder, dtype, None)];
    let mut all = 0;
    for _ in 0..1 + builder.random.below(3) {
        let columns = 1 + builder.random.below(4);
        all += columns;
        inputs.extend(scaled(builder, dtype, &[rows, fixed(columns)]));
    }
    exact(builder, op, &inputs, vec![("axis", int(1))], (dtype, vec![rows, fixed(all)]))
}

pub(crate) fn select(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (dtype, dims) = (byte(builder), vec![some(builder), fixed(3)]);
    let mut inputs = vec![builder.leaf(DType::Bool, &dims, Mood::Tame).name];
    // onnxruntime reads where nothing is unless all of these are constants.
    let parameters = |builder: &mut Builder, inputs: &mut Vec<String>| {
        let (scale, zero) = (builder.random.of(&[1.0, 0.5, 0.25]), builder.random.below(9) as f64);
        inputs.push(builder.structural_constant(values::scalar(DType::F32, scale)));
        inputs.push(builder.structural_constant(values::scalar(dtype, zero)));
    };
    for dims in [&dims[..], &dims[1..]] {
        inputs.push(bytes(builder, dtype, dims));
        parameters(builder, &mut inputs);
    }
    parameters(builder, &mut inputs);
    exact(builder, op, &inputs, vec![], (dtype, dims))
}

pub(crate) fn conv(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let Shape { image, filters, output, mut attributes } = convolution(builder)?;
    let (dtype, last) = (byte(builder), builder.random.chance(50));
    let kind = other(builder, dtype);
    let turned = |dims: &[Size]| match last {
        true => dims[..1].iter().chain(&dims[2..]).chain(&dims[1..2]).copied().collect::<Vec<_>>(),
        false => dims.to_vec(),
    };
    let mut inputs = scaled(builder, dtype, &turned(&image)).to_vec();
    inputs.extend([weights(builder, kind, &sizes(&filters)), scale(builder, None), zero(builder, kind, None)]);
    inputs.extend([scale(builder, None), zero(builder, dtype, None)]);
    attributes.push(("channels_last", int(last.into())));
    exact(builder, op, &inputs, attributes, (dtype, turned(&output)))
}

pub(crate) fn max_pool(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (dtype, batch, channels) = (byte(builder), some(builder), fixed(builder.random.of(&[1, 3])));
    let x = bytes(builder, dtype, &[batch, fixed(4), fixed(5), channels]);
    let attributes = vec![("kernel_shape", ints(&[2, 2])), ("strides", ints(&[2, 1]))];
    exact(builder, op, &[x], attributes, (dtype, vec![batch, fixed(2), fixed(4), channels]))
}

/// QGemm, MatMulIntegerToFloat and DynamicQuantizeMatMul.
pub(crate) fn product(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let dynamic = op == "com.microsoft.DynamicQuantizeMatMul";
    let (dtype, rows) = (byte(builder), some(builder));
    let kind = other(builder, if dynamic { DType::U8 } else { dtype });
    let (inner, columns) = (builder.random.of(&[1, 4, 17]), builder.random.of(&[1, 5, 16]));
    let w = weights(builder, kind, &sizes(&[inner, columns]));
    let dims = vec![rows, fixed(columns)];
    if dynamic {
        let x = fresh(builder, DType::F32, &[rows, fixed(inner)]);
        let inputs = [x, w, scale(builder, None), zero(builder, kind, None), perhaps(builder, DType::F32, &dims[1..])];
        node(builder, op, &inputs, vec![], (DType::F32, dims));
        return Some(());
    }
    let [x, x_scale, x_zero] = scaled(builder, dtype, &[rows, fixed(inner)]);
    let (w_scale, w_zero) = (scale(builder, None), zero(builder, kind, None));
    if op == "com.microsoft.MatMulIntegerToFloat" {
        let bias = perhaps(builder, DType::F32, &dims[1..]);
        node(builder, op, &[x, w, x_scale, w_scale, x_zero, w_zero, bias], vec![], (DType::F32, dims));
        return Some(());
    }
    let bias =
        if builder.random.chance(50) { builder.leaf(DType::I32, &dims[1..], Mood::Tame).name } else { String::new() };
    let mut inputs = vec![x, x_scale, x_zero, w, w_scale, w_zero, bias];
    let attributes = vec![("alpha", Attribute::Float(builder.random.of(&[1.0, 0.5])))];
    if builder.random.chance(50) {
        inputs.extend([scale(builder, None), zero(builder, dtype, None)]);
        return exact(builder, op, &inputs, attributes, (dtype, dims));
    }
    exact(builder, op, &inputs, attributes, (DType::F32, dims))
}

/// QuantizeLinear and DequantizeLinear of the domain.
pub(crate) fn linear(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, rows, columns) = (builder.random.of(types), some(builder), builder.random.of(&[1, 3]));
    let each = builder.random.chance(50).then_some(columns);
    let dims = vec![rows, fixed(columns)];
    let attributes = if each.is_some() { vec![("axis", int(1))] } else { vec![] };
    let quantizes = op == "com.microsoft.QuantizeLinear";
    let x = if quantizes { builder.leaf(DType::F32, &dims, Mood::Ties).name } else { bytes(builder, dtype, &dims) };
    let inputs = [x, scale(builder, each), zero(builder, dtype, each)];
    exact(builder, op, &inputs, attributes, (if quantizes { dtype } else { DType::F32 }, dims))
}

pub(crate) fn attention(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (batch, length, width) = (fixed(2), fixed(builder.random.of(&[1, 3])), 4);
    let (heads, size) = (builder.random.of(&[1, 2]), 2);
    let columns = fixed(3 * heads * size);
    let dtype = byte(builder);
    let inputs = [
        builder.leaf(DType::U8, &[batch, length, fixed(width)], Mood::Tame).name,
        weights(builder, dtype, &[fixed(width), columns]),
        fresh(builder, DType::F32, &[columns]),
        scale(builder, None),
        scale(builder, None),
        String::new(),
        zero(builder, DType::U8, None),
        zero(builder, dtype, None),
    ];
    let attributes = vec![("num_heads", int(heads)), ("unidirectional", flag(builder))];
    node(builder, op, &inputs, attributes, (DType::F32, vec![batch, length, fixed(heads * size)]));
    Some(())
}

pub(crate) fn embedding(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (dtype, batch, length, width) = (byte(builder), some(builder), fixed(3), 4);
    let mut inputs = vec![
        builder.leaf(DType::I32, &[batch, length], Mood::Place(7)).name,
        builder.leaf(DType::I32, &[batch, length], Mood::Place(2)).name,
    ];
    for shape in [&[7, width][..], &[5, width], &[2, width], &[width], &[width]] {
        inputs.push(bytes(builder, dtype, &sizes(shape)));
    }
    inputs.push(String::new());
    (0..5).for_each(|_| inputs.push(scale(builder, None)));
    (0..5).for_each(|_| inputs.push(zero(builder, dtype, None)));
    let outputs = vec![(DType::F32, vec![batch, length, fixed(width)]), (DType::I32, vec![batch])];
    nodes(builder, op, &inputs, vec![("epsilon", Attribute::Float(1e-3))], outputs);
    Some(())
}

/// DynamicQuantizeLSTM of one step: of more, onnxruntime and we may take a state in the middle of two levels for either.
pub(crate) fn lstm(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (steps, batch, width, hidden) = (1, builder.random.of(&[1, 2]), 4, builder.random.of(&[1, 4]));
    let direction = builder.random.of(&["forward", "reverse", "bidirectional"]);
    let (sides, dtype) = (if direction == "bidirectional" { 2 } else { 1 }, DType::I8);
    let mut constant = |shape: &[usize]| {
        let count = shape.iter().product();
        let numbers: Vec<_> = (0..count).map(|_| builder.random.between(-60, 60) as f64).collect();
        let mut tensor = values::vector(dtype, &numbers);
        tensor.shape = shape.iter().map(|&size| size as i64).collect();
        builder.structural_constant(tensor)
    };
    let (w, r) = (constant(&[sides, width, 4 * hidden]), constant(&[sides, hidden, 4 * hidden]));
    let mut inputs = vec![fresh(builder, DType::F32, &sizes(&[steps, batch, width])), w, r];
    inputs.push(perhaps(builder, DType::F32, &sizes(&[sides, 8 * hidden])));
    inputs.extend(std::iter::repeat_n(String::new(), 4));
    for _ in 0..2 {
        let steps = values::vector(DType::F32, &vec![1.0 / 128.0; sides]);
        inputs.push(builder.structural_constant(steps));
        inputs.push(builder.structural_constant(values::vector(dtype, &vec![0.0; sides])));
    }
    let attributes = vec![("direction", super::short::text(direction)), ("hidden_size", int(hidden))];
    let state = sizes(&[sides, batch, hidden]);
    let outputs =
        vec![(DType::F32, sizes(&[steps, sides, batch, hidden])), (DType::F32, state.clone()), (DType::F32, state)];
    nodes(builder, op, &inputs, attributes, outputs);
    Some(())
}

/// MatMulNBits, with weights of 4 or 8 bits in blocks.
pub(crate) fn n_bits(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (rows, bits, block) = (some(builder), builder.random.of(&[4, 8]), builder.random.of(&[16, 32]));
    let (depth, columns) = (builder.random.of(&[16, 24, 64]), builder.random.of(&[1, 3, 8]));
    let blocks = usize::div_ceil(depth, block);
    let size = block * bits / 8;
    let packed: Vec<_> = (0..columns * blocks * size).map(|_| builder.random.below(256) as f64).collect();
    let mut packed = values::vector(DType::U8, &packed);
    packed.shape = vec![columns as i64, blocks as i64, size as i64];
    let x = fresh(builder, DType::F32, &[rows, fixed(depth)]);
    let scales: Vec<_> = (0..columns * blocks).map(|_| builder.random.of(&[0.5, 0.25, 0.125])).collect();
    let inputs =
        [x, builder.structural_constant(packed), builder.structural_constant(values::vector(DType::F32, &scales))];
    let attributes = vec![("K", int(depth)), ("N", int(columns)), ("bits", int(bits)), ("block_size", int(block))];
    node(builder, op, &inputs, attributes, (DType::F32, vec![rows, fixed(columns)]));
    Some(())
}

//! Every operator by itself, in every type it takes, with sizes that fit packs and sizes that do not.

use byoc_plugin_api::{Attribute, DType};

use super::fixture::{Net, Op, check};

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
const INTS: [DType; 8] = [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
const SIGNED: [DType; 4] = [DType::I8, DType::I16, DType::I32, DType::I64];

fn int(value: i64) -> Attribute {
    Attribute::Int(value)
}

fn float(value: f32) -> Attribute {
    Attribute::Float(value)
}

fn text(value: &str) -> Attribute {
    Attribute::String(value.into())
}

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

/// A region of one node on inputs of these shapes.
fn one(op: Op<'_>, dtype: DType, shapes: &[&[usize]]) -> (String, Net) {
    let mut net = Net::new(false);
    let inputs: Vec<usize> = shapes.iter().map(|shape| net.input(dtype, shape)).collect();
    let output = net.node(op, &inputs);
    net.output(output);
    (format!("{} of {dtype} {shapes:?}", op.0), net)
}

#[test]
fn of_one_operand() {
    let mut nets = Vec::new();
    let shapes: [&[usize]; 5] = [&[4, 8], &[5, 3], &[], &[1], &[2, 0]];
    let plain: [Op<'_>; 19] = [
        ("Abs", &[]),
        ("Neg", &[]),
        ("Relu", &[]),
        ("Exp", &[]),
        ("Sin", &[]),
        ("Cos", &[]),
        ("Erf", &[]),
        ("Tanh", &[]),
        ("Sigmoid", &[]),
        ("Softplus", &[]),
        ("Mish", &[]),
        ("Swish", &[]),
        ("Elu", &[]),
        ("LeakyRelu", &[]),
        ("HardSigmoid", &[]),
        ("HardSwish", &[]),
        ("Gelu", &[]),
        ("IsNaN", &[]),
        ("Identity", &[]),
    ];
    for shape in shapes {
        nets.extend(plain.iter().map(|&op| one(op, DType::F32, &[shape])));
    }
    for dtype in FLOATS {
        let shape: &[usize] = &[3, 16];
        nets.extend(plain.iter().map(|&op| one(op, dtype, &[shape])));
        nets.push(one(("Gelu", &[("approximate", text("tanh"))]), dtype, &[shape]));
        nets.push(one(("Swish", &[("alpha", float(1.7))]), dtype, &[shape]));
        nets.push(one(("Elu", &[("alpha", float(0.3))]), dtype, &[shape]));
        let mut net = Net::new(false);
        let x = net.input(dtype, shape);
        let squares = net.node(("Mul", &[]), &[x, x]);
        let half = net.constant_of(dtype, &[], &[0.5]);
        let positive = net.node(("Add", &[]), &[squares, half]);
        for op in ["Sqrt", "Log", "Reciprocal"] {
            let y = net.node((op, &[]), &[positive]);
            net.output(y);
        }
        nets.push((format!("positive {dtype}"), net));
    }
    for dtype in SIGNED {
        nets.extend(["Abs", "Neg", "Relu"].map(|op| one((op, &[]), dtype, &[&[37]])));
    }
    nets.push(one(("Not", &[]), DType::Bool, &[&[3, 16]]));
    check(&nets);
}

#[test]
fn of_two_operands() {
    let mut nets = Vec::new();
    let shapes: [[&[usize]; 2]; 8] = [
        [&[4, 8], &[4, 8]],
        [&[4, 8], &[8]],
        [&[2, 1, 8], &[3, 1]],
        [&[5, 3], &[]],
        [&[], &[]],
        [&[3, 4, 5], &[4, 1]],
        [&[1, 6], &[4, 1]],
        [&[0, 4], &[4]],
    ];
    for (index, dtype) in FLOATS.into_iter().chain(INTS).enumerate() {
        for op in
            ["Add", "Sub", "Mul", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min"]
        {
            nets.push(one((op, &[]), dtype, &shapes[index % shapes.len()]));
            if dtype == DType::F32 {
                nets.extend(shapes.iter().map(|shape| one((op, &[]), dtype, shape)));
            }
        }
        let fmod: &[(&str, Attribute)] = &[("fmod", Attribute::Int(1))];
        nets.push(one(("Mod", fmod), dtype, &[&[40], &[40]]));
        if !dtype.is_float() {
            nets.push(one(("Mod", &[]), dtype, &[&[40], &[40]]));
        }
    }
    nets.push(one(("And", &[]), DType::Bool, &[&[4, 8], &[8]]));
    nets.push(one(("Equal", &[]), DType::Bool, &[&[4, 8], &[8]]));
    nets.extend(FLOATS.map(|dtype| one(("Sum", &[]), dtype, &[&[4, 8], &[8], &[4, 1]])));
    nets.extend(FLOATS.map(|dtype| one(("Max", &[]), dtype, &[&[4, 8], &[8], &[4, 1]])));
    for dtype in [DType::F32, DType::I32] {
        let mut net = Net::new(false);
        let base = net.input(dtype, &[6]);
        for exponent in [2.0, 3.0, 0.0] {
            let exponent = net.constant_of(dtype, &[], &[exponent]);
            let y = net.node(("Pow", &[]), &[base, exponent]);
            net.output(y);
        }
        nets.push(("Pow".into(), net));
    }
    check(&nets);
}

#[test]
fn of_three_operands_and_casts() {
    let mut nets = Vec::new();
    for dtype in FLOATS.into_iter().chain(INTS) {
        let mut net = Net::new(false);
        let (condition, x, y) = (net.input(DType::Bool, &[4, 1]), net.input(dtype, &[4, 8]), net.input(dtype, &[8]));
        let chosen = net.node(("Where", &[]), &[condition, x, y]);
        net.output(chosen);
        let (low, high) = (net.constant_of(dtype, &[], &[1.0]), net.constant_of(dtype, &[1], &[2.0]));
        let both = net.node(("Clip", &[]), &[x, low, high]);
        let upper = net.nodes(("Clip", &[]), &[Some(x), None, Some(high)], &[None])[0];
        net.output(both).output(upper);
        nets.push((format!("Where, Clip {dtype}"), net));
        let mut net = Net::new(false);
        let x = net.input(dtype, &[5, 4]);
        for (to, number) in [
            (DType::F32, 1),
            (DType::U8, 2),
            (DType::I8, 3),
            (DType::I32, 6),
            (DType::I64, 7),
            (DType::Bool, 9),
            (DType::F16, 10),
            (DType::F64, 11),
            (DType::BF16, 16),
        ] {
            let y = net.nodes(("Cast", &[("to", int(number))]), &[Some(x)], &[Some(to)])[0];
            net.output(y);
        }
        nets.push((format!("Cast {dtype}"), net));
    }
    check(&nets);
}

/// A region of one node on a tensor and lists of integers.
fn with(op: Op<'_>, dtype: DType, shape: &[usize], lists: &[&[i64]]) -> (String, Net) {
    let mut net = Net::new(false);
    let mut inputs = vec![net.input(dtype, shape)];
    inputs.extend(lists.iter().map(|list| net.ints(list)));
    let output = net.node(op, &inputs);
    net.output(output);
    (format!("{} of {dtype} {shape:?} {lists:?} {:?}", op.0, op.1), net)
}

#[test]
fn moves() {
    let mut nets = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::I64, DType::U8, DType::Bool] {
        nets.extend([
            with(("Transpose", &[("perm", ints(&[0, 2, 1, 3]))]), dtype, &[2, 3, 4, 8], &[]),
            with(("Transpose", &[("perm", ints(&[1, 0]))]), dtype, &[33, 35], &[]),
            with(("Transpose", &[]), dtype, &[2, 3, 5], &[]),
            with(("Reshape", &[]), dtype, &[2, 3, 4], &[&[6, -1]]),
            with(("Flatten", &[]), dtype, &[2, 3, 4], &[]),
            with(("Unsqueeze", &[]), dtype, &[2, 3], &[&[0, 3]]),
            with(("Squeeze", &[]), dtype, &[2, 1, 3], &[&[1]]),
            with(("Expand", &[]), dtype, &[3, 1, 4], &[&[2, 3, 5, 4]]),
            with(("Tile", &[]), dtype, &[2, 3], &[&[2, 3]]),
            with(("Tile", &[]), dtype, &[1, 4], &[&[3, 2]]),
            with(("Slice", &[]), dtype, &[7, 16], &[&[1, 8], &[6, 16], &[0, 1], &[2, 1]]),
            with(("Slice", &[]), dtype, &[7, 5], &[&[-2, 4], &[0, -100], &[0, 1], &[-1, -2]]),
            with(("Slice", &[]), dtype, &[7, 5], &[&[3], &[3]]),
            with(("Trilu", &[]), dtype, &[2, 4, 5], &[]),
            with(("Trilu", &[("upper", int(0))]), dtype, &[4, 4], &[&[-1]]),
            with(("Gather", &[("axis", int(1))]), dtype, &[3, 6, 4], &[&[5, 0, -1]]),
            with(("Gather", &[]), dtype, &[3, 6], &[&[2, 1, 1, 0]]),
            with(("Pad", &[]), dtype, &[3, 4], &[&[1, 0, 2, 0]]),
            with(("Pad", &[]), dtype, &[3, 4], &[&[1, 2, -1, 3]]),
            with(("Pad", &[("mode", text("edge"))]), dtype, &[3, 4], &[&[1, 2, 2, 3]]),
            with(("Pad", &[("mode", text("reflect"))]), dtype, &[3, 4], &[&[2, 2, 1, 3]]),
            with(("Pad", &[("mode", text("wrap"))]), dtype, &[3, 4], &[&[2, 2, 1, 3]]),
        ]);
        let mut net = Net::new(false);
        let parts = [[2usize, 3, 4], [2, 5, 4], [2, 1, 4]].map(|shape| net.input(dtype, &shape));
        let joined = net.node(("Concat", &[("axis", int(1))]), &parts);
        let rows = net.node(("Concat", &[("axis", int(-1))]), &[joined, joined]);
        net.output(joined).output(rows);
        let sizes = net.ints(&[4, 2, 3]);
        let split = net.nodes(("Split", &[("axis", int(1))]), &[Some(joined), Some(sizes)], &[None; 3]);
        split.into_iter().for_each(|part| net.region.outputs.push(part));
        let halves = net.nodes(("Split", &[("axis", int(2)), ("num_outputs", int(2))]), &[Some(joined)], &[None; 2]);
        halves.into_iter().for_each(|part| net.region.outputs.push(part));
        nets.push((format!("Concat, Split {dtype}"), net));
        let mut net = Net::new(false);
        let x = net.input(dtype, &[3, 4, 5]);
        let indices = net.constant_of(DType::I64, &[2, 2, 5], &[1.0, 0.0, 3.0, -1.0, 2.0].repeat(4));
        let elements = net.node(("GatherElements", &[("axis", int(1))]), &[x, indices]);
        let tuples = net.input_of(DType::I64, &[2, 2], &[0.0, 3.0, -1.0, 1.0]);
        let rows = net.node(("GatherND", &[]), &[x, tuples]);
        let batched = net.input_of(DType::I64, &[3, 1], &[0.0, 3.0, -1.0]);
        let batched = net.node(("GatherND", &[("batch_dims", int(1))]), &[x, batched]);
        net.output(elements).output(rows).output(batched);
        nets.push((format!("GatherElements {dtype}"), net));
    }
    let mut net = Net::new(false);
    let x = net.input(DType::F32, &[3, 4]);
    let (widths, fill) = (net.ints(&[1, 0, 0, 2]), net.input(DType::F32, &[]));
    let padded = net.node(("Pad", &[]), &[x, widths, fill]);
    let shape = net.node(("Shape", &[]), &[x]);
    let size = net.ints(&[2, 3]);
    let filled = net.nodes(("ConstantOfShape", &[]), &[Some(size)], &[Some(DType::F32)])[0];
    let (start, limit, delta) = ([0.5, 4.0, 0.75]).map(|value| net.constant_of(DType::F32, &[], &[value])).into();
    let range = net.node(("Range", &[]), &[start, limit, delta]);
    net.output(padded).output(shape).output(filled).output(range);
    nets.push(("made".into(), net));
    check(&nets);
}

#[test]
fn rows() {
    let mut nets = Vec::new();
    for dtype in FLOATS {
        for length in [1, 3, 16, 33, 64, 128, 768, 1030, 5000] {
            let shape = [3, length];
            nets.push(with(("Softmax", &[]), dtype, &shape, &[]));
            let mut net = Net::new(false);
            let x = net.input(dtype, &shape);
            let (scale, bias) = (net.constant(dtype, &[length]), net.constant(dtype, &[length]));
            let types = [Some(dtype), Some(DType::F32), Some(DType::F32)];
            let normed = net.nodes(("LayerNormalization", &[]), &[Some(x), Some(scale), Some(bias)], &types);
            normed.into_iter().for_each(|part| net.region.outputs.push(part));
            let rms = net.node(("RMSNormalization", &[]), &[x, scale]);
            net.output(rms);
            if dtype != DType::F64 {
                nets.push((format!("norms of {length} {dtype}"), net));
            }
        }
        for axes in [&[1i64][..], &[0], &[1, 2], &[0, 2], &[0, 1, 2]] {
            for op in ["ReduceSum", "ReduceMean", "ReduceMax"] {
                nets.push(with((op, &[]), dtype, &[5, 6, 8], &[axes]));
                nets.push(with((op, &[("keepdims", int(0))]), dtype, &[3, 40, 7], &[axes]));
            }
        }
        nets.push(with(("Softmax", &[("axis", int(1))]), dtype, &[2, 9, 5], &[]));
        nets.push(with(("GlobalAveragePool", &[]), dtype, &[2, 3, 7, 7], &[]));
        nets.push(with(("LRN", &[("size", int(5))]), dtype, &[2, 9, 4], &[]));
        let mut net = Net::new(false);
        let x = net.input(dtype, &[2, 6, 4]);
        let mut inputs = vec![Some(x)];
        inputs.extend((0..3).map(|_| Some(net.constant(dtype, &[6]))));
        inputs.push(Some(net.constant_of(dtype, &[6], &[0.5, 1.0, 2.0, 0.25, 1.5, 3.0])));
        let y = net.nodes(("BatchNormalization", &[]), &inputs, &[Some(dtype)])[0];
        net.output(y);
        nets.push((format!("BatchNormalization {dtype}"), net));
    }
    for dtype in [DType::I32, DType::I64, DType::I8, DType::U8] {
        nets.push(with(("ReduceMax", &[]), dtype, &[5, 6], &[&[1]]));
        nets.push(with(("ArgMax", &[("axis", int(1))]), dtype, &[5, 33], &[]));
    }
    for dtype in [DType::I32, DType::I64] {
        nets.push(with(("ReduceSum", &[]), dtype, &[5, 6], &[&[0]]));
        nets.push(with(("ReduceMean", &[]), dtype, &[5, 6], &[&[1]]));
        nets.push(with(("CumSum", &[]), dtype, &[5, 6], &[&[1]]));
    }
    for (axis, last, reverse) in [(0, 0, 1), (1, 1, 0), (2, 0, 0)] {
        let arg: &[(&str, Attribute)] =
            &[("axis", int(axis)), ("select_last_index", int(last)), ("keepdims", int(last))];
        nets.push(with(("ArgMax", arg), DType::F32, &[3, 40, 7], &[]));
        let sums: &[(&str, Attribute)] = &[("exclusive", int(last)), ("reverse", int(reverse))];
        nets.push(with(("CumSum", sums), DType::F32, &[3, 8, 7], &[&[axis]]));
    }
    check(&nets);
}

#[test]
fn rotary() {
    let mut nets = Vec::new();
    for (interleaved, turned) in [(0, 0), (1, 0), (0, 4), (1, 4)] {
        let mut net = Net::new(false);
        let attributes =
            [("interleaved", int(interleaved)), ("rotary_embedding_dim", int(turned)), ("num_heads", int(3))];
        let half = if turned == 0 { 4 } else { 2 };
        let (heads, flat) = (net.input(DType::F32, &[2, 3, 5, 8]), net.input(DType::F32, &[2, 5, 24]));
        let (cos, sin) = (net.input(DType::F32, &[2, 5, half]), net.input(DType::F32, &[2, 5, half]));
        let plain = net.node(("RotaryEmbedding", &attributes), &[heads, cos, sin]);
        let (cos, sin) = (net.constant(DType::F32, &[6, half]), net.constant(DType::F32, &[6, half]));
        let positions = net.input_of(DType::I64, &[2, 5], &[0.0, 1.0, 2.0, 3.0, 5.0, 4.0, 3.0, 1.0, 0.0, 2.0]);
        let placed = net.node(("RotaryEmbedding", &attributes), &[flat, cos, sin, positions]);
        net.output(plain).output(placed);
        nets.push((format!("RotaryEmbedding {interleaved} {turned}"), net));
    }
    check(&nets);
}

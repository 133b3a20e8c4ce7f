//! Tensors of 8 bits and less, which stand for numbers.

use byoc_tests::onnx::{Model, Type, tensor};

use super::Attribute::{Int, Ints};
use super::{AROUND, Net, values};

/// Elements that stand for others, and products of them.
pub(super) fn quantised() -> Model {
    let bytes = |name: &str, ty, shape: &[i64]| {
        tensor(
            name,
            ty,
            shape,
            values(shape.iter().product(), 3).iter().map(|x| (x * 60.0) as i8 as u8).collect::<Vec<_>>(),
        )
    };
    let net = Net::new(21).input("x", &[1, 2, 4, 4]).weight("s", &[]).weight("rows", &[3]);
    let net = Net(net.0.tensor(bytes("z", Type::Uint8, &[])).tensor(bytes("k", Type::Int8, &[3, 2, 3, 3])));
    let net = Net(net.0.tensor(bytes("kz", Type::Int8, &[3])).tensor(bytes("m", Type::Int8, &[4, 3])));
    let net = Net(net.0.tensor(bytes("oz", Type::Int8, &[])).weight("blocks", &[2, 3], &values(6, 1)));
    let net = net.plain("QuantizeLinear", "x s z", "q").node("ConvInteger", "q k z kz", "c", &[AROUND]);
    let net = net.plain("QLinearConv", "q s z k rows kz s z", "qc").plain("MatMulInteger", "q m z kz", "p");
    let net = net.plain("QLinearMatMul", "q s z m rows kz s oz", "qp").plain("DynamicQuantizeLinear", "x", "d ds dz");
    let net = net.node("DequantizeLinear", "m blocks", "w", &[("axis", Int(0)), ("block_size", Int(2))]);
    let net = net.plain("DequantizeLinear", "d ds dz", "e").plain("MatMul", "e w", "y").output("y", &[1, 2, 4, 3]);
    let Net(model) = net;
    let model = model.output("c", Type::Int32, &[1, 3, 4, 4]).output("qc", Type::Uint8, &[1, 3, 2, 2]);
    model.output("p", Type::Int32, &[1, 2, 4, 3]).output("qp", Type::Int8, &[1, 2, 4, 3])
}

/// A convolution with a bias of integers, a factor for each channel and means of windows, between tensors of 8 bits.
pub(super) fn grids() -> Model {
    let tensor =
        |net: Net, name: &str, ty, shape: &[i64], bytes: Vec<u8>| Net(net.0.tensor(tensor(name, ty, shape, bytes)));
    let scale = |net: Net, name: &str, values: &[f32]| {
        Net(net.0.weight(name, &[values.len() as i64][..(values.len() > 1) as usize], values))
    };
    let net = Net::new(21).input("x", &[1, 2, 6, 6]);
    let net = scale(net, "s", &[0.02]);
    let net = scale(scale(net, "ks", &[0.01, 0.02, 0.03]), "bs", &[0.001, 0.002, 0.003]);
    let net = tensor(net, "z", Type::Uint8, &[], vec![100]);
    let net = tensor(net, "k", Type::Int8, &[3, 2, 3, 3], (0..54u8).map(|at| at.wrapping_mul(37)).collect());
    let net =
        tensor(net, "b", Type::Int32, &[3], [70i32, -900, 33].iter().flat_map(|bias| bias.to_le_bytes()).collect());
    let net = net.plain("QuantizeLinear", "x s z", "q").plain("DequantizeLinear", "q s z", "d");
    let first = [("axis", Int(0))];
    let net = net.node("DequantizeLinear", "k ks", "w", &first).node("DequantizeLinear", "b bs", "c", &first);
    let net = net.conv("d w c", "y1", 1, &[AROUND]).plain("QuantizeLinear", "y1 s z", "q1");
    let window = [("kernel_shape", Ints(&[3, 3])), ("count_include_pad", Int(1)), AROUND];
    let net = Net(net.0.weight("f", &[3, 1, 1], &[0.7, -1.3, 0.9]));
    let net = net.plain("DequantizeLinear", "q1 s z", "d0").plain("Mul", "d0 f", "y0");
    let net = net.plain("QuantizeLinear", "y0 s z", "q0").plain("DequantizeLinear", "q0 s z", "d1");
    let net = net.node("AveragePool", "d1", "y2", &window);
    let net = net.plain("QuantizeLinear", "y2 s z", "q2").plain("DequantizeLinear", "q2 s z", "y");
    net.output("y", &[1, 3, 6, 6]).0
}

/// A product with weights of 4 bits.
pub(super) fn bits() -> Model {
    let bytes = |name: &str, shape: &[i64]| {
        let count = shape.iter().product::<i64>() as u8;
        tensor(name, Type::Uint8, shape, (0..count).map(|i| i.wrapping_mul(37)).collect::<Vec<_>>())
    };
    let net = Net::new(21).input("x", &[2, 17]).weight("scales", &[6]).weight("bias", &[3]);
    let model = net.0.tensor(bytes("b", &[3, 2, 8])).tensor(bytes("zeros", &[3])).domain("com.microsoft", 1);
    let attributes = [("K", Int(17)), ("N", Int(3)), ("block_size", Int(16))].map(|(name, value)| (name, value.into()));
    let inputs = ["x", "b", "scales", "zeros", "", "bias"];
    model.node_of(("com.microsoft", "MatMulNBits"), &inputs, &["y"], &attributes).output("y", Type::Float, &[2, 3])
}

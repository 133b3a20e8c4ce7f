//! Models whose groups of `DequantizeLinear`, an operator and `QuantizeLinear` are computed in integers.

use byoc_plugin_api::Attribute::{self, Int, Ints};
use byoc_tests::onnx::{Model, Type, tensor};

/// A block of convolutions, one of them of one filter a channel, pooling, a sum, a function of one element and a product.
pub(super) fn groups() -> Model {
    let mut net = Net(Model::default().opset(21).input("x", Type::Float, &[1, 4, 6, 6]));
    net.0 = net.0.weight("scale", &[], &[0.05]).tensor(tensor("zero", Type::Uint8, &[], vec![100]));
    net.0 = net.0.weight("scales", &[4], &[0.01, 0.02, 0.03, 0.04]).weight("bias", &[4], &[0.5, -0.5, 0.25, 0.0]);
    let around = ("pads", Ints(vec![1; 4]));
    let window = [("kernel_shape", Ints(vec![2; 2])), ("strides", Ints(vec![2; 2]))];
    let group = [around.clone(), ("group", Int(4))];
    net.both("x");
    net.weights("full", &[4, 4, 3, 3]).weights("each", &[4, 1, 3, 3]).weights("last", &[4, 4]);
    net.node("Conv", "x.q full.w bias", "c", &[around]).both("c");
    net.node("Conv", "c.q each.w bias", "d", &group).node("Relu", "d", "r", &[]).both("r");
    net.node("Add", "c.q r.q", "sum", &[]).both("sum");
    net.node("MaxPool", "sum.q", "pool", &window).both("pool");
    net.node("Sigmoid", "pool.q", "s", &[]).both("s");
    net.node("GlobalAveragePool", "s.q", "mean", &[]).both("mean");
    net.node("Flatten", "mean.q", "flat", &[]).both("flat");
    net.node("Gemm", "flat.q last.w bias", "y", &[("transB", Int(1))]);
    net.0.output("y", Type::Float, &[1, 4])
}

/// A product with weights of 4 bits in blocks of 32.
pub(super) fn blocks() -> Model {
    let bytes = |name: &str, shape: &[i64]| {
        let count = shape.iter().product::<i64>() as u8;
        tensor(name, Type::Uint8, shape, (0..count).map(|i| i.wrapping_mul(37)).collect::<Vec<_>>())
    };
    let model = Model::default().opset(21).input("x", Type::Float, &[2, 40]).domain("com.microsoft", 1);
    let model =
        model.weight("scales", &[6], &[0.5, 0.25, 1.0, -0.5, 0.125, 2.0]).weight("bias", &[3], &[1.0, 2.0, 3.0]);
    let model = model.tensor(bytes("b", &[3, 2, 16])).tensor(bytes("zeros", &[3]));
    let attributes = [("K", Int(40)), ("N", Int(3)), ("block_size", Int(32))];
    let inputs = ["x", "b", "scales", "zeros", "", "bias"];
    model.node_of(("com.microsoft", "MatMulNBits"), &inputs, &["y"], &attributes).output("y", Type::Float, &[2, 3])
}

/// A model under construction.
struct Net(Model);

impl Net {
    fn node(&mut self, op: &str, inputs: &str, output: &str, attributes: &[(&str, Attribute)]) -> &mut Net {
        let inputs: Vec<_> = inputs.split(' ').collect();
        self.0 = std::mem::take(&mut self.0).node_with(op, &inputs, &[output], attributes);
        self
    }

    /// Quantises a value and back: `x` becomes `x.q`.
    fn both(&mut self, x: &str) -> &mut Net {
        let bytes = format!("{x}.u8");
        self.node("QuantizeLinear", &format!("{x} scale zero"), &bytes, &[]);
        self.node("DequantizeLinear", &format!("{bytes} scale zero"), &format!("{x}.q"), &[])
    }

    /// Weights of 8 bits with a scale for each filter: `w` becomes `w.w`.
    fn weights(&mut self, name: &str, shape: &[i64]) -> &mut Net {
        let count = shape.iter().product::<i64>();
        let bytes: Vec<u8> = (0..count).map(|i| (i * 37 % 251) as u8).collect();
        self.0 = std::mem::take(&mut self.0).tensor(tensor(name, Type::Int8, shape, bytes));
        self.node("DequantizeLinear", &format!("{name} scales"), &format!("{name}.w"), &[("axis", Int(0))])
    }
}

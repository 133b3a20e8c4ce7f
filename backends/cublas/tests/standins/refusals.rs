//! What is not taken, in the words that users read.

use byoc_plugin_api::testing::RegionBuilder;
use byoc_plugin_api::{Attribute, DType};

use crate::{backend, options};

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("refusals::types", types),
    ("refusals::what_is_added", what_is_added),
    ("refusals::activations", activations),
    ("refusals::convolutions", convolutions),
    ("refusals::sizes", sizes),
    ("refusals::other_regions", other_regions),
];

#[track_caller]
fn refused(net: &RegionBuilder, settings: &[(&str, &str)], expected: &str) {
    let refusal = net.check(backend(), &options(settings)).expect_err(expected);
    assert_eq!(refusal.to_string(), expected);
}

#[track_caller]
fn taken(net: &RegionBuilder, settings: &[(&str, &str)]) {
    assert_eq!(net.check(backend(), &options(settings)), Ok(()));
}

/// `x w` of 2 x 3 and a constant of 3 x 5; the product.
fn product(dtype: DType) -> (RegionBuilder, usize) {
    let mut net = RegionBuilder::of("cublas", dtype);
    let x = net.input("[2,3]");
    let w = net.weight([3, 5]);
    let y = net.node("MatMul", &[x, w], "[2,5]", &[]);
    (net, y)
}

fn types() {
    let (net, y) = product(DType::I32);
    refused(&net.with(&[y]), &[], "type: 'x0' is i32; supported are f32, f64, f16 and bf16");
    let (mut net, y) = product(DType::F16);
    net.region.values[1].dtype = DType::F32;
    refused(&net.with(&[y]), &[], "type: 'w1' is f32, but another operand is f16");
    let (mut net, y) = product(DType::F64);
    let relu = net.node("Relu", &[y], "[2,5]", &[]);
    refused(&net.with(&[relu]), &[], "type: the product is f64, to which cublasLt applies no activation");
}

fn what_is_added() {
    let with = |shape: &str| {
        let (mut net, y) = product(DType::F32);
        let term = net.input(shape);
        let sum = net.node("Add", &[y, term], "[2,5]", &[]);
        net.with(&[sum])
    };
    taken(&with("[5]"), &[]);
    taken(&with("[2,5]"), &[]);
    refused(&with("[2,1]"), &[], "shape: 'x3' is [2,1], neither a row of the product nor of its shape [2,5]");
    refused(&with("[]"), &[], "shape: 'x3' is [], neither a row of the product nor of its shape [2,5]");
    refused(&with("[batch,5]"), &[], "shape: 'x3' is [batch,5], neither a row of the product nor of its shape [2,5]");

    let (mut net, y) = product(DType::F32);
    let sum = (0..2).fold(y, |sum, _| {
        let term = net.input("[2,5]");
        net.node("Add", &[term, sum], "[2,5]", &[])
    });
    refused(&net.with(&[sum]), &[], "other: 'x5' is one more tensor to add than a call supports");

    let (mut net, y) = product(DType::F32);
    let sum = net.node("Add", &[y, y], "[2,5]", &[]);
    refused(&net.with(&[sum]), &[], "other: 'Add_1' does not add one tensor to one product");

    let (mut net, y) = product(DType::F32);
    let term = net.weight([1, 2, 5]);
    let sum = net.node("Add", &[y, term], "[1,2,5]", &[]);
    refused(&net.with(&[sum]), &[], "shape: the product is [2,5], but the result is [1,2,5]");

    let gemm = |c: &str, attributes: &[(&str, Attribute)]| {
        let mut net = RegionBuilder::of("cublas", DType::F32);
        let operands = ["[2,3]", "[3,5]", c].map(|shape| net.input(shape));
        let y = net.node("Gemm", &operands, "[2,5]", attributes);
        net.with(&[y])
    };
    let beta = |beta: f32| [("beta", Attribute::Float(beta))];
    taken(&gemm("[1,5]", &[]), &[]);
    taken(&gemm("[2,5]", &beta(0.5)), &[]);
    taken(&gemm("[2,1]", &beta(0.0)), &[]);
    refused(&gemm("[5]", &beta(0.5)), &[], "attribute: beta is 0.5, but the vector 'x2' cannot be scaled");
    refused(&gemm("[2,1]", &[]), &[], "shape: 'x2' is [2,1], neither a row of the product nor of its shape [2,5]");
    refused(&gemm("[5]", &[("alpha", Attribute::Float(f32::INFINITY))]), &[], "attribute: alpha is inf");
}

/// `0.5 y (1 + curve(scale y))` with y a product.
fn in_pieces(curve: &str, scale: f64, half: f64) -> RegionBuilder {
    let (mut net, y) = product(DType::F32);
    let [scale, one, half] = [scale, 1.0, half].map(|number| net.number(number));
    let shape = "[2,5]";
    let scaled = net.node("Mul", &[y, scale], shape, &[]);
    let curved = net.node(curve, &[scaled], shape, &[]);
    let gate = net.node("Add", &[curved, one], shape, &[]);
    let product = net.node("Mul", &[y, gate], shape, &[]);
    let result = net.node("Mul", &[product, half], shape, &[]);
    net.with(&[result])
}

fn activations() {
    let gelu = |approximate: &str| {
        let (mut net, y) = product(DType::F32);
        let attribute = Attribute::String(approximate.into());
        let gelu = net.node("Gelu", &[y], "[2,5]", &[("approximate", attribute)]);
        net.with(&[gelu])
    };
    taken(&gelu("tanh"), &[]);
    let erf = "attribute: GELU with erf; gelu-tanh=true approximates it with tanh (up to 4e-4 off)";
    refused(&gelu("none"), &[], erf);
    taken(&gelu("none"), &[("gelu-tanh", "true")]);

    let no = "other: a product of tensors that is not GELU";
    let root = std::f64::consts::FRAC_1_SQRT_2;
    refused(&in_pieces("Erf", root, 0.5), &[], no);
    taken(&in_pieces("Erf", root, 0.5), &[("gelu-tanh", "true")]);
    refused(&in_pieces("Erf", 0.71, 0.5), &[("gelu-tanh", "true")], no);
    refused(&in_pieces("Erf", root, 0.51), &[("gelu-tanh", "true")], no);
    refused(&in_pieces("Tanh", root, 0.5), &[], no);
    // The pattern is asked for only where it may be taken.
    let names = |settings| backend().patterns(&options(settings)).expect("they are texts");
    assert!(names(&[]).iter().all(|pattern| !pattern.text.contains("Erf")));
    assert!(names(&[("gelu-tanh", "true")]).iter().any(|pattern| pattern.text.contains("Erf")));
    for pattern in names(&[("gelu-tanh", "true")]) {
        pattern.parse().expect("core reads it");
    }
}

fn convolutions() {
    let conv = |kernel: &[usize], attributes: &[(&str, Attribute)], with_bias: bool| {
        let mut net = RegionBuilder::of("cublas", DType::F16);
        let mut operands = vec![net.input("[batch,8,6,6]")];
        operands.push(net.weight([&[4, 8], kernel].concat()));
        operands.extend(with_bias.then(|| net.weight([4])));
        let y = net.node("Conv", &operands, "[batch,4,6,6]", attributes);
        net.with(&[y])
    };
    let end = "a convolution is a product only with a kernel of 1, stride 1, no padding, group 1";
    let ints = |numbers: &[i64]| Attribute::Ints(numbers.to_vec());
    taken(&conv(&[1, 1], &[], false), &[]);
    refused(&conv(&[3, 3], &[], false), &[], &format!("attribute: the kernel is [3,3]; {end}"));
    refused(&conv(&[1, 1], &[("group", Attribute::Int(2))], false), &[], &format!("attribute: group is 2; {end}"));
    refused(&conv(&[1, 1], &[("strides", ints(&[2, 2]))], false), &[], &format!("attribute: strides is [2, 2]; {end}"));
    let pads = [("pads", ints(&[0, 0, 1, 1]))];
    refused(&conv(&[1, 1], &pads, false), &[], &format!("attribute: pads is [0, 0, 1, 1]; {end}"));
    let bias = "other: the bias 'w2' goes along the channels, but cublasLt adds one along the pixels";
    refused(&conv(&[1, 1], &[], true), &[], bias);
}

fn sizes() {
    let matmul = |x: &str, w: &str, y: &str| {
        let mut net = RegionBuilder::of("cublas", DType::F32);
        let operands = [x, w].map(|shape| net.input(shape));
        let y = net.node("MatMul", &operands, y, &[]);
        net.with(&[y])
    };
    refused(&matmul("[2,0]", "[0,5]", "[2,5]"), &[], "shape: 'x0' has no elements");
    refused(&matmul("[batch,3]", "[3,0]", "[batch,0]"), &[], "shape: 'x1' has no elements");
    let many = "limit: the batch needs too many calls (5000 against a limit of 4096)";
    refused(&matmul("[5000,1,2,3]", "[1,3,3,5]", "[5000,3,2,5]"), &[], many);
    taken(&matmul("[4000,1,2,3]", "[1,3,3,5]", "[4000,3,2,5]"), &[]);
    // Queries in groups that share keys: one call, whatever the sizes.
    taken(&matmul("[batch,rows,4,8,3]", "[batch,rows,1,3,length]", "[batch,rows,4,8,length]"), &[]);
    taken(&matmul("[batch,rows,3]", "[3,5]", "[batch,rows,5]"), &[]);
    taken(&matmul("[3,1,2,3]", "[1,rows,3,5]", "[3,rows,2,5]"), &[]);
    let unknown = "shape: the number of calls for [batch,1,2,3] by [1,rows,3,5] depends on sizes not known yet";
    refused(&matmul("[batch,1,2,3]", "[1,rows,3,5]", "[batch,rows,2,5]"), &[], unknown);
}

fn other_regions() {
    let (net, y) = product(DType::F32);
    let mut net = net.with(&[y]);
    net.region.outputs.push(y);
    refused(&net, &[], "other: there is more than one result");

    let mut net = RegionBuilder::of("cublas", DType::F32);
    let x = net.input("[2,3]");
    let y = net.node("Relu", &[x], "[2,3]", &[]);
    refused(&net.with(&[y]), &[], "other: there is no product");

    let (mut net, y) = product(DType::F32);
    let softmax = net.node("Softmax", &[y], "[2,5]", &[]);
    refused(&net.with(&[softmax]), &[], "other: 'Softmax_1' (Softmax) is not a product of matrices");

    let (mut net, y) = product(DType::F32);
    net.node("Exp", &[y], "[2,5]", &[]);
    refused(&net.with(&[y]), &[], "other: 'Exp_1' is not part of a product that one call computes");
}

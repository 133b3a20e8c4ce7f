//! Products and convolutions by generated kernels, compiled and run as small models, against loops in f64: as in
//! `correctness`, with memory that begins as NaN. Refusals are tested where no GPU is needed.

use byoc_plugin_api::DType;
use fastrand::Rng;

use super::correctness::cases::{Case, activated, plain};
use super::correctness::{Kind, Settings, check};
use crate::check::Check;
use crate::fixture::PRODUCTS;
use crate::net::{Gemm, Id, Net, Op, Window};

/// The types, with options of the backend.
const TYPES: [(&str, DType, Settings); 3] =
    [("f16", DType::F16, &[]), ("bf16", DType::BF16, &[]), ("tf32", DType::F32, &[("cutlass.math", "tf32")])];

const ALL: &[Case] = &[
    plain("compiled weights", weights),
    plain("compiled transposed weights", transposed_weights),
    plain("compiled batches", batches),
    plain("compiled bias", bias),
    plain("compiled residual", residual),
    activated("compiled bias and ReLU", relu, false),
    activated("compiled bias and GELU", gelu, true),
    activated("compiled bias and GELU of erf", gelu_erf, true),
    activated("compiled bias and SiLU", silu, true),
    activated("compiled convolution", conv, false),
];

pub(super) fn checks() -> Vec<Check> {
    let kind = |case: &'static Case| {
        TYPES.map(|(name, dtype, settings)| check(name, case, Kind { backend: PRODUCTS, dtype, settings }))
    };
    ALL.iter().flat_map(kind).collect()
}

/// A size that such kernels take: a multiple of 8.
fn size(random: &mut Rng, most: usize) -> usize {
    8 * random.usize(1..=most.div_ceil(8))
}

/// A layer of `n` columns with its bias, of any number of rows; and its rows and columns.
fn layer(net: &mut Net, random: &mut Rng, most: usize) -> (Id, [usize; 2]) {
    let [m, n, k] = [random.usize(1..=most), size(random, most), size(random, most)];
    let (x, w) = (net.input(&[m, k]), net.constant(random, &[k, n], 1.0));
    let (product, b) = (net.step(Op::MatMul, &[x, w]), net.constant(random, &[n], 1.0));
    (net.step(Op::Add, &[product, b]), [m, n])
}

fn weights(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = [random.usize(1..=most), size(random, most), size(random, most)];
    let (x, w) = (net.input(&[m, k]), net.constant(random, &[k, n], 1.0));
    net.step(Op::MatMul, &[x, w]);
}

fn transposed_weights(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = [random.usize(1..=most), size(random, most), size(random, most)];
    let (x, w) = (net.input(&[m, k]), net.constant(random, &[n, k], 1.0));
    net.step(Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true }), &[x, w]);
}

fn batches(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = [size(random, most / 4), size(random, most / 4), size(random, most / 4)];
    let (x, w) = (net.input(&[2, 3, m, k]), net.input(&[2, 3, k, n]));
    net.step(Op::MatMul, &[x, w]);
}

fn bias(net: &mut Net, random: &mut Rng, most: usize) {
    layer(net, random, most);
}

fn residual(net: &mut Net, random: &mut Rng, most: usize) {
    let (sum, shape) = layer(net, random, most);
    let other = net.input(&shape);
    net.step(Op::Add, &[sum, other]);
}

fn relu(net: &mut Net, random: &mut Rng, most: usize) {
    let (sum, _) = layer(net, random, most);
    net.step(Op::Relu, &[sum]);
}

fn gelu(net: &mut Net, random: &mut Rng, most: usize) {
    let (sum, _) = layer(net, random, most);
    net.step(Op::Gelu, &[sum]);
}

fn gelu_erf(net: &mut Net, random: &mut Rng, most: usize) {
    let (sum, _) = layer(net, random, most);
    net.step(Op::GeluErf, &[sum]);
}

fn silu(net: &mut Net, random: &mut Rng, most: usize) {
    let (sum, _) = layer(net, random, most);
    let gate = net.step(Op::Sigmoid, &[sum]);
    net.step(Op::Mul, &[sum, gate]);
}

/// With a bias, a border, a stride and ReLU.
fn conv(net: &mut Net, random: &mut Rng, most: usize) {
    let [filters, channels] = [size(random, most / 4), size(random, most / 4)];
    let side = random.usize(3..=12);
    let (x, w) = (net.input(&[2, channels, side, side + 1]), net.constant(random, &[filters, channels, 3, 3], 1.0));
    let b = net.constant(random, &[filters], 1.0);
    let window = Window { pad: random.usize(0..=1), stride: random.usize(1..=2) };
    let found = net.step(Op::Conv(window), &[x, w, b]);
    net.step(Op::Relu, &[found]);
}

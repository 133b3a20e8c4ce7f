//! The kinds of products.

use fastrand::Rng;

use crate::net::{Gemm, Net, Op, Window};
use crate::random::size;

/// A kind of product.
pub(in crate::parts) struct Case {
    pub(in crate::parts) name: &'static str,
    /// Adds one to an empty net, of random sizes up to about so much.
    pub(in crate::parts) build: fn(&mut Net, &mut Rng, usize),
    /// Whether a function is applied to it: cublasLt has none for f64.
    pub(in crate::parts) has_activation: bool,
    /// Whether that is GELU.
    pub(in crate::parts) has_gelu: bool,
}

pub(in crate::parts) const fn plain(name: &'static str, build: fn(&mut Net, &mut Rng, usize)) -> Case {
    Case { name, build, has_activation: false, has_gelu: false }
}

pub(in crate::parts) const fn activated(
    name: &'static str,
    build: fn(&mut Net, &mut Rng, usize),
    has_gelu: bool,
) -> Case {
    Case { name, build, has_activation: true, has_gelu }
}

/// All kinds.
pub(in crate::parts) const ALL: &[Case] = &[
    plain("weights", weights),
    plain("single elements", single_elements),
    plain("symbolic batch", symbolic_batch),
    plain("two inputs", two_inputs),
    plain("batches", batches),
    plain("batches that broadcast", broadcast),
    plain("one matrix for a batch", one_matrix),
    plain("vectors", vectors),
    plain("transposed weights", transposed_weights),
    plain("bias", bias),
    plain("residual and bias", residual),
    plain("Gemm", gemm),
    plain("Gemm transposed", gemm_transposed),
    plain("convolution of one pixel", conv),
    activated("bias and ReLU", relu, false),
    activated("bias and GELU", gelu, true),
    activated("Gemm and ReLU", gemm_relu, false),
];

/// Few rows and long sums, where cublasLt may add up parts of them: for types that are narrower than their sums.
pub(in crate::parts) const LONG: Case = plain("few rows, long sums", long);

/// More products than a launch of kernels has in its second and third dimension.
pub(in crate::parts) const MANY: Case = plain("70000 products", many);

/// M, N and K.
fn sizes(random: &mut Rng, most: usize) -> [usize; 3] {
    [size(random, most), size(random, most), size(random, most)]
}

fn weights(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most);
    let (x, w) = (net.input(&[m, k]), net.constant(random, &[k, n], 1.0));
    net.step(Op::MatMul, &[x, w]);
}

fn long(net: &mut Net, random: &mut Rng, most: usize) {
    let ([m, n], k) = ([random.usize(1..=8), size(random, most)], 32 * most + size(random, most));
    let (x, w) = (net.input(&[m, k]), net.constant(random, &[k, n], 1.0));
    net.step(Op::MatMul, &[x, w]);
}

fn many(net: &mut Net, random: &mut Rng, _: usize) {
    let [m, n, k] = sizes(random, 4);
    let (x, w) = (net.input(&[70_000, m, k]), net.input(&[70_000, k, n]));
    net.step(Op::MatMul, &[x, w]);
}

fn single_elements(net: &mut Net, random: &mut Rng, most: usize) {
    // One or two of the three sizes are more than 1.
    let other = size(random, most).max(2);
    let [m, n, k] = [[other, 1, 1], [1, other, 1], [1, 1, other], [1, other, other]][random.usize(0..4)];
    let (x, w) = (net.input(&[m, k]), net.constant(random, &[k, n], 1.0));
    net.step(Op::MatMul, &[x, w]);
}

fn symbolic_batch(net: &mut Net, random: &mut Rng, most: usize) {
    let [_, n, k] = sizes(random, most);
    let (x, w) = (net.batch_input(&[1, k]), net.constant(random, &[k, n], 1.0));
    let (product, b) = (net.step(Op::MatMul, &[x, w]), net.constant(random, &[n], 1.0));
    net.step(Op::Add, &[product, b]);
}

fn two_inputs(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most);
    let (x, w) = (net.input(&[m, k]), net.input(&[k, n]));
    net.step(Op::MatMul, &[x, w]);
}

fn batches(net: &mut Net, random: &mut Rng, most: usize) {
    let ([m, n, k], [a, b]) = (sizes(random, most / 4), [random.usize(1..4), random.usize(2..6)]);
    let (x, w) = (net.input(&[a, b, m, k]), net.input(&[a, b, k, n]));
    net.step(Op::MatMul, &[x, w]);
}

fn broadcast(net: &mut Net, random: &mut Rng, most: usize) {
    let ([m, n, k], [a, b]) = (sizes(random, most / 4), [random.usize(2..4), random.usize(2..6)]);
    let (x, w) = (net.input(&[a, 1, m, k]), net.input(&[b, k, n]));
    net.step(Op::MatMul, &[x, w]);
}

fn one_matrix(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most / 2);
    let (x, w) = (net.batch_input(&[1, m, k]), net.constant(random, &[k, n], 1.0));
    net.step(Op::MatMul, &[x, w]);
}

fn vectors(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most);
    let (x, w) = match random.bool() {
        true => (net.input(&[k]), net.constant(random, &[k, n], 1.0)),
        false => (net.input(&[m, k]), net.constant(random, &[k], 1.0)),
    };
    net.step(Op::MatMul, &[x, w]);
}

fn transposed_weights(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most);
    let (x, w) = (net.input(&[m, k]), net.constant(random, &[n, k], 1.0));
    let turned = net.step(Op::Transpose, &[w]);
    net.step(Op::MatMul, &[x, turned]);
}

fn bias(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most);
    let (x, w) = (net.input(&[m, k]), net.constant(random, &[k, n], 1.0));
    let (product, b) = (net.step(Op::MatMul, &[x, w]), net.constant(random, &[n], 1.0));
    net.step(Op::Add, &[product, b]);
}

fn residual(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most).map(|size| size + 1);
    let (x, r, w) = (net.input(&[m, k]), net.input(&[m, n]), net.constant(random, &[k, n], 1.0));
    let (product, b) = (net.step(Op::MatMul, &[x, w]), net.constant(random, &[n], 1.0));
    let sum = net.step(Op::Add, &[product, b]);
    net.step(Op::Add, &[sum, r]);
}

/// Attributes of a Gemm, with numbers that f16 has.
fn attributes(random: &mut Rng, trans_a: bool, trans_b: bool) -> Gemm {
    let number = |random: &mut Rng| random.i8(-8..=8) as f32 / 4.0;
    Gemm { alpha: number(random), beta: number(random), trans_a, trans_b }
}

fn gemm(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most);
    let (x, w, c) = (net.input(&[m, k]), net.constant(random, &[k, n], 1.0), net.input(&[m, n]));
    let attributes = attributes(random, false, false);
    net.step(Op::Gemm(attributes), &[x, w, c]);
}

fn gemm_transposed(net: &mut Net, random: &mut Rng, most: usize) {
    let ([m, n, k], [a, b]) = (sizes(random, most), [random.bool(), random.bool()]);
    let turned = |rows: usize, columns: usize, turn: bool| if turn { [columns, rows] } else { [rows, columns] };
    let (x, w) = (net.input(&turned(m, k, a)), net.constant(random, &turned(k, n, b), 1.0));
    let attributes = Gemm { beta: 1.0, ..attributes(random, a, b) };
    let c = net.constant(random, &[n], 1.0);
    net.step(Op::Gemm(attributes), &[x, w, c]);
}

fn conv(net: &mut Net, random: &mut Rng, most: usize) {
    let ([filters, channels, _], [height, width]) =
        (sizes(random, most / 4), [size(random, most / 16), size(random, most / 16)]);
    let (x, w) =
        (net.batch_input(&[1, channels, height, width]), net.constant(random, &[filters, channels, 1, 1], 1.0));
    net.step(Op::Conv(Window::PIXEL), &[x, w]);
}

fn relu(net: &mut Net, random: &mut Rng, most: usize) {
    let [_, n, k] = sizes(random, most);
    let (x, w) = (net.batch_input(&[1, k]), net.constant(random, &[k, n], 1.0));
    let (product, b) = (net.step(Op::MatMul, &[x, w]), net.constant(random, &[n], 1.0));
    let sum = net.step(Op::Add, &[product, b]);
    net.step(Op::Relu, &[sum]);
}

fn gelu(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most);
    let (x, w) = (net.input(&[m, k]), net.constant(random, &[k, n], 1.0));
    let (product, b) = (net.step(Op::MatMul, &[x, w]), net.constant(random, &[n], 1.0));
    let sum = net.step(Op::Add, &[product, b]);
    net.step(Op::Gelu, &[sum]);
}

fn gemm_relu(net: &mut Net, random: &mut Rng, most: usize) {
    let [m, n, k] = sizes(random, most);
    let (x, w, c) = (net.input(&[m, k]), net.constant(random, &[n, k], 1.0), net.constant(random, &[n], 1.0));
    let gemm = net.step(Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true }), &[x, w, c]);
    net.step(Op::Relu, &[gemm]);
}

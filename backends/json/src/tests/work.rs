//! What steps tell of their work, for rates in profiles.

use byoc_plugin_api::testing::{self, RegionBuilder};
use byoc_plugin_api::{Attribute, DType};

use super::harness::{check, compile, empty};
use super::recurrent::both_directions;

/// Kernel, operations and bytes of each step of a run.
fn work(net: &RegionBuilder, symbols: &[(&str, usize)]) -> Vec<(String, u64, u64)> {
    let compiled = compile(net, &[]);
    let mut executable = compiled.load(1).expect("load");
    executable.time_steps(true).expect("times");
    testing::run(net, executable.as_mut(), &net.inputs(1, symbols), symbols).expect("run");
    let steps = executable.steps().expect("steps");
    steps.into_iter().map(|step| (step.kernel, step.operations, step.bytes)).collect()
}

/// The first step that is called so.
fn of(net: &RegionBuilder, kernel: &str) -> (u64, u64) {
    let steps = work(net, &[]);
    let found = steps.iter().find(|(name, ..)| name == kernel);
    let (_, operations, bytes) = found.unwrap_or_else(|| panic!("no {kernel} in {steps:?}"));
    (*operations, *bytes)
}

#[test]
fn products_are_counted_by_their_sizes() {
    let mut net = empty();
    let (x, w) = (net.input([2, 3, 8]), net.weight([8, 5]));
    let y = net.node("MatMul", &[x, w], [2, 3, 5], &[]);
    net.output(y);
    assert_eq!(of(&net, "gemm"), (2 * 6 * 5 * 8, 4 * (48 + 40 + 30)));
    let mut net = empty();
    let (x, w) = (net.input([8, 3]), net.weight([8, 16]));
    let transposed = [("transA", Attribute::Int(1))];
    let y = net.node("Gemm", &[x, w], [3, 16], &transposed[..]);
    net.output(y);
    assert_eq!(of(&net, "gemm"), (2 * 3 * 16 * 8, 4 * (24 + 128 + 48)));
}

#[test]
fn convolutions_are_counted_by_their_formula_and_whatever_the_kernel_saves() {
    let pads = [("pads", Attribute::Ints(vec![1; 4]))];
    let mut net = empty();
    let (x, w) = (net.input([1, 32, 6, 6]), net.weight([16, 32, 3, 3]));
    let y = net.node("Conv", &[x, w], [1, 16, 6, 6], &pads[..]);
    net.output(y);
    assert_eq!(of(&net, "conv"), (2 * 16 * 36 * 32 * 9, 4 * (32 * 36 + 16 * 32 * 9 + 16 * 36)));
    let mut net = empty();
    let (x, w) = (net.input([1, 16, 6, 6]), net.weight([16, 1, 3, 3]));
    let grouped = [pads[0].clone(), ("group", Attribute::Int(16))];
    let y = net.node("Conv", &[x, w], [1, 16, 6, 6], &grouped[..]);
    net.output(y);
    assert_eq!(of(&net, "conv").0, 2 * 16 * 36 * 9);
    // Each pixel adds a window.
    let mut net = empty();
    let (x, w) = (net.input([1, 4, 3, 3]), net.weight([4, 6, 2, 2]));
    let strides = [("strides", Attribute::Ints(vec![2; 2]))];
    let y = net.node("ConvTranspose", &[x, w], [1, 6, 6, 6], &strides[..]);
    net.output(y);
    assert_eq!(of(&net, "conv").0, 2 * 4 * 9 * 6 * 4);
}

#[test]
fn attention_is_two_products_of_what_is_seen() {
    for (causal, pairs) in [(0, 2 * 2 * 7 * 7), (1, 2 * 2 * 7 * 8 / 2)] {
        let mut net = empty();
        let [q, k] = [net.input([2, 2, 7, 8]), net.input([2, 2, 7, 8])];
        let v = net.input([2, 2, 7, 4]);
        let attributes = [("is_causal", Attribute::Int(causal))];
        let y = net.node("Attention", &[q, k, v], [2, 2, 7, 4], &attributes[..]);
        net.output(y);
        assert_eq!(of(&net, "attention"), (2 * pairs * (8 + 4), 4 * 28 * (8 + 8 + 4 + 4)));
    }
}

#[test]
fn recurrent_layers_are_their_two_products_at_each_step() {
    // 5 steps of 2 sequences, 2 directions of 3 gates, 3 states of 6 inputs.
    assert_eq!(of(&both_directions(), "recurrent").0, 2 * 5 * 2 * 2 * 3 * 3 * (6 + 3));
}

#[test]
fn other_steps_move_bytes_and_a_gather_only_what_it_takes() {
    let mut net = empty();
    let x = net.input([4, 8]);
    let y = net.node("Exp", &[x], [4, 8], &[]);
    let rows = net.numbers((DType::I64, [2]), &[3.0, 0.0]);
    let y = net.node("Gather", &[y, rows], [2, 8], &[]);
    net.output(y);
    let expected = [("unary", 0, 2 * 4 * 32), ("gather", 0, 2 * 4 * 16), ("copy", 0, 0)];
    assert_eq!(work(&net, &[]), expected.map(|(name, operations, bytes)| (name.to_owned(), operations, bytes)));
    // Of the shapes of the run.
    let mut net = empty();
    let x = net.input("[n,8]");
    let y = net.node("Exp", &[x], "[n,8]", &[]);
    net.output(y);
    assert_eq!(work(&net, &[("n", 3)])[0].2, 2 * 4 * 24);
}

/// What is cut out of a value along its first axis, or behind axes of one element, is read where it is: so no byte moves.
#[test]
fn cuts_that_are_runs_move_nothing() {
    let whole = [1, 4, 6, 5];
    let gathered = |index: i64, axis: i64, out: &[usize]| {
        let mut net = empty();
        let x = net.input(whole);
        let zero = net.number(0.5);
        let x = net.node("Add", &[x, zero], whole, &[]);
        let index = net.numbers((DType::I64, [0; 0]), &[index as f64]);
        let y = net.node("Gather", &[x, index], out, &[("axis", Attribute::Int(axis))][..]);
        let y = net.node("Sigmoid", &[y], out, &[]);
        net.output(y);
        check(&net, &[]);
        of(&net, "slice").1
    };
    assert_eq!(gathered(2, 1, &[1, 6, 5]), 0);
    assert_eq!(gathered(-1, 1, &[1, 6, 5]), 0);
    assert_eq!(gathered(0, 0, &[4, 6, 5]), 0);
    // Every sixth row is no run.
    assert_eq!(gathered(3, 2, &[1, 4, 5]), 2 * 4 * 20);
    let mut net = empty();
    let x = net.input(whole);
    let sizes = net.ints(&[1, 3]);
    let parts = net.nodes("Split", &[Some(x), Some(sizes)], &[[1, 1, 6, 5].into(), [1, 3, 6, 5].into()], "axis=1");
    let [y, z] = parts[..] else { panic!("two parts") };
    let product = net.node("Mul", &[z, y], [1, 3, 6, 5], &[]);
    net.output(product);
    check(&net, &[]);
    assert_eq!(of(&net, "split").1, 0);
    // What leaves the region is written there by the cut.
    let net = net.with(&[product, z]);
    check(&net, &[]);
    assert_eq!((of(&net, "split").1, of(&net, "copy").1), (2 * 4 * 120, 0));
}

/// As PyTorch writes dense blocks: each layer concatenates all tensors before it anew, and no byte of them moves.
#[test]
fn concatenations_that_begin_with_another_copy_nothing() {
    let mut net = empty();
    let x = net.input([1, 16, 6, 6]);
    let mut parts = vec![net.conv(x, 32, 3, 1, 1)];
    for layer in 1..5 {
        let channels = 16 + 16 * layer;
        let shape = [1, channels, 6, 6];
        let all = if layer == 1 { parts[0] } else { net.node("Concat", &parts, shape, "axis=1") };
        let norm = net.norm(all);
        let relu = net.node("Relu", &[norm], shape, &[]);
        parts.push(net.conv(relu, 16, 3, 1, 1));
    }
    let all = net.node("Concat", &parts, [1, 96, 6, 6], "axis=1");
    let last = net.conv(all, 16, 1, 1, 1);
    net.output(last);
    check(&net, &[]);
    let steps = work(&net, &[]);
    let concatenations: Vec<_> = steps.iter().filter(|(kernel, ..)| kernel == "concat").collect();
    assert_eq!(concatenations.len(), 4);
    assert!(concatenations.iter().all(|(_, _, bytes)| *bytes == 0), "{steps:?}");
}

/// A cut of a part of a concatenation, and a concatenation of cuts: each is somewhere else than it would like to be.
#[test]
fn cuts_and_concatenations_of_each_other_agree() {
    let mut net = empty();
    let (x, y) = (net.input([2, 3]), net.input([4, 3]));
    let half = net.number(0.5);
    let x = net.node("Add", &[x, half], [2, 3], &[]);
    let all = net.node("Concat", &[x, y], [6, 3], "axis=0");
    let cut = |net: &mut RegionBuilder, of: usize, [start, end]: [i64; 2], shape: [usize; 2]| {
        let (start, end) = (net.ints(&[start]), net.ints(&[end]));
        net.node("Slice", &[of, start, end], shape, &[])
    };
    let first = cut(&mut net, all, [1, 4], [3, 3]);
    let inner = cut(&mut net, first, [-2, 9], [2, 3]);
    let relu = net.node("Neg", &[inner], [2, 3], &[]);
    let again = net.node("Concat", &[first, relu, inner], [7, 3], "axis=0");
    let last = net.node("Neg", &[again], [7, 3], &[]);
    [last, inner, all].into_iter().for_each(|value| net.output(value));
    check(&net, &[]);
}

//! Networks on matrix units, which are emulated where there are none.

use byoc_plugin_api::testing::{self, Limit, RegionBuilder, Tensor, assert_close};

use super::harness::{compile, empty, json};
use crate::kernels::Isa;

/// The output of a run on two threads, and the kernels of its steps.
fn run(net: &RegionBuilder, settings: &[(&str, &str)]) -> (Vec<f64>, Vec<String>) {
    let compiled = compile(net, settings);
    let mut executable = compiled.load(2).expect("load");
    executable.time_steps(true).expect("times");
    let outputs = testing::run(net, executable.as_mut(), &net.inputs(1, &[]), &[]).expect("run");
    let kernels = executable.steps().expect("steps").into_iter().map(|step| step.kernel).collect();
    (outputs[0].numbers(), kernels)
}

/// `rows` rows through a layer.
fn layer(rows: usize) -> RegionBuilder {
    let mut net = empty();
    let (x, w) = (net.input([rows, 96]), net.weight([96, 64]));
    let y = net.node("MatMul", &[x, w], [rows, 64], &[]);
    net.output(y);
    net
}

/// Convolutions of 3x3, of 3x3 with stride 2 and of 1x1 with stride 2.
fn images() -> RegionBuilder {
    let mut net = empty();
    let x = net.input([1, 32, 12, 12]);
    let y = net.conv(x, 48, 3, 1, 1);
    let y = net.conv(y, 32, 3, 2, 1);
    let y = net.conv(y, 32, 1, 2, 1);
    net.output(y);
    net
}

#[test]
fn steps_say_how_they_were_computed() {
    if !Isa::Avx512.is_available() {
        return;
    }
    let kernels = |net: &RegionBuilder, settings: &[(&str, &str)]| {
        let (_, kernels) = run(net, settings);
        kernels
            .into_iter()
            .filter(|kernel| kernel.starts_with("gemm") || kernel.starts_with("conv"))
            .collect::<Vec<_>>()
    };
    assert_eq!(kernels(&layer(32), &[]), ["gemm"]);
    assert_eq!(kernels(&layer(32), &[("math", "bf16x6")]), ["gemm bf16x6"]);
    // Few rows are a matter of the bytes of the weights.
    assert_eq!(kernels(&layer(31), &[("math", "bf16x6")]), ["gemm"]);
    assert_eq!(kernels(&layer(15), &[("math", "bf16")]), ["gemm"]);
    assert_eq!(kernels(&images(), &[("math", "bf16x3")]), ["conv bf16x3"; 3]);
}

#[test]
fn each_way_is_as_exact_as_it_says() {
    for (name, net) in [("layer", layer(40)), ("images", images())] {
        let (exact, _) = run(&net.in_f64(), &[("kernels", "reference")]);
        for (math, error) in [("bf16x6", 1e-6), ("bf16x3", 1e-5), ("bf16", 1e-2)] {
            let (found, _) = run(&net, &[("math", math)]);
            assert_close(&format!("{name}, {math}"), &found, &exact, Limit::of_largest(error, &exact));
        }
    }
}

/// Weights of bf16 are one piece: three products are as exact as six.
#[test]
fn weights_in_16_bits_are_exact_themselves() {
    let net = layer(40);
    let (plain, _) = run(&net, &[("weights", "bf16")]);
    let (found, _) = run(&net, &[("weights", "bf16"), ("math", "bf16x6")]);
    assert_close("bf16x6 of bf16", &found, &plain, Limit::of_largest(1e-6, &plain));
}

/// What the compiler computes once is exact, and what is not packed would not be computed there.
#[test]
fn what_it_is_not_for() {
    let mut net = empty();
    let (a, b) = (net.weight([48, 48]), net.weight([48, 32]));
    let y = net.node("MatMul", &[a, b], [48, 32], &[]);
    net.output(y);
    let results = |settings: &[(&str, &str)]| {
        let compiled = compile(&net, settings);
        let mut executable = compiled.load(1).expect("load");
        testing::run(&net, executable.as_mut(), &[], &[]).expect("run").iter().map(Tensor::numbers).collect::<Vec<_>>()
    };
    assert_eq!(results(&[("math", "bf16")]), results(&[]));
    let error = layer(40).compile(json(), &[("math", "bf16"), ("pack", "false")]).err().expect("an error");
    assert_eq!(error.message, "the options math and pack=false exclude each other");
}

//! Filters of 8 bits.

use byoc_plugin_api::DType;
use byoc_plugin_api::testing::{self, Limit, RegionBuilder, Tensor, assert_close};

use super::harness::{calls, compile, empty};
use crate::kernels::Threads;

const ROUNDED: [(&str, &str); 1] = [("weights", "int8")];

/// A window of 3x3 with a norm and an activation, one of one pixel with a residual, and one with a stride.
fn net(dtype: DType) -> RegionBuilder {
    let mut net = RegionBuilder::of("json", dtype);
    let x = net.input([2, 20, 9, 9]);
    let y = net.conv(x, 40, 3, 1, 1);
    let y = net.norm(y);
    let kept = net.like("Relu", &[y], "");
    let y = net.conv(kept, 40, 1, 1, 1);
    let y = net.like("Add", &[y, kept], "");
    let y = net.like("Sigmoid", &[y], "");
    let y = net.conv(y, 33, 3, 2, 1);
    net.output(y);
    net
}

/// The results on so many threads, and the kernels of the steps.
fn results(net: &RegionBuilder, settings: &[(&str, &str)], threads: usize) -> (Vec<f64>, Vec<String>) {
    let compiled = compile(net, settings);
    let mut executable = compiled.load(threads).expect("load");
    executable.time_steps(true).expect("times");
    let outputs = testing::run(net, executable.as_mut(), &net.inputs(1, &[]), &[]).expect("run");
    let kernels = executable.steps().expect("steps").into_iter().map(|step| step.kernel).collect();
    (outputs[0].numbers(), kernels)
}

/// A quarter of the bytes, results that are near, and the same on any number of threads.
#[test]
fn filters_are_rounded_with_a_scale_each() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let net = net(dtype);
        let compiled = compile(&net, &ROUNDED);
        let packed = compiled.claims.packed().into_iter().filter(|(packed, _)| packed.dtype == DType::I8);
        let sizes: Vec<_> = packed.map(|(packed, bytes)| (packed.layout.as_str(), bytes.len())).collect();
        // As many bytes as weights, and 8 for each of whole panels of filters.
        let expected = [20 * 9 * 40 + 8 * 40, 40 * 40 + 8 * 40, 40 * 9 * 40 + 8 * 40];
        assert_eq!(sizes, expected.map(|bytes| ("conv/n8k4-scaled/1", bytes)));
        let (found, kernels) = results(&net, &ROUNDED, 1);
        // Sums of 360 elements are by matrix units, where there are any, and those of 40 never.
        let long = if Threads::new(1).has_amx() { "conv int8 amx" } else { "conv int8" };
        let convolutions: Vec<_> = kernels.iter().filter(|kernel| kernel.starts_with("conv ")).collect();
        assert_eq!(convolutions, [long, "conv int8", long]);
        assert_eq!(found, results(&net, &ROUNDED, 3).0);
        let (exact, _) = results(&net, &[], 1);
        assert_ne!(found, exact);
        assert_close(&format!("{dtype}"), &found, &exact, Limit::of_largest(2e-2, &exact));
    }
}

/// A filter for each channel, a few channels of an image, groups, and filters that are computed stay as they are.
#[test]
fn other_filters_are_not_rounded() {
    for (channels, filters, group) in [(32, 32, 32), (3, 16, 1), (32, 32, 2)] {
        let mut net = empty();
        let x = net.input([1, channels, 8, 8]);
        let y = net.conv(x, filters, 3, 1, group);
        net.output(y);
        assert_eq!(results(&net, &ROUNDED, 1), results(&net, &[], 1), "{channels} {filters} {group}");
    }
    let mut net = empty();
    let (x, w) = (net.input([1, 16, 8, 8]), net.input([16, 16, 1, 1]));
    let y = net.node("Conv", &[x, w], [1, 16, 8, 8], &[]);
    net.output(y);
    assert_eq!(results(&net, &ROUNDED, 1), results(&net, &[], 1));
}

/// Filters whose products could overflow before they are scaled, as they are or by what is folded in, keep their type.
#[test]
fn filters_that_have_no_scale() {
    for (weight, scale, expected) in
        [(1.0, 1.0, DType::I8), (2e30, 1.0, DType::F32), (f64::NAN, 1.0, DType::F32), (1e20, 1e20, DType::F32)]
    {
        let mut net = empty();
        let x = net.input([1, 16, 4, 4]);
        let mut numbers = vec![0.5; 16 * 16];
        numbers[77] = weight;
        let w = net.numbers([16, 16, 1, 1], &numbers);
        let y = net.node("Conv", &[x, w], [1, 16, 4, 4], &[]);
        let [factor, zeros, ones] = [scale, 0.0, 1.0].map(|value| net.numbers([16], &[value; 16]));
        let y = net.like("BatchNormalization", &[y, factor, zeros, zeros, ones], "");
        net.output(y);
        let compiled = compile(&net, &ROUNDED);
        assert_eq!(compiled.claims.packed()[0].0.dtype, expected, "{weight} by {scale}");
    }
}

/// Factors of channels are multiplied into filters of f32 at the run; those of 8 bits stay, and the image gets the factors.
#[test]
fn filters_behind_factors_are_rounded() {
    let mut net = empty();
    let (x, factors) = (net.input([1, 24, 8, 8]), net.input([1, 24, 1, 1]));
    let scaled = net.node("Mul", &[x, factors], [1, 24, 8, 8], &[]);
    let y = net.conv(scaled, 16, 1, 1, 1);
    net.output(y);
    assert!(calls(&net).iter().any(|call| call == "scale_filters"));
    let (found, kernels) = results(&net, &ROUNDED, 1);
    assert_eq!(kernels, ["binary", "to_blocked", "conv int8", "from_blocked", "copy"]);
    let (exact, _) = results(&net, &[], 1);
    assert_close("scaled", &found, &exact, Limit::of_largest(2e-2, &exact));
}

/// A number that is not finite leaves no number of its image, and all of the others.
#[test]
fn an_image_that_is_not_finite() {
    let net = net(DType::F32);
    let compiled = compile(&net, &ROUNDED);
    let plain = net.inputs(1, &[]);
    let mut numbers = plain[0].numbers();
    numbers[20 * 81 + 5] = f64::INFINITY;
    let inputs = [Tensor::new([2, 20, 9, 9], &numbers)];
    let [found, expected] = [&inputs[..], &plain].map(|inputs| compiled.run(inputs, &[]).expect("run")[0].numbers());
    let (first, second) = found.split_at(found.len() / 2);
    assert_eq!(first, &expected[..first.len()]);
    assert!(second.iter().all(|number| number.is_nan()));
}

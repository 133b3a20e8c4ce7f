//! Filters of 16 bits: those of the model, and those that the user asks for.

use byoc_plugin_api::testing::{self, Limit, RegionBuilder, Tensor, assert_close};
use byoc_plugin_api::{DType, Packed};

use super::harness::{calls, compile, empty};

const NARROW: [DType; 2] = [DType::F16, DType::BF16];

fn results(net: &RegionBuilder, inputs: &[Tensor], settings: &[(&str, &str)], threads: usize) -> Vec<f64> {
    let compiled = compile(net, settings);
    let mut executable = compiled.load(threads).expect("load");
    testing::run(net, executable.as_mut(), inputs, &[]).expect("run")[0].numbers()
}

/// The type and the elements of what is packed and has more bytes than a list for each channel.
fn packed(net: &RegionBuilder, settings: &[(&str, &str)]) -> Vec<(DType, usize)> {
    let compiled = compile(net, settings);
    let elements = |(packed, bytes): (&Packed, &[u8])| (packed.dtype, bytes.len() / packed.dtype.unpacked_bytes());
    compiled.claims.packed().into_iter().map(elements).filter(|(_, elements)| *elements > 512).collect()
}

/// Windows of 3x3 and of one pixel, with a residual; a first layer and filters for each channel, which stay.
fn net(dtype: DType) -> RegionBuilder {
    let mut net = RegionBuilder::of("json", dtype);
    let x = net.input([1, 3, 14, 14]);
    let y = net.conv(x, 40, 3, 1, 1);
    let kept = net.like("Relu", &[y], "");
    let y = net.conv(kept, 40, 3, 1, 40);
    let y = net.conv(y, 40, 1, 1, 1);
    let y = net.like("Add", &[y, kept], "");
    let y = net.conv(y, 40, 3, 1, 1);
    net.output(y);
    net
}

/// As if the model had the rounded ones, and half of the bytes.
#[test]
fn filters_are_rounded_where_the_user_says_so() {
    for dtype in NARROW {
        let net = net(DType::F32);
        let name = dtype.to_string();
        let settings = [("weights", name.as_str())];
        let (first, pixel, window) = (40 * 27, 40 * 40, 9 * 40 * 40);
        let stored = packed(&net, &settings);
        assert!([(dtype, pixel + 8), (dtype, window + 8), (DType::F32, 48 * 27)].iter().all(|it| stored.contains(it)));
        assert!(!stored.contains(&(dtype, first)), "{stored:?}");
        let mut rounded = net.clone();
        for filters in [4, 6] {
            assert_eq!(net.constants[filters].shape()[0], 40);
            rounded.refill(filters, net.constants[filters].cast(dtype).cast(DType::F32));
        }
        let inputs = net.inputs(1, &[]);
        for threads in [1, 2] {
            let found = results(&net, &inputs, &settings, threads);
            assert_eq!(found, results(&rounded, &inputs, &[], threads), "{dtype}");
            assert_ne!(found, results(&net, &inputs, &[], threads), "{dtype}");
        }
    }
}

/// What is folded in is rounded with the filters where the user asks for it; a model's own filters are multiplied by factors.
#[test]
fn normalisations_are_folded_or_factors() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let mut net = RegionBuilder::of("json", dtype);
        let x = net.input([1, 32, 6, 6]);
        let y = net.conv(x, 48, 3, 1, 1);
        let y = net.norm(y);
        net.output(y);
        let inputs = net.inputs(1, &[]);
        let exact = results(&net.in_f64(), &[inputs[0].cast(DType::F64)], &[("kernels", "reference")], 1);
        for weights in ["model", "f16", "bf16"] {
            let stored = packed(&net, &[("weights", weights)]);
            let expected =
                if dtype == DType::F32 && weights != "model" { DType::from_name(weights) } else { Some(dtype) };
            assert_eq!(stored, [(expected.expect("a type"), 9 * 32 * 48)], "{dtype} {weights}");
            let found = results(&net, &inputs, &[("weights", weights)], 2);
            // The output is of the model's type.
            let error = match (dtype, weights) {
                (DType::F32, "model") => 1e-6,
                (DType::F32 | DType::F16, "model" | "f16") | (DType::F16, _) => 2f64.powi(-11),
                _ => 2f64.powi(-8),
            };
            assert_close(&format!("{dtype} {weights}"), &found, &exact, Limit::of_largest(1.01 * error, &exact));
        }
    }
}

/// Filters that two convolutions share stand in the file once, whatever follows each.
#[test]
fn shared_filters_with_two_normalisations() {
    let mut net = RegionBuilder::of("json", DType::F16);
    let (x, w) = (net.input([1, 32, 6, 6]), net.weight([48, 32, 1, 1]));
    let sides = [0, 1].map(|_| {
        let y = net.node("Conv", &[x, w], [1, 48, 6, 6], &[]);
        net.norm(y)
    });
    let y = net.like("Add", &sides, "");
    net.output(y);
    assert_eq!(packed(&net, &[]), [(DType::F16, 32 * 48)]);
    let inputs = net.inputs(1, &[]);
    let exact = results(&net.in_f64(), &[inputs[0].cast(DType::F64)], &[("kernels", "reference")], 1);
    assert_close("shared", &results(&net, &inputs, &[], 2), &exact, Limit::of_largest(2f64.powi(-11), &exact));
}

/// Factors for input channels are multiplied into filters of either type; with a normalisation behind, they are stored as f32.
#[test]
fn filters_behind_factors() {
    for normalised in [false, true] {
        let mut net = RegionBuilder::of("json", DType::F16);
        let (x, factors) = (net.input([1, 40, 8, 8]), net.input([1, 40, 1, 1]));
        let scaled = net.node("Mul", &[x, factors], [1, 40, 8, 8], &[]);
        let mut y = net.conv(scaled, 24, 1, 1, 1);
        if normalised {
            y = net.norm(y);
        }
        net.output(y);
        assert!(calls(&net).iter().any(|call| call == "scale_filters"));
        assert_eq!(packed(&net, &[]), [(if normalised { DType::F32 } else { DType::F16 }, 40 * 24 + 8)]);
        let inputs = net.inputs(1, &[]);
        let wide: Vec<Tensor> = inputs.iter().map(|input| input.cast(DType::F64)).collect();
        let exact = results(&net.in_f64(), &wide, &[("kernels", "reference")], 1);
        let found = results(&net, &inputs, &[], 2);
        assert_close(&format!("normalised {normalised}"), &found, &exact, Limit::of_largest(2f64.powi(-11), &exact));
    }
}

/// A finite number, as it is or by what is folded in, that the type does not have leaves filters as they are.
#[test]
fn filters_that_would_become_infinite() {
    for (weight, scale, expected) in [
        (65504.0, 1.0, DType::F16),
        (65536.0, 1.0, DType::F32),
        (f64::INFINITY, 1.0, DType::F16),
        (1000.0, 66.0, DType::F32),
    ] {
        let mut net = empty();
        let x = net.input([1, 32, 4, 4]);
        let mut numbers = vec![0.5; 32 * 32];
        numbers[77] = -weight;
        let w = net.numbers([32, 32, 1, 1], &numbers);
        let y = net.node("Conv", &[x, w], [1, 32, 4, 4], &[]);
        let [factor, zeros, ones] = [scale, 0.0, 1.0].map(|value| net.numbers([32], &[value; 32]));
        let y = net.like("BatchNormalization", &[y, factor, zeros, zeros, ones], "");
        net.output(y);
        assert_eq!(packed(&net, &[("weights", "f16")]), [(expected, 32 * 32)], "{weight} by {scale}");
    }
}

//! What cannot be quantised is refused, and what only looks like it is not.

use crate::kmodel::arguments::Kernel;
use crate::quantize::{Activation, FloatConv, Quantization, Weights, conv};

const WEIGHTS: [f32; 4] = [0.5, -0.25, 0.0, 0.125];

/// Two channels of two weights.
fn float(weights: &[f32]) -> FloatConv<'_> {
    FloatConv {
        weights: Weights::Real(weights),
        bias: vec![0.0, 1.0],
        scale: None,
        output_channels: 2,
        input_channels: 2,
        kernel: Kernel::One,
        depthwise: false,
    }
}

fn unit_range() -> Quantization {
    Quantization::of(-1.0, 1.0)
}

#[track_caller]
fn refused(float: &FloatConv<'_>, output: Quantization, activation: Activation, message: &str, hint: Option<&str>) {
    let error = conv(float, unit_range(), output, activation).expect_err("it cannot be quantised");
    assert_eq!((error.message.as_str(), error.hint.as_deref()), (message, hint));
}

#[test]
fn bad_layers() {
    let linear = Activation::Linear;
    refused(&float(&WEIGHTS[1..]), unit_range(), linear, "a convolution of 2 channels has 3 weights, not 4", None);
    let lacking = FloatConv { bias: vec![0.0], ..float(&WEIGHTS) };
    refused(&lacking, unit_range(), linear, "a convolution of 2 channels has 1 biases, not 2", None);
    let lacking = FloatConv { scale: Some(vec![]), ..float(&WEIGHTS) };
    refused(&lacking, unit_range(), linear, "a convolution of 2 channels has 0 factors, not 2", None);
    let hint = Some("repair the model: no range holds such a number");
    let message = "output channel 1: a weight, the bias or the factor is not finite";
    refused(&float(&[0.0, 0.0, f32::NAN, 0.0]), unit_range(), linear, message, hint);
    let infinite = FloatConv { bias: vec![0.0, f32::INFINITY], ..float(&WEIGHTS) };
    refused(&infinite, unit_range(), linear, message, hint);
    let falling = Activation::LeakyRelu { slope: -0.5 };
    refused(&float(&WEIGHTS), unit_range(), falling, "LeakyRelu { slope: -0.5 } is not a rising function", None);
}

/// A bias as large as the sums has no room where the output's steps are tiny against it.
#[test]
fn sums_without_room() {
    let large = FloatConv { bias: vec![0.0, 1e14], ..float(&[0.5, -0.25, 1e14, -1e14]) };
    let message =
        "output channel 1: its sums are too large for the observed range of the output, -0.9960785 to 1.0039216";
    let hint = Some("calibrate with data like those that the model is for");
    refused(&large, unit_range(), Activation::Linear, message, hint);
}

/// A bias that leaves no input anything to say makes a constant, and spoils no other channel.
#[test]
fn constant_channels() {
    for (bias, expected) in [(1e30, 255), (-1e30, 0)] {
        let far = FloatConv { bias: vec![0.25, bias], ..float(&WEIGHTS) };
        let quantized = conv(&far, unit_range(), unit_range(), Activation::Linear).expect("it fits");
        let near = conv(&float(&WEIGHTS), unit_range(), unit_range(), Activation::Linear).expect("it fits");
        assert_eq!((quantized.unit, &quantized.weights[..2]), (near.unit, &near.weights[..2]));
        assert_eq!((&quantized.weights[2..], quantized.batch_norm[1].mul), (&[128, 128][..], 0));
        let v = i64::from(quantized.batch_norm[1].add);
        let segment = quantized.activation.iter().rev().find(|segment| v > segment.start).expect("the first one");
        assert_eq!((segment.mul, segment.bias), (0, expected));
    }
}

/// Weights too small to be told from 0, and none but zeros.
#[test]
fn small_channels() {
    let small = float(&[1e-38, -1e-38, 0.0, 0.0]);
    let quantized = conv(&small, unit_range(), unit_range(), Activation::Linear).expect("it fits");
    assert_eq!(quantized.weights, [128; 4]);
    assert_eq!(quantized.batch_norm[1].mul, 0);
    let dead = Quantization::of(0.0, 0.0);
    assert_eq!(dead, Quantization { scale: 1.0, zero_point: 0 });
    assert!(conv(&float(&WEIGHTS), unit_range(), dead, Activation::Relu).is_ok());
    assert!(conv(&float(&WEIGHTS), dead, unit_range(), Activation::Sigmoid).is_ok());
}

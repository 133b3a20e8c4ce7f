//! What regions become, layer by layer.

use byoc_plugin_api::Attribute;

use super::build::Build;
use super::{compile, ratios};
use crate::kmodel::{Kmodel, Operation};
use crate::trailer::Trailer;

/// The layers of a compiled region, in few words.
fn layers(build: &mut Build, settings: &[(&str, &str)]) -> Vec<String> {
    for ratio in ratios(build, settings) {
        assert!(ratio > 25.0, "{ratio:.1} dB");
    }
    let code = compile(build, settings).expect("it compiles");
    let kmodel = Kmodel::parse(Trailer::split(&code).expect("code").0).expect("a kmodel");
    let text = |operation: &Operation| match operation {
        Operation::Conv(conv) => {
            let arguments = &conv.arguments;
            let kind = if arguments.depthwise { "depthwise" } else { "conv" };
            let size = arguments.kernel.size();
            format!("{kind} {size}x{size} {:?} {} loads", arguments.pooling, arguments.loads)
        }
        other => other.name().to_owned(),
    };
    kmodel.layers.iter().map(|layer| text(&layer.operation)).collect()
}

#[test]
fn what_follows_a_convolution_is_one_layer_with_it() {
    let mut build = Build::new(&[1, 3, 16, 16], 1);
    let x = build.conv(0, 8, 3, 1, false);
    let x = build.norm(x);
    let x = build.function("Relu", x, &[]);
    let x = build.pool("MaxPool", x, 2);
    let x = build.conv(x, 4, 1, 1, false);
    let x = build.clip(x, 0.0, 6.0);
    let x = build.pool("AveragePool", x, 2);
    build.output(x);
    assert_eq!(layers(&mut build, &[]), ["conv 3x3 Max2 1 loads", "conv 1x1 Mean2 1 loads", "DEQUANTIZE"]);
}

#[test]
fn a_residual_block_adds_in_main_memory_and_goes_back() {
    let mut build = Build::new(&[1, 3, 8, 8], 2);
    let x = build.conv(0, 4, 3, 1, false);
    let y = build.conv(x, 4, 3, 1, false);
    let sum = build.add(x, y);
    let sum = build.function("Relu", sum, &[]);
    let x = build.conv(sum, 4, 3, 2, false);
    build.output(x);
    let expected =
        ["conv 3x3 None 1 loads", "conv 3x3 None 1 loads", "QUANTIZED_ADD", "K210_UPLOAD", "conv 3x3 LeftTop2 1 loads"];
    assert_eq!(layers(&mut build, &[])[..5], expected);
}

#[test]
fn a_1x1_convolution_skips_the_pixels_of_a_depthwise_stride() {
    let mut build = Build::new(&[1, 3, 16, 16], 3);
    let x = build.conv(0, 4, 3, 1, false);
    let x = build.conv(x, 4, 3, 2, true);
    let x = build.function("Relu", x, &[]);
    let y = build.conv(x, 6, 1, 1, false);
    build.output(y);
    let expected = ["conv 3x3 None 1 loads", "depthwise 3x3 None 1 loads", "conv 1x1 LeftTop2 1 loads", "DEQUANTIZE"];
    assert_eq!(layers(&mut build, &[]), expected);
    // Anybody else has a layer of the CPU skip them.
    build.region.outputs.clear();
    let y = build.conv(x, 6, 3, 1, false);
    build.output(y);
    let found = layers(&mut build, &[]);
    let resize = ["QUANTIZED_RESIZE_NEAREST_NEIGHBOR", "K210_UPLOAD", "conv 3x3 None 1 loads"];
    assert!(found.windows(3).any(|window| window == resize), "{found:?}");
}

#[test]
fn too_many_weight_loads_are_split_over_output_channels() {
    // 3 channels of 3x3x1024 weights a load, 64 loads a layer: 192 channels, then the other 8.
    let mut build = Build::new(&[1, 1024, 4, 4], 4);
    let x = build.conv(0, 200, 3, 1, false);
    build.output(x);
    let found = layers(&mut build, &[]);
    assert_eq!(found, ["conv 3x3 None 64 loads", "conv 3x3 None 3 loads", "DEQUANTIZE"]);
}

#[test]
fn fully_connected_layers_run_on_the_accelerator_or_in_floats() {
    let mut build = Build::new(&[1, 3, 8, 8], 5);
    let x = build.conv(0, 4, 3, 1, false);
    let x = build.function("LeakyRelu", x, &[("alpha", Attribute::Float(0.125))]);
    let y = build.head(x, 10);
    build.output(y);
    let tail = ["SOFTMAX"];
    let bytes = ["QUANTIZE", "K210_ADD_PADDING", "conv 1x1 None 1 loads", "K210_REMOVE_PADDING", "DEQUANTIZE"];
    let start = ["conv 3x3 None 1 loads", "DEQUANTIZE", "GLOBAL_AVERAGE_POOL2D"];
    assert_eq!(layers(&mut build, &[]), [&start[..], &bytes, &tail].concat());
    assert_eq!(layers(&mut build, &[("float-dense", "true")]), [&start[..], &["FULLY_CONNECTED"], &tail].concat());
}

#[test]
fn several_outputs_and_swish() {
    let mut build = Build::new(&[1, 1, 8, 8], 6);
    let x = build.conv(0, 4, 3, 1, false);
    let gate = build.function("Sigmoid", x, &[]);
    let shape = build.sizes(x);
    let y = build.node("Mul", &[x, gate], &[], &shape);
    let z = build.pool("MaxPool", y, 2);
    build.output(y);
    build.output(z);
    let expected = ["conv 3x3 None 1 loads", "REQUANTIZE", "QUANTIZED_MAX_POOL2D", "DEQUANTIZE", "DEQUANTIZE"];
    assert_eq!(layers(&mut build, &[]), expected);
}

#[test]
fn every_method_compiles_and_says_what_it_loses() {
    for method in ["minmax", "no_clip", "percentile", "cdf", "l2", "kl"] {
        let mut build = Build::new(&[1, 3, 16, 16], 7);
        let x = build.conv(0, 8, 3, 1, false);
        let x = build.function("Relu", x, &[]);
        let x = build.conv(x, 8, 3, 1, false);
        build.output(x);
        let ratio = ratios(&mut build, &[("calibrate-method", method)])[0];
        assert!(ratio > 10.0, "{method}: {ratio:.1} dB");
        let code = compile(&build, &[("calibrate-method", method)]).expect("it compiles");
        let notes = Trailer::split(&code).expect("code").1.expect("a trailer").notes;
        let worse = notes.iter().filter(|note| note.starts_with(&format!("calibrate-method {method} keeps "))).count();
        assert_eq!(worse, notes.len(), "{notes:?}");
        assert!(method != "minmax" || notes.is_empty(), "{notes:?}");
    }
}

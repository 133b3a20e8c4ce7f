//! What regions become, layer by layer.

use byoc_plugin_api::Attribute;
use byoc_plugin_api::testing::{Tensor, options};

use super::build::Build;
use super::{compile, ratios};
use crate::KendryteBackend;
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
    let x = build.like("Relu", &[x], "");
    let x = build.pool("MaxPool", x, 2);
    let x = build.conv(x, 4, 1, 1, false);
    let x = build.clip(x, 0.0, 6.0);
    let x = build.pool("AveragePool", x, 2);
    build.output(x);
    assert_eq!(layers(&mut build, &[]), ["conv 3x3 Max2 1 loads", "conv 1x1 Mean2 1 loads", "DEQUANTIZE"]);
}

/// The accelerator makes no maps of less than 4x4: what would be smaller is made of larger ones by the CPU.
#[test]
fn maps_of_three_columns_come_from_the_cpu() {
    let mut build = Build::new(&[1, 3, 8, 6], 1);
    let x = build.conv(0, 4, 3, 1, false);
    let x = build.pool("MaxPool", x, 2);
    build.output(x);
    let taken = ["conv 3x3 None 1 loads", "QUANTIZED_MAX_POOL2D", "DEQUANTIZE"];
    assert_eq!(layers(&mut build, &[]), taken);
    let mut build = Build::new(&[1, 3, 8, 6], 1);
    let x = build.conv(0, 4, 3, 2, false);
    build.output(x);
    assert_eq!(layers(&mut build, &[]), taken);
    let mut build = Build::new(&[1, 3, 8, 8], 1);
    let x = build.conv(0, 4, 3, 2, false);
    build.output(x);
    assert_eq!(layers(&mut build, &[]), ["conv 3x3 LeftTop2 1 loads", "DEQUANTIZE"]);
}

#[test]
fn a_residual_block_adds_in_main_memory_and_goes_back() {
    let mut build = Build::new(&[1, 3, 8, 8], 2);
    let x = build.conv(0, 4, 3, 1, false);
    let y = build.conv(x, 4, 3, 1, false);
    let sum = build.add(x, y);
    let sum = build.like("Relu", &[sum], "");
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
    let x = build.like("Relu", &[x], "");
    let y = build.conv(x, 6, 1, 1, false);
    build.output(y);
    let expected = ["conv 3x3 None 1 loads", "depthwise 3x3 None 1 loads", "conv 1x1 LeftTop2 1 loads", "DEQUANTIZE"];
    assert_eq!(layers(&mut build, &[]), expected);
    // For other readers a layer of the CPU skips them.
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
    let x = build.like("LeakyRelu", &[x], &[("alpha", Attribute::Float(0.125))]);
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
    let gate = build.like("Sigmoid", &[x], "");
    let y = build.like("Mul", &[x, gate], "");
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
        let x = build.like("Relu", &[x], "");
        let x = build.conv(x, 8, 3, 1, false);
        build.output(x);
        let ratio = ratios(&mut build, &[("calibrate-method", method)])[0];
        assert!(ratio > 10.0, "{method}: {ratio:.1} dB");
        let settings = [("calibrate-method", method)];
        let notes = build.compile(&KendryteBackend, &settings).expect("it compiles").notes;
        let worse = notes.iter().filter(|note| note.starts_with(&format!("calibrate-method {method} keeps "))).count();
        assert_eq!(worse, notes.len(), "{notes:?}");
        assert!(method != "minmax" || notes.is_empty(), "{notes:?}");
    }
}

/// Every image of the same elements is another one to the layers that have rows and columns.
#[test]
fn layers_read_reshaped_values_in_their_new_shape() {
    let stride = |stride: i64| ("strides", Attribute::Ints(vec![stride; 2]));
    for depthwise in [false, true] {
        let mut build = Build::new(&[1, 3, 16, 32], 8);
        let x = build.conv(0, 4, 3, 1, false);
        let x = if depthwise { build.conv(x, 4, 3, 2, true) } else { build.conv(x, 4, 3, 2, false) };
        let shape = [1, 8, 4, 16];
        let x = build.reshape(x, &shape);
        let kernel = ("kernel_shape", Attribute::Ints(vec![3, 3]));
        let asymmetric = Attribute::String("asymmetric".into());
        let nearest =
            [("coordinate_transformation_mode", asymmetric), ("nearest_mode", Attribute::String("floor".into()))];
        let outputs = [
            build.node("MaxPool", &[x], [1, 8, 2, 14], &[kernel.clone(), stride(1)]),
            build.node("AveragePool", &[x], [1, 8, 2, 14], &[kernel, stride(1)]),
            build.node("GlobalAveragePool", &[x], [1, 8, 1, 1], ""),
            build.resize(x, &[1, 8, 8, 32], &nearest),
            build.conv(x, 4, 1, 1, false),
            build.conv(x, 4, 3, 1, false),
        ];
        outputs.into_iter().for_each(|output| build.output(output));
        for (index, ratio) in ratios(&mut build, &[]).into_iter().enumerate() {
            assert!(ratio > 25.0, "output {index}: {ratio:.1} dB, depthwise {depthwise}");
        }
    }
}

#[test]
fn a_sum_is_clipped_where_its_function_clips() {
    // (limits, whether the ends of the sum's bytes do it)
    let cases = [
        ((Some(0.0), None), true),
        ((Some(-0.25), Some(0.5)), true),
        ((None, Some(0.25)), true),
        ((Some(0.25), None), false),
        ((Some(0.125), Some(0.5)), false),
        ((None, Some(-0.125)), false),
    ];
    for ((min, max), fused) in cases {
        let mut build = Build::new(&[1, 3, 8, 8], 9);
        let x = build.conv(0, 4, 3, 1, false);
        let y = build.conv(x, 4, 1, 1, false);
        let sum = build.add(x, y);
        let clipped = build.clip_some(sum, min, max);
        build.output(clipped);
        let found = layers(&mut build, &[]);
        assert_eq!(!found.contains(&"REQUANTIZE".into()), fused, "{min:?} to {max:?}: {found:?}");
    }
}

#[test]
fn a_clipped_sum_is_joined_with_values_beyond_its_limits() {
    let mut build = Build::new(&[1, 3, 8, 8], 10);
    let x = build.conv(0, 4, 3, 1, false);
    let y = build.conv(x, 4, 3, 1, false);
    let sum = build.add(x, y);
    let sum = build.like("Relu", &[sum], "");
    let sum = build.node("MaxPool", &[sum], [1, 4, 8, 8], "kernel_shape=[1,1]");
    let z = build.conv(x, 4, 3, 1, false);
    let all = build.concat(z, sum);
    build.output(all);
    assert_eq!(requantized(&mut build), 1);
}

fn requantized(build: &mut Build) -> usize {
    layers(build, &[]).iter().filter(|layer| *layer == "REQUANTIZE").count()
}

/// What has one reader gets the scale of the whole at once; others would lose by that.
#[test]
fn parts_that_others_read_keep_their_scale() {
    let start = || {
        let mut build = Build::new(&[1, 3, 8, 8], 13);
        let x = build.conv(0, 4, 3, 1, false);
        let (y, big) = (build.conv(x, 4, 3, 1, false), build.conv(x, 4, 3, 1, false));
        // A range that is greater by far.
        let last = build.constants.len() - 2;
        let larger: Vec<_> = build.constants[last].numbers().iter().map(|weight| weight * 1e4).collect();
        let sizes = build.constants[last].sizes();
        build.refill(last, Tensor::new(sizes, &larger));
        (build, y, big)
    };
    let (mut build, y, big) = start();
    let y = build.reshape(y, &[1, 2, 16, 8]);
    let y = build.reshape(y, &[1, 4, 8, 8]);
    let all = build.concat(y, big);
    build.output(all);
    assert_eq!(requantized(&mut build), 0);
    let (mut build, y, big) = start();
    let all = build.concat(y, big);
    let mean = build.node("GlobalAveragePool", &[y], [1, 4, 1, 1], "");
    build.output(all);
    build.output(mean);
    assert_eq!(requantized(&mut build), 1);
    let (mut build, y, big) = start();
    let most = build.node("MaxPool", &[y], [1, 4, 8, 8], "kernel_shape=[1,1]");
    let all = build.concat(most, big);
    build.output(all);
    build.output(y);
    assert_eq!(requantized(&mut build), 1);
}

#[test]
fn limits_that_stand_for_none_are_none() {
    for (min, max) in [(Some(0.1), None), (None, Some(0.4)), (Some(0.1), Some(f32::MAX)), (Some(f32::MIN), Some(0.4))] {
        let mut build = Build::new(&[1, 3, 8, 8], 11);
        let x = build.conv(0, 4, 3, 1, false);
        let x = build.clip_some(x, min, max);
        let x = build.conv(x, 4, 1, 1, false);
        let x = build.like("Tanh", &[x], "");
        let x = build.clip_some(x, min, max);
        build.output(x);
        layers(&mut build, &[]);
    }
}

#[test]
fn a_softmax_of_large_negative_numbers_has_a_result() {
    let mut build = Build::new(&[1, 3, 8, 8], 12);
    let x = build.conv(0, 4, 3, 1, false);
    let x = build.node("GlobalAveragePool", &[x], [1, 4, 1, 1], "");
    let x = build.reshape(x, &[1, 4]);
    let weights = build.weight([3, 4]);
    let bias = build.numbers([3], &[-300.0, -301.0, -300.5]);
    let x = build.node("Gemm", &[x, weights, bias], [1, 3], "transB=1");
    let logits = build.reshape(x, &[1, 3, 1, 1]);
    let y = build.like("Softmax", &[logits], "axis=1");
    build.output(y);
    assert!(ratios(&mut build, &[])[0] > 5.0);
    let notes = |settings| build.compile(&KendryteBackend, settings).expect("it compiles").notes;
    assert_eq!(notes(&[]), [""; 0]);
    // As floats they stay what they are.
    assert_eq!(notes(&[("float-dense", "true")]).len(), 1);
}

#[test]
fn numbers_become_bytes_and_are_clipped_at_once() {
    let mut build = Build::new(&[1, 3, 8, 8], 14);
    let x = build.conv(0, 4, 3, 1, false);
    let mean = build.node("GlobalAveragePool", &[x], [1, 4, 1, 1], "");
    let clipped = build.clip_some(mean, None, Some(0.125));
    build.output(clipped);
    assert_eq!(layers(&mut build, &[])[1..], ["DEQUANTIZE", "GLOBAL_AVERAGE_POOL2D", "QUANTIZE", "DEQUANTIZE"]);
}

/// The modes differ in name and, for these sizes, not in the pixels.
#[test]
fn a_resize_is_taken_where_the_pixels_are_the_same() {
    let taken = |coordinates: &str, nearest: &str, rows: usize| {
        let mut build = Build::new(&[1, 1, 8, 8], 9);
        let x = build.conv(0, 4, 3, 1, false);
        let text = |text: &str| Attribute::String(text.into());
        let modes = [("coordinate_transformation_mode", text(coordinates)), ("nearest_mode", text(nearest))];
        let y = build.resize(x, &[1, 4, rows, 16], &modes);
        build.output(y);
        // The plain computation takes whole factors, rounded down.
        let check = build.check(&KendryteBackend, &options(&KendryteBackend, &[]));
        check.map(|()| assert!(ratios(&mut build, &[])[0] > 25.0)).map_err(|refusal| refusal.to_string())
    };
    let other = Err("other: the SDKs pick other pixels for these sizes and modes".to_owned());
    assert_eq!(taken("asymmetric", "floor", 16), Ok(()));
    assert_eq!(taken("half_pixel", "round_prefer_floor", 16), Ok(()));
    assert_eq!(taken("pytorch_half_pixel", "round_prefer_ceil", 16), Ok(()));
    assert_eq!(taken("asymmetric", "ceil", 16), other);
    assert_eq!(taken("align_corners", "round_prefer_floor", 16), Ok(()));
    assert_eq!(taken("align_corners", "floor", 16), other);
    assert_eq!(taken("half_pixel", "round_prefer_floor", 4), Ok(()));
    assert_eq!(taken("half_pixel", "round_prefer_ceil", 4), other);
}

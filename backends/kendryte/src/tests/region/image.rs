//! Mean and deviation in front of the first convolution, in the model or told by options: the bytes are pixels.

use byoc_plugin_api::Observed;
use byoc_plugin_api::testing::{Tensor, options, run};

use super::build::Build;
use super::{compile, ratio, ratios};
use crate::KendryteBackend;
use crate::kmodel::{Kmodel, Operation};
use crate::runtime;
use crate::trailer::Trailer;

const MEAN: [f64; 3] = [0.5, 0.25, 0.375];
const STD: [f64; 3] = [0.25, 0.5, 0.125];

/// A convolution of an image, behind what normalises it where the model has that.
fn network(normalised: bool, kernel: usize) -> Build {
    let mut build = Build::new(&[1, 3, 8, 8], 3);
    let weights = build.weight([4, 3, kernel, kernel]);
    let bias = build.drawn([4], -0.5..0.5);
    let mut x = 0;
    if normalised {
        let (mean, std) = (build.numbers([1, 3, 1, 1], &MEAN), build.numbers([3, 1, 1], &STD));
        x = build.like("Sub", &[x, mean], "");
        x = build.like("Div", &[x, std], "");
    }
    let pad = kernel / 2;
    let attributes = format!("pads=[{pad},{pad},{pad},{pad}]");
    let y = build.node("Conv", &[x, weights, bias], [1, 4, 8, 8], attributes.as_str());
    build.output(y);
    build
}

/// What an image of pixels is by mean and deviation.
fn normalised(pixels: &Tensor) -> Tensor {
    let numbers = pixels.numbers();
    let plane = numbers.len() / 3;
    let number = |(at, x): (usize, &f64)| (x - MEAN[at / plane]) / STD[at / plane];
    Tensor::new([1, 3, 8, 8], &numbers.iter().enumerate().map(number).collect::<Vec<_>>())
}

/// Notes that a value goes from `min` to `max`.
fn observe(build: &mut Build, value: usize, (min, max): (f32, f32)) {
    build.region.observed.retain(|observed| observed.value != value);
    build.region.observed.push(Observed { value, min, max, histogram: vec![1; 16] });
}

/// The kmodel of some code, and its trailer.
fn split(code: &[u8]) -> (Vec<u8>, Trailer) {
    let (file, trailer) = Trailer::split(code).expect("code");
    (file.to_vec(), trailer.expect("a trailer"))
}

const BY_CHANNEL: [(&str, &str); 2] = [("input-mean", "0.5,0.25,0.375"), ("input-std", "0.25, 0.5, 0.125")];

/// The same kmodel, whether the model normalises or the host.
#[test]
fn mean_and_deviation_of_each_channel_go_into_the_first_convolution() {
    for kernel in [1, 3] {
        let mut inside = network(true, kernel);
        inside.observe(4);
        observe(&mut inside, 0, (0.0, 1.0));
        let output = inside.region.outputs[0];
        let range = inside.region.observed(output).map(|seen| (seen.min, seen.max)).expect("observed");
        let mut outside = network(false, kernel);
        observe(&mut outside, 0, (-3.0, 5.0));
        let last = outside.region.outputs[0];
        observe(&mut outside, last, range);
        let (first, own) = split(&compile(&inside, &[]).expect("it compiles"));
        let code = compile(&outside, &BY_CHANNEL).expect("it compiles");
        let (second, trailer) = split(&code);
        assert_eq!(first, second);
        assert_eq!((own.input.scale, own.input.zero_point), (Some(1.0 / 255.0), 0));
        assert_eq!(trailer.input.scale, None);
        let pixels = inside.sample(1);
        let mut bytes = Vec::new();
        let floats: Vec<f32> = normalised(&pixels).numbers().iter().map(|&x| x as f32).collect();
        trailer.input.bytes(&floats, &mut bytes);
        assert_eq!(bytes, pixels.numbers().iter().map(|pixel| (pixel * 255.0).round() as u8).collect::<Vec<_>>());
        let mut executable = runtime::load(&code, 1).expect("the code can run");
        let found = run(&outside, executable.as_mut(), &[normalised(&pixels)], &[]).expect("it runs");
        let mut executable = runtime::load(&compile(&inside, &[]).expect("it compiles"), 1).expect("the code can run");
        let expected = run(&inside, executable.as_mut(), &[pixels], &[]).expect("it runs");
        assert_eq!(found[0].numbers(), expected[0].numbers());
    }
}

#[test]
fn what_normalises_in_the_model_computes_what_it_says() {
    let found = ratios(&mut network(true, 1), &[])[0];
    assert!(found > 35.0, "{found:.1} dB");
    // With a border that is grey in place of 0 it is exact inside of it only.
    let mut build = network(true, 3);
    build.observe(4);
    let code = compile(&build, &[]).expect("it compiles");
    let input = build.sample(1);
    let mut executable = runtime::load(&code, 1).expect("the code can run");
    let found = run(&build, executable.as_mut(), std::slice::from_ref(&input), &[]).expect("it runs");
    let json = byoc_plugin_api::testing::backend("json");
    let exact = build.exact(json, &[("kernels", "reference")], &[input], &[]);
    let inside = |all: &[f64]| -> Vec<f64> {
        let is_inside = |at: usize| (1..7).contains(&(at % 8)) && (1..7).contains(&(at / 8 % 8));
        all.iter().enumerate().filter(|(at, _)| is_inside(*at)).map(|(_, x)| *x).collect()
    };
    let found = ratio(&inside(&exact[0]), &inside(&found[0].numbers()));
    assert!(found > 35.0, "{found:.1} dB");
}

/// The byte outside the image is the mean grey, and how far off it is is told.
#[test]
fn a_border_that_is_not_0_is_a_note() {
    let mut build = network(true, 3);
    build.observe(4);
    observe(&mut build, 0, (0.0, 1.0));
    let notes = build.compile(&KendryteBackend, &[]).expect("it compiles").notes;
    let expected = "mean and deviation are part of 'Conv_2', whose border is pixels of 96 in all channels: they stand for up to 0.494 \
                    where the model has 0";
    assert_eq!(notes, [expected]);
    let (file, _) = split(&compile(&build, &[]).expect("it compiles"));
    let kmodel = Kmodel::parse(&file).expect("a kmodel");
    let Operation::Conv(conv) = &kmodel.layers[0].operation else { panic!("no convolution") };
    // 255 * (0.5 + 0.25 + 0.375) / 3 is 95.6.
    assert_eq!((conv.arguments.pad_value, conv.arguments.arg_w), (96, 0));
    let mut build = network(true, 1);
    build.observe(4);
    let notes = build.compile(&KendryteBackend, &[]).expect("it compiles").notes;
    assert!(notes.is_empty(), "{notes:?}");
}

/// With one mean for all whose zero is a byte, the scale is that of pixels, whatever was seen of them.
#[test]
fn samples_need_not_have_black_and_white() {
    let mut build = network(false, 3);
    build.observe(4);
    observe(&mut build, 0, (-0.25, 1.25));
    let settings = [("input-mean", "0.2"), ("input-std", "0.5")];
    let (_, trailer) = split(&compile(&build, &settings).expect("it compiles"));
    let scale = trailer.input.scale.expect("one for all");
    assert!((scale - 2.0 / 255.0).abs() < 1e-8 && trailer.input.zero_point == 51, "{:?}", trailer.input);
    // 0.5 is between two bytes.
    observe(&mut build, 0, (-0.5, 0.75));
    let settings = [("input-mean", "0.5"), ("input-std", "0.5")];
    let (_, trailer) = split(&compile(&build, &settings).expect("it compiles"));
    assert_eq!((trailer.input.scale, trailer.input.channels.len()), (None, 3));
    let mut bytes = Vec::new();
    trailer.input.bytes(&[-1.0, 1.0, 0.25], &mut bytes);
    assert_eq!(bytes, [0, 255, 159]);
}

#[test]
fn means_that_do_not_fit_are_refused_for_a_whole_model() {
    let cases = [
        ([("input-mean", "0.5,0.5"), ("input-std", "1")], "option 'input-mean' has 2 numbers, 'x0' has 3 channels"),
        (
            [("input-mean", "0.5;0.5"), ("input-std", "1")],
            "option 'input-mean' takes numbers with commas between, not '0.5;0.5'",
        ),
        ([("input-mean", "0.5"), ("input-std", "0")], "option 'input-std' takes positive numbers"),
        (
            [("input-mean", "0.5"), ("input-std", "0.5")],
            "'x0' goes from 0 to 2.5 in the data set, but with input-mean and input-std pixels go from -1.0000 to 1.0000",
        ),
    ];
    for (settings, expected) in cases {
        let mut build = network(false, 3);
        build.observe(4);
        observe(&mut build, 0, (0.0, 2.5));
        build.region.covers_entry = true;
        assert_eq!(compile(&build, &settings).expect_err("it does not fit").message, expected);
    }
    // A part of a model has another input than the model.
    let mut build = network(false, 3);
    build.observe(4);
    observe(&mut build, 0, (0.0, 2.5));
    let (_, trailer) = split(&compile(&build, &cases[3].0).expect("it compiles"));
    assert_eq!(trailer.input.scale, Some(2.5 / 255.0));
}

#[test]
fn constants_elsewhere_are_refused() {
    let refusal = |build: &Build| {
        build.check(&KendryteBackend, &options(&KendryteBackend, &[])).expect_err("it is refused").to_string()
    };
    let image = || Build::new(&[1, 3, 8, 8], 4);
    let mut build = image();
    let mean = build.numbers([1, 3, 1, 1], &MEAN);
    let y = build.like("Sub", &[0, mean], "");
    build.output(y);
    assert_eq!(refusal(&build), "other: Sub with a constant is taken in front of the first convolution only");
    let mut build = image();
    let x = build.conv(0, 3, 1, 1, false);
    let mean = build.numbers([1, 3, 1, 1], &MEAN);
    let y = build.like("Mul", &[x, mean], "");
    let y = build.conv(y, 3, 1, 1, false);
    build.output(y);
    assert_eq!(refusal(&build), "other: Mul with a constant is taken in front of the first convolution only");
    let mut build = image();
    let numbers = build.numbers([8], &[1.0; 8]);
    let x = build.like("Sub", &[0, numbers], "");
    let y = build.conv(x, 3, 1, 1, false);
    build.output(y);
    assert_eq!(refusal(&build), "shape: 'w1' is [8], only a number for each channel has code");
    let mut build = image();
    let zero = build.number(0.0);
    let x = build.like("Div", &[0, zero], "");
    let y = build.conv(x, 3, 1, 1, false);
    build.output(y);
    assert_eq!(refusal(&build), "attribute: a factor that is 0 or not finite");
}

/// A damaged trailer whose channels do not fit the input is an error, not a panic.
#[test]
fn channels_that_do_not_fit_are_an_error() {
    let mut build = network(false, 3);
    build.observe(4);
    observe(&mut build, 0, (-3.0, 5.0));
    let code = compile(&build, &BY_CHANNEL).expect("it compiles");
    let (file, trailer) = split(&code);
    for count in [0, 2, 400] {
        let mut damaged = trailer.clone();
        damaged.input.channels = vec![trailer.input.channels[0]; count];
        let mut code = file.clone();
        damaged.append(&mut code).expect("a trailer");
        let error = runtime::load(&code, 1).err().expect("an error").message;
        assert_eq!(error, format!("damaged code: its trailer has scales for {count} channels, the image has 3"));
    }
}

//! What is refused, and why.

use byoc_plugin_api::testing::{Type, options};
use byoc_plugin_api::{Attribute, DType, Dim};

use super::build::Build;
use super::compile;
use crate::KendryteBackend;

fn refusal(build: &Build) -> String {
    let refusal = build.check(&KendryteBackend, &options(&KendryteBackend, &[])).expect_err("it is refused");
    refusal.to_string()
}

/// A convolution: the sizes of its input, of its weights and of its output, and its attributes.
fn conv(text: &str) -> Build {
    let mut words = text.splitn(4, ' ').chain([""]);
    let mut next = || words.next().expect("three shapes");
    let (input, weights, output, attributes) = (next(), next(), next(), next());
    let mut build = Build::new(&Type::from(input).sizes(), 1);
    let weights = build.weight(weights);
    let y = build.node("Conv", &[0, weights], output, attributes);
    build.output(y);
    build
}

/// A convolution that is taken.
const TAKEN: &str = "[1,3,8,8] [4,3,3,3] [1,4,8,8] pads=[1,1,1,1]";

/// Convolutions, and why they are refused.
fn check_refusals(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(refusal(&conv(text)), *expected);
    }
}

#[test]
fn kernels_and_pads_that_the_accelerator_has_not() {
    check_refusals(&[
        ("[1,3,8,8] [4,3,5,5] [1,4,8,8] pads=[2,2,2,2]", "shape: a kernel of 5x5, only 1x1 and 3x3 have code"),
        ("[1,3,8] [4,3,3] [1,4,6]", "shape: 'x0' is [1, 3, 8], an image of rank 4 is needed"),
        (
            "[1,3,8,8] [4,3,3,3] [1,4,9,9] pads=[1,1,2,2]",
            "attribute: pads [1, 1, 2, 2], a kernel of 3x3 has at most 1 on each side",
        ),
        (
            "[1,3,8,8] [4,3,1,1] [1,4,9,9] pads=[0,0,1,1]",
            "attribute: pads [0, 0, 1, 1], a kernel of 1x1 has at most 0 on each side",
        ),
        (
            "[1,3,8,8] [4,3,3,3] [1,4,8,8] auto_pad=SAME_UPPER",
            "shape: 'Conv_0' has auto_pad SAME_UPPER, and its padding is not known yet",
        ),
    ]);
}

#[test]
fn strides_dilations_and_groups_that_the_accelerator_has_not() {
    check_refusals(&[
        (
            "[1,3,8,8] [4,3,3,3] [1,4,6,6] pads=[1,1,1,1] dilations=[2,2]",
            "attribute: dilations [2, 2], only 1 has code",
        ),
        (
            "[1,4,8,8] [4,2,3,3] [1,4,8,8] pads=[1,1,1,1] group=2",
            "attribute: group 2 with 4 channels in and 4 out, only 1 and depthwise have code",
        ),
    ]);
}

#[test]
fn sizes_beyond_the_limits() {
    check_refusals(&[
        ("[2,3,8,8] [4,3,3,3] [2,4,8,8] pads=[1,1,1,1]", "limit: 'x0' has a batch of 2 (2 against a limit of 1)"),
        (
            "[1,3,2,8] [4,3,3,3] [1,4,2,8] pads=[1,1,1,1]",
            "limit: rows of the convolution's input (2 against a limit of 4)",
        ),
        (
            "[1,3,8,3] [4,3,3,3] [1,4,8,3] pads=[1,1,1,1]",
            "limit: columns of the convolution's input (3 against a limit of 4)",
        ),
        (
            "[1,3,3,8] [4,3,3,3] [1,4,3,8] pads=[1,1,1,1]",
            "limit: rows of the convolution's input (3 against a limit of 4)",
        ),
        (
            "[1,1,8,513] [1,1,3,3] [1,1,8,513] pads=[1,1,1,1]",
            "limit: columns of the convolution's input (513 against a limit of 512)",
        ),
        (
            "[1,1,257,8] [1,1,3,3] [1,1,257,8] pads=[1,1,1,1]",
            "limit: rows of the convolution's input (257 against a limit of 256)",
        ),
        (
            "[1,1,8,8] [1025,1,1,1] [1,1025,8,8]",
            "limit: channels of the convolution's output (1025 against a limit of 1024)",
        ),
        (
            "[1,1025,8,8] [1,1025,1,1] [1,1,8,8]",
            "limit: channels of the convolution's input (1025 against a limit of 1024)",
        ),
        (
            "[1,64,128,256] [64,64,3,3] [1,64,128,256] pads=[1,1,1,1]",
            "limit: rows of KPU RAM for maps that are needed at the same time (65536 against a limit of 32768)",
        ),
    ]);
}

/// The last sizes that are taken.
#[test]
fn sizes_at_the_limits() {
    for text in [
        "[1,3,4,4] [4,3,3,3] [1,4,4,4] pads=[1,1,1,1]",
        "[1,1,8,512] [1,1,3,3] [1,1,8,512] pads=[1,1,1,1]",
        "[1,1,256,8] [1,1,3,3] [1,1,256,8] pads=[1,1,1,1]",
        "[1,1024,4,4] [1024,1024,1,1] [1,1024,4,4]",
    ] {
        let taken = conv(text).check(&KendryteBackend, &options(&KendryteBackend, &[]));
        assert_eq!(taken, Ok(()), "{text}");
    }
}

#[test]
fn sizes_must_be_known() {
    let mut build = conv(TAKEN);
    build.region.values[0].shape[0] = Dim::Symbolic("batch".into());
    assert_eq!(refusal(&build), "shape: 'x0' is [batch,3,8,8]: every size must be fixed by --shape or --dim");
}

#[test]
fn other_types_are_not_quantised() {
    let mut build = conv(TAKEN);
    build.region.values[0].dtype = DType::F64;
    assert_eq!(refusal(&build), "type: 'x0' is f64, only f32 is quantised");
    let mut build = conv(TAKEN);
    build.region.values[1].dtype = DType::F16;
    assert_eq!(refusal(&build), "type: 'w1' is f16, only f32 is quantised");
}

#[test]
fn other_layers_that_have_no_code() {
    let mut cases: Vec<(Build, &str)> = Vec::new();
    let image = || Build::new(&[1, 4, 8, 8], 1);
    let mut build = image();
    let w = build.weight([1, 4, 1, 1]);
    let y = build.add(0, w);
    build.output(y);
    cases.push((build, "shape: 'w1' is a constant, only computed tensors are added"));
    let mut build = image();
    let y = build.like("LeakyRelu", &[0], "alpha=-0.5");
    build.output(y);
    cases.push((build, "attribute: a slope of -0.5, only rising functions have code"));
    let mut build = image();
    let y = build.like("HardSigmoid", &[0], &[("beta", Attribute::Float(f32::INFINITY))]);
    build.output(y);
    let rising = "attribute: HardSigmoid { alpha: 0.2, beta: inf }, only rising functions have code";
    cases.push((build, rising));
    let mut build = image();
    let y = build.like("Softmax", &[0], "");
    build.output(y);
    cases.push((build, "shape: softmax over axis -1 of [1, 4, 8, 8], only one vector is taken"));
    let mut build = image();
    let y = build.resize(0, &[1, 4, 16, 16], "mode=linear");
    build.output(y);
    cases.push((build, "attribute: mode 'linear', only 'nearest' has code"));
    let mut build = image();
    let attributes = "kernel_shape=[2,2] count_include_pad=1 pads=[1,1,0,0]";
    let y = build.node("AveragePool", &[0], [1, 4, 8, 8], attributes);
    build.output(y);
    cases.push((build, "attribute: count_include_pad 1 has no code"));
    let mut build = image();
    let attributes = "kernel_shape=[2,2] pads=[0,0,2,2]";
    let y = build.node("AveragePool", &[0], [1, 4, 9, 9], attributes);
    build.output(y);
    cases.push((build, "attribute: pads as large as the kernel"));
    for (build, expected) in cases {
        assert_eq!(refusal(&build), expected);
    }
}

#[test]
fn without_observations_there_is_no_code() {
    let build = conv(TAKEN);
    let error = compile(&build, &[]).expect_err("nothing was observed");
    assert_eq!(error.message, "the range of 'x0' is not known: the model has no scale for it");
    assert_eq!(error.hint.as_deref(), Some("Give samples of the model's inputs with --dataset"));
}

#[test]
fn a_part_of_a_model_is_refused_where_the_whole_is_asked_for() {
    let mut build = conv(TAKEN);
    build.observe(1);
    let whole = [("require-whole-model", "true")];
    let error = compile(&build, &whole).expect_err("it is a part");
    assert_eq!(error.message, "the region is not the whole model, and require-whole-model is set");
    build.region.covers_entry = true;
    compile(&build, &whole).expect("it is the whole");
}

//! What a quantised model may have that the chip cannot hold.

use byoc_plugin_api::DType;

use super::{Build, Form, form};

/// A layer, each part of which can be something else.
struct Parts {
    input: Form,
    input_attributes: &'static str,
    weights: Form,
    weight_attributes: &'static str,
    bias: Form,
    output: Form,
}

fn parts() -> Parts {
    Parts {
        input: form(DType::U8, 0.01, 0.0),
        input_attributes: "axis=1",
        weights: form(DType::I8, 0.01, 0.0),
        weight_attributes: "axis=0",
        bias: form(DType::I32, 0.0001, 0.0),
        output: form(DType::U8, 0.05, 100.0),
    }
}

impl Parts {
    fn build(&self) -> Build {
        let mut build = Build::new(10);
        let q = build.net.input((self.input.dtype, [1, 4, 8, 8]));
        let x = build.dequantize(q, &self.input, self.input_attributes);
        let filters = build.weights(&[4, 4, 1, 1], &self.weights, self.weight_attributes);
        let bias = build.weights(&[4], &self.bias, "axis=0");
        let y = build.net.node("Conv", &[x, filters, bias], [1, 4, 8, 8], "");
        let q = build.quantize(y, &self.output);
        build.net.output(q);
        build
    }
}

#[test]
fn what_the_chip_cannot_hold_is_refused_by_name() {
    let four =
        |dtype, scales: [f64; 4], zeros: [f64; 4]| Form { dtype, scales: scales.to_vec(), zeros: zeros.to_vec() };
    let cases = [
        (Parts { output: form(DType::U16, 0.05, 0.0), ..parts() }, "type: 'y15' is u16, only u8 and i8 have code"),
        (Parts { input: form(DType::I16, 0.05, 0.0), ..parts() }, "type: 'x0' is i16, only u8 and i8 have code"),
        (
            Parts { input: four(DType::U8, [0.01; 4], [0.0; 4]), ..parts() },
            "attribute: 'x0' has 4 scales along axis 1, only one for all of it has code",
        ),
        (
            Parts { input_attributes: "axis=1 block_size=2", ..parts() },
            "attribute: 'x0' has a scale for each block of 2 elements along axis 1, only one for all of it has code",
        ),
        (
            Parts { input: form(DType::U8, 0.0, 0.0), ..parts() },
            "attribute: 'x0' has the scale 0, only normal positive numbers have code",
        ),
        (Parts { weights: form(DType::I16, 0.01, 0.0), ..parts() }, "type: 'w4' is i16, only i8 and u8 have code"),
        (
            Parts { weights: four(DType::I8, [0.01; 4], [0.0, 0.0, 5.0, 0.0]), ..parts() },
            "attribute: 'w4' has the zero points 0 and, for output channel 2, 5: a layer has one",
        ),
        (
            Parts { weights: four(DType::I8, [0.01, 0.01, -0.5, 0.01], [0.0; 4]), ..parts() },
            "attribute: 'w4' has the scale -0.5, only normal positive numbers have code",
        ),
        (
            Parts { weights: four(DType::I8, [0.01; 4], [0.0; 4]), weight_attributes: "axis=1", ..parts() },
            "attribute: 'w4' has 4 scales along axis 1, only one for all or one for each output channel has code",
        ),
        (
            Parts {
                weights: four(DType::I8, [0.01; 4], [0.0; 4]),
                weight_attributes: "axis=1 block_size=4",
                ..parts()
            },
            "attribute: 'w4' has a scale for each block of 4 elements along axis 1, only one for all or one for each output \
             channel has code",
        ),
        (Parts { bias: form(DType::I16, 0.01, 0.0), ..parts() }, "type: 'w8' is i16, only i32 and i8 and u8 have code"),
    ];
    for (parts, expected) in cases {
        assert_eq!(parts.build().refusal(), expected);
    }
    assert!(parts().build().code().is_ok());
}

/// What only the numbers tell: the sums of a layer against the levels of its output.
#[test]
fn sums_that_have_no_room_name_the_layer() {
    let cases = [
        (
            Parts { output: form(DType::U8, 1e-9, 100.0), ..parts() },
            "output channel 2: a unit of its sums is 1e5 steps of the output: 24 bits and a shift of 15",
        ),
        (
            Parts { output: form(DType::U8, 2e-14, 100.0), bias: form(DType::I32, 1e-20, 0.0), ..parts() },
            "output channel 0: its sums are too large for the range of the output, -0.000000000002 to 0.0000000000030999999: 36 bits",
        ),
        (
            Parts { output: form(DType::U8, 1e-20, 100.0), ..parts() },
            "output channel 1: a unit of its sums is 1e16 steps of the output: 24 bits and a shift of 15",
        ),
    ];
    for (parts, expected) in cases {
        let error = parts.build().code().expect_err("it has no room");
        assert_eq!((error.message.as_str(), error.node.as_deref()), (expected, Some("Conv_3")));
        assert_eq!(error.hint.as_deref(), Some("quantise the model with other scales there"));
    }
}

/// Zero points of more channels than `check` sees.
#[test]
fn zero_points_of_many_channels_are_looked_at_when_there_is_code() {
    let mut build = Build::new(11);
    let q = build.net.input("u8[1,2,8,8]");
    let x = build.dequantize(q, &form(DType::U8, 0.01, 0.0), "axis=1");
    let mut zeros = vec![0.0; 300];
    zeros[299] = -1.0;
    let weights = build.weights(&[300, 2, 1, 1], &Form { dtype: DType::I8, scales: vec![0.01; 300], zeros }, "axis=0");
    let y = build.net.node("Conv", &[x, weights], [1, 300, 8, 8], "");
    let q = build.quantize(y, &form(DType::U8, 0.05, 100.0));
    build.net.output(q);
    let error = build.code().expect_err("a layer has one");
    let expected = "attribute: 'w4' has the zero points 0 and, for output channel 299, -1: a layer has one";
    assert_eq!((error.message.as_str(), error.node.as_deref()), (expected, Some("Conv_2")));
}

/// Behind a convolution: a value with two scales, integers read with another scale than they were made with, and a constant
/// where only computed tensors are taken.
#[test]
fn scales_that_contradict_each_other_are_refused() {
    let begin = || {
        let mut build = Build::new(12);
        let x = build.net.input([1, 2, 8, 8]);
        let y = build.conv(x, 4, 1, false, &form(DType::I8, 0.01, 0.0));
        (build, y)
    };
    let (levels, other) = (form(DType::U8, 0.05, 100.0), form(DType::U8, 0.1, 100.0));
    let (mut build, y) = begin();
    let (first, second) = (build.quantize(y, &levels), build.quantize(y, &other));
    build.net.output(first);
    build.net.output(second);
    assert_eq!(build.refusal(), "attribute: 'y9' is quantised with two scales, a tensor has one");
    let (mut build, y) = begin();
    let q = build.quantize(y, &levels);
    let read = build.dequantize(q, &other, "axis=1");
    build.net.output(read);
    assert_eq!(build.refusal(), "attribute: 'y12' has the scale 0.05 where it is made, and 0.1 here");
    let (mut build, y) = begin();
    let stored = build.weights(&[1, 4, 8, 8], &levels, "");
    let sum = build.net.like("Add", &[y, stored], "");
    build.net.output(sum);
    assert_eq!(build.refusal(), "shape: 'y13' is a constant, only computed tensors are added");
    let (mut build, y) = begin();
    let stored = build.weights(&[1, 4, 8, 8], &levels, "");
    let hidden = build.net.like("Relu", &[stored], "");
    build.net.output(y);
    build.net.output(hidden);
    assert_eq!(
        build.refusal(),
        "other: 'y13' is made of a constant, and goes with the layer that has it as weights or bias"
    );
}

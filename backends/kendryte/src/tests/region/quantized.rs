//! Models that are quantised already: integers in, integers out, compared with what the host computes node by node.

use byoc_json_backend as _;
use byoc_plugin_api::testing::{RegionBuilder, Rng, Tensor, backend, options, run};
use byoc_plugin_api::{DType, Error};

use crate::kmodel::{Kmodel, Operation};
use crate::trailer::Trailer;
use crate::{KendryteBackend, runtime};

/// What the integers of a tensor stand for.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) dtype: DType,
    pub(super) scales: Vec<f64>,
    pub(super) zeros: Vec<f64>,
}

/// A form with one scale and one zero point.
pub(super) fn form(dtype: DType, scale: f64, zero: f64) -> Form {
    Form { dtype, scales: vec![scale], zeros: vec![zero] }
}

/// A region under construction, whose input is an image of `form`.
pub(super) struct Build {
    pub(super) net: RegionBuilder,
    pub(super) random: Rng,
}

impl Build {
    pub(super) fn new(seed: u64) -> Build {
        Build { net: RegionBuilder::new("kendryte"), random: Rng::with_seed(seed) }
    }

    /// The inputs of a node behind the tensor: scales and zero points.
    fn scales(&mut self, form: &Form) -> [usize; 2] {
        let shape = if form.scales.len() == 1 { vec![] } else { vec![form.scales.len()] };
        let scales = self.net.numbers(&shape, &form.scales);
        [scales, self.net.numbers((form.dtype, shape), &form.zeros)]
    }

    pub(super) fn quantize(&mut self, x: usize, form: &Form) -> usize {
        let sizes = self.net.sizes(x);
        let [scale, zero] = self.scales(form);
        self.net.node("QuantizeLinear", &[x, scale, zero], (form.dtype, sizes), "axis=1")
    }

    pub(super) fn dequantize(&mut self, q: usize, form: &Form, attributes: &str) -> usize {
        let sizes = self.net.sizes(q);
        let [scale, zero] = self.scales(form);
        self.net.node("DequantizeLinear", &[q, scale, zero], sizes, attributes)
    }

    /// The two behind one another.
    pub(super) fn around(&mut self, x: usize, form: &Form) -> usize {
        let q = self.quantize(x, form);
        self.dequantize(q, form, "axis=1")
    }

    /// What integers from -127 to 127, or from 0 to 255, stand for.
    pub(super) fn weights(&mut self, sizes: &[usize], form: &Form, attributes: &str) -> usize {
        let range = if form.dtype == DType::I8 { -127.0..128.0 } else { 0.0..256.0 };
        let drawn = Tensor::random((form.dtype, sizes), range, &mut self.random);
        let stored = self.net.constant(drawn);
        self.dequantize(stored, form, attributes)
    }

    /// A convolution of 3x3, or of 1x1, with a bias.
    pub(super) fn conv(&mut self, x: usize, outputs: usize, kernel: usize, depthwise: bool, weights: &Form) -> usize {
        let [_, inputs, height, width] = self.net.sizes(x)[..] else { panic!("no image") };
        let sizes = [outputs, if depthwise { 1 } else { inputs }, kernel, kernel];
        let filters = self.weights(&sizes, weights, "axis=0");
        let scales = weights.scales.iter().map(|scale| scale * 0.01).collect::<Vec<_>>();
        let zeros = vec![0.0; scales.len()];
        let bias = Tensor::random((DType::I32, [outputs]), -5000.0..5000.0, &mut self.random);
        let bias = self.net.constant(bias);
        let bias = self.dequantize(bias, &Form { dtype: DType::I32, scales, zeros }, "axis=0");
        let (pad, group) = (kernel / 2, if depthwise { inputs } else { 1 });
        let attributes = format!("pads=[{pad},{pad},{pad},{pad}] group={group}");
        self.net.node("Conv", &[x, filters, bias], [1, outputs, height, width], attributes.as_str())
    }

    fn code(&self) -> Result<Vec<u8>, Error> {
        self.net.compile(&KendryteBackend, &[]).map(|compiled| compiled.code)
    }

    /// What the backend and the host give for random inputs.
    fn both(&mut self) -> Vec<(Vec<f64>, Vec<f64>)> {
        let code = self.code().expect("it compiles");
        let (file, _) = Trailer::split(&code).expect("code");
        assert_eq!(Kmodel::parse(file).expect("a kmodel").check(), []);
        let input = self.net.region.inputs[0];
        let dtype = self.net.region.values[input].dtype;
        let range = match dtype {
            DType::I8 => -128.0..128.0,
            DType::U8 => 0.0..256.0,
            _ => 0.0..1.0,
        };
        let x = Tensor::random((dtype, self.net.sizes(input)), range, &mut self.random);
        let mut executable = runtime::load(&code, 1).expect("it loads");
        let found = run(&self.net, executable.as_mut(), std::slice::from_ref(&x), &[]).expect("it runs");
        let expected = self.net.results(backend("json"), &[("kernels", "reference")], &[x], &[]);
        found.iter().zip(&expected).map(|(found, expected)| (found.numbers(), expected.numbers())).collect()
    }

    fn operations(&self) -> Vec<Operation> {
        let code = self.code().expect("it compiles");
        let (file, _) = Trailer::split(&code).expect("code");
        Kmodel::parse(file).expect("a kmodel").layers.into_iter().map(|layer| layer.operation).collect()
    }

    fn names(&self) -> Vec<String> {
        let name = |operation: &Operation| match operation {
            Operation::Conv(conv) => format!("conv {:?}", conv.arguments.pooling),
            other => other.name().to_owned(),
        };
        self.operations().iter().map(name).collect()
    }

    pub(super) fn refusal(&self) -> String {
        let refusal = self.net.check(&KendryteBackend, &options(&KendryteBackend, &[])).expect_err("it is refused");
        refusal.to_string()
    }
}

/// The greatest difference, and how many of all are not equal.
fn differences(found: &[f64], expected: &[f64]) -> (f64, usize) {
    let each = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    (each.clone().fold(0.0, f64::max), each.filter(|&difference| difference > 0.0).count())
}

/// The chip rounds the exact sum, the host one in `f32`: the two are a level apart where it is half way between two, and
/// what factors lose decides which.
#[test]
fn a_layer_is_within_a_level_of_the_hosts() {
    let inputs = [
        form(DType::U8, 0.01, 0.0),
        form(DType::U8, 0.01, 131.0),
        form(DType::I8, 0.01, -128.0),
        form(DType::I8, 0.01, 5.0),
    ];
    let (mut elements, mut unequal) = (0, 0);
    for (case, (kernel, depthwise)) in [(1, false), (3, false), (3, true), (1, true)].into_iter().enumerate() {
        for input in &inputs {
            for (number, activation) in ["", "Relu", "LeakyRelu", "Sigmoid"].into_iter().enumerate() {
                let outputs = if depthwise { 5 } else { 6 };
                let channels = |base: f64| (0..outputs).map(|channel| base * 1.7f64.powi(-channel)).collect::<Vec<_>>();
                let weights = [
                    form(DType::I8, 0.008, 0.0),
                    form(DType::U8, 0.008, 117.0),
                    Form { dtype: DType::I8, scales: channels(0.02), zeros: vec![-3.0; outputs as usize] },
                    Form { dtype: DType::U8, scales: channels(0.02), zeros: vec![128.0; outputs as usize] },
                ];
                let weights = &weights[(case + number) % 4];
                let mut build = Build::new((case * 16 + number) as u64);
                let q = build.net.input((input.dtype, [1, 5, 6, 7]));
                let x = build.dequantize(q, input, "axis=1");
                let mut y = build.conv(x, outputs as usize, kernel, depthwise, weights);
                if !activation.is_empty() {
                    y = build.net.like(activation, &[y], if activation == "LeakyRelu" { "alpha=0.1" } else { "" });
                }
                let output = match activation {
                    "Sigmoid" => form(input.dtype, 1.0 / 255.0, if input.dtype == DType::I8 { -128.0 } else { 0.0 }),
                    _ => form(input.dtype, 0.07, 40.0),
                };
                let q = build.quantize(y, &output);
                build.net.output(q);
                let (found, expected) = &build.both()[0];
                let (most, count) = differences(found, expected);
                assert!(most <= 1.0, "{kernel}, {depthwise}, {activation}, {input:?}, {weights:?}: {most}");
                (elements, unequal) =
                    (elements + found.len(), unequal + if activation == "Sigmoid" { 0 } else { count });
            }
        }
    }
    assert!(elements > 10_000 && unequal * 200 < elements, "{unequal} of {elements}");
}

/// Weights of the file are the weights of the layer, moved to bytes without a sign.
#[test]
fn weights_stay_the_integers_that_they_are() {
    for (dtype, zero) in [(DType::I8, 0.0), (DType::I8, -20.0), (DType::U8, 90.0)] {
        let mut build = Build::new(5);
        let q = build.net.input("u8[1,3,8,8]");
        let x = build.dequantize(q, &form(DType::U8, 0.01, 7.0), "");
        let y = build.conv(x, 4, 3, false, &form(dtype, 0.01, zero));
        let q = build.quantize(y, &form(DType::U8, 0.05, 100.0));
        build.net.output(q);
        let Operation::Conv(conv) = &build.operations()[0] else { panic!("a convolution") };
        let stored = build.net.constants[2].numbers();
        let shift = if dtype == DType::I8 { 128.0 } else { 0.0 };
        assert_eq!(conv.weights.iter().map(|&byte| f64::from(byte) - shift).collect::<Vec<_>>(), stored);
        assert_eq!(f64::from(conv.arguments.arg_x), -(zero + shift));
        assert_eq!(conv.arguments.pad_value, 7);
    }
}

/// A quantised model as exporters write it: what stands around a tensor becomes no layer.
#[test]
fn what_quantises_becomes_no_layer() {
    let (pixels, weights, levels) =
        (form(DType::U8, 1.0 / 255.0, 0.0), form(DType::I8, 0.01, 0.0), form(DType::I8, 0.05, -100.0));
    let mut build = Build::new(6);
    let x = build.net.input([1, 3, 16, 16]);
    let x = build.around(x, &pixels);
    let x = build.conv(x, 4, 3, false, &weights);
    let x = build.around(x, &levels);
    let pooled = build.net.node("MaxPool", &[x], [1, 4, 8, 8], "kernel_shape=[2,2] strides=[2,2]");
    let pooled = build.around(pooled, &levels);
    let y = build.conv(pooled, 4, 1, false, &weights);
    let y = build.around(y, &form(DType::I8, 0.04, 3.0));
    let sum = build.net.like("Add", &[pooled, y], "");
    let sum = build.net.like("Relu", &[sum], "");
    let sum = build.around(sum, &form(DType::U8, 0.06, 0.0));
    build.net.output(sum);
    assert_eq!(build.names(), ["conv Max2", "conv None", "QUANTIZED_ADD", "DEQUANTIZE"]);
    let (most, _) = differences_of(&mut build, 0.06);
    assert!(most < 1.001, "{most}");
}

/// Where the model has two scales in a row, a table goes from one to the other; a mean is taken of numbers.
#[test]
fn a_change_of_scales_is_a_table() {
    let (pixels, weights, levels) =
        (form(DType::U8, 1.0 / 255.0, 0.0), form(DType::U8, 0.01, 120.0), form(DType::U8, 0.05, 90.0));
    let mut build = Build::new(7);
    let x = build.net.input([1, 3, 8, 8]);
    let x = build.around(x, &pixels);
    let x = build.conv(x, 4, 3, false, &weights);
    let x = build.around(x, &levels);
    let wider = build.around(x, &form(DType::U8, 0.07, 80.0));
    let pooled = build.net.node("MaxPool", &[wider], [1, 4, 4, 4], "kernel_shape=[2,2] strides=[2,2]");
    let pooled = build.around(pooled, &form(DType::U8, 0.08, 70.0));
    let mean = build.net.node("AveragePool", &[x], [1, 4, 4, 4], "kernel_shape=[2,2] strides=[2,2]");
    let mean = build.around(mean, &levels);
    let both = build.net.node("Concat", &[pooled, mean], [1, 8, 4, 4], "axis=1");
    let both = build.around(both, &form(DType::U8, 0.08, 70.0));
    build.net.output(both);
    let expected = [
        "conv None",
        "REQUANTIZE",
        "QUANTIZED_MAX_POOL2D",
        "REQUANTIZE",
        "DEQUANTIZE",
        "AVERAGE_POOL2D",
        "QUANTIZE",
        "REQUANTIZE",
        "QUANTIZED_CONCAT",
        "DEQUANTIZE",
    ];
    assert_eq!(build.names(), expected);
    let (most, _) = differences_of(&mut build, 0.08);
    assert!(most < 1.001, "{most}");
}

/// A clip that the ends of a scale do not make is made by a table, also behind a sum and behind numbers.
#[test]
fn a_clip_inside_the_scale_is_a_table() {
    let levels = form(DType::I8, 0.05, 10.0);
    let mut build = Build::new(8);
    let q = build.net.input("i8[1,4,8,8]");
    let x = build.dequantize(q, &form(DType::I8, 0.01, 0.0), "axis=1");
    let x = build.conv(x, 4, 1, false, &form(DType::I8, 0.01, 0.0));
    let x = build.around(x, &levels);
    let sum = build.net.like("Add", &[x, x], "");
    let sum = build.net.like("Relu", &[sum], "");
    let q = build.quantize(sum, &levels);
    let sum = build.dequantize(q, &levels, "axis=1");
    let mean = build.net.node("GlobalAveragePool", &[sum], [1, 4, 1, 1], "");
    let mean = build.net.like("Relu", &[mean], "");
    let mean = build.quantize(mean, &form(DType::I8, 0.02, 50.0));
    build.net.output(q);
    build.net.output(mean);
    assert_eq!(
        build.names(),
        ["conv None", "QUANTIZED_ADD", "REQUANTIZE", "DEQUANTIZE", "GLOBAL_AVERAGE_POOL2D", "QUANTIZE", "REQUANTIZE"]
    );
    for (found, expected) in build.both() {
        assert!(differences(&found, &expected).0 <= 1.0);
    }
}

/// The scale of a sum that is cut off stands behind what moves it, and covers numbers below 0.
#[test]
fn a_clip_in_front_of_what_only_moves_is_kept() {
    let levels = form(DType::I8, 0.05, 10.0);
    let mut build = Build::new(13);
    let q = build.net.input("i8[1,4,8,8]");
    let x = build.dequantize(q, &form(DType::I8, 0.01, 0.0), "axis=1");
    let x = build.conv(x, 4, 1, false, &form(DType::I8, 0.01, 0.0));
    let x = build.around(x, &levels);
    let sum = build.net.like("Add", &[x, x], "");
    let sum = build.net.like("Relu", &[sum], "");
    let pooled = build.net.node("MaxPool", &[sum], [1, 4, 8, 8], "kernel_shape=[1,1]");
    let flat = build.net.node("Flatten", &[pooled], [1, 256], "");
    let q = build.quantize(flat, &levels);
    build.net.output(q);
    assert_eq!(build.names(), ["conv None", "QUANTIZED_ADD", "REQUANTIZE", "QUANTIZED_MAX_POOL2D"]);
    let (found, expected) = &build.both()[0];
    assert!(expected.iter().any(|&level| level == 10.0) && differences(found, expected).0 <= 1.0);
}

/// Matrices in both orders, and those that are not for the accelerator.
#[test]
fn fully_connected_layers_have_their_weights_in_either_order() {
    for (op, attributes, axis) in
        [("Gemm", "transB=1", 0), ("Gemm", "transB=0 alpha=0.5 beta=2.0", 1), ("MatMul", "", 1)]
    {
        for inputs in [24, 1032] {
            let mut build = Build::new(9);
            let q = build.net.input("u8[1,6,4,4]");
            let x = build.dequantize(q, &form(DType::U8, 0.01, 0.0), "axis=1");
            let wide = if inputs == 24 { 6 } else { 258 };
            let x = build.conv(x, wide, 1, false, &form(DType::I8, 0.01, 0.0));
            let x = build.around(x, &form(DType::U8, 0.02, 128.0));
            let pooled = build.net.node("MaxPool", &[x], [1, wide, 2, 2], "kernel_shape=[2,2] strides=[2,2]");
            let flat = build.net.node("Flatten", &[pooled], [1, inputs], "");
            let channels =
                Form { dtype: DType::I8, scales: (1..=5).map(|c| 0.01 * f64::from(c)).collect(), zeros: vec![0.0; 5] };
            let sizes = if axis == 0 { [5, inputs] } else { [inputs, 5] };
            let weights = build.weights(&sizes, &channels, &format!("axis={axis}"));
            let mut operands = vec![flat, weights];
            if op == "Gemm" {
                operands.push(build.net.numbers([5], &[0.5, -1.0, 2.0, 0.0, 1.0]));
            }
            let y = build.net.node(op, &operands, [1, 5], attributes);
            let q = build.quantize(y, &form(DType::U8, 0.3, 100.0));
            build.net.output(q);
            let on_accelerator = build.names().iter().filter(|name| name.starts_with("conv")).count() == 2;
            assert_eq!(on_accelerator, inputs == 24, "{:?}", build.names());
            let (found, expected) = &build.both()[0];
            assert!(differences(found, expected).0 <= 1.0, "{op} {attributes} {inputs}: {found:?} {expected:?}");
        }
    }
}

/// The greatest difference of the one output in levels of `scale`.
fn differences_of(build: &mut Build, scale: f64) -> (f64, usize) {
    let (found, expected) = &build.both()[0];
    let (most, count) = differences(found, expected);
    (most / scale, count)
}

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
    (build.net.output(first), build.net.output(second));
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
    (build.net.output(y), build.net.output(hidden));
    assert_eq!(build.refusal(), "other: 'y13' is made of a constant, only weights and biases are");
}

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

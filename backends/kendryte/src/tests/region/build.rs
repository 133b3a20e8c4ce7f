//! Builds regions as core would hand them over.

use byoc_plugin_api::{
    Attribute, Constant, ConstantId, DType, INLINE_BYTES, Node, Observed, Region, SCHEMA, Value, to_hex,
};

use super::float;
use crate::tests::build::Random;

/// A region under construction, with the elements of its constants.
pub(super) struct Build {
    pub(super) region: Region,
    /// Values with their elements, in the order of the region's constants.
    pub(super) constants: Vec<(usize, Vec<f32>)>,
    pub(super) random: Random,
}

impl Build {
    /// A region with one input of this shape.
    pub(super) fn new(input: &[usize], seed: u64) -> Build {
        let region = Region { schema: SCHEMA.into(), symbol: "byoc_test_kendryte_0".into(), ..Region::default() };
        let mut build = Build { region, constants: Vec::new(), random: Random(seed) };
        let input = build.value("x", input);
        build.region.inputs.push(input);
        build
    }

    pub(super) fn value(&mut self, name: &str, shape: &[usize]) -> usize {
        let name = format!("{name}{}", self.region.values.len());
        let shape = shape.iter().map(|&size| size.into()).collect();
        self.region.values.push(Value { name, dtype: DType::F32, shape });
        self.region.values.len() - 1
    }

    pub(super) fn sizes(&self, value: usize) -> Vec<usize> {
        self.region.values[value].fixed_shape().expect("fixed sizes")
    }

    pub(super) fn shape(&self, value: usize) -> Vec<i64> {
        self.sizes(value).into_iter().map(|size| size as i64).collect()
    }

    pub(super) fn constant(&mut self, shape: &[usize], data: Vec<f32>) -> usize {
        let value = self.value("w", shape);
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        let inline = (bytes.len() <= INLINE_BYTES).then(|| to_hex(&bytes));
        let id = ConstantId(100 + self.region.constants.len() as u64);
        self.region.constants.push(Constant { id, value, inline, shared: false });
        self.constants.push((value, data));
        value
    }

    /// A constant of random elements from `-most` to `most`.
    pub(super) fn weights(&mut self, shape: &[usize], most: f32) -> usize {
        let data = (0..shape.iter().product()).map(|_| self.random.real() * most).collect();
        self.constant(shape, data)
    }

    /// A node whose output has this shape.
    pub(super) fn node(
        &mut self,
        op: &str,
        inputs: &[usize],
        attributes: &[(&str, Attribute)],
        shape: &[usize],
    ) -> usize {
        let output = self.value("v", shape);
        self.region.nodes.push(Node {
            name: format!("{op}_{}", self.region.nodes.len()),
            op: op.into(),
            domain: String::new(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        });
        output
    }

    /// A convolution with a bias, `kernel` 1 or 3, padded so that only the stride makes it smaller.
    pub(super) fn conv(&mut self, x: usize, outputs: usize, kernel: usize, stride: usize, depthwise: bool) -> usize {
        let [_, channels, height, width] = self.sizes(x)[..] else { panic!("no image") };
        let inputs = if depthwise { 1 } else { channels };
        let most = (3.0 / (inputs * kernel * kernel) as f32).sqrt();
        let (weights, bias) = (self.weights(&[outputs, inputs, kernel, kernel], most), self.weights(&[outputs], 0.5));
        let pad = (kernel / 2) as i64;
        let attributes = [
            ("group", Attribute::Int(if depthwise { channels as i64 } else { 1 })),
            ("strides", Attribute::Ints(vec![stride as i64; 2])),
            ("pads", Attribute::Ints(vec![pad; 4])),
        ];
        self.node("Conv", &[x, weights, bias], &attributes, &[1, outputs, height / stride, width / stride])
    }

    /// Batch normalisation with random parameters.
    pub(super) fn norm(&mut self, x: usize) -> usize {
        let shape = self.sizes(x);
        let parameters: Vec<_> = (0..4)
            .map(|index| {
                let data = (0..shape[1]).map(|_| self.random.real() * 0.4 + if index % 3 == 0 { 1.0 } else { 0.0 });
                let data = data.collect();
                self.constant(&[shape[1]], data)
            })
            .collect();
        let inputs: Vec<_> = std::iter::once(x).chain(parameters).collect();
        self.node("BatchNormalization", &inputs, &[("epsilon", Attribute::Float(1e-3))], &shape)
    }

    /// A node of one input whose output has the input's shape.
    pub(super) fn function(&mut self, op: &str, x: usize, attributes: &[(&str, Attribute)]) -> usize {
        let shape = self.sizes(x);
        self.node(op, &[x], attributes, &shape)
    }

    pub(super) fn clip(&mut self, x: usize, min: f32, max: f32) -> usize {
        let (shape, min, max) = (self.sizes(x), self.constant(&[], vec![min]), self.constant(&[], vec![max]));
        self.node("Clip", &[x, min, max], &[], &shape)
    }

    /// A clip without lower or upper limit where there is none.
    pub(super) fn clip_some(&mut self, x: usize, min: Option<f32>, max: Option<f32>) -> usize {
        let shape = self.sizes(x);
        let limits = [min, max].map(|limit| limit.map(|limit| self.constant(&[], vec![limit])));
        let y = self.node("Clip", &[x], &[], &shape);
        if let Some(node) = self.region.nodes.last_mut() {
            node.inputs.extend(limits);
        }
        y
    }

    /// The same elements as an image of another shape.
    pub(super) fn reshape(&mut self, x: usize, shape: &[usize]) -> usize {
        self.node("Reshape", &[x], &[], shape)
    }

    /// A pooling by windows of `size`, `size` apart.
    pub(super) fn pool(&mut self, op: &str, x: usize, size: usize) -> usize {
        let [_, channels, height, width] = self.sizes(x)[..] else { panic!("no image") };
        let pair = Attribute::Ints(vec![size as i64; 2]);
        let attributes = [("kernel_shape", pair.clone()), ("strides", pair)];
        self.node(op, &[x], &attributes, &[1, channels, height / size, width / size])
    }

    pub(super) fn add(&mut self, a: usize, b: usize) -> usize {
        let shape = self.sizes(a);
        self.node("Add", &[a, b], &[], &shape)
    }

    pub(super) fn concat(&mut self, a: usize, b: usize) -> usize {
        let (mut shape, other) = (self.sizes(a), self.sizes(b));
        shape[1] += other[1];
        self.node("Concat", &[a, b], &[("axis", Attribute::Int(1))], &shape)
    }

    /// Global mean, flattened, a matrix product and a softmax.
    pub(super) fn head(&mut self, x: usize, outputs: usize) -> usize {
        let channels = self.sizes(x)[1];
        let mean = self.node("GlobalAveragePool", &[x], &[], &[1, channels, 1, 1]);
        let flat = self.node("Flatten", &[mean], &[], &[1, channels]);
        let dense = self.gemm(flat, outputs);
        self.function("Softmax", dense, &[])
    }

    pub(super) fn gemm(&mut self, x: usize, outputs: usize) -> usize {
        let inputs = self.sizes(x)[1];
        let (weights, bias) = (self.weights(&[outputs, inputs], 1.0), self.weights(&[outputs], 0.5));
        self.node("Gemm", &[x, weights, bias], &[("transB", Attribute::Int(1))], &[1, outputs])
    }

    /// Makes a value an output.
    pub(super) fn output(&mut self, value: usize) {
        self.region.outputs.push(value);
    }

    /// A random input, the same for the same seed: pixels, from 0 to 1.
    pub(super) fn sample(&self, seed: u64) -> Vec<f32> {
        let mut random = Random(seed);
        (0..self.sizes(self.region.inputs[0]).iter().product())
            .map(|_| f32::from(random.next() as u8) / 255.0)
            .collect()
    }

    /// Notes the ranges of all values over random inputs.
    pub(super) fn observe(&mut self, samples: u64) {
        let runs: Vec<_> = (0..samples).map(|seed| float::evaluate(self, &self.sample(seed))).collect();
        let is_constant = |value: usize| self.constants.iter().any(|(constant, _)| *constant == value);
        let values: Vec<_> = (0..self.region.values.len()).filter(|&value| !is_constant(value)).collect();
        self.region.observed = values.into_iter().map(|value| observed(value, &runs)).collect();
    }
}

fn observed(value: usize, runs: &[Vec<Vec<f64>>]) -> Observed {
    let all = || runs.iter().flat_map(|run| &run[value]).copied();
    let (min, max) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let mut histogram = vec![0; 2048];
    for x in all() {
        let place = (x - min) / (max - min) * 2048.0;
        histogram[(place as usize).min(2047)] += 1;
    }
    Observed { value, min: min as f32, max: max as f32, histogram }
}

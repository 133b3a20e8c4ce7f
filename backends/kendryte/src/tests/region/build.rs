//! Networks for the accelerator.

use std::ops::{Deref, DerefMut};

use byoc_json_backend as _;
use byoc_plugin_api::testing::{Attributes, RegionBuilder, Rng, Tensor, backend};
use byoc_plugin_api::{DType, Observed};

/// A region under construction.
pub(super) struct Build(RegionBuilder);

impl Deref for Build {
    type Target = RegionBuilder;

    fn deref(&self) -> &RegionBuilder {
        &self.0
    }
}

impl DerefMut for Build {
    fn deref_mut(&mut self) -> &mut RegionBuilder {
        &mut self.0
    }
}

impl Build {
    /// A region with one input of this shape.
    pub(super) fn new(input: &[usize], seed: u64) -> Build {
        let mut build = RegionBuilder::new("kendryte");
        build.random = Rng::with_seed(seed);
        build.input(input);
        Build(build)
    }

    /// A convolution with a bias, `kernel` 1 or 3, padded so that only the stride makes it smaller.
    pub(super) fn conv(&mut self, x: usize, outputs: usize, kernel: usize, stride: usize, depthwise: bool) -> usize {
        let group = if depthwise { self.sizes(x)[1] } else { 1 };
        self.0.conv(x, outputs, kernel, stride, group)
    }

    pub(super) fn clip(&mut self, x: usize, min: f32, max: f32) -> usize {
        self.clip_some(x, Some(min), Some(max))
    }

    /// A clip without lower or upper limit where there is none.
    pub(super) fn clip_some(&mut self, x: usize, min: Option<f32>, max: Option<f32>) -> usize {
        let [min, max] = [min, max].map(|limit| limit.map(|limit| self.number(limit.into())));
        let ty = self.ty(x);
        self.nodes("Clip", &[Some(x), min, max], &[ty], "")[0]
    }

    /// The same elements as an image of another shape.
    pub(super) fn reshape(&mut self, x: usize, shape: &[usize]) -> usize {
        let sizes = self.list(shape);
        self.node("Reshape", &[x, sizes], shape, "")
    }

    /// An image of other sizes.
    pub(super) fn resize(&mut self, x: usize, shape: &[usize], attributes: impl Attributes) -> usize {
        let sizes = self.list(shape);
        self.nodes("Resize", &[Some(x), None, None, Some(sizes)], &[shape.into()], attributes)[0]
    }

    fn list(&mut self, shape: &[usize]) -> usize {
        self.ints(&shape.iter().map(|&size| size as i64).collect::<Vec<_>>())
    }

    /// A pooling by windows of `size`, `size` apart.
    pub(super) fn pool(&mut self, op: &str, x: usize, size: usize) -> usize {
        let [_, channels, height, width] = self.sizes(x)[..] else { panic!("no image") };
        let attributes = format!("kernel_shape=[{size},{size}] strides=[{size},{size}]");
        self.node(op, &[x], [1, channels, height / size, width / size], attributes.as_str())
    }

    pub(super) fn add(&mut self, a: usize, b: usize) -> usize {
        self.like("Add", &[a, b], "")
    }

    pub(super) fn concat(&mut self, a: usize, b: usize) -> usize {
        let (mut shape, other) = (self.sizes(a), self.sizes(b));
        shape[1] += other[1];
        self.node("Concat", &[a, b], shape, "axis=1")
    }

    /// Global mean, flattened, a matrix product and a softmax.
    pub(super) fn head(&mut self, x: usize, outputs: usize) -> usize {
        let channels = self.sizes(x)[1];
        let mean = self.node("GlobalAveragePool", &[x], [1, channels, 1, 1], "");
        let flat = self.node("Flatten", &[mean], [1, channels], "");
        let dense = self.gemm(flat, outputs);
        self.like("Softmax", &[dense], "")
    }

    pub(super) fn gemm(&mut self, x: usize, outputs: usize) -> usize {
        let inputs = self.sizes(x)[1];
        let (weights, bias) = (self.weight([outputs, inputs]), self.drawn([outputs], -0.5..0.5));
        self.node("Gemm", &[x, weights, bias], [1, outputs], "transB=1")
    }

    /// A random input, the same for the same seed: pixels, from 0 to 1.
    pub(super) fn sample(&self, seed: u64) -> Tensor {
        let sizes = self.sizes(self.region.inputs[0]);
        let pixels = Tensor::random((DType::U8, &sizes), 0.0..256.0, &mut Rng::with_seed(seed)).numbers();
        Tensor::new(sizes, &pixels.iter().map(|pixel| pixel / 255.0).collect::<Vec<_>>())
    }

    /// Notes the ranges of all values over random inputs.
    pub(super) fn observe(&mut self, samples: u64) {
        let is_constant = |&value: &usize| self.region.constants.iter().any(|constant| constant.value == value);
        let values: Vec<_> = (0..self.region.values.len()).filter(|value| !is_constant(value)).collect();
        let wide = self.in_f64().with(&values);
        let compiled = wide.compile(backend("json"), &[("kernels", "reference")]).expect("it has all operators");
        let run = |seed| compiled.run(&[self.sample(seed).cast(DType::F64)], &[]).expect("it runs");
        let runs: Vec<_> = (0..samples).map(run).collect();
        let numbers = |at: usize| runs.iter().flat_map(|run| run[at].numbers()).collect::<Vec<_>>();
        self.region.observed = values.iter().enumerate().map(|(at, &value)| observed(value, &numbers(at))).collect();
    }
}

fn observed(value: usize, numbers: &[f64]) -> Observed {
    let all = || numbers.iter().copied();
    let (min, max) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let mut histogram = vec![0; 2048];
    for x in all() {
        let place = (x - min) / (max - min) * 2048.0;
        histogram[(place as usize).min(2047)] += 1;
    }
    Observed { value, min: min as f32, max: max as f32, histogram }
}

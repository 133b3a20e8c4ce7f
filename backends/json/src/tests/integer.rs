//! Quantised nodes and groups: which kernel each becomes, and that it gives what the reference kernels give.

use byoc_plugin_api::testing::{self, RegionBuilder, Rng, Tensor};
use byoc_plugin_api::{Attribute, DType};

use super::harness::{calls, compile, empty, json};

/// A region that is quantised here and there.
pub(super) struct Net {
    pub(super) region: RegionBuilder,
    random: Rng,
}

/// A scale and a zero point.
#[derive(Clone, Copy)]
pub(super) struct Grid(usize, usize, DType);

impl Net {
    pub(super) fn new() -> Net {
        Net { region: empty(), random: Rng::with_seed(7) }
    }

    pub(super) fn grid(&mut self, dtype: DType, scale: f64, zero: f64) -> Grid {
        let scale = self.region.number(scale);
        Grid(scale, self.region.numbers((dtype, Vec::<usize>::new()), &[zero]), dtype)
    }

    /// Quantises a value.
    pub(super) fn to(&mut self, x: usize, grid: Grid) -> usize {
        let shape = self.region.ty(x).shape;
        self.region.node("QuantizeLinear", &[x, grid.0, grid.1], (grid.2, shape), &[])
    }

    /// And back.
    pub(super) fn from(&mut self, x: usize, grid: Grid) -> usize {
        let shape = self.region.ty(x).shape;
        self.region.node("DequantizeLinear", &[x, grid.0, grid.1], (DType::F32, shape), &[])
    }

    pub(super) fn both(&mut self, x: usize, grid: Grid) -> usize {
        let bytes = self.to(x, grid);
        self.from(bytes, grid)
    }

    /// Random bytes.
    pub(super) fn bytes(&mut self, dtype: DType, shape: &[usize]) -> usize {
        let range = if dtype == DType::I8 { -128..128 } else { 0..256 };
        let len = shape.iter().product();
        let numbers: Vec<f64> = (0..len).map(|_| f64::from(self.random.i32(range.clone()))).collect();
        self.region.numbers((dtype, shape.to_vec()), &numbers)
    }

    /// Weights that are dequantised, with a scale and a zero point for each index of an axis.
    pub(super) fn weights(&mut self, dtype: DType, shape: &[usize], axis: usize) -> usize {
        let bytes = self.bytes(dtype, shape);
        let scales: Vec<f64> = (0..shape[axis]).map(|at| 0.01 + 0.001 * (at % 7) as f64).collect();
        let scales = self.region.numbers([shape[axis]], &scales);
        let middle = if dtype == DType::I8 { 0.0 } else { 128.0 };
        let zeros: Vec<f64> =
            (0..shape[axis]).map(|at| middle + if dtype == DType::I8 { 0.0 } else { (at % 3) as f64 }).collect();
        let zeros = self.region.numbers((dtype, vec![shape[axis]]), &zeros);
        let axis = [("axis", Attribute::Int(axis as i64))];
        self.region.node("DequantizeLinear", &[bytes, scales, zeros], (DType::F32, shape.to_vec()), &axis)
    }

    /// Integers of 32 bits with a scale for each.
    pub(super) fn bias(&mut self, len: usize) -> usize {
        let integers: Vec<f64> = (0..len).map(|_| f64::from(self.random.i32(-9000..9000))).collect();
        let scales: Vec<f64> = (0..len).map(|at| 1e-5 * (1 + at % 5) as f64).collect();
        let bias = self.region.numbers((DType::I32, vec![len]), &integers);
        let scales = self.region.numbers([len], &scales);
        let zeros = self.region.numbers((DType::I32, vec![len]), &vec![0.0; len]);
        self.region.node("DequantizeLinear", &[bias, scales, zeros], [len], &[("axis", Attribute::Int(0))])
    }

    pub(super) fn conv(
        &mut self,
        x: usize,
        filters: usize,
        kernel: usize,
        stride: usize,
        group: usize,
        dtype: DType,
    ) -> usize {
        let sizes = self.region.sizes(x);
        let w = self.weights(dtype, &[filters, sizes[1] / group, kernel, kernel], 0);
        let bias = self.bias(filters);
        self.window("Conv", &[x, w, bias], filters, kernel, stride, group, DType::F32)
    }

    #[expect(clippy::too_many_arguments, reason = "a convolution")]
    pub(super) fn window(
        &mut self,
        op: &str,
        inputs: &[usize],
        filters: usize,
        kernel: usize,
        stride: usize,
        group: usize,
        dtype: DType,
    ) -> usize {
        let sizes = self.region.sizes(inputs[0]);
        let pad = kernel / 2;
        let out = |size: usize| (size + 2 * pad - kernel) / stride + 1;
        let list = |value: usize, count: usize| Attribute::Ints(vec![value as i64; count]);
        let attributes = [
            ("kernel_shape", list(kernel, 2)),
            ("pads", list(pad, 4)),
            ("strides", list(stride, 2)),
            ("group", Attribute::Int(group as i64)),
        ];
        let shape = vec![sizes[0], filters, out(sizes[2]), out(sizes[3])];
        self.region.node(op, inputs, (dtype, shape), &attributes)
    }

    /// Compares all ways to compile with the reference kernels: no more than a level apart, and seldom that.
    pub(super) fn check(&self, level: f64, expected: &[&str]) {
        assert_eq!(calls(&self.region), expected);
        self.check_results(level);
    }

    /// Checks that all ways to lower the region give results that are as near as `level` to those of the reference kernels.
    pub(super) fn check_results(&self, level: f64) {
        let run = |settings: &[(&str, &str)], threads: usize| -> Vec<Vec<f64>> {
            let compiled = compile(&self.region, settings);
            let mut executable = compiled.load(threads).expect("load");
            let outputs =
                testing::run(&self.region, executable.as_mut(), &self.region.inputs(1, &[]), &[]).expect("run");
            outputs.iter().map(Tensor::numbers).collect()
        };
        let expected = run(&[("kernels", "reference")], 1);
        let ways: [&[(&str, &str)]; 3] = [&[], &[("fusion", "false")], &[("pack", "false")]];
        for (settings, threads) in ways.into_iter().flat_map(|settings| [(settings, 1), (settings, 2)]) {
            for (found, expected) in run(settings, threads).iter().zip(&expected) {
                let far =
                    found.iter().zip(expected).filter(|(found, expected)| (**found - **expected).abs() > level * 1e-3);
                let apart =
                    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max);
                let (far, count) = (far.count(), found.len());
                assert!(
                    apart <= level * 1.001 && far * 200 <= count,
                    "{settings:?} {threads}: {far} of {count}, {apart}"
                );
            }
        }
        assert!(expected.iter().all(|output| output.iter().any(|&number| number != output[0])), "all alike");
    }
}

#[test]
fn a_block_of_convolutions_stays_in_integers() {
    for (dtype, weights) in [(DType::U8, DType::I8), (DType::I8, DType::I8), (DType::U8, DType::U8)] {
        let zero = if dtype == DType::U8 { 100.0 } else { -20.0 };
        let mut net = Net::new();
        let x = net.region.input([2, 3, 12, 10]);
        let (first, second) = (net.grid(dtype, 0.02, zero), net.grid(dtype, 0.05, zero));
        let x = net.both(x, first);
        let y = net.conv(x, 16, 3, 2, 1, weights);
        let y = net.region.like("Relu", &[y], &[]);
        let y = net.both(y, second);
        let left = net.conv(y, 16, 3, 1, 16, weights);
        let six = [net.region.number(0.0), net.region.number(6.0)];
        let left = net.region.like("Clip", &[left, six[0], six[1]], &[]);
        let left = net.both(left, second);
        let right = net.conv(y, 16, 1, 1, 1, weights);
        let right = net.both(right, second);
        let sum = net.region.like(if weights == DType::U8 { "Sum" } else { "Add" }, &[left, right], &[]);
        let sum = net.region.like("Relu", &[sum], &[]);
        let sum = net.both(sum, second);
        let pooled = net.window("MaxPool", &[sum], 16, 3, 2, 1, DType::F32);
        let pooled = net.both(pooled, second);
        let pooled = net.window("AveragePool", &[pooled], 16, 3, 1, 1, DType::F32);
        // On another grid, as sums of few taps are often between two steps of the same one.
        let third = net.grid(dtype, 0.043, zero);
        let pooled = net.both(pooled, third);
        let joined = net.region.node("Concat", &[pooled, pooled], [2, 32, 3, 3], &[("axis", Attribute::Int(1))]);
        let joined = net.both(joined, third);
        let mean = net.region.node("GlobalAveragePool", &[joined], [2, 32, 1, 1], &[]);
        let mean = net.both(mean, second);
        let flat = net.region.node("Flatten", &[mean], [2, 32], &[]);
        let flat = net.both(flat, second);
        let w = net.weights(weights, &[10, 32], 0);
        let bias = net.region.weight([10]);
        let y = net.region.node("Gemm", &[flat, w, bias], [2, 10], &[("transB", Attribute::Int(1))]);
        net.region.output(y);
        net.check(
            0.05 * 128.0 * 0.02,
            &[
                "quantize",
                "transpose",
                "integer_conv",
                "integer_conv",
                "integer_conv",
                "combine",
                "integer_pool",
                "integer_average",
                "concat",
                "integer_mean",
                "view",
                "view",
                "integer_gemm",
            ],
        );
    }
}

/// Images of one dimension, between convolutions and at both ends.
#[test]
fn convolutions_over_one_axis_are_in_integers() {
    let mut net = Net::new();
    let x = net.region.input([2, 3, 30]);
    let grid = net.grid(DType::U8, 0.02, 120.0);
    let x = net.both(x, grid);
    let conv = |net: &mut Net, x: usize, shape: [usize; 3], group: i64, out: [usize; 3]| {
        let (w, bias) = (net.weights(DType::I8, &shape, 0), net.region.weight([shape[0]]));
        let pads = ("pads", Attribute::Ints(vec![shape[2] as i64 / 2; 2]));
        net.region.node("Conv", &[x, w, bias], out, &[pads, ("group", Attribute::Int(group))])
    };
    let y = conv(&mut net, x, [8, 3, 5], 1, [2, 8, 30]);
    let y = net.region.like("Relu", &[y], &[]);
    let y = net.both(y, grid);
    let y = conv(&mut net, y, [8, 1, 3], 8, [2, 8, 30]);
    let y = net.both(y, grid);
    net.region.output(y);
    let w = net.bytes(DType::I8, &[4, 3, 3]);
    let bytes = net.to(x, grid);
    let sums = net.region.node("ConvInteger", &[bytes, w, grid.1], (DType::I32, vec![2usize, 4, 28]), &[]);
    net.region.output(sums);
    let group = ["quantize", "view", "transpose", "integer_conv", "integer_conv", "transpose", "view", "dequantize"];
    let alone = ["view", "transpose", "integer_conv", "transpose", "view"];
    net.check(0.05 * 120.0 * 0.02, &[&group[..], &alone].concat());
}

/// Filters over one axis that there is no kernel for: of groups, and given by the run; and a scale for each block.
#[test]
fn other_convolutions_over_one_axis_run_as_they_are() {
    let mut net = Net::new();
    let x = net.region.input([1, 4, 10]);
    let grid = net.grid(DType::U8, 0.02, 120.0);
    let bytes = net.to(x, grid);
    let group = [("group", Attribute::Int(2))];
    let w = net.bytes(DType::I8, &[4, 2, 3]);
    let y = net.region.node("ConvInteger", &[bytes, w], (DType::I32, vec![1usize, 4, 8]), &group);
    net.region.output(y);
    let filters = net.region.input([2, 4, 3]);
    let filters = net.to(filters, grid);
    let y = net.region.node("ConvInteger", &[bytes, filters], (DType::I32, vec![1usize, 2, 8]), &[]);
    net.region.output(y);
    let w = net.bytes(DType::I8, &[4, 2, 3]);
    let zero = net.region.numbers((DType::I8, Vec::<usize>::new()), &[0.0]);
    let (scale, y_scale) = (net.region.number(0.01), net.region.number(0.5));
    let inputs = [bytes, grid.0, grid.1, w, scale, zero, y_scale, grid.1];
    let y = net.region.node("QLinearConv", &inputs, (DType::U8, vec![1usize, 4, 8]), &group);
    let y = net.from(y, grid);
    net.region.output(y);
    let blocks = [("axis", Attribute::Int(2)), ("block_size", Attribute::Int(10))];
    let scales = net.region.numbers([1, 4, 1], &[0.1, 0.2, 0.3, 0.4]);
    let y = net.region.node("DequantizeLinear", &[bytes, scales], [1, 4, 10], &blocks);
    let w = net.region.weight([2, 4, 3]);
    let y = net.region.node("Conv", &[y, w], [1, 2, 8], &[]);
    net.region.output(y);
    // A thousandth of it is what few elements may differ by.
    net.check_results(1.0);
}

#[test]
fn functions_of_one_element_become_a_table() {
    let mut net = Net::new();
    let x = net.region.input([3, 70]);
    let (from, to) = (net.grid(DType::U8, 0.05, 128.0), net.grid(DType::I8, 0.01, -3.0));
    let x = net.both(x, from);
    let y = net.region.like("Sigmoid", &[x], &[]);
    let bounds = [net.region.number(0.1), net.region.number(0.9)];
    let y = net.region.like("Clip", &[y, bounds[0], bounds[1]], &[]);
    let y = net.to(y, to);
    net.region.output(y);
    let again = net.to(x, to);
    net.region.output(again);
    net.check(0.0, &["quantize", "lookup", "lookup"]);
}

#[test]
fn products_take_what_follows_them() {
    for right in [DType::I8, DType::U8] {
        let mut net = Net::new();
        let x = net.region.input([2, 9, 30]);
        let scalar = Vec::<usize>::new();
        let results =
            [(DType::U8, vec![2usize, 9, 30]).into(), (DType::F32, scalar.clone()).into(), (DType::U8, scalar).into()];
        let dynamic = net.region.nodes("DynamicQuantizeLinear", &[Some(x)], &results, &[]);
        let w = net.bytes(right, &[30, 20]);
        let zero = net.region.numbers((right, Vec::<usize>::new()), &[if right == DType::U8 { 120.0 } else { 2.0 }]);
        let product = net.region.node(
            "MatMulInteger",
            &[dynamic[0], w, dynamic[2], zero],
            (DType::I32, vec![2usize, 9, 20]),
            &[],
        );
        let product = net.region.node("Cast", &[product], [2, 9, 20], &[("to", Attribute::Int(1))]);
        let scales = net.region.numbers([20], &(0..20).map(|at| 0.01 + at as f64 * 1e-4).collect::<Vec<_>>());
        let scales = net.region.node("Mul", &[dynamic[1], scales], [20], &[]);
        let product = net.region.like("Mul", &[product, scales], &[]);
        let bias = net.region.weight([20]);
        let y = net.region.node("Add", &[bias, product], [2, 9, 20], &[]);
        let y = net.region.like("Relu", &[y], &[]);
        net.region.output(y);
        net.check(1e-2, &["dynamic_quantize", "binary", "integer_gemm"]);
    }
}

#[test]
fn batches_of_computed_matrices_are_multiplied() {
    let mut net = Net::new();
    let (a, b) = (net.region.input([2, 3, 5, 16]), net.region.input([2, 3, 16, 7]));
    let (from, to) = (net.grid(DType::U8, 0.01, 99.0), net.grid(DType::I8, 0.01, 3.0));
    let (a, b) = (net.both(a, from), net.both(b, to));
    let y = net.region.node("MatMul", &[a, b], [2, 3, 5, 7], &[]);
    let y = net.both(y, to);
    net.region.output(y);
    net.check(0.01, &["quantize", "quantize", "integer_gemm", "dequantize"]);
}

#[test]
fn linear_operators_and_integer_ones_are_kernels() {
    let mut net = Net::new();
    let x = net.region.input([1, 4, 6, 6]);
    let grid = net.grid(DType::U8, 0.02, 60.0);
    let x = net.to(x, grid);
    let w = net.bytes(DType::I8, &[8, 4, 3, 3]);
    let scales = net.region.numbers([8], &[0.01, 0.02, 0.03, 0.01, 0.02, 0.03, 0.01, 0.02]);
    let zeros = net.region.numbers((DType::I8, vec![8usize]), &[0.0; 8]);
    let bias = net.region.numbers((DType::I32, vec![8usize]), &[5.0, 900.0, -700.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
    let to = net.grid(DType::U8, 0.2, 30.0);
    let y = net.window("QLinearConv", &[x, grid.0, grid.1, w, scales, zeros, to.0, to.1, bias], 8, 3, 1, 1, DType::U8);
    net.region.output(y);
    let sums = net.window("ConvInteger", &[x, w, grid.1], 8, 3, 1, 1, DType::I32);
    net.region.output(sums);
    let shape = net.region.ints(&[24, 6]);
    let flat = net.region.node("Reshape", &[x, shape], (DType::U8, vec![24usize, 6]), &[]);
    let w = net.bytes(DType::U8, &[6, 9]);
    let b = net.grid(DType::U8, 0.01, 100.0);
    let y = net.region.node(
        "QLinearMatMul",
        &[flat, grid.0, grid.1, w, b.0, b.1, to.0, to.1],
        (DType::U8, vec![24usize, 9]),
        &[],
    );
    net.region.output(y);
    net.check(
        0.0,
        &["quantize", "transpose", "integer_conv", "integer_conv", "view", "integer_gemm", "transpose", "transpose"],
    );
}

#[test]
fn code_that_lies_about_integers_is_refused() {
    let mut net = Net::new();
    let x = net.region.input([1, 4, 6, 6]);
    let grid = net.grid(DType::U8, 0.02, 60.0);
    let x = net.both(x, grid);
    let y = net.conv(x, 8, 3, 1, 1, DType::I8);
    let y = net.both(y, grid);
    net.region.output(y);
    let compiled = compile(&net.region, &[]);
    let text = String::from_utf8(compiled.code.clone()).expect("JSON");
    let host = json().runtime().host().expect("the host");
    let environment = byoc_plugin_api::Environment { threads: 1, options: Default::default() };
    let constants = byoc_plugin_api::BoundConstants::new(compiled.bound());
    assert!(host.load(text.as_bytes(), &constants, &environment).is_ok());
    for (from, to) in [
        ("\"kernel\":[3,3]", "\"kernel\":[5,3]"),
        ("\"kernel\":[3,3]", "\"kernel\":[0,3]"),
        ("\"strides\":[1,1]", "\"strides\":[0,1]"),
        ("\"act\":\"none\"", "\"act\":\"tanh\""),
        ("\"integer_conv\":{", "\"integer_conv\":{\"depthwise\":true,"),
    ] {
        let damaged = text.replacen(from, to, 1);
        assert_ne!(damaged, text, "{from}");
        assert!(host.load(damaged.as_bytes(), &constants, &environment).is_err(), "{from} {to}");
    }
}

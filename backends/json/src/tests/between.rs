//! What lies between `DequantizeLinear` and `QuantizeLinear`: tables, concatenations, factors by channel, and moves of images.

use byoc_plugin_api::{Attribute, DType};

use super::integer::Net;

/// A constant number that is quantised.
fn scalar(net: &mut Net, number: f64) -> usize {
    let (grid, byte) = (net.grid(DType::U8, number / 200.0, 0.0), Vec::<usize>::new());
    let byte = net.region.numbers((DType::U8, byte), &[200.0]);
    net.from(byte, grid)
}

/// One number for each channel of images, quantised.
fn by_channel(net: &mut Net, channels: usize) -> usize {
    // No product of it is half a level.
    let grid = net.grid(DType::I8, 0.0137, -5.0);
    let bytes = net.bytes(DType::I8, &[channels, 1, 1]);
    net.from(bytes, grid)
}

#[test]
fn what_one_byte_decides_is_one_table() {
    let mut net = Net::new();
    let x = net.region.input([30, 70]);
    let (from, unit) = (net.grid(DType::U8, 0.05, 128.0), net.grid(DType::U8, 1.0 / 255.0, 0.0));
    let to = net.grid(DType::I8, 0.03, -40.0);
    let x = net.both(x, from);
    let sigmoid = net.region.like("Sigmoid", &[x], &[]);
    let sigmoid = net.both(sigmoid, unit);
    let silu = net.region.like("Mul", &[x, sigmoid], &[]);
    let silu = net.both(silu, to);
    // A GELU as exporters write it.
    let root = net.region.number(std::f64::consts::SQRT_2);
    let inner = net.region.like("Div", &[silu, root], &[]);
    let erf = net.region.like("Erf", &[inner], &[]);
    let (signed, around) = (net.grid(DType::I8, 1.0 / 127.0, 0.0), net.grid(DType::U8, 2.0 / 255.0, 0.0));
    let erf = net.both(erf, signed);
    let one = scalar(&mut net, 1.0);
    let sum = net.region.like("Add", &[erf, one], &[]);
    let sum = net.both(sum, around);
    let product = net.region.like("Mul", &[silu, sum], &[]);
    let product = net.both(product, to);
    let half = scalar(&mut net, 0.5);
    let y = net.region.like("Mul", &[product, half], &[]);
    let y = net.to(y, to);
    net.region.output(y);
    net.check(1.0, &["quantize", "lookup"]);
}

#[test]
fn a_byte_that_is_read_twice_is_one_byte() {
    let mut net = Net::new();
    let x = net.region.input([30, 70]);
    let grid = net.grid(DType::U8, 0.05, 128.0);
    let x = net.both(x, grid);
    let sigmoid = net.region.like("Sigmoid", &[x], &[]);
    let silu = net.region.like("Mul", &[x, sigmoid], &[]);
    let y = net.to(silu, grid);
    net.region.output(y);
    net.check(1.0, &["quantize", "lookup"]);
}

#[test]
fn what_two_bytes_decide_is_none() {
    let mut net = Net::new();
    let (a, b) = (net.region.input([3, 70]), net.region.input([3, 70]));
    let grid = net.grid(DType::U8, 0.05, 128.0);
    let (a, b) = (net.both(a, grid), net.both(b, grid));
    let b = net.region.like("Tanh", &[b], &[]);
    let b = net.both(b, grid);
    let y = net.region.like("Mul", &[a, b], &[]);
    let y = net.to(y, grid);
    net.region.output(y);
    net.check(1.0, &["quantize", "quantize", "lookup", "combine"]);
}

#[test]
fn tensors_of_several_scales_are_concatenated_as_bytes() {
    let mut net = Net::new();
    let (a, b) = (net.region.input([2, 3, 40]), net.region.input([2, 5, 40]));
    let (coarse, fine) = (net.grid(DType::U8, 0.05, 128.0), net.grid(DType::I8, 0.02, 9.0));
    let (a, b) = (net.both(a, coarse), net.both(b, fine));
    let y = net.region.node("Concat", &[a, b], [2, 8, 40], &[("axis", Attribute::Int(1))]);
    let y = net.to(y, coarse);
    net.region.output(y);
    net.check(0.0, &["quantize", "quantize", "view", "lookup", "concat"]);
}

#[test]
fn factors_and_offsets_by_channel_stay_in_integers() {
    for dtype in [DType::U8, DType::I8] {
        let mut net = Net::new();
        let zero = if dtype == DType::U8 { 100.0 } else { -20.0 };
        let (images, gates) = (net.region.input([2, 8, 6, 5]), net.region.input([2, 8, 1, 1]));
        let grid = net.grid(dtype, 0.05, zero);
        let x = net.both(images, grid);
        let x = net.conv(x, 20, 3, 1, 1, DType::I8);
        let x = net.both(x, grid);
        // A normalisation whose factors and offsets are quantised.
        let (scale, bias) = (net.weights(DType::I8, &[20], 0), net.bias(20));
        let (mean, variance) = (net.region.weight([20]), net.region.numbers([20], &[0.8; 20]));
        let x = net.region.like("BatchNormalization", &[x, scale, bias, mean, variance], &[]);
        let x = net.both(x, grid);
        let factors = by_channel(&mut net, 20);
        let x = net.region.like("Mul", &[x, factors], &[]);
        let x = net.both(x, grid);
        let offsets = by_channel(&mut net, 20);
        let x = net.region.node("Add", &[offsets, x], [2, 20, 6, 5], &[]);
        let x = net.region.like("Relu", &[x], &[]);
        let x = net.both(x, grid);
        let x = net.conv(x, 8, 1, 1, 1, DType::I8);
        let x = net.both(x, grid);
        // A gate for each channel of each image.
        let fine = net.grid(dtype, 0.0137, zero);
        let gates = net.both(gates, fine);
        let x = net.region.like("Mul", &[x, gates], &[]);
        let x = net.to(x, grid);
        net.region.output(x);
        let expected = [
            "quantize",
            "transpose",
            "integer_conv",
            "integer_affine",
            "dequantize",
            "integer_affine",
            "dequantize",
            "integer_affine",
            "integer_conv",
            "quantize",
            "dequantize",
            "integer_affine",
            "transpose",
        ];
        net.check(1.0, &expected);
    }
}

#[test]
fn rows_take_factors_and_offsets_too() {
    let mut net = Net::new();
    let x = net.region.input([2, 9, 30]);
    let grid = net.grid(DType::U8, 0.05, 100.0);
    let x = net.both(x, grid);
    let w = net.weights(DType::I8, &[30, 40], 1);
    let x = net.region.node("MatMul", &[x, w], [2, 9, 40], &[]);
    let x = net.both(x, grid);
    let bias = net.region.weight([40]);
    let x = net.region.node("Add", &[bias, x], [2, 9, 40], &[]);
    let x = net.to(x, grid);
    net.region.output(x);
    net.check(1.0, &["quantize", "integer_gemm", "integer_affine"]);
}

#[test]
fn images_are_moved_with_their_channels_last() {
    let mut net = Net::new();
    let list = |values: &[i64]| Attribute::Ints(values.to_vec());
    let images = net.region.input([2, 8, 6, 5]);
    let grid = net.grid(DType::U8, 0.05, 100.0);
    let x = net.both(images, grid);
    let x = net.conv(x, 12, 3, 1, 1, DType::I8);
    let x = net.both(x, grid);
    // Channels are shuffled, and half of them taken.
    let apart = net.region.ints(&[2, 2, 6, 6, 5]);
    let x = net.region.node("Reshape", &[x, apart], [2, 2, 6, 6, 5], &[]);
    let x = net.both(x, grid);
    let x = net.region.node("Transpose", &[x], [2, 6, 2, 6, 5], &[("perm", list(&[0, 2, 1, 3, 4]))]);
    let x = net.both(x, grid);
    let together = net.region.ints(&[2, 12, 6, 5]);
    let x = net.region.node("Reshape", &[x, together], [2, 12, 6, 5], &[]);
    let x = net.both(x, grid);
    let ends = [net.region.ints(&[6]), net.region.ints(&[12]), net.region.ints(&[1])];
    let x = net.region.node("Slice", &[x, ends[0], ends[1], ends[2]], [2, 6, 6, 5], &[]);
    let x = net.both(x, grid);
    let x = net.conv(x, 8, 1, 1, 1, DType::I8);
    let x = net.both(x, grid);
    // Into the other order and back, with something between.
    let x = net.region.node("Transpose", &[x], [2, 6, 5, 8], &[("perm", list(&[0, 2, 3, 1]))]);
    let x = net.both(x, grid);
    let x = net.region.like("Tanh", &[x], &[]);
    let x = net.both(x, grid);
    let x = net.region.node("Transpose", &[x], [2, 8, 6, 5], &[("perm", list(&[0, 3, 1, 2]))]);
    let x = net.both(x, grid);
    let x = net.conv(x, 8, 1, 1, 1, DType::I8);
    let x = net.to(x, grid);
    net.region.output(x);
    let moved = ["view", "transpose", "view", "slice"];
    let expected = ["quantize", "transpose", "integer_conv"].iter().chain(&moved);
    let expected = expected.chain(&["integer_conv", "view", "lookup", "integer_conv", "transpose"]);
    net.check(1.0, &expected.copied().collect::<Vec<_>>());
}

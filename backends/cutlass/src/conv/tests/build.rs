//! Networks for images, with weights of `f32` whatever the images are.

use byoc_plugin_api::testing::{RegionBuilder, Type};
use byoc_plugin_api::{Attribute, DType, Dim};

/// A list of integers.
pub(super) fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

/// A region with images of that type as input.
pub(super) fn build(dtype: DType, shape: impl Into<Type>) -> (RegionBuilder, usize) {
    let mut build = RegionBuilder::new("cutlass");
    let x = build.input((dtype, shape));
    (build, x)
}

/// A convolution of each channel on its own.
pub(super) fn depthwise(build: &mut RegionBuilder, x: usize, kernel: usize, stride: usize) -> usize {
    let channels = build.region.values[x].shape[1].fixed().expect("images have fixed sizes");
    let weights = build.weight([channels, 1, kernel, kernel]);
    let (pad, step, group) = ((kernel / 2) as i64, stride as i64, Attribute::Int(channels as i64));
    let attributes = [("pads", ints(&[pad; 4])), ("strides", ints(&[step; 2])), ("group", group)];
    build.node("Conv", &[x, weights], build.after(x, channels, stride), &attributes)
}

fn pool(build: &mut RegionBuilder, op: &str, x: usize, kernel: usize, stride: usize) -> usize {
    let channels = build.region.values[x].shape[1].fixed().expect("images have fixed sizes");
    let (pad, size, step) = ((kernel / 2) as i64, kernel as i64, stride as i64);
    let attributes = [("kernel_shape", ints(&[size; 2])), ("pads", ints(&[pad; 4])), ("strides", ints(&[step; 2]))];
    build.node(op, &[x], build.after(x, channels, stride), &attributes)
}

/// The mean of all pixels.
fn global(build: &mut RegionBuilder, x: usize) -> usize {
    let mut ty = build.ty(x);
    ty.shape[2..].fill(1.into());
    build.node("GlobalAveragePool", &[x], ty, "")
}

/// The beginning of a residual network: a stem, a block that changes the number of channels, one that does not, and the mean.
pub(super) fn residual(dtype: DType, batch: Dim, size: usize) -> RegionBuilder {
    let (mut build, x) = build(dtype, [batch, 3.into(), size.into(), size.into()]);
    let stem = build.conv(x, 16, 7, 2, 1);
    let stem = build.norm(stem);
    let stem = build.like("Relu", &[stem], "");
    let mut x = pool(&mut build, "MaxPool", stem, 3, 2);
    for block in 0..2 {
        let a = build.conv(x, 8, 1, 1, 1);
        let a = build.like("Relu", &[a], "");
        let b = build.conv(a, 8, 3, 1, 1);
        let b = build.like("Relu", &[b], "");
        let c = build.conv(b, 32, 1, 1, 1);
        let c = build.norm(c);
        let beside = if block == 0 { build.conv(x, 32, 1, 1, 1) } else { x };
        let sum = build.like("Add", &[c, beside], "");
        x = build.like("Relu", &[sum], "");
    }
    let mean = global(&mut build, x);
    build.with(&[mean])
}

/// What mobile networks are made of: depthwise convolutions, gates by the mean of a channel, and joined channels; and a
/// result that is an image.
pub(super) fn mobile(dtype: DType, batch: Dim, size: usize) -> RegionBuilder {
    let (mut build, x) = build(dtype, [batch, 24.into(), size.into(), size.into()]);
    let wide = build.conv(x, 40, 1, 1, 1);
    let sigmoid = build.like("Sigmoid", &[wide], "");
    let wide = build.like("Mul", &[wide, sigmoid], "");
    let deep = depthwise(&mut build, wide, 3, 2);
    let deep = build.norm(deep);
    let deep = build.like("HardSwish", &[deep], "");
    let mean = global(&mut build, deep);
    let gate = build.conv(mean, 12, 1, 1, 1);
    let gate = build.like("Relu", &[gate], "");
    let gate = build.conv(gate, 40, 1, 1, 1);
    let gate = build.like("HardSigmoid", &[gate], "");
    let gated = build.like("Mul", &[deep, gate], "");
    let pooled = pool(&mut build, "AveragePool", gated, 3, 1);
    let tanh = build.like("Tanh", &[gated], "");
    let joined = build.after(gated, 90, 1);
    let last = build.conv(tanh, 10, 3, 1, 1);
    let y = build.node("Concat", &[pooled, gated, last], joined, "axis=1");
    build.with(&[y, mean])
}

//! A second run with the same shapes allocates nothing.

use byoc_plugin_api::testing::{Counting, RegionBuilder, Tensor};
use byoc_plugin_api::{Attribute, TensorViewMut};

use super::harness::{calls, compile, empty};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the second run on one thread.
fn second_run(net: &RegionBuilder) -> usize {
    let compiled = compile(net, &[]);
    let mut executable = compiled.load(1).expect("load");
    let (inputs, mut outputs) = (net.inputs(1, &[]), net.room(&[]));
    let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
    let mut outputs: Vec<TensorViewMut<'_>> = outputs.iter_mut().map(Tensor::view_mut).collect();
    executable.run(&views, &mut outputs).expect("first run");
    let before = Counting::count();
    executable.run(&views, &mut outputs).expect("second run");
    Counting::count() - before
}

#[test]
fn a_convolution_net_does_not_allocate() {
    let mut net = empty();
    let x = net.input([1, 3, 16, 16]);
    let a = net.conv(x, 24, 3, 1, 1);
    let a = net.norm(a);
    let a = net.node("Relu", &[a], [1, 24, 16, 16], &[]);
    let window = [("kernel_shape", Attribute::Ints(vec![2, 2])), ("strides", Attribute::Ints(vec![2, 2]))];
    let a = net.node("MaxPool", &[a], [1, 24, 8, 8], &window);
    let b = net.conv(a, 24, 3, 1, 24);
    let sum = net.node("Add", &[a, b], [1, 24, 8, 8], &[]);
    let all = net.node("Concat", &[sum, a], [1, 48, 8, 8], "axis=1");
    let mean = net.node("GlobalAveragePool", &[all], [1, 48, 1, 1], &[]);
    let flat = net.node("Flatten", &[mean], [1, 48], &[]);
    let w = net.weight([48, 10]);
    let out = net.node("Gemm", &[flat, w], [1, 10], &[]);
    let out = net.node("Softmax", &[out], [1, 10], &[]);
    net.output(out);
    assert_eq!(second_run(&net), 0, "{:?}", calls(&net));
}

#[test]
fn a_cache_does_not_allocate() {
    let net = super::places::cache();
    assert_eq!(second_run(&net), 0, "{:?}", calls(&net));
}

#[test]
fn images_that_are_sampled_do_not_allocate() {
    let net = super::sampling::chain();
    assert_eq!(second_run(&net), 0, "{:?}", calls(&net));
}

#[test]
fn a_transformer_layer_does_not_allocate() {
    let mut net = super::fusion::attention(true, true);
    let x = net.region.outputs[0];
    let shape = [2, 7, 24];
    let (scale, bias) = (net.weight([24]), net.weight([24]));
    let normal = net.node("LayerNormalization", &[x, scale, bias], shape, &[]);
    let (up, down) = (net.weight([24, 96]), net.weight([96, 24]));
    let wide = net.node("MatMul", &[normal, up], [2, 7, 96], &[]);
    let gelu = net.node("Gelu", &[wide], [2, 7, 96], &[]);
    let out = net.node("MatMul", &[gelu, down], shape, &[]);
    let sum = net.node("Add", &[out, x], shape, &[]);
    net.region.outputs = vec![sum];
    assert_eq!(second_run(&net), 0, "{:?}", calls(&net));
}

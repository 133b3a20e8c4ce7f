//! A second run with the same shapes allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use byoc_plugin_api::{Attribute, TensorView, TensorViewMut, contiguous_strides};

use super::harness::Net;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the second run on one thread.
fn second_run(net: &Net) -> usize {
    let compiled = net.compile(&[]);
    compiled.with_loaded(net, 1, |executable| {
        let inputs = net.inputs(&[]);
        let shape = |value: usize| -> Vec<i64> {
            net.region.values[value].fixed_shape().expect("fixed").into_iter().map(|size| size as i64).collect()
        };
        let (from, to) = (shape(net.region.inputs[0]), shape(net.region.outputs[0]));
        let (from_strides, to_strides) = (contiguous_strides(&from), contiguous_strides(&to));
        let view = [TensorView::from_slice(&inputs[0], &from, &from_strides).expect("input")];
        let mut data = vec![0f32; to.iter().product::<i64>() as usize];
        let mut out = [TensorViewMut::from_slice(&mut data, &to, &to_strides).expect("output")];
        executable.run(&view, &mut out).expect("first run");
        let before = COUNT.with(Cell::get);
        executable.run(&view, &mut out).expect("second run");
        COUNT.with(Cell::get) - before
    })
}

#[test]
fn a_convolution_net_does_not_allocate() {
    let mut net = Net::new();
    let x = net.input(&[1, 3, 16, 16]);
    let a = net.conv(x, [1, 24, 16, 16], 3, 1, 1);
    let a = net.norm(a);
    let a = net.node("Relu", &[a], &[1, 24, 16, 16], &[]);
    let window = [("kernel_shape", Attribute::Ints(vec![2, 2])), ("strides", Attribute::Ints(vec![2, 2]))];
    let a = net.node("MaxPool", &[a], &[1, 24, 8, 8], &window);
    let b = net.conv(a, [1, 24, 8, 8], 3, 1, 24);
    let sum = net.node("Add", &[a, b], &[1, 24, 8, 8], &[]);
    let all = net.node("Concat", &[sum, a], &[1, 48, 8, 8], &[("axis", Attribute::Int(1))]);
    let mean = net.node("GlobalAveragePool", &[all], &[1, 48, 1, 1], &[]);
    let flat = net.node("Flatten", &[mean], &[1, 48], &[]);
    let w = net.weight(&[48, 10]);
    let out = net.node("Gemm", &[flat, w], &[1, 10], &[]);
    let out = net.node("Softmax", &[out], &[1, 10], &[]);
    net.output(out);
    assert_eq!(second_run(&net), 0, "{:?}", net.calls());
}

#[test]
fn a_transformer_layer_does_not_allocate() {
    let mut net = super::fusion::attention(true, true);
    let x = net.region.outputs[0];
    let shape = [2, 7, 24];
    let (scale, bias) = (net.weight(&[24]), net.weight(&[24]));
    let normal = net.node("LayerNormalization", &[x, scale, bias], &shape, &[]);
    let (up, down) = (net.weight(&[24, 96]), net.weight(&[96, 24]));
    let wide = net.node("MatMul", &[normal, up], &[2, 7, 96], &[]);
    let gelu = net.node("Gelu", &[wide], &[2, 7, 96], &[]);
    let out = net.node("MatMul", &[gelu, down], &shape, &[]);
    let sum = net.node("Add", &[out, x], &shape, &[]);
    net.region.outputs = vec![sum];
    assert_eq!(second_run(&net), 0, "{:?}", net.calls());
}

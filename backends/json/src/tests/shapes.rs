//! Symbolic, empty and odd shapes.

use byoc_plugin_api::{Attribute, Dim};

use super::harness::{Net, assert_close};

fn batch(text: &str) -> Dim {
    Dim::Symbolic(text.into())
}

fn mlp() -> Net {
    let mut net = Net::new();
    let n = batch("batch");
    let x = net.symbolic_input(&[n.clone(), 4, 8].map(|size: DimOrSize| size.into()));
    let (w, bias) = (net.weight(&[8, 16]), net.weight(&[16]));
    let flat = net.ints(&[-1, 8]);
    let rows = net.symbolic_node("Reshape", &[x, flat], &[batch("batch*4"), Dim::Fixed(8)], &[]);
    let shape = [batch("batch*4"), Dim::Fixed(16)];
    let y = net.symbolic_node("Gemm", &[rows, w, bias], &shape, &[]);
    let y = net.symbolic_node("Relu", &[y], &shape, &[]);
    let back = net.ints(&[-1, 4, 16]);
    let out = net.symbolic_node("Reshape", &[y, back], &[n, Dim::Fixed(4), Dim::Fixed(16)], &[]);
    net.output(out);
    net
}

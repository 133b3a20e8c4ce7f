//! Attention, convolutions and poolings within larger regions, with what comes before and behind them.

use byoc_plugin_api::{Attribute, DType};

use super::fixture::{NAMED, Net, check};

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

fn turned(net: &mut Net, value: usize, perm: &[i64]) -> usize {
    net.node(("Transpose", &[("perm", ints(perm))]), &[value])
}

/// Heads of a sum with a bias, as exporters write them.
fn heads(net: &mut Net, dtype: DType, x: usize, perm: &[i64]) -> usize {
    let bias = net.constant(dtype, &[48]);
    let sum = net.node(("Add", &[]), &[x, bias]);
    let shape = net.ints(&[0, 0, 3, 16]);
    let split = net.node(("Reshape", &[]), &[sum, shape]);
    turned(net, split, perm)
}

/// A mask of integers that becomes numbers to add: 0, or -100 where it is 0.
fn hidden(net: &mut Net, dtype: DType, tokens: usize) -> usize {
    let mask = net.input(DType::Bool, &[2, 1, 1, tokens]);
    let to = if dtype == DType::F16 { 10 } else { 1 };
    let wide = net.nodes(("Cast", &[("to", Attribute::Int(to))]), &[Some(mask)], &[Some(dtype)])[0];
    let (one, least) = (net.constant_of(dtype, &[], &[1.0]), net.constant_of(dtype, &[], &[-100.0]));
    let closed = net.node(("Sub", &[]), &[one, wide]);
    net.node(("Mul", &[]), &[closed, least])
}

/// Attention in pieces, from projections to what goes into the next one. The mask comes first or last.
fn pieces(dtype: DType, named: bool, mask_first: bool) -> Net {
    let mut net = Net::new(named);
    let tokens = NAMED;
    let [q, k, v] = [(); 3].map(|()| net.input(dtype, &[2, tokens, 48]));
    let mask = hidden(&mut net, dtype, tokens);
    let q = heads(&mut net, dtype, q, &[0, 2, 1, 3]);
    let k = heads(&mut net, dtype, k, &[0, 2, 3, 1]);
    let v = heads(&mut net, dtype, v, &[0, 2, 1, 3]);
    let scores = net.node(("MatMul", &[]), &[q, k]);
    let four = net.constant_of(dtype, &[], &[4.0]);
    let scaled = net.node(("Div", &[]), &[scores, four]);
    let masked = net.node(("Add", &[]), &if mask_first { [mask, scaled] } else { [scaled, mask] });
    let weights = net.node(("Softmax", &[]), &[masked]);
    let product = net.node(("MatMul", &[]), &[weights, v]);
    let joined = turned(&mut net, product, &[0, 2, 1, 3]);
    let shape = net.ints(&[0, 0, 48]);
    let y = net.node(("Reshape", &[]), &[joined, shape]);
    let y = net.node(("Relu", &[]), &[y]);
    // Others want values of Q, too.
    let also = net.node(("Neg", &[]), &[q]);
    net.output(y).output(also);
    net
}

/// Attention on three parts of rows, as a joint product makes them. Of a Split that others want, too, a part is read.
fn parts(dtype: DType, named: bool, leak: bool) -> Net {
    let mut net = Net::new(named);
    let x = net.input(dtype, &[2 * NAMED, 144]);
    let shape = net.ints(&[2, -1, 144]);
    let rows = net.node(("Reshape", &[]), &[x, shape]);
    let split = [("axis", Attribute::Int(2)), ("num_outputs", Attribute::Int(3))];
    let parts = net.nodes(("Split", &split), &[Some(rows)], &[None; 3]);
    let shape = net.ints(&[0, 0, 3, 16]);
    let heads = |net: &mut Net, part: usize, perm: &[i64]| {
        let heads = net.node(("Reshape", &[]), &[parts[part], shape]);
        turned(net, heads, perm)
    };
    let (q, k) = (heads(&mut net, 0, &[0, 2, 1, 3]), heads(&mut net, 1, &[0, 2, 3, 1]));
    let v = heads(&mut net, 2, &[0, 2, 1, 3]);
    let scores = net.node(("MatMul", &[]), &[q, k]);
    let weights = net.node(("Softmax", &[]), &[scores]);
    let y = net.node(("MatMul", &[]), &[weights, v]);
    net.output(y);
    if leak {
        net.output(parts[1]);
    }
    net
}

#[test]
fn attention_of_parts() {
    let mut nets = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (named, leak) in [(false, false), (false, true), (true, false)] {
            let net = parts(dtype, named, leak);
            let name = format!("parts of {dtype}, {named} {leak}");
            assert_eq!(net.fuse().variant.launches.len(), 1 + usize::from(leak), "{name}");
            nets.push((name, net));
        }
    }
    check(&nets);
}

fn operator(dtype: DType) -> Net {
    let mut net = Net::new(false);
    let q = net.input(dtype, &[2, 20, 64]);
    let [k, v] = [(); 2].map(|()| net.input(dtype, &[2, 30, 32]));
    let double = net.node(("Add", &[]), &[q, q]);
    let heads = [("q_num_heads", Attribute::Int(4)), ("kv_num_heads", Attribute::Int(2))];
    let attributes = [&heads[..], &[("is_causal", Attribute::Int(1))]].concat();
    let y = net.nodes(("Attention", &attributes), &[Some(double), Some(k), Some(v)], &[None])[0];
    net.output(y);
    net
}

#[test]
fn attention() {
    let mut nets = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (named, mask_first) in [(false, false), (false, true), (true, false)] {
            nets.push((format!("attention of {dtype}, {named} {mask_first}"), pieces(dtype, named, mask_first)));
        }
        nets.push((format!("Attention of {dtype}"), operator(dtype)));
    }
    check(&nets);
}

/// A residual block behind a stem.
fn block(dtype: DType) -> Net {
    let mut net = Net::new(false);
    let conv = |net: &mut Net, x: usize, from: usize, to: usize, kernel: usize, pad: i64| {
        let (w, b) = (net.constant(dtype, &[to, from, kernel, kernel]), net.constant(dtype, &[to]));
        net.node(("Conv", &[("pads", ints(&[pad; 4]))]), &[x, w, b])
    };
    let x = net.input(dtype, &[2, 3, 15, 15]);
    let x = net.node(("Abs", &[]), &[x]);
    let stem = conv(&mut net, x, 3, 8, 3, 1);
    let stem = net.node(("Relu", &[]), &[stem]);
    let window = [("kernel_shape", ints(&[3, 3])), ("strides", ints(&[2, 2])), ("pads", ints(&[1; 4]))];
    let pooled = net.node(("MaxPool", &window), &[stem]);
    let (left, right) = (conv(&mut net, pooled, 8, 16, 1, 0), conv(&mut net, pooled, 8, 16, 3, 1));
    let sum = net.node(("Add", &[]), &[left, right]);
    let sum = net.node(("Relu", &[]), &[sum]);
    let mean = net.node(("AveragePool", &[("kernel_shape", ints(&[8, 8]))]), &[sum]);
    net.output(mean);
    net
}

#[test]
fn residual_blocks() {
    let nets: Vec<_> = [DType::F32, DType::BF16].map(|dtype| (format!("a block of {dtype}"), block(dtype))).into();
    for (what, net) in &nets {
        // Abs, three convolutions with what follows them, and two poolings.
        assert_eq!(net.fuse().variant.launches.len(), 6, "{what}");
    }
    check(&nets);
}

/// As many kernels one after another as no network has: the plan does not start anew for each.
#[test]
fn a_long_chain_of_poolings() {
    let mut net = Net::new(false);
    let mut x = net.input(DType::F32, &[1, 1, 3, 3]);
    for _ in 0..1200 {
        x = net.node(("MaxPool", &[("kernel_shape", ints(&[3, 3])), ("pads", ints(&[1, 1, 1, 1]))]), &[x]);
        x = net.node(("Neg", &[]), &[x]);
    }
    net.output(x);
    let fused = net.fuse();
    assert_eq!(fused.variant.launches.len(), 2400);
}

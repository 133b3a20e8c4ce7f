//! ONNX's operator `Attention` as the kernel that the written-out form becomes.

use byoc_plugin_api::testing::RegionBuilder;
use byoc_plugin_api::{Attribute, DType};

use super::harness::{calls, check, empty};

/// The calls of a node on heads that are a dimension: queries, keys, their heads, a mask of that shape, and attributes.
fn apart([queries, keys]: [usize; 2], [heads, kv_heads]: [usize; 2], mask: &[usize], attributes: &str) -> Vec<String> {
    let (batch, size, wide) = (2, 8, 4);
    let mut net = empty();
    let q = net.input([batch, heads, queries, size]);
    let k = net.input([batch, kv_heads, keys, size]);
    let v = net.input([batch, kv_heads, keys, wide]);
    let mut inputs = vec![q, k, v];
    if !mask.is_empty() {
        inputs.push(net.weight(mask));
    }
    let y = net.node("Attention", &inputs, [batch, heads, queries, wide], attributes);
    net.output(y);
    check(&net, &[]);
    calls(&net)
}

#[test]
fn heads_apart_are_one_kernel() {
    for heads in [[2, 2], [6, 2], [3, 1]] {
        assert_eq!(apart([5, 7], heads, &[], ""), ["attention"]);
        assert_eq!(apart([7, 7], heads, &[], "is_causal=1"), ["attention"]);
        assert_eq!(apart([1, 7], heads, &[7], "scale=0.3"), ["attention"]);
        assert_eq!(apart([5, 7], heads, &[2, 1, 1, 7], ""), ["attention"]);
        assert_eq!(apart([5, 7], heads, &[heads[0], 5, 7], ""), ["attention"]);
    }
}

#[test]
fn what_the_kernel_does_not_do_stays_a_node() {
    for (keys, mask, attributes) in [
        (7, vec![], "is_causal=1"),
        (7, vec![5, 6], ""),
        (7, vec![1], ""),
        (5, vec![], "softcap=2.0"),
        (5, vec![], "left_window_size=2"),
        (5, vec![], "right_window_size=0"),
    ] {
        assert_eq!(apart([5, keys], [4, 2], &mask, attributes), ["reference"], "{mask:?} {attributes}");
    }
}

/// Heads side by side: out of three products, or out of one that is cut.
#[test]
fn heads_in_rows_are_read_where_they_are() {
    let (batch, rows, hidden) = (2, 6, 24);
    for cut in [false, true] {
        let mut net = empty();
        let x = net.input([batch, rows, hidden]);
        let parts = if cut {
            let w = net.weight([hidden, 48]);
            let all = net.node("MatMul", &[x, w], [batch, rows, 48], &[]);
            let shapes = [24, 12, 12].map(|size| [batch, rows, size].into());
            let sizes = net.ints(&[24, 12, 12]);
            net.nodes("Split", &[Some(all), Some(sizes)], &shapes, "axis=-1")
        } else {
            [24, 12, 12].map(|size| net.input([batch, rows, size])).to_vec()
        };
        let y = net.node("Attention", &parts, [batch, rows, hidden], "q_num_heads=4 kv_num_heads=2 is_causal=1");
        net.output(y);
        let expected: &[&str] = if cut { &["gemm", "attention"] } else { &["attention"] };
        assert_eq!(calls(&net), expected, "cut {cut}");
        check(&net, &[]);
    }
}

/// Keys become a list of matrices, which are transposed, and heads again; both factors are roots of the scale.
#[test]
fn keys_that_are_turned_as_a_list_of_matrices_are_read_through() {
    let (batch, heads, rows, keys, size) = (2, 3, 5, 7, 8);
    // The second list has other matrices: its keys are cut into heads otherwise than they came.
    for (list, fused) in [([batch * heads, keys, size], true), ([heads, batch * keys, size], false)] {
        let mut net = empty();
        let q = net.input([batch, heads, rows, size]);
        let [k, v] = [(); 2].map(|()| net.input([batch, heads, keys, size]));
        let matrices = net.ints(&list.map(|size| size as i64));
        let matrices = net.node("Reshape", &[k, matrices], list, &[]);
        let perm = [("perm", Attribute::Ints(vec![0, 2, 1]))];
        let turned = net.node("Transpose", &[matrices], [list[0], list[2], list[1]], &perm);
        let apart = net.ints(&[batch, heads, size, keys].map(|size| size as i64));
        let k = net.node("Reshape", &[turned, apart], [batch, heads, size, keys], &[]);
        let root = net.number(0.6);
        let q = net.node("Mul", &[q, root], [batch, heads, rows, size], &[]);
        let k = net.node("Mul", &[k, root], [batch, heads, size, keys], &[]);
        let scores = net.node("MatMul", &[q, k], [batch, heads, rows, keys], &[]);
        let softmax = net.node("Softmax", &[scores], [batch, heads, rows, keys], "axis=-1");
        let y = net.node("MatMul", &[softmax, v], [batch, heads, rows, size], &[]);
        net.output(y);
        assert_eq!(calls(&net) == ["attention"], fused, "{:?}", calls(&net));
        check(&net, &[]);
    }
}

#[test]
fn transpositions_around_the_node_are_read_through() {
    let (batch, rows, heads, size) = (2, 5, 3, 8);
    let mut net = empty();
    let perm = [("perm", Attribute::Ints(vec![0, 2, 1, 3]))];
    let parts: Vec<_> = (0..3)
        .map(|_| {
            let x = net.input([batch, rows, heads, size]);
            net.node("Transpose", &[x], [batch, heads, rows, size], &perm)
        })
        .collect();
    let y = net.node("Attention", &parts, [batch, heads, rows, size], &[]);
    let y = net.node("Transpose", &[y], [batch, rows, heads, size], &perm);
    net.output(y);
    assert_eq!(calls(&net), ["attention"]);
    check(&net, &[]);
}

#[test]
fn a_query_that_sees_nothing_gives_zeros() {
    let mut net = empty();
    let q = net.input([1, 2, 2, 8]);
    let (k, v) = (net.input([1, 2, 3, 8]), net.input([1, 2, 3, 8]));
    let least = f64::NEG_INFINITY;
    let mask = net.numbers((DType::F32, [2, 3]), &[least, least, least, 0.0, least, 0.5]);
    let y = net.node("Attention", &[q, k, v, mask], [1, 2, 2, 8], &[]);
    net.output(y);
    assert_eq!(calls(&net), ["attention"]);
    check(&net, &[]);
}

/// A factor of the values is none of the scores.
#[test]
fn values_that_are_scaled_stay_scaled() {
    let (batch, heads, rows, size) = (1, 2, 5, 4);
    let mut net = empty();
    let x = net.input([batch, rows, heads, size]);
    let shape = [batch, heads, rows, size];
    let turned = |perm: [i64; 4]| [("perm", Attribute::Ints(perm.to_vec()))];
    let q = net.node("Transpose", &[x], shape, &turned([0, 2, 1, 3]));
    let k = net.node("Transpose", &[x], [batch, heads, size, rows], &turned([0, 2, 3, 1]));
    let v = net.node("Transpose", &[x], shape, &turned([0, 2, 1, 3]));
    let two = net.number(2.0);
    let v = net.node("Mul", &[v, two], shape, &[]);
    let scores = net.node("MatMul", &[q, k], [batch, heads, rows, rows], &[]);
    let weights = net.node("Softmax", &[scores], [batch, heads, rows, rows], "axis=-1");
    let y = net.node("MatMul", &[weights, v], shape, &[]);
    net.output(y);
    check(&net, &[]);
}

fn moved(net: &mut RegionBuilder, x: usize, perm: &[usize]) -> usize {
    let shape: Vec<usize> = perm.iter().map(|&axis| net.sizes(x)[axis]).collect();
    let perm = Attribute::Ints(perm.iter().map(|&axis| axis as i64).collect());
    net.node("Transpose", &[x], shape, &[("perm", perm)])
}

fn seen_as(net: &mut RegionBuilder, x: usize, shape: &[usize]) -> usize {
    let sizes = net.ints(&shape.iter().map(|&size| size as i64).collect::<Vec<_>>());
    net.node("Reshape", &[x, sizes], shape, &[])
}

/// The part of the first axis at this index, without the axis.
fn picked(net: &mut RegionBuilder, x: usize, index: usize) -> usize {
    let shape = net.sizes(x)[1..].to_vec();
    let index = net.numbers((DType::I64, [0; 0]), &[index as f64]);
    net.node("Gather", &[x, index], shape, "axis=0")
}

/// Attention with one product for queries, keys and values, and what makes heads of rows of it.
fn after_one_product(
    shape: [usize; 3],
    heads: impl Fn(&mut RegionBuilder, usize) -> [usize; 3],
    perm: [usize; 4],
) -> Vec<String> {
    let [a, b, hidden] = shape;
    let mut net = empty();
    let (x, w) = (net.input(shape), net.weight([hidden, 3 * hidden]));
    let all = net.node("MatMul", &[x, w], [a, b, 3 * hidden], &[]);
    let [q, k, v] = heads(&mut net, all);
    let [batch, count, rows, size] = net.sizes(q).try_into().expect("heads");
    let k = moved(&mut net, k, &[0, 1, 3, 2]);
    let root = net.number(0.6);
    let q = net.node("Mul", &[q, root], [batch, count, rows, size], &[]);
    let scores = net.node("MatMul", &[q, k], [batch, count, rows, rows], &[]);
    let softmax = net.node("Softmax", &[scores], [batch, count, rows, rows], "axis=-1");
    let y = net.node("MatMul", &[softmax, v], [batch, count, rows, size], &[]);
    let y = moved(&mut net, y, &perm);
    let y = seen_as(&mut net, y, &[a, b, hidden]);
    net.output(y);
    check(&net, &[]);
    calls(&net).into_iter().filter(|call| call != "view").collect()
}

/// As PyTorch's windows have it: `[window, row, 3, head, column]`, of which the third axis comes first.
#[test]
fn heads_of_one_product_are_read_out_of_its_rows() {
    let heads = |net: &mut RegionBuilder, all: usize| {
        let apart = seen_as(net, all, &[4, 7, 3, 2, 5]);
        let apart = moved(net, apart, &[2, 0, 3, 1, 4]);
        [0, 1, 2].map(|index| picked(net, apart, index))
    };
    assert_eq!(after_one_product([4, 7, 10], heads, [0, 2, 1, 3]), ["gemm", "attention"]);
}

/// As PyTorch's `MultiheadAttention` has it, with the rows before the batch: of one image the kernel reads the rows of the product, of
/// several ones it does not, and heads are made.
#[test]
fn heads_with_rows_before_the_batch_are_read_where_there_is_one_image() {
    for batch in [1, 2] {
        let heads = move |net: &mut RegionBuilder, all: usize| {
            let apart = seen_as(net, all, &[1, 7, batch, 3, 10]);
            let apart = moved(net, apart, &[3, 1, 2, 0, 4]);
            let apart = seen_as(net, apart, &[3, 7, batch, 10]);
            [0, 1, 2].map(|index| {
                let part = picked(net, apart, index);
                let list = seen_as(net, part, &[7, batch * 2, 5]);
                let list = moved(net, list, &[1, 0, 2]);
                seen_as(net, list, &[batch, 2, 7, 5])
            })
        };
        let calls = after_one_product([7, batch, 10], heads, [2, 0, 1, 3]);
        match batch {
            1 => assert_eq!(calls, ["gemm", "attention"]),
            _ => assert_eq!(calls.iter().filter(|call| *call == "attention").count(), 1, "{calls:?}"),
        }
    }
}

/// Cuts are read through where they leave whole rows of heads: not where every second column is taken.
#[test]
fn heads_are_read_through_cuts() {
    for (step, fused) in [(1, true), (2, false)] {
        let heads = move |net: &mut RegionBuilder, all: usize| {
            [0, 10, 20].map(|start| {
                let (start, end) = (net.ints(&[start]), net.ints(&[start + 10]));
                let (axes, steps) = (net.ints(&[-1]), net.ints(&[step]));
                let part = net.node("Slice", &[all, start, end, axes, steps], [2, 7, 10 / step as usize], &[]);
                let rows = seen_as(net, part, &[2, 7, 5, 2 / step as usize]);
                moved(net, rows, &[0, 2, 1, 3])
            })
        };
        let mut net = empty();
        let (x, w) = (net.input([2, 7, 10]), net.weight([10, 30]));
        let all = net.node("MatMul", &[x, w], [2, 7, 30], &[]);
        let [q, k, v] = heads(&mut net, all);
        let k = moved(&mut net, k, &[0, 1, 3, 2]);
        let scores = net.node("MatMul", &[q, k], [2, 5, 7, 7], &[]);
        let softmax = net.node("Softmax", &[scores], [2, 5, 7, 7], "axis=-1");
        let y = net.node("MatMul", &[softmax, v], [2, 5, 7, 2 / step as usize], &[]);
        net.output(y);
        check(&net, &[]);
        assert_eq!(calls(&net) == ["gemm", "attention"], fused, "{:?}", calls(&net));
    }
}

/// A factor of the values is none of the scores, and no reason to leave attention alone.
#[test]
fn values_with_a_factor_before_they_are_heads_are_read_after_it() {
    let mut net = empty();
    let [q, k] = [(); 2].map(|()| net.input([2, 3, 7, 4]));
    let (x, factor) = (net.input([2, 7, 12]), net.number(0.3));
    let scaled = net.node("Mul", &[x, factor], [2, 7, 12], &[]);
    let rows = seen_as(&mut net, scaled, &[2, 7, 3, 4]);
    let v = moved(&mut net, rows, &[0, 2, 1, 3]);
    let k = moved(&mut net, k, &[0, 1, 3, 2]);
    let scores = net.node("MatMul", &[q, k], [2, 3, 7, 7], &[]);
    let softmax = net.node("Softmax", &[scores], [2, 3, 7, 7], "axis=-1");
    let y = net.node("MatMul", &[softmax, v], [2, 3, 7, 4], &[]);
    net.output(y);
    check(&net, &[]);
    assert_eq!(calls(&net), ["binary", "attention"]);
}

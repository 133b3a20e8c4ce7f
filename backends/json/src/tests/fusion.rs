//! Each fusion on the graph that exporters write for it.

use byoc_plugin_api::testing::RegionBuilder;
use byoc_plugin_api::{Attribute, DType};

use super::harness::{calls, check, empty};

const EXPECT_ONE: &str = "one kernel";

#[test]
fn batch_norm_bias_residual_and_activation_go_into_the_convolution() {
    let mut net = empty();
    let x = net.input([1, 20, 9, 9]);
    let shape = [1, 20, 9, 9];
    let residual = net.conv(x, shape[1], 1, 1, 1);
    let conv = net.conv(x, shape[1], 3, 1, 1);
    let norm = net.norm(conv);
    let sum = net.node("Add", &[norm, residual], shape, &[]);
    let relu = net.node("Relu", &[sum], shape, &[]);
    net.output(relu);
    assert_eq!(calls(&net), ["to_blocked", "conv", "conv", "from_blocked"]);
    check(&net, &[]);
}

#[test]
fn products_and_sums_by_channel_follow_the_batch_norm() {
    // As DenseNet's exporter writes it: BatchNormalization, Mul and Add with [C, 1, 1].
    let mut net = empty();
    let x = net.input([2, 16, 5, 7]);
    let shape = [2, 16, 5, 7];
    let conv = net.conv(x, shape[1], 1, 1, 1);
    let mut y = net.norm(conv);
    for op in ["Mul", "Add"] {
        let by = net.weight([16, 1, 1]);
        y = net.node(op, &[y, by], shape, &[]);
    }
    let again = net.norm(y);
    let relu = net.node("Relu", &[again], shape, &[]);
    let pooled = net.node("GlobalAveragePool", &[relu], [2, 16, 1, 1], &[]);
    net.output(pooled);
    assert_eq!(calls(&net), ["to_blocked", "conv", "global_pool", "view"]);
    check(&net, &[]);
}

#[test]
fn a_batch_norm_without_convolution_becomes_an_affine() {
    let mut net = empty();
    let x = net.input([1, 19, 6, 6]);
    let norm = net.norm(x);
    let relu = net.node("Relu", &[norm], [1, 19, 6, 6], &[]);
    let conv = net.conv(relu, 8, 3, 1, 1);
    net.output(conv);
    assert_eq!(calls(&net), ["affine", "to_blocked", "conv", "from_blocked"]);
    check(&net, &[]);
}

#[test]
fn bias_residual_and_activation_go_into_the_product() {
    let mut net = empty();
    let x = net.input([2, 5, 24]);
    let (w, bias) = (net.weight([24, 24]), net.weight([24]));
    let shape = [2, 5, 24];
    let product = net.node("MatMul", &[x, w], shape, &[]);
    let biased = net.node("Add", &[bias, product], shape, &[]);
    let sum = net.node("Add", &[biased, x], shape, &[]);
    let tanh = net.node("Tanh", &[sum], shape, &[]);
    net.output(tanh);
    assert_eq!(calls(&net), ["gemm"], "{EXPECT_ONE}");
    check(&net, &[]);
}

#[test]
fn reshapes_around_a_gemm_do_not_hide_what_follows() {
    // GPT-2's Conv1D: Reshape, Gemm, Reshape, then the residual.
    let mut net = empty();
    let x = net.input([1, 6, 16]);
    let (w, bias) = (net.weight([16, 16]), net.weight([16]));
    let (flat, back) = (net.ints(&[6, 16]), net.ints(&[1, 6, 16]));
    let rows = net.node("Reshape", &[x, flat], [6, 16], &[]);
    let product = net.node("Gemm", &[rows, w, bias], [6, 16], &[]);
    let y = net.node("Reshape", &[product, back], [1, 6, 16], &[]);
    let sum = net.node("Add", &[y, x], [1, 6, 16], &[]);
    net.output(sum);
    assert_eq!(calls(&net), ["gemm"], "{EXPECT_ONE}");
    check(&net, &[]);
}

/// `x * t(x) * 0.5` after a product, in three orders.
fn gelu(net: &mut RegionBuilder, x: usize, t: usize, shape: &[usize], order: usize) -> usize {
    let half = net.number(0.5);
    match order {
        0 => {
            let product = net.node("Mul", &[x, t], shape, &[]);
            net.node("Mul", &[product, half], shape, &[])
        }
        1 => {
            let scaled = net.node("Mul", &[x, half], shape, &[]);
            net.node("Mul", &[scaled, t], shape, &[])
        }
        _ => {
            let scaled = net.node("Mul", &[t, half], shape, &[]);
            net.node("Mul", &[x, scaled], shape, &[])
        }
    }
}

#[test]
fn gelu_by_erf_is_found_in_every_order() {
    for order in 0..3 {
        let mut net = empty();
        let x = net.input([3, 8]);
        let (w, root, one) = (net.weight([8, 40]), net.number(std::f64::consts::SQRT_2), net.number(1.0));
        let shape = [3, 40];
        let y = net.node("MatMul", &[x, w], shape, &[]);
        let scaled = net.node("Div", &[y, root], shape, &[]);
        let erf = net.node("Erf", &[scaled], shape, &[]);
        let gate = net.node("Add", &[erf, one], shape, &[]);
        let out = gelu(&mut net, y, gate, &shape, order);
        net.output(out);
        assert_eq!(calls(&net), ["gemm"], "order {order}");
        check(&net, &[]);
    }
}

#[test]
fn gelu_by_tanh_is_found_with_either_cube() {
    for with_pow in [true, false] {
        let mut net = empty();
        let x = net.input([3, 8]);
        let w = net.weight([8, 40]);
        let [three, factor, root, one] = [3.0, 0.044715, 0.797_884_6, 1.0].map(|value| net.number(value));
        let shape = [3, 40];
        let y = net.node("MatMul", &[x, w], shape, &[]);
        let cube = if with_pow {
            net.node("Pow", &[y, three], shape, &[])
        } else {
            let square = net.node("Mul", &[y, y], shape, &[]);
            net.node("Mul", &[square, y], shape, &[])
        };
        let term = net.node("Mul", &[cube, factor], shape, &[]);
        let sum = net.node("Add", &[y, term], shape, &[]);
        let scaled = net.node("Mul", &[sum, root], shape, &[]);
        let tanh = net.node("Tanh", &[scaled], shape, &[]);
        let gate = net.node("Add", &[tanh, one], shape, &[]);
        let out = gelu(&mut net, y, gate, &shape, 1);
        net.output(out);
        assert_eq!(calls(&net), ["gemm"], "with_pow {with_pow}");
        check(&net, &[]);
    }
}

#[test]
fn silu_and_hard_swish_are_found() {
    let shape = [1, 16, 4, 4];
    let mut net = empty();
    let x = net.input(shape);
    let y = net.conv(x, shape[1], 1, 1, 1);
    let gate = net.node("Sigmoid", &[y], shape, &[]);
    let silu = net.node("Mul", &[y, gate], shape, &[]);
    let z = net.conv(silu, shape[1], 1, 1, 1);
    let [three, zero, six] = [3.0, 0.0, 6.0].map(|value| net.number(value));
    let sum = net.node("Add", &[z, three], shape, &[]);
    let clip = net.node("Clip", &[sum, zero, six], shape, &[]);
    let product = net.node("Mul", &[z, clip], shape, &[]);
    let out = net.node("Div", &[product, six], shape, &[]);
    net.output(out);
    assert_eq!(calls(&net), ["to_blocked", "conv", "conv", "from_blocked"]);
    check(&net, &[]);
}

/// Squeeze and excite; the mean as a reduction, too.
#[test]
fn factors_of_channels_go_into_filters() {
    for (channels, out, as_reduction) in [(24, 40, false), (32, 16, true), (16, 100, false), (9, 7, true)] {
        let (image, pixel) = ([1, channels, 8, 9], [1, channels, 1, 1]);
        let mut net = empty();
        let x = net.input([1, 8, 8, 9]);
        let y = net.conv(x, channels, 1, 1, 1);
        let mean = match as_reduction {
            true => {
                let axes = net.ints(&[2, -1]);
                net.node("ReduceMean", &[y, axes], pixel, &[])
            }
            false => net.node("GlobalAveragePool", &[y], pixel, &[]),
        };
        let squeezed = net.conv(mean, channels, 1, 1, 1);
        let factors = net.node("Sigmoid", &[squeezed], pixel, &[]);
        let scaled = net.node("Mul", &[factors, y], image, &[]);
        let z = net.conv(scaled, out, 1, 1, 1);
        net.output(z);
        let found = calls(&net);
        // Only where there are fewer filters than pixels.
        let count = |call: &str| found.iter().filter(|found| *found == call).count();
        let counts = [count("scale_filters"), count("binary"), count("global_pool"), count("reduce")];
        assert_eq!(counts, if out <= 72 { [1, 0, 1, 0] } else { [0, 1, 1, 0] }, "{found:?}");
        check(&net, &[]);
    }
    // Two that read the product, and factors for rows.
    for twice in [true, false] {
        let image = [1, 16, 4, 4];
        let mut net = empty();
        let x = net.input(image);
        let factors = net.input(if twice { [1, 16, 1, 1] } else { [1, 1, 4, 1] });
        let y = net.conv(x, 16, 1, 1, 1);
        let scaled = net.node("Mul", &[y, factors], image, &[]);
        let z = net.conv(scaled, 16, 1, 1, 1);
        net.output(z);
        if twice {
            net.output(scaled);
        }
        assert!(!calls(&net).iter().any(|call| call == "scale_filters"), "twice {twice}");
        check(&net, &[]);
    }
}

#[test]
fn a_layer_norm_in_pieces_becomes_one() {
    let mut net = empty();
    let shape = [2, 3, 20];
    let x = net.input(shape);
    let axes = net.ints(&[-1]);
    let (two, eps, scale, bias) = (net.number(2.0), net.number(1e-5), net.weight([20]), net.weight([20]));
    let mean = net.node("ReduceMean", &[x, axes], [2, 3, 1], &[]);
    let centred = net.node("Sub", &[x, mean], shape, &[]);
    let square = net.node("Pow", &[centred, two], shape, &[]);
    let variance = net.node("ReduceMean", &[square, axes], [2, 3, 1], &[]);
    let sum = net.node("Add", &[variance, eps], [2, 3, 1], &[]);
    let deviation = net.node("Sqrt", &[sum], [2, 3, 1], &[]);
    let normal = net.node("Div", &[centred, deviation], shape, &[]);
    let scaled = net.node("Mul", &[normal, scale], shape, &[]);
    let out = net.node("Add", &[scaled, bias], shape, &[]);
    net.output(out);
    assert_eq!(calls(&net), ["layer_norm"], "{EXPECT_ONE}");
    check(&net, &[]);
}

/// Attention with heads made by Reshape and Transpose; Q, K and V from products or from one Split.
pub(super) fn attention(split: bool, causal: bool) -> RegionBuilder {
    let (batch, rows, heads, columns) = (2, 7, 3, 8);
    let width = heads * columns;
    let mut net = empty();
    let x = net.input([batch, rows, width]);
    let flat = [batch, rows, width];
    let parts: Vec<usize> = if split {
        let w = net.weight([width, 3 * width]);
        let all = net.node("MatMul", &[x, w], [batch, rows, 3 * width], &[]);
        net.nodes("Split", &[Some(all)], &[flat.into(), flat.into(), flat.into()], "axis=2")
    } else {
        (0..3)
            .map(|_| {
                let w = net.weight([width, width]);
                net.node("MatMul", &[x, w], flat, &[])
            })
            .collect()
    };
    let by_head = net.ints(&[batch as i64, rows as i64, heads as i64, columns as i64]);
    let heads_of = |net: &mut RegionBuilder, value: usize, perm: [i64; 4], shape: [usize; 4]| {
        let inner = net.node("Reshape", &[value, by_head], [batch, rows, heads, columns], &[]);
        net.node("Transpose", &[inner], shape, &[("perm", Attribute::Ints(perm.to_vec()))])
    };
    let q = heads_of(&mut net, parts[0], [0, 2, 1, 3], [batch, heads, rows, columns]);
    let k = heads_of(&mut net, parts[1], [0, 2, 3, 1], [batch, heads, columns, rows]);
    let v = heads_of(&mut net, parts[2], [0, 2, 1, 3], [batch, heads, rows, columns]);
    let square = [batch, heads, rows, rows];
    let product = net.node("MatMul", &[q, k], square, &[]);
    let root = net.number((columns as f64).sqrt());
    let scaled = net.node("Div", &[product, root], square, &[]);
    let masked = if causal {
        let lower: Vec<_> = (0..rows * rows).map(|i| f64::from(u8::from(i % rows <= i / rows))).collect();
        let (condition, fill) = (net.numbers((DType::Bool, [rows, rows]), &lower), net.number(f32::MIN.into()));
        net.node("Where", &[condition, scaled, fill], square, &[])
    } else {
        let mask = net.weight([batch, 1, 1, rows]);
        net.node("Add", &[scaled, mask], square, &[])
    };
    let softmax = net.node("Softmax", &[masked], square, "axis=-1");
    let out = net.node("MatMul", &[softmax, v], [batch, heads, rows, columns], &[]);
    let perm = [("perm", Attribute::Ints(vec![0, 2, 1, 3]))];
    let out = net.node("Transpose", &[out], [batch, rows, heads, columns], &perm);
    let shape = net.ints(&[batch as i64, rows as i64, width as i64]);
    let out = net.node("Reshape", &[out, shape], flat, &[]);
    net.output(out);
    net
}

#[test]
fn attention_absorbs_transpositions_mask_and_split() {
    for (split, causal) in [(false, false), (false, true), (true, false), (true, true)] {
        let net = attention(split, causal);
        let calls: Vec<_> = calls(&net).into_iter().filter(|call| call != "view").collect();
        let expected: &[&str] = if split { &["gemm", "attention"] } else { &["gemm", "gemm", "gemm", "attention"] };
        assert_eq!(calls, expected, "split {split}, causal {causal}");
        check(&net, &[]);
    }
}

/// Attention in windows of `images` images, with a bias for heads and a mask for windows, which is computed behind the scores.
fn windows(images: usize, masks: usize, exchanged: bool) -> RegionBuilder {
    let (windows, heads, rows, columns) = (4, 3, 5, 8);
    let mut net = empty();
    let shape = [images * windows, heads, rows, columns];
    let [q, k, v] = [net.input(shape), net.input(shape), net.input(shape)];
    let keys = net.node("Transpose", &[k], [images * windows, heads, columns, rows], "perm=[0,1,3,2]");
    let square = [images * windows, heads, rows, rows];
    let product = net.node("MatMul", &[q, keys], square, &[]);
    let bias = net.weight([1, heads, rows, rows]);
    let biased = net.node("Add", &[product, bias], square, &[]);
    let mask = net.input([masks, rows, rows]);
    let mask = net.node("Abs", &[mask], [masks, rows, rows], &[]);
    let apart = net.ints(&[1, masks as i64, 1, rows as i64, rows as i64]);
    let mask = net.node("Reshape", &[mask, apart], [1, masks, 1, rows, rows], &[]);
    let listed = [images, windows, heads, rows, rows];
    let list = net.ints(&listed.map(|size| size as i64));
    let seen = net.node("Reshape", &[biased, list], listed, &[]);
    let terms = if exchanged { [mask, seen] } else { [seen, mask] };
    let masked = net.node("Add", &terms, listed, &[]);
    let flat = net.ints(&square.map(|size| size as i64));
    let scores = net.node("Reshape", &[masked, flat], square, &[]);
    let softmax = net.node("Softmax", &[scores], square, "axis=-1");
    let out = net.node("MatMul", &[softmax, v], shape, &[]);
    net.output(out);
    net
}

#[test]
fn bias_and_mask_of_windows_are_one_mask() {
    for exchanged in [false, true] {
        let net = windows(1, 4, exchanged);
        let steps: Vec<_> = calls(&net).into_iter().filter(|call| call != "view").collect();
        assert_eq!(steps, ["unary", "binary", "attention"]);
        check(&net, &[]);
        // The windows of an image begin again with the next.
        let two_images = windows(2, 4, exchanged);
        // The sum of the terms would be smaller than the scores.
        let one_mask = windows(1, 1, exchanged);
        for net in [two_images, one_mask] {
            assert!(!calls(&net).contains(&"attention".to_owned()));
            check(&net, &[]);
        }
    }
}

#[test]
fn what_somebody_else_reads_is_not_fused_away() {
    let mut net = empty();
    let shape = [1, 16, 4, 4];
    let x = net.input(shape);
    let conv = net.conv(x, shape[1], 1, 1, 1);
    let relu = net.node("Relu", &[conv], shape, &[]);
    net.output(conv);
    net.output(relu);
    assert_eq!(calls(&net), ["to_blocked", "conv", "unary", "from_blocked", "from_blocked"]);
    check(&net, &[]);
}

//! Layouts and their edges.

use byoc_plugin_api::testing::Type;
use byoc_plugin_api::{Attribute, DType};

use super::harness::{calls, check, empty};

#[test]
fn channels_that_fill_no_block_survive_every_kernel() {
    for channels in [1, 3, 15, 17, 33] {
        let mut net = empty();
        let x = net.input([2, channels, 10, 8]);
        let shape = [2, 24, 10, 8];
        let first = net.conv(x, shape[1], 3, 1, 1);
        let deep = net.conv(first, shape[1], 3, 1, 24);
        let relu = net.node("Relu", &[deep], shape, &[]);
        let window = "kernel_shape=[3,3] pads=[1,1,1,1] strides=[2,2]";
        let max = net.node("MaxPool", &[relu], [2, 24, 5, 4], window);
        let mean = net.node("AveragePool", &[max], [2, 24, 3, 2], window);
        let lrn = net.node("LRN", &[mean], [2, 24, 3, 2], "size=5");
        let last = net.conv(lrn, 10, 1, 1, 1);
        net.output(last);
        check(&net, &[]);
    }
}

#[test]
fn an_input_of_one_pixel_may_end_within_a_block() {
    for channels in [3, 16, 39] {
        for group in [1, channels] {
            let mut net = empty();
            let x = net.input([1, channels, 1, 1]);
            let y = net.conv(x, channels, 1, 1, group);
            let sum = net.node("Add", &[x, y], [1, channels, 1, 1], &[]);
            net.output(sum);
            check(&net, &[]);
        }
    }
}

#[test]
fn a_constant_image_is_convolved_and_added() {
    for (channels, group) in [(16, 1), (8, 1), (16, 16), (3, 1)] {
        let shape = [2, channels, 8, 5];
        let mut net = empty();
        let image = net.weight(shape);
        let conv = net.conv(image, shape[1], 3, 1, group);
        net.output(conv);
        let x = net.input(shape);
        let sum = net.conv(x, shape[1], 3, 1, group);
        let sum = net.node("Add", &[sum, image], shape, &[]);
        net.output(sum);
        check(&net, &[]);
    }
}

#[test]
fn a_concatenation_of_whole_blocks_is_computed_in_place() {
    for (parts, shape) in [([16, 32, 20], "blocked"), ([16, 20, 16], "mixed")] {
        let mut net = empty();
        let x = net.input([1, 16, 6, 6]);
        let outs: Vec<usize> = parts.iter().map(|&channels| net.conv(x, channels, 3, 1, 1)).collect();
        let total: usize = parts.iter().sum();
        let all = net.node("Concat", &outs, [1, total, 6, 6], "axis=1");
        let relu = net.node("Relu", &[all], [1, total, 6, 6], &[]);
        // A part that is read after the concatenation too.
        let again = net.conv(outs[0], total, 1, 1, 1);
        let sum = net.node("Add", &[again, relu], [1, total, 6, 6], &[]);
        net.output(sum);
        let conversions = calls(&net).iter().filter(|call| *call == "from_blocked").count();
        assert_eq!(conversions == 1, shape == "blocked", "{:?}", calls(&net));
        check(&net, &[]);
    }
}

#[test]
fn dense_blocks_share_one_buffer() {
    let mut net = empty();
    let x = net.input([1, 16, 6, 6]);
    let mut all = net.conv(x, 16, 3, 1, 1);
    for layer in 1..4 {
        let channels = 16 * layer;
        let norm = net.norm(all);
        let relu = net.node("Relu", &[norm], [1, channels, 6, 6], &[]);
        let new = net.conv(relu, 16, 3, 1, 1);
        all = net.node("Concat", &[all, new], [1, channels + 16, 6, 6], "axis=1");
    }
    net.output(all);
    check(&net, &[]);
}

/// A part that is named again behind those that were concatenated before, others in another order, and a concatenation that is an
/// output: what must be copied.
#[test]
fn concatenations_that_begin_otherwise_agree() {
    let axis = [("axis", Attribute::Int(1))];
    let cases: [&[usize]; 5] = [&[0, 1, 0], &[1, 0, 2], &[0, 2, 1], &[2, 0, 1], &[0, 1, 2, 0, 1]];
    for (case, output) in cases.into_iter().flat_map(|case| [(case, false), (case, true)]) {
        let mut net = empty();
        let x = net.input([1, 16, 3, 3]);
        let parts = [16, 32, 16].map(|channels| (net.conv(x, channels, 1, 1, 1), channels));
        let first = net.node("Concat", &[parts[0].0, parts[1].0], [1, 48, 3, 3], &axis);
        let relu = net.node("Relu", &[first], [1, 48, 3, 3], &[]);
        let named: Vec<usize> = case.iter().map(|&part| parts[part].0).collect();
        let channels = case.iter().map(|&part| parts[part].1).sum();
        let second = net.node("Concat", &named, [1, channels, 3, 3], &axis);
        let sum = net.conv(second, 48, 1, 1, 1);
        let sum = net.node("Add", &[sum, relu], [1, 48, 3, 3], &[]);
        net.output(sum);
        if output {
            net.output(first);
        }
        check(&net, &[]);
    }
}

#[test]
fn the_same_tensor_twice_is_concatenated_twice() {
    let mut net = empty();
    let x = net.input([1, 16, 3, 3]);
    let conv = net.conv(x, 16, 1, 1, 1);
    let twice = net.node("Concat", &[conv, conv, x], [1, 48, 3, 3], "axis=1");
    net.output(twice);
    net.output(conv);
    check(&net, &[]);
}

#[test]
fn a_part_of_a_part_is_concatenated_again() {
    let mut net = empty();
    let x = net.input([1, 16, 3, 3]);
    let [a, b] = [0, 1].map(|_| net.conv(x, 16, 1, 1, 1));
    let axis = [("axis", Attribute::Int(1))];
    let inner = net.node("Concat", &[a, b], [1, 32, 3, 3], &axis);
    let outer = net.node("Concat", &[inner, a], [1, 48, 3, 3], &axis);
    let relu = net.node("Relu", &[outer], [1, 48, 3, 3], &[]);
    net.output(relu);
    check(&net, &[]);
}

#[test]
fn grouped_and_strided_convolutions_agree() {
    for (channels, out, group, kernel, stride) in
        [(16, 32, 4, 3, 1), (12, 24, 3, 1, 1), (48, 48, 3, 3, 2), (20, 20, 20, 5, 2), (8, 16, 8, 3, 1)]
    {
        let mut net = empty();
        let x = net.input([1, channels, 12, 12]);
        let conv = net.conv(x, out, kernel, stride, group);
        net.output(conv);
        check(&net, &[]);
    }
}

#[test]
fn padding_that_follows_from_sizes_is_left_to_the_reference() {
    for auto_pad in ["SAME_UPPER", "SAME_LOWER"] {
        let mut net = empty();
        let x = net.input([1, 3, 11, 10]);
        let w = net.weight([16, 3, 3, 3]);
        let attributes = [("auto_pad", Attribute::String(auto_pad.into())), ("strides", Attribute::Ints(vec![2, 2]))];
        let conv = net.node("Conv", &[x, w], [1, 16, 6, 5], &attributes);
        net.output(conv);
        assert_eq!(calls(&net), ["reference"]);
        check(&net, &[]);
    }
}

#[test]
fn weights_may_be_computed_at_run_time() {
    let mut net = empty();
    let (x, w) = (net.input([1, 4, 6, 6]), net.input([8, 4, 3, 3]));
    let conv = net.node("Conv", &[x, w], [1, 8, 4, 4], &[]);
    net.output(conv);
    check(&net, &[]);
}

#[test]
fn squeeze_and_excitation_multiplies_by_channel() {
    let mut net = empty();
    let x = net.input([2, 32, 5, 5]);
    let shape = [2, 32, 5, 5];
    let y = net.conv(x, shape[1], 1, 1, 1);
    let mean = net.node("GlobalAveragePool", &[y], [2, 32, 1, 1], &[]);
    let gate = net.conv(mean, 32, 1, 1, 1);
    let gate = net.node("Sigmoid", &[gate], [2, 32, 1, 1], &[]);
    let out = net.node("Mul", &[y, gate], shape, &[]);
    net.output(out);
    check(&net, &[]);
}

/// Transposed convolutions with a bias and what follows.
#[test]
fn transposed_convolutions_are_products() {
    let two = [
        ("strides=[2,2] pads=[1,1,1,1]", [2, 6, 12, 10], 1),
        ("strides=[2,2] pads=[1,0,0,1] output_padding=[1,1] group=2", [2, 12, 14, 12], 2),
        ("strides=[3,2] dilations=[2,1] output_shape=[17,12]", [2, 6, 17, 12], 1),
    ];
    for (attributes, out, group) in two {
        let mut net = empty();
        let (x, w) = (net.input([2, 8, 6, 5]), net.weight([8, 6, 4, 4]));
        let b = net.weight([6 * group]);
        let y = net.node("ConvTranspose", &[x, w, b], out, attributes);
        let other = net.input(out);
        let sum = net.node("Add", &[y, other], out, &[]);
        let relu = net.like("Relu", &[sum], &[]);
        net.output(relu);
        assert_eq!(calls(&net), ["conv"]);
        check(&net, &[]);
    }
}

#[test]
fn a_transposed_convolution_over_sizes_that_only_the_run_knows() {
    let mut net = empty();
    let (x, w) = (net.input("[1,4,h,w]"), net.weight([4, 3, 2, 2]));
    let y = net.node("ConvTranspose", &[x, w], "[1,3,h*2,w*2]", "strides=[2,2]");
    net.output(y);
    assert_eq!(calls(&net), ["conv"]);
    check(&net, &[("h", 5), ("w", 7)]);
    check(&net, &[("h", 1), ("w", 1)]);
}

#[test]
fn images_of_one_dimension_are_rows() {
    let mut net = empty();
    let (x, w) = (net.input([2, 6, 40]), net.weight([16, 6, 5]));
    let b = net.weight([16]);
    let y = net.node("Conv", &[x, w, b], [2, 16, 20], "strides=[2] pads=[2,2]");
    let y = net.like("Relu", &[y], &[]);
    let deep = net.weight([16, 1, 3]);
    let z = net.node("Conv", &[y, deep], [2, 16, 20], "group=16 pads=[2,2] dilations=[2]");
    let gate = net.like("Sigmoid", &[z], &[]);
    let z = net.node("Mul", &[z, gate], [2, 16, 20], &[]);
    let sum = net.node("Add", &[y, z], [2, 16, 20], &[]);
    let pooled = net.node("MaxPool", &[sum], [2, 16, 10], "kernel_shape=[2] strides=[2]");
    let up = net.weight([16, 3, 4]);
    let last = net.node("ConvTranspose", &[pooled, up], [2, 3, 20], "strides=[2] pads=[1,1]");
    net.output(last);
    net.output(sum);
    assert!(!calls(&net).contains(&"reference".to_owned()), "{:?}", calls(&net));
    check(&net, &[]);
}

#[test]
fn a_number_beside_an_image_of_one_dimension() {
    let mut net = empty();
    let (x, w) = (net.input([1, 3, 9]), net.weight([4, 3, 3]));
    let y = net.node("Conv", &[x, w], [1, 4, 7], &[]);
    let half = net.number(0.5);
    let y = net.node("Mul", &[half, y], [1, 4, 7], &[]);
    let by_channel = net.weight([4, 1]);
    let y = net.node("Add", &[y, by_channel], [1, 4, 7], &[]);
    net.output(y);
    check(&net, &[]);
}

#[test]
fn a_pooling_of_one_dimension_that_tells_places_stays_a_node() {
    let mut net = empty();
    let x = net.input([1, 3, 8]);
    let types = [Type::from([1, 3, 4]), Type::from((DType::I64, [1, 3, 4]))];
    let outputs = net.nodes("MaxPool", &[Some(x)], &types, "kernel_shape=[2] strides=[2]");
    outputs.into_iter().for_each(|output| net.output(output));
    assert_eq!(calls(&net), ["reference"]);
    check(&net, &[]);
}

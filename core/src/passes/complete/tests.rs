//! What is written into nodes of every kind.

use super::*;
use crate::ir::{Graph, node_text};
use crate::ops::testing::{attributes, ty};

/// The attributes of a node before and after; completed twice, it stays the same.
#[track_caller]
fn check(op: &str, given: &str, inputs: &str, expected: &str) {
    let mut graph = Graph::default();
    let inputs = inputs.split_whitespace().map(|input| Some(graph.add_value(input, Some(ty(input))))).collect();
    let node = Node { name: "n".into(), op: op.into(), inputs, attributes: attributes(given), ..Node::default() };
    graph.nodes.push(node);
    let mut model = Model { entries: vec![graph], ..Model::default() };
    for _ in 0..2 {
        complete(&mut model);
        let graph = &model.entries[0];
        let text = node_text(&Model::default(), graph, &graph.nodes[0]);
        let found = text.split_once('{').and_then(|(_, rest)| Some(rest.rsplit_once('}')?.0)).unwrap_or_default();
        assert_eq!(found.replace(", ", " "), expected, "{op} {given}");
    }
}

#[test]
fn defaults_are_written_and_axes_count_from_the_front() {
    check("Relu", "", "f32[2]", "");
    check("Softmax", "", "f32[2,3,4]", "axis=2");
    check("Softmax", "axis=-3", "f32[2,3,4]", "axis=0");
    check("OneHot", "", "i64[2,3] i64[] f32[2]", "axis=2");
    check("OneHot", "axis=-3", "i64[2,3] i64[] f32[2]", "axis=0");
    check("Flatten", "axis=3", "f32[2,3,4]", "axis=3");
    check("Transpose", "", "f32[2,3,4]", "perm=[2,1,0]");
    check("Transpose", "perm=[0,-1,1]", "f32[2,3,4]", "perm=[0,2,1]");
    check("Transpose", "", "f32[]", "perm=[]");
    check("LayerNormalization", "", "f32[b,4] f32[4]", "axis=1 epsilon=1e-5 stash_type=1");
    check("Gemm", "transB=1", "f32[2,3] f32[4,3]", "alpha=1.0 beta=1.0 transA=0 transB=1");
    check("Shape", "", "f32[2]", "start=0");
    check("ReduceMax", "", "f32[2]", "keepdims=1 noop_with_empty_axes=0");
    let rest = "coordinate_transformation_mode=\"half_pixel\" cubic_coeff_a=-0.75 exclude_outside=0 \
                extrapolation_value=0.0 keep_aspect_ratio_policy=\"stretch\" mode=\"nearest\" \
                nearest_mode=\"round_prefer_floor\"";
    check("Resize", "", "f32[1,1,h,w]", &format!("antialias=0 axes=[0,1,2,3] {rest}"));
    check("Resize", "axes=[-2,-1]", "f32[1,1,h,w]", &format!("antialias=0 axes=[2,3] {rest}"));
}

/// Conv and MaxPool: attributes, the size of the input along each axis, and what is written.
#[test]
fn windows_are_numbers() {
    let conv = |given: &str, spatial: &str, kernel: &str, expected: &str| {
        check("Conv", given, &format!("f32[1,2,{spatial}] f32[4,1,{kernel}]"), expected);
    };
    conv("", "h,w", "3,1", "dilations=[1,1] group=1 kernel_shape=[3,1] pads=[0,0,0,0] strides=[1,1]");
    conv(
        "auto_pad=NOTSET pads=[1,2] group=2",
        "h",
        "3",
        "dilations=[1] group=2 kernel_shape=[3] pads=[1,2] strides=[1]",
    );
    conv("auto_pad=VALID pads=[1,2]", "h", "3", "dilations=[1] group=1 kernel_shape=[3] pads=[0,0] strides=[1]");
    let same = |how: &str, stride: i64, pads: &str| {
        let expected = format!("dilations=[1] group=1 kernel_shape=[4] pads={pads} strides=[{stride}]");
        conv(&format!("auto_pad=SAME_{how} strides=[{stride}]"), "7", "4", &expected);
    };
    same("UPPER", 1, "[1,2]");
    same("LOWER", 1, "[2,1]");
    same("UPPER", 2, "[1,2]");
    same("UPPER", 3, "[1,2]");
    same("UPPER", 6, "[1,2]");
    same("UPPER", 7, "[0,0]");
    // The padding does not depend on the size where every element has a window.
    conv(
        "auto_pad=SAME_UPPER dilations=[2]",
        "h",
        "3",
        "dilations=[2] group=1 kernel_shape=[3] pads=[2,2] strides=[1]",
    );
    check(
        "MaxPool",
        "auto_pad=SAME_UPPER ceil_mode=1 kernel_shape=[2] strides=[2]",
        "f32[1,1,5]",
        "ceil_mode=0 dilations=[1] kernel_shape=[2] pads=[0,1] storage_order=0 strides=[2]",
    );
}

#[test]
fn padding_of_unknown_sizes_waits() {
    for size in ["h", "0"] {
        check(
            "MaxPool",
            "auto_pad=SAME_UPPER ceil_mode=1 kernel_shape=[2,2] strides=[1,2] pads=[1,1,1,1]",
            &format!("f32[1,1,4,{size}]"),
            "auto_pad=\"SAME_UPPER\" ceil_mode=0 dilations=[1,1] kernel_shape=[2,2] storage_order=0 strides=[1,2]",
        );
    }
}

#[test]
fn numbers_that_are_too_large_stay_as_they_are() {
    let largest = i64::MAX;
    check(
        "Conv",
        &format!("auto_pad=SAME_LOWER strides=[{largest}]"),
        "f32[1,1,5] f32[1,1,9]",
        &format!("dilations=[1] group=1 kernel_shape=[9] pads=[2,2] strides=[{largest}]"),
    );
}

/// ConvTranspose: attributes, the size of the input, and what is written.
#[test]
fn transposed_windows_are_numbers() {
    let transposed = |given: &str, spatial: &str, expected: &str| {
        let inputs = format!("f32[1,2,{spatial}] f32[2,1,3]");
        check("ConvTranspose", given, &inputs, &format!("{expected} strides=[2]"));
    };
    let rest = "dilations=[1] group=1 kernel_shape=[3]";
    transposed("strides=[2]", "h", &format!("{rest} output_padding=[0] pads=[0,0]"));
    transposed("strides=[2] auto_pad=VALID pads=[1,1]", "h", &format!("{rest} output_padding=[0] pads=[0,0]"));
    transposed("strides=[2] auto_pad=SAME_UPPER", "h", &format!("{rest} output_padding=[0] pads=[0,1]"));
    transposed("strides=[2] auto_pad=SAME_LOWER", "h", &format!("{rest} output_padding=[0] pads=[1,0]"));
    let sized = "strides=[2] output_shape=[7] output_padding=[1] pads=[5,5]";
    transposed(sized, "4", &format!("{rest} output_padding=[1] pads=[2,1]"));
    transposed("strides=[2] output_shape=[11]", "4", &format!("{rest} output_padding=[2] pads=[0,0]"));
    let left = format!("auto_pad=\"NOTSET\" {rest} output_padding=[0] output_shape=[7]");
    transposed("strides=[2] output_shape=[7]", "h", &left);
}

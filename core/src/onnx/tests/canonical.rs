//! Every rewrite, once a version of its own.

use super::*;

/// Imports a single node `op` of `opset` and compares what it becomes. `x` is f32[2,3,4,5], `v` f32[3].
#[track_caller]
fn check(opset: i64, op: &str, inputs: &[&str], attributes: &[AttributeProto], expected: &[&str]) {
    let given = [input("x", &[2, 3, 4, 5]), input("v", &[3])];
    assert_eq!(nodes(&model(opset, &given, &[], &[node(op, inputs, &["y"], attributes)])), expected);
}

#[track_caller]
fn refuses(opset: i64, op: &str, inputs: &[&str], attributes: &[AttributeProto], message: &str) {
    let given = [named_input("x", &["a", "b"]), input("v", &[3])];
    let mut first = node("Range", &["x", "x", "x"], &["u"], &[]);
    first.name = Some("u".into());
    let bad = node(op, inputs, &["y"], attributes);
    assert_fails(&model(opset, &given, &[], &[first, bad]), Code::UnknownOperator, message);
}

#[test]
fn broadcasting_before_7() {
    let old = [int("broadcast", 1), int("axis", 1)];
    check(6, "Add", &["x", "v"], &old, &["n_unsqueeze = Unsqueeze(v, [1 2])", "y = Add(x, n_unsqueeze)"]);
    check(6, "Mul", &["x", "v"], &[int("broadcast", 1), int("axis", 3)], &["y = Mul(x, v)"]);
    check(6, "Sub", &["x", "v"], &[int("broadcast", 1), int("axis", -1)], &["y = Sub(x, v)"]);
    check(6, "Div", &["x", "x"], &[int("broadcast", 1)], &["y = Div(x, x)"]);
    check(1, "Pow", &["x", "x"], &[ints("consumed_inputs", &[0])], &["y = Pow(x, x)"]);
    check(6, "Gemm", &["x", "x", "v"], &[int("broadcast", 1)], &["y = Gemm(x, x, v)"]);
    refuses(6, "Add", &["u", "v"], &old, "node 'n': 'axis' of Add before version 7 needs ranks that are not known");
    let bad =
        model(6, &[input("x", &[2])], &[], &[node("Add", &["x", "x"], &["y"], &[int("broadcast", 1), int("axis", 1)])]);
    assert_fails(&bad, Code::BadNode, "node 'n': axis 1 does not fit inputs of ranks 1 and 1");
}

#[test]
fn training_is_refused() {
    let batch = ["x", "v", "v", "v", "v"];
    let y = "y = BatchNormalization(x, v, v, v, v)";
    check(6, "BatchNormalization", &batch, &[int("is_test", 1), float("momentum", 0.5)], &[y]);
    check(7, "BatchNormalization", &batch, &[int("spatial", 1)], &[y]);
    check(15, "BatchNormalization", &batch, &[int("training_mode", 0)], &[y]);
    let training = "node 'n': BatchNormalization is in training mode";
    refuses(15, "BatchNormalization", &batch, &[int("training_mode", 1)], training);
    let spatial = "node 'n': BatchNormalization with spatial=0 is not supported";
    refuses(7, "BatchNormalization", &batch, &[int("spatial", 0)], spatial);
    // A second output that is wanted asks for training, one that nobody reads does not.
    for (wanted, fails) in [("mean", false), ("y", true)] {
        let outputs = if fails { ["z", "y"] } else { ["y", wanted] };
        let model = model(
            9,
            &[input("x", &[2, 3]), input("v", &[3])],
            &[],
            &[node("BatchNormalization", &batch, &outputs, &[])],
        );
        assert_eq!(import_model(&model).err().map(|error| error.message), fails.then(|| training.to_owned()));
    }
}

#[test]
fn dropout_is_identity() {
    check(7, "Dropout", &["x"], &[float("ratio", 0.5)], &["y = Identity(x)"]);
    check(6, "Dropout", &["x"], &[float("ratio", 0.5), int("is_test", 0)], &["y = Identity(x)"]);
    check(12, "Dropout", &["x", "v"], &[int("seed", 1)], &["y = Identity(x)"]);
    let dynamic = "node 'n': Dropout with a training_mode that is known only at run time";
    refuses(13, "Dropout", &["x", "v", "v"], &[], dynamic);
    let mode = |value| raw_tensor("mode", DataType::Bool, &[], vec![value]);
    let with = |mode, ratio: &[f32]| {
        let raw = ratio.iter().flat_map(|value| value.to_le_bytes()).collect();
        let ratio = raw_tensor("ratio", DataType::Float, &[], raw);
        model(13, &[input("x", &[2])], &[mode, ratio], &[node("Dropout", &["x", "ratio", "mode"], &["y"], &[])])
    };
    assert_eq!(nodes(&with(mode(0), &[0.5])), ["y = Identity(x)"]);
    assert_eq!(nodes(&with(mode(1), &[0.0])), ["y = Identity(x)"]);
    assert_fails(&with(mode(1), &[0.5]), Code::UnknownOperator, "node 'n': Dropout is in training mode");
}

#[test]
fn dropout_keeps_a_mask_that_is_wanted() {
    let masked = |opset| model(opset, &[input("x", &[2])], &[], &[node("Dropout", &["x"], &["z", "y"], &[])]);
    assert_eq!(nodes(&masked(10)), ["z, y = Dropout(x)"]);
    assert_fails(&masked(7), Code::UnknownOperator, "node 'n': the mask of Dropout before version 10 is not supported");
}

#[test]
fn names_and_defaults() {
    check(1, "Cast", &["x"], &[text("to", "FLOAT16")], &["y = Cast(x) to=Int(10)"]);
    check(1, "Concat", &["x", "x"], &[], &["y = Concat(x, x) axis=Int(1)"]);
    let bad = model(1, &[input("x", &[2])], &[], &[node("Cast", &["x"], &["y"], &[text("to", "quux")])]);
    assert_fails(&bad, Code::BadNode, "node 'n': Cast to the unknown type 'quux'");
}

#[test]
fn attributes_become_inputs() {
    check(6, "Clip", &["x"], &[float("min", 0.0), float("max", 6.0)], &["y = Clip(x, 0.0, 6.0)"]);
    check(6, "Clip", &["x"], &[float("max", 6.0)], &["y = Clip(x, _, 6.0)"]);
    check(6, "Clip", &["x"], &[float("min", f32::MIN)], &["y = Clip(x)"]);
    check(13, "Clip", &["x", "", "v"], &[], &["y = Clip(x, _, v)"]);
    let pads = [0, 0, 0, 0, 1, 1, 1, 1];
    let reflect = [ints("pads", &pads), text("mode", "reflect")];
    check(2, "Pad", &["x"], &reflect, &["y = Pad(x, [0 0 0 0 1 1 1 1]) mode=String(\"reflect\")"]);
    let old = [ints("paddings", &pads), float("value", 2.0)];
    check(1, "Pad", &["x"], &old, &["y = Pad(x, [0 0 0 0 1 1 1 1], 2.0)"]);
    check(1, "Reshape", &["x"], &[ints("shape", &[0, -1])], &["y = Reshape(x, [0 -1])"]);
    let bounds = [ints("starts", &[0]), ints("ends", &[3]), ints("axes", &[1])];
    check(9, "Slice", &["x"], &bounds, &["y = Slice(x, [0], [3], [1])"]);
    check(9, "Slice", &["x"], &bounds[..2], &["y = Slice(x, [0], [3])"]);
    check(11, "Squeeze", &["x"], &[ints("axes", &[0])], &["y = Squeeze(x, [0])"]);
    check(11, "Squeeze", &["x"], &[], &["y = Squeeze(x)"]);
    check(11, "Unsqueeze", &["x"], &[ints("axes", &[0])], &["y = Unsqueeze(x, [0])"]);
    let axes = [ints("axes", &[2, 3]), int("keepdims", 0)];
    check(11, "ReduceSum", &["x"], &axes, &["y = ReduceSum(x, [2 3]) keepdims=Int(0)"]);
    check(13, "ReduceMean", &["x"], &axes, &["y = ReduceMean(x, [2 3]) keepdims=Int(0)"]);
    check(13, "ReduceMax", &["x"], &[], &["y = ReduceMax(x)"]);
    check(18, "ReduceMean", &["x", "v"], &[], &["y = ReduceMean(x, v)"]);
}

#[test]
fn an_axis_is_a_scalar() {
    let axis = |dims: &[i64]| {
        let axis = raw_tensor("a", DataType::Int64, dims, 0i64.to_le_bytes().to_vec());
        nodes(&model(11, &[input("x", &[2])], &[axis], &[node("CumSum", &["x", "a"], &["y"], &[])]))
    };
    assert_eq!(axis(&[]), ["y = CumSum(x, 0)"]);
    assert_eq!(axis(&[1]), ["n_squeeze = Squeeze([0], [0])", "y = CumSum(x, n_squeeze)"]);
}

#[test]
fn missing_attributes_are_named() {
    for (opset, op, name) in
        [(11, "Unsqueeze", "axes"), (2, "Pad", "pads"), (1, "Reshape", "shape"), (9, "Slice", "starts")]
    {
        let bad = model(opset, &[input("x", &[2])], &[], &[node(op, &["x"], &["y"], &[])]);
        assert_fails(&bad, Code::BadNode, &format!("node 'n': attribute '{name}' is missing"));
    }
    let bad = model(11, &[input("x", &[2])], &[], &[node("Unsqueeze", &["x"], &["y"], &[int("axes", 1)])]);
    assert_fails(&bad, Code::BadNode, "node 'n': attribute 'axes' is of the wrong kind");
}

#[test]
fn limits_have_the_type_of_what_they_limit() {
    let half = typed("x", DataType::Float16, Some(vec![dimension::Value::DimValue(2)]));
    let relu = NodeProto { name: Some("r".into()), ..node("Relu", &["x"], &["u"], &[]) };
    let clip = node("Clip", &["u"], &["y"], &[float("max", 1.0)]);
    assert_eq!(nodes(&model(6, &[half], &[], &[relu, clip]))[1], "y = Clip(u, _, f16:00 f16:3c)");
}

#[test]
fn split_counts_its_parts() {
    let split = |opset, attributes: &[AttributeProto]| {
        nodes(&model(opset, &[input("x", &[4])], &[], &[node("Split", &["x"], &["y", "z"], attributes)]))
    };
    assert_eq!(split(11, &[ints("split", &[1, 3])]), ["y, _ = Split(x, [1 3])"]);
    assert_eq!(split(13, &[]), ["y, _ = Split(x) num_outputs=Int(2)"]);
    assert_eq!(split(2, &[int("axis", 0)]), ["y, _ = Split(x) axis=Int(0) num_outputs=Int(2)"]);
    assert_eq!(split(18, &[int("num_outputs", 2)]), ["y, _ = Split(x) num_outputs=Int(2)"]);
}

#[test]
fn softmax_before_13_flattens() {
    check(11, "Softmax", &["x"], &[int("axis", 3)], &["y = Softmax(x) axis=Int(-1)"]);
    check(11, "Softmax", &["x"], &[int("axis", -1)], &["y = Softmax(x) axis=Int(-1)"]);
    check(13, "Softmax", &["x"], &[int("axis", 1)], &["y = Softmax(x) axis=Int(1)"]);
    let flattened = [
        "n_flatten = Flatten(x) axis=Int(1)",
        "n_softmax = Softmax(n_flatten) axis=Int(-1)",
        "n_shape = Shape(x)",
        "y = Reshape(n_softmax, n_shape) allowzero=Int(1)",
    ];
    check(9, "Softmax", &["x"], &[], &flattened);
    // The rank of a product of matrices is known, so its softmax needs no flattening.
    let product = NodeProto { name: Some("p".into()), ..node("Gemm", &["x", "x"], &["u"], &[]) };
    let chain = model(9, &[input("x", &[2, 2])], &[], &[product, node("Softmax", &["u"], &["y"], &[])]);
    assert_eq!(nodes(&chain)[1], "y = Softmax(u) axis=Int(-1)");
}

#[test]
fn forms_without_a_rewrite_are_refused() {
    refuses(1, "Tile", &["x", "x", "x"], &[], "node 'n': operator Tile version 1 is not supported");
}

#[test]
fn attributes_are_those_of_the_version() {
    let x = [input("x", &[2, 3, 4, 5])];
    let bad = |opset, op: &str, attribute: AttributeProto| {
        failure(&model(opset, &x, &[], &[node(op, &["x"], &["y"], &[attribute])]))
    };
    assert_eq!(
        bad(17, "MaxPool", ints("kernel_shapes", &[2, 2])),
        (
            Code::BadNode,
            "node 'n': attribute 'kernel_shapes' is not known for operator MaxPool version 17".into(),
            "Did you mean 'kernel_shape'?".into()
        )
    );
    assert_eq!(
        bad(13, "Squeeze", ints("axes", &[0])),
        (
            Code::BadNode,
            "node 'n': attribute 'axes' is not known for operator Squeeze version 13".into(),
            "It went after operator set 12; export the model anew".into()
        )
    );
    check(12, "Squeeze", &["x"], &[ints("axes", &[0])], &["y = Squeeze(x, [0])"]);
}

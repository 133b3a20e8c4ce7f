//! Sequences and optionals: the graph has their elements where the model fixes them, and keeps their nodes where it does not.

use byoc_plugin_api::Attribute;

use super::super::write;
use super::*;

const FLOAT: DataType = DataType::Float;

/// Nodes from the inputs `a`, `b` (f32) and `i` (i64) to the output `y`; the constants are called after their values.
fn model_of(nodes: write::Model) -> ModelProto {
    let model = nodes.input("a", FLOAT, &[2, 3]).input("b", FLOAT, &[2, 3]).input("i", DataType::Int64, &[]);
    let model = [-3, -1, 0, 1, 2].iter().fold(model, |model, &value| model.ints(&value.to_string(), &[], &[value]));
    let model = model.ints("parts", &[2], &[1, 2]).output("y", FLOAT, &[2, 3]);
    ModelProto { graph: Some(model.graph), ..model.head }
}

fn new() -> write::Model {
    write::Model::default().opset(18)
}

fn construct() -> write::Model {
    new().node("SequenceConstruct", &["a", "b", "a"], &["s"])
}

fn axis(axis: i64) -> [(&'static str, Attribute); 1] {
    [("axis", Attribute::Int(axis))]
}

fn becomes(nodes: write::Model, expected: &[&str]) {
    assert_eq!(super::nodes(&model_of(nodes)), expected);
}

fn refused(nodes: write::Model, code: Code, message: &str) {
    assert_fails(&model_of(nodes), code, message);
}

#[test]
fn elements_take_the_place_of_a_sequence() {
    becomes(construct().node("SequenceAt", &["s", "1"], &["y"]), &["y = Identity(b)"]);
    becomes(construct().node("SequenceAt", &["s", "-3"], &["y"]), &["y = Identity(a)"]);
    let inserted =
        |place: &str| construct().node("Relu", &["a"], &["r"]).node("SequenceInsert", &["s", "r", place], &["t"]);
    let relu = "r = Relu(a)";
    becomes(inserted("1").node("SequenceAt", &["t", "1"], &["y"]), &[relu, "y = Identity(r)"]);
    becomes(inserted("-1").node("SequenceAt", &["t", "2"], &["y"]), &[relu, "y = Identity(r)"]);
    becomes(inserted("").node("SequenceAt", &["t", "-1"], &["y"]), &[relu, "y = Identity(r)"]);
    let erased =
        |place: &str| construct().node("SequenceErase", &["s", place], &["t"]).node("SequenceLength", &["t"], &["n"]);
    becomes(erased("0").node("SequenceAt", &["t", "0"], &["y"]), &["n = Identity(2)", "y = Identity(b)"]);
    becomes(erased("").node("SequenceAt", &["t", "-1"], &["y"]), &["n = Identity(2)", "y = Identity(b)"]);
    let filled = new().node("SequenceEmpty", &[], &["none"]).node("SequenceInsert", &["none", "b", "0"], &["s"]);
    becomes(filled.node("SequenceAt", &["s", "0"], &["y"]), &["y = Identity(b)"]);
    let concatenated = construct().node_with("ConcatFromSequence", &["s"], &["y"], &axis(0));
    becomes(concatenated, &["make_y_concat = Concat(a, b, a) axis=Int(0)", "y = Identity(make_y_concat)"]);
    let stacked = [("axis", Attribute::Int(-1)), ("new_axis", Attribute::Int(1))];
    let stacked =
        new().node("SequenceConstruct", &["a", "b"], &["s"]).node_with("ConcatFromSequence", &["s"], &["y"], &stacked);
    becomes(
        stacked,
        &[
            "make_y_unsqueeze = Unsqueeze(a, [-1])",
            "make_y_unsqueeze_2 = Unsqueeze(b, [-1])",
            "make_y_concat = Concat(make_y_unsqueeze, make_y_unsqueeze_2) axis=Int(-1)",
            "y = Identity(make_y_concat)",
        ],
    );
}

#[test]
fn tensors_are_cut_into_sequences() {
    let split = |sizes: &str| new().node_with("SplitToSequence", &["a", sizes], &["s"], &axis(1));
    becomes(
        split("parts").node("SequenceAt", &["s", "1"], &["y"]),
        &["make_s_split, make_s_split_2 = Split(a, [1 2]) axis=Int(1)", "y = Identity(make_s_split_2)"],
    );
    // Slices of one may be as many as there are, and any of them may be read.
    becomes(
        split("1").node("SequenceAt", &["s", "i"], &["y"]),
        &[
            "make_y_reshape = Reshape(i, [1])",
            "make_y_gather = Gather(a, make_y_reshape) axis=Int(1)",
            "y = Identity(make_y_gather)",
        ],
    );
    let rows = |keepdims: i64| {
        let attributes = [("axis", Attribute::Int(0)), ("keepdims", Attribute::Int(keepdims))];
        new().node_with("SplitToSequence", &["a"], &["s"], &attributes)
    };
    becomes(
        rows(0).node("SequenceAt", &["s", "i"], &["y"]),
        &["make_y_gather = Gather(a, i) axis=Int(0)", "y = Identity(make_y_gather)"],
    );
    becomes(
        rows(0).node("SequenceLength", &["s"], &["y"]),
        &["make_y_shape = Shape(a)", "make_y_gather = Gather(make_y_shape, 0)", "y = Identity(make_y_gather)"],
    );
    becomes(rows(1).node_with("ConcatFromSequence", &["s"], &["y"], &axis(0)), &["y = Identity(a)"]);
    // Along another axis only a run puts them together.
    becomes(
        rows(0).node_with("ConcatFromSequence", &["s"], &["y"], &axis(0)),
        &["s = SplitToSequence(a) axis=Int(0) keepdims=Int(0)", "y = ConcatFromSequence(s) axis=Int(0)"],
    );
    // How many parts there are is known with the shape of the input.
    becomes(
        split("2").node("SequenceAt", &["s", "0"], &["y"]),
        &["s = SplitToSequence(a, 2) axis=Int(1)", "y = SequenceAt(s, 0)"],
    );
}

#[test]
fn what_only_a_run_knows_stays() {
    becomes(
        construct().node("SequenceAt", &["s", "i"], &["y"]),
        &["s = SequenceConstruct(a, b, a)", "y = SequenceAt(s, i)"],
    );
    becomes(
        construct().node("SequenceInsert", &["s", "b", "i"], &["t"]).node("SequenceAt", &["t", "0"], &["y"]),
        &["s = SequenceConstruct(a, b, a)", "t = SequenceInsert(s, b, i)", "y = SequenceAt(t, 0)"],
    );
    // Outputs are lists, too.
    becomes(new().node("SequenceConstruct", &["a", "b"], &["y"]), &["y = SequenceConstruct(a, b)"]);
    becomes(new().node("Optional", &["a"], &["y"]), &["y = Optional(a)"]);
    let halves = new().node_with("SequenceEmpty", &[], &["y"], &[("dtype", Attribute::Int(10))]);
    becomes(halves, &["y = SequenceEmpty() dtype=Int(10)"]);
    // A list of one type is empty behind its only element.
    becomes(
        new().node("SequenceConstruct", &["a"], &["s"]).node("SequenceErase", &["s"], &["y"]),
        &["s = SequenceConstruct(a)", "y = SequenceErase(s)"],
    );
}

#[test]
fn optionals_are_what_they_hold() {
    becomes(new().node("Optional", &["a"], &["o"]).node("OptionalGetElement", &["o"], &["y"]), &["y = Identity(a)"]);
    let there = "there = Identity(bool:01)";
    becomes(
        construct().node("Optional", &["s"], &["o"]).node("OptionalHasElement", &["o"], &["there"]).node(
            "SequenceAt",
            &["o", "1"],
            &["y"],
        ),
        &[there, "y = Identity(b)"],
    );
    let none = || new().node("Optional", &[], &["o"]);
    becomes(
        none().node("Identity", &["o"], &["p"]).node("OptionalHasElement", &["p"], &["y"]),
        &["y = Identity(bool:00)"],
    );
    becomes(new().node("OptionalHasElement", &[""], &["y"]), &["y = Identity(bool:00)"]);
    let cause = "node 'make_y' (OptionalGetElement): the optional 'o' has no element";
    refused(none().node("OptionalGetElement", &["o"], &["y"]), Code::BadNode, cause);
    let cause = "node 'make_y' (SequenceLength): its input 'o' is not a sequence";
    refused(none().node("SequenceLength", &["o"], &["y"]), Code::BadNode, cause);
}

/// Bodies read elements of sequences around them.
#[test]
fn sequences_are_read_by_bodies() {
    let branch = |place: &str| new().node("SequenceAt", &["s", place], &["t"]).output("t", FLOAT, &[2, 3]);
    let model = construct().node("Less", &["i", "1"], &["c"]).node("If", &["c"], &["y"]);
    let model = model.body("then_branch", branch("0")).body("else_branch", branch("1"));
    let model = import_model(&model_of(model)).expect("a good model");
    let bodies = crate::ir::print(&model);
    assert!(bodies.contains("captured=2}(c, a, b)"), "{bodies}");
    assert!(bodies.contains("make_y/else_branch/t: ? = Identity(b)"), "{bodies}");
}

#[test]
fn mistakes_name_the_node() {
    let s = "node 'make_y' (SequenceAt):";
    let out = |nodes: write::Model, place: &str, count: usize| {
        let cause = format!("{s} position {place} is out of range for a sequence of {count}");
        refused(nodes.node("SequenceAt", &["s", place], &["y"]), Code::BadNode, &cause);
    };
    out(new().node("SequenceConstruct", &["a"], &["s"]), "1", 1);
    out(new().node("SequenceConstruct", &["a", "b"], &["s"]), "-3", 2);
    let empty = || new().node("SequenceEmpty", &[], &["s"]);
    refused(empty().node("SequenceAt", &["s", "0"], &["y"]), Code::BadNode, &format!("{s} the sequence is empty"));
    let cause = "node 'make_t' (SequenceErase): the sequence is empty";
    refused(
        empty().node("SequenceErase", &["s"], &["t"]).node("SequenceAt", &["t", "0"], &["y"]),
        Code::BadNode,
        cause,
    );
    let cause = "node 'make_t' (SequenceInsert): position 1 is out of range for a sequence of 0";
    refused(
        empty().node("SequenceInsert", &["s", "a", "1"], &["t"]).node("SequenceAt", &["t", "0"], &["y"]),
        Code::BadNode,
        cause,
    );
    refused(
        construct().node("Relu", &["s"], &["y"]),
        Code::TypeMismatch,
        "node 'make_y': its input 's' is a sequence or an optional, expected a tensor",
    );
    refused(
        new().node("SequenceAt", &["a", "0"], &["y"]),
        Code::BadNode,
        &format!("{s} its input 'a' is not a sequence"),
    );
    let cause = format!("{s} its input 's' is a sequence or an optional, expected a tensor");
    refused(construct().node("SequenceAt", &["s", "s"], &["y"]), Code::BadNode, &cause);
    refused(construct().node("SequenceAt", &["s"], &["y"]), Code::BadNode, &format!("{s} has 1 inputs, expected 2"));
    let cause = "node 'make_y': attribute 'axes' is not known for operator SequenceAt version 18";
    refused(
        construct().node_with("SequenceAt", &["s", "0"], &["y"], &[("axes", Attribute::Int(0))]),
        Code::BadNode,
        cause,
    );
    let cause = "node 'make_y' (ConcatFromSequence): attribute 'axis' is missing";
    refused(construct().node("ConcatFromSequence", &["s"], &["y"]), Code::BadNode, cause);
    let old = construct().opset(10).node("SequenceAt", &["s", "0"], &["y"]);
    refused(old, Code::UnknownOperator, "node 'make_s': operator SequenceConstruct version 10 is not supported");
}

//! Control flow: what bodies read of the graphs around them, and what is wrong with a node or with what it runs.

use byoc_plugin_api::Attribute;

use super::super::write;
use super::*;
use crate::ir::print;

const FLOAT: DataType = DataType::Float;

fn new() -> write::Model {
    write::Model::default()
}

/// A model of the input `x` and the output `y`.
fn model_of(nodes: write::Model) -> ModelProto {
    let model = nodes.input("x", FLOAT, &[2]).input("c", DataType::Bool, &[]).output("y", FLOAT, &[2]);
    ModelProto { graph: Some(model.graph), ..model.head }
}

/// A body with the inputs and outputs of these names.
fn body(inputs: &[&str], nodes: write::Model, outputs: &[&str]) -> write::Model {
    let model = inputs.iter().fold(nodes, |model, name| model.input(name, FLOAT, &[2]));
    outputs.iter().fold(model, |model, name| model.output(name, FLOAT, &[2]))
}

/// A branch that gives `name` by that operator.
fn branch(op: &str, inputs: &[&str], name: &str) -> write::Model {
    body(&[], new().node(op, inputs, &[name]), &[name])
}

fn text(model: &ModelProto) -> String {
    print(&import_model(model).expect("a good model"))
}

fn loops(inputs: &[&str], inner: write::Model) -> ModelProto {
    model_of(new().node("Loop", inputs, &["y"]).body("body", inner))
}

fn scans(scanned: i64, inputs: &[&str], inner: write::Model) -> ModelProto {
    let count = [("num_scan_inputs", Attribute::Int(scanned))];
    model_of(new().node_with("Scan", inputs, &["y"], &count).body("body", inner))
}

fn refused(model: &ModelProto, message: &str) {
    assert_fails(model, Code::BadNode, message);
}

/// Names of a body are its own; what it does not define is that of the graph around it, or around that.
#[test]
fn what_is_read_of_the_graphs_around_is_an_input() {
    let deep = branch("Add", &["v", "x"], "r");
    let other = branch("Mul", &["w", "own"], "r").weight("own", &[2], &[3.0, 4.0]);
    let inner = new().node("If", &["on"], &["s"]).body("then_branch", deep).body("else_branch", other);
    let inner = body(&["i", "on", "v"], inner, &["on", "s"]);
    let model = new().weight("w", &[2], &[1.0, 2.0]).node("Loop", &["", "c", "x"], &["y"]).body("body", inner);
    let expected = "\
entry main
  input  x: f32[2]
  input  c: bool[]
  y: ? = Loop{bodies=[\"main/make_y\"], captured=1}(make_y_limit<i64[] 9223372036854775807>, c, x, x)
  output y: ?

body main/make_y
  input  make_y/i: ?
  input  make_y/on: ?
  input  make_y/v: ?
  input  x: ?
  make_y/s: ? = If{bodies=[\"main/make_y/make_s/then_branch\", \"main/make_y/make_s/else_branch\"], captured=2}(make_y/on, make_y/v, x)
  output make_y/on: ?
  output make_y/s: ?

body main/make_y/make_s/then_branch
  input  make_y/v: ?
  input  x: ?
  make_y/make_s/then_branch/r: ? = Add(make_y/v, x)
  output make_y/make_s/then_branch/r: ?

body main/make_y/make_s/else_branch
  input  make_y/v: ?
  input  x: ?
  make_y/make_s/else_branch/r: ? = Mul(w<f32[2] 1 2>, make_y/make_s/else_branch/own<f32[2] 3 4>)
  output make_y/make_s/else_branch/r: ?
";
    assert_eq!(text(&model_of(model)), expected);
}

#[test]
fn nodes_have_the_inputs_and_outputs_of_their_bodies() {
    let both = |inputs: &[&str], outputs: &[&str]| {
        let model = new().node("If", inputs, outputs).body("then_branch", branch("Relu", &["x"], "t"));
        model_of(model.body("else_branch", branch("Neg", &["x"], "e")))
    };
    refused(&both(&["c", "x"], &["y"]), "node 'make_y' (If): has 2 inputs, expected 1");
    refused(&both(&[""], &["y"]), "node 'make_y' (If): has 0 inputs, expected 1");
    refused(&both(&["c"], &["y", "z"]), "node 'make_y' (If): its body has 1 outputs, expected at least 2");
    refused(&both(&["c"], &[]), "node 'make_': it has no output");
    let step = || body(&["i", "on", "v"], new(), &["on", "v"]);
    refused(&loops(&["", "", "", "x"], step()), "node 'make_y' (Loop): input 2 is absent, but the operator needs it");
    refused(&loops(&["", ""], step()), "node 'make_y' (Loop): its body has 3 inputs, expected 2");
    refused(&loops(&["", "", "x", "x"], step()), "node 'make_y' (Loop): its body has 3 inputs, expected 4");
    let twice = body(&["i", "on", "on"], new(), &["on", "i"]);
    let message = "node 'make_y' (Loop): two inputs of its body are called 'on', or one has no name";
    refused(&loops(&["", "", "x"], twice), message);
    let short = body(&["i", "on", "v"], new(), &["on"]);
    refused(&loops(&["", "", "x"], short), "node 'make_y' (Loop): its body has 1 outputs, expected at least 2");
    let many = model_of(new().node("Loop", &["", "", "x"], &["y", "z"]).body("body", step()));
    refused(&many, "node 'make_y' (Loop): has 2 outputs, and its body gives 1");
    let none = body(&["i", "on", "v"], new(), &[]);
    assert_fails(&loops(&["", "", "x"], none), Code::BadGraph, "the graph has no outputs");
    let unknown = body(&["i", "on", "v"], new().node("Add", &["v", "q"], &["s"]), &["on", "s"]);
    let message = "node 'make_y': nothing defines 'q', which its body reads";
    assert_fails(&loops(&["", "", "x"], unknown), Code::BadGraph, message);
}

#[test]
fn what_scan_is_told_fits_its_inputs() {
    let row = || body(&["s", "e"], new().node("Add", &["s", "e"], &["t"]), &["t"]);
    let both = ["x", "x"];
    assert_eq!(import_model(&scans(1, &both, row())).expect("a good model").entries.len(), 2);
    for wrong in [0, -1, 3] {
        let message = format!("node 'make_y' (Scan): attribute 'num_scan_inputs' is {wrong}, and it has 2 inputs");
        refused(&scans(wrong, &both, row()), &message);
    }
    refused(&scans(1, &[], row()), "node 'make_y' (Scan): has 0 inputs, expected at least 1");
    refused(&scans(1, &["x"], row()), "node 'make_y' (Scan): its body has 2 inputs, expected 1");
}

/// A `Scan` of operator set 8 is one over the batch around one over the sequence.
#[test]
fn scan_over_a_batch() {
    let row = || body(&["s", "e"], new().node("Add", &["s", "e"], &["t"]), &["t"]);
    let old = |version: i64, inputs: &[&str], name: &str, value: Attribute| {
        let given = [("num_scan_inputs", Attribute::Int(1)), (name, value)];
        model_of(new().opset(version).node_with("Scan", inputs, &["y"], &given).body("body", row()))
    };
    let expected = "\
entry main
  input  x: f32[2]
  input  c: bool[]
  y: ? = Scan{num_scan_inputs=2, bodies=[\"main/make_y\"], captured=0}(x, x)
  output y: ?

body main/make_y
  input  make_y/make_y/row0: ?
  input  make_y/make_y/row1: ?
  make_y/make_y/result0: ? = Scan{num_scan_inputs=1, scan_input_directions=[1], bodies=[\"main/make_y/Scan\"], captured=0}(make_y/make_y/row0, make_y/make_y/row1)
  output make_y/make_y/result0: ?

body main/make_y/Scan
  input  make_y/Scan/s: ?
  input  make_y/Scan/e: ?
  make_y/Scan/t: ? = Add(make_y/Scan/s, make_y/Scan/e)
  output make_y/Scan/t: ?
";
    let backwards = || Attribute::Ints(vec![1]);
    assert_eq!(text(&old(8, &["", "x", "x"], "directions", backwards())), expected);
    let message = "node 'make_y' (Scan): lengths of its sequences are not supported";
    assert_fails(&old(8, &["x", "x", "x"], "directions", backwards()), Code::UnknownOperator, message);
    let message = "node 'make_y/Scan': attribute 'scan_input_axes' is not known for operator Scan version 8";
    refused(&old(8, &["", "x", "x"], "scan_input_axes", backwards()), message);
    let message = "node 'make_y': attribute 'directions' is not known for operator Scan version 9";
    refused(&old(9, &["x", "x"], "directions", backwards()), message);
    let message = "node 'make_y': operator Scan version 7 is not supported";
    assert_fails(&old(7, &["x", "x"], "directions", backwards()), Code::UnknownOperator, message);
}

#[test]
fn other_operators_have_no_graphs() {
    let model = model_of(new().node("Relu", &["x"], &["y"]).body("body", branch("Relu", &["x"], "t")));
    let message = "node 'make_y': the graph in attribute 'body' reads 'x', which is outside of it";
    assert_fails(&model, Code::BadNode, message);
    let model = loops(&["", "", "x"], body(&["i", "on", "v"], new().node("Foo", &["v"], &["s"]), &["on", "s"]));
    let message = "node 'make_y/make_s': operator Foo version 17 is not known";
    assert_fails(&model, Code::UnknownOperator, message);
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| {
        let innermost = branch("Relu", &["x"], "t");
        let deep = (1..depth).fold(innermost, |inner, _| {
            let inner = new().node("If", &["c"], &["t"]).body("then_branch", inner);
            body(&[], inner.body("else_branch", branch("Neg", &["x"], "t")), &["t"])
        });
        model_of(
            new().node("If", &["c"], &["y"]).body("then_branch", deep).body("else_branch", branch("Neg", &["x"], "t")),
        )
    };
    assert_eq!(import_model(&nested(20)).expect("a good model").entries.len(), 41);
    let (code, message, _) = failure(&nested(70));
    assert_eq!(code, Code::NotOnnx);
    assert!(message.ends_with("is not an ONNX model: its graphs or its types are nested too deeply"), "{message}");
}

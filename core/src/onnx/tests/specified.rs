//! Operators that ONNX defines as functions of others.

use byoc_plugin_api::Attribute;

use super::super::functions::FUNCTIONS;
use super::super::proto::ModelProto;
use super::super::write;
use super::functions::{brought, nodes_for};
use super::*;

const MICROSOFT: &str = "com.microsoft";
const FLOAT: DataType = DataType::Float;

/// A model of that operator set with one node `n`, from `inputs` of `[2, 4, 6, 6]` to `y`.
fn model_of(version: i64, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> ModelProto {
    let mut model = write::Model::default().opset(version);
    for name in ["x", "w"] {
        model = model.input(name, FLOAT, &[2, 4, 6, 6]);
    }
    let model = model.node_with(op, inputs, &["y"], attributes).output("y", FLOAT, &[2, 4, 6, 6]);
    let mut graph = model.graph;
    graph.node[0].name = Some("n".into());
    ModelProto { graph: Some(graph), ..model.head }
}

fn text(name: &'static str, value: &str) -> (&'static str, Attribute) {
    (name, Attribute::String(value.into()))
}

fn integer(name: &'static str, value: i64) -> (&'static str, Attribute) {
    (name, Attribute::Int(value))
}

#[test]
fn functions_take_the_place_of_their_nodes() {
    let expected = [
        "n/CastLike_1 = CastLike(1.0, x)",
        "n/Abs_2 = Abs(x)",
        "n/Add_3 = Add(n/CastLike_1, n/Abs_2)",
        "n/Div_4 = Div(x, n/Add_3)",
        "y = Identity(n/Div_4)",
    ];
    assert_eq!(super::nodes(&model_of(17, "Softsign", &["x"], &[])), expected);
}

#[test]
fn nodes_stay_whole_where_a_backend_brings_the_operator() {
    let model = model_of(17, "Softsign", &["x"], &[]);
    assert_eq!(nodes_for(&model, &brought()), (vec!["y = Softsign(x)".into()], vec!["n".into()]));
    let mut custom = brought();
    custom.expand([("main".into(), "n".into())].into_iter());
    let (nodes, calls) = nodes_for(&model, &custom);
    assert_eq!((nodes.len(), calls.len()), (5, 0));
}

#[test]
fn invalid_nodes_are_refused() {
    let fails = |version: i64, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)], message: &str| {
        assert_fails(&model_of(version, op, inputs, attributes), Code::BadNode, message);
    };
    fails(28, "Softsign", &["x", "w"], &[], "node 'n' (Softsign): has 2 inputs, expected at most 1 in version 28");
    fails(28, "PRelu", &["x"], &[], "node 'n' (PRelu): input 1 is missing");
    fails(5, "PRelu", &["x", "w"], &[], "node 'n' (PRelu): operator PRelu version 5 is not supported");
    let depth = |attributes: &[_], message: &str| fails(13, "DepthToSpace", &["x"], attributes, message);
    depth(&[], "node 'n' (DepthToSpace): attribute 'blocksize' is missing");
    depth(
        &[integer("blocksize", 0)],
        "node 'n' (DepthToSpace): attribute 'blocksize' is 0, expected the side of a block: 1 to 65536",
    );
    depth(&[text("blocksize", "2")], "node 'n' (DepthToSpace): attribute 'blocksize' is of the wrong kind");
    depth(
        &[integer("blocksize", 2), text("mode", "RCD")],
        "node 'n' (DepthToSpace): attribute 'mode' is 'RCD', expected one of DCR, CRD",
    );
    let space = [integer("blocksize", 2), text("mode", "CRD")];
    let message = "node 'n' (SpaceToDepth): attribute 'mode' is not known for operator SpaceToDepth version 13";
    fails(13, "SpaceToDepth", &["x"], &space, message);
    let heads = [integer("q_num_heads", 3), integer("kv_num_heads", 2)];
    let message = "node 'n' (LinearAttention): attribute 'q_num_heads' is 3, not a multiple of 'kv_num_heads', 2";
    fails(27, "LinearAttention", &["x", "x", "x"], &heads, message);
}

#[test]
fn rows_are_in_the_order_of_names_and_not_among_the_operators() {
    // Those of onnxruntime's domain are behind the others.
    let names: Vec<_> = FUNCTIONS.iter().map(|def| (def.domain == MICROSOFT, def.name)).collect();
    assert!(names.is_sorted());
    let twice = FUNCTIONS.iter().filter(|def| crate::ops::find(def.domain, def.name).is_some());
    assert_eq!(twice.map(|def| def.name).collect::<Vec<_>>(), [""; 0]);
}

/// A model of one node and the derivative of `y` by `by` at `at`.
fn derivative(op: &str, (by, at): (&str, &str)) -> ModelProto {
    let shape = [2, 4, 6, 6];
    let model = write::Model::default().opset(17).domain("ai.onnx.preview.training", 1);
    let model = model.input("x", FLOAT, &shape).input("w", FLOAT, &shape).node(op, &["x", "w"], &["y"]);
    let attributes = [("xs", Attribute::Strings(vec![by.into()])), text("y", "y")];
    let op = ("ai.onnx.preview.training", "Gradient");
    let model = model.node_of(op, &[at], &["d"], &attributes).output("d", FLOAT, &shape);
    ModelProto { graph: Some(model.graph), ..model.head }
}

#[test]
fn gradients_are_derived_at_the_values_of_the_graph() {
    let found = super::nodes(&derivative("Mul", ("x", "x")));
    assert!(found.contains(&"make_d/Mul_4 = Mul(make_d/Expand_3, w)".to_owned()), "{found:?}");
    let refused = |model: ModelProto, message: &str| assert_fails(&model, Code::UnknownOperator, message);
    refused(derivative("MatMul", ("x", "x")), "node 'make_d' (Gradient): byoc has no derivative of MatMul");
    let other = "its inputs are other values than those in 'xs' and 'zs': byoc derives at the graph's own values";
    refused(derivative("Mul", ("x", "w")), &format!("node 'make_d' (Gradient): {other}"));
}

//! Graphs: order, names, and what is wrong with one.

use super::super::proto::StringStringEntryProto;
use super::*;
use crate::ops::{self, OpDef, REWRITTEN};

fn named(name: &str, node: NodeProto) -> NodeProto {
    NodeProto { name: Some(name.into()), ..node }
}

fn relu(name: &str, from: &str, to: &str) -> NodeProto {
    named(name, node("Relu", &[from], &[to], &[]))
}

fn with(nodes: &[NodeProto]) -> ModelProto {
    model(13, &[input("x", &[2])], &[], nodes)
}

#[test]
fn nodes_are_sorted_and_named() {
    let model = with(&[relu("", "b", "y"), relu("r", "x", "a"), relu("r", "a", "b"), relu("", "x", "unread")]);
    assert_eq!(nodes(&model), ["a = Relu(x)", "b = Relu(a)", "y = Relu(b)", "unread = Relu(x)"]);
    let names: Vec<_> = graph(&model).nodes.into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["r", "r_2", "Relu_0", "Relu_3"]);
}

#[test]
fn ill_formed_graphs_are_errors() {
    let cases = [
        (with(&[relu("a", "v", "u"), relu("b", "u", "v"), relu("c", "v", "y")]), "node 'a' is part of a cycle"),
        (with(&[relu("a", "a", "y"), relu("b", "z", "a"), relu("c", "z", "z")]), "node 'c' is part of a cycle"),
        (with(&[relu("a", "x", "y"), relu("b", "x", "y")]), "node 'b': value 'y' is defined twice"),
        (with(&[relu("a", "x", "x")]), "node 'a': value 'x' is defined twice"),
        (with(&[relu("a", "none", "y")]), "node 'a': nothing defines its input 'none'"),
        (with(&[relu("a", "x", "z")]), "nothing defines the output 'y'"),
        (model(13, &[input("x", &[2]), input("x", &[2])], &[], &[relu("a", "x", "y")]), "input 'x' is listed twice"),
        (model(13, &[input("", &[2])], &[], &[relu("a", "x", "y")]), "an input has no name"),
        (model(13, &[], &[floats("t", &[1]), floats("t", &[1])], &[]), "initializer 't' is defined twice"),
        (model(13, &[], &[floats("", &[1])], &[]), "an initializer has no name"),
    ];
    for (model, message) in cases {
        assert_fails(&model, Code::BadGraph, message);
    }
    let mut twice = with(&[relu("a", "x", "y")]);
    let graph = twice.graph.as_mut().expect("graph");
    graph.output.push(graph.output[0].clone());
    assert_fails(&twice, Code::BadGraph, "output 'y' is listed twice");
    let mut none = with(&[relu("a", "x", "y")]);
    none.graph.as_mut().expect("graph").output.clear();
    assert_fails(&none, Code::BadGraph, "the graph has no outputs");
}

#[test]
fn bad_nodes_are_errors() {
    let cases = [
        (node("Relu", &["x"], &["y"], &[int("a", 1), int("a", 1)]), "attribute 'a' is set twice"),
        (node("Relu", &["x"], &[], &[]), "it has no output"),
        (node("Relu", &["x"], &["y"], &[attribute("a", AttributeType::Undefined)]), "attribute 'a' has no value"),
        (
            node("Relu", &["x"], &["y"], &[AttributeProto { s: Some((&b"\xff"[..]).into()), ..text("a", "") }]),
            "attribute 'a' is not UTF-8",
        ),
        (
            node("Relu", &["x"], &["y"], &[AttributeProto { ref_attr_name: Some("b".into()), ..int("a", 1) }]),
            "attribute 'a' refers to 'b' of a function, but is outside of one",
        ),
        (
            node("Relu", &["x"], &["y"], &[AttributeProto { r#type: Some(77), ..int("a", 1) }]),
            "attribute 'a' is of an unknown kind",
        ),
        (
            node("Relu", &["x"], &["y"], &[attribute("a", AttributeType::TypeProto)]),
            "attribute 'a' is of kind TYPE_PROTO, which is not supported",
        ),
    ];
    for (node, cause) in cases {
        assert_fails(&with(&[node]), Code::BadNode, &format!("node 'n': {cause}"));
    }
    let mut apart = floats("w", &[1]);
    apart.external_data.push(StringStringEntryProto { key: Some("location".into()), value: Some("w.bin".into()) });
    let graph = GraphProto { initializer: vec![apart], ..GraphProto::default() };
    let body = AttributeProto { g: Some(graph), ..attribute("body", AttributeType::Graph) };
    let message = "node 'n': the graph in attribute 'body' has tensors in another file";
    assert_fails(&with(&[node("Relu", &["x"], &["y"], &[body])]), Code::BadNode, message);
    let body = node("Relu", &["x"], &["y"], &[attribute("body", AttributeType::Graph)]);
    let message = "node 'n': attribute 'body' is not known for operator Relu version 13";
    assert_fails(&with(&[body]), Code::BadNode, message);
}

#[test]
fn attributes_of_the_first_ir_version_have_no_kind() {
    let old = AttributeProto { r#type: None, ..int("axis", 2) };
    assert_eq!(nodes(&with(&[node("Flatten", &["x"], &["y"], &[old])])), ["y = Flatten(x) axis=Int(2)"]);
}

#[test]
fn unknown_operators_are_named() {
    let mut model = with(&[
        NodeProto { domain: Some("com.acme".into()), ..named("n12", node("Foo", &["x"], &["a"], &[])) },
        NodeProto { domain: Some("ai.onnx".into()), ..relu("r", "x", "y") },
        named("b", node("Bar", &["x"], &["b"], &[])),
    ]);
    let message = "node 'n12': operator Foo is of operator set 'com.acme', which the model does not import";
    assert_fails(&model, Code::BadGraph, message);
    model.opset_import.push(OperatorSetIdProto { domain: Some("com.acme".into()), version: Some(3) });
    let expected = (
        Code::UnknownOperator,
        "node 'n12': operator com.acme.Foo version 3 is not known".to_owned(),
        "Nor are: Bar".to_owned(),
    );
    assert_eq!(failure(&model), expected);
    let branch = named("i", node("If", &["x"], &["y"], &[attribute("then_branch", AttributeType::Graph)]));
    assert_fails(&with(&[branch]), Code::BadNode, "node 'i': attribute 'then_branch' is missing");
}

/// Of every operator, in every operator set: what it does not have is an error that names node and operator, and so is what
/// only a newer form of it has.
#[test]
fn attributes_inputs_and_outputs_are_those_of_the_operator() {
    let versions = |def: &'static OpDef| {
        let newest = ops::domain(def.domain).map_or(0, |domain| domain.newest);
        (1..=newest).map(move |version| (def, version))
    };
    for (def, version) in ops::all().chain(REWRITTEN).flat_map(versions) {
        let name = def.qualified();
        let node = |inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]| NodeProto {
            domain: Some(def.domain.into()),
            ..node(def.name, inputs, outputs, attributes)
        };
        let fails = |node, cause: &str| {
            let mut model = model(13, &[input("x", &[2])], &[], &[node]);
            model.opset_import = vec![OperatorSetIdProto { domain: Some(def.domain.into()), version: Some(version) }];
            let (code, message, _) = failure(&model);
            assert_eq!((code, message), (Code::BadNode, cause.to_owned()), "{name} {version}");
        };
        let older = def.older.iter().find(|(before, ..)| version < *before);
        let (inputs, outputs) = older.map_or((def.inputs.1, def.outputs), |row| (row.1, row.2));
        let sharp = node(&["x"][..inputs.min(1)], &["y"], &[int("sharpness", 1)]);
        let cause = format!("attribute 'sharpness' is not known for operator {name} version {version}");
        fails(sharp, &format!("node 'n': {cause}"));
        let place = format!("node 'n' ({name}): has");
        if inputs != usize::MAX {
            let more = node(&vec!["x"; inputs + 1], &["y"], &[]);
            let cause = format!("{} inputs, expected at most {inputs} in version {version}", inputs + 1);
            fails(more, &format!("{place} {cause}"));
        }
        if outputs != usize::MAX {
            let names: Vec<_> = (0..outputs).map(|index| format!("unread{index}")).collect();
            let names: Vec<_> = ["y"].into_iter().chain(names.iter().map(String::as_str)).collect();
            let cause = format!("{} outputs, expected at most {outputs} in version {version}", outputs + 1);
            fails(node(&["x"][..inputs.min(1)], &names, &[]), &format!("{place} {cause}"));
        }
    }
    let (_, _, remedy) = failure(&model(11, &[input("x", &[2])], &[], &[node("Squeeze", &["x", "x"], &["y"], &[])]));
    assert_eq!(remedy, "Export the model with a newer operator set");
}

#[test]
fn operator_sets_and_ir_versions() {
    let nodes = [relu("r", "x", "y")];
    for opset in [29, 0, -1] {
        let message = format!("operator set {opset} of ONNX is not known; this build knows 1 to 28");
        assert_fails(&model(opset, &[input("x", &[2])], &[], &nodes), Code::UnknownOperator, &message);
    }
    for opset in 1..=28 {
        let model = ModelProto { ir_version: Some(999), ..model(opset, &[input("x", &[2])], &[], &nodes) };
        assert_eq!(graph(&model).nodes.len(), 1);
    }
    let old = ModelProto { ir_version: Some(2), opset_import: vec![], ..with(&nodes) };
    assert_eq!(graph(&old).nodes.len(), 1);
    let none = ModelProto { opset_import: vec![], ..with(&nodes) };
    let message = "node 'r': operator Relu is of operator set 'ai.onnx', which the model does not import";
    assert_fails(&none, Code::BadGraph, message);
}

#[test]
fn inputs_with_an_initializer_are_constants() {
    let given = [input("x", &[2]), input("w", &[2])];
    let graph = graph(&model(13, &given, &[floats("w", &[2])], &[node("Add", &["x", "w"], &["y"], &[])]));
    let names: Vec<_> = graph.inputs.iter().map(|&id| graph.value(id).name.as_str()).collect();
    assert_eq!(names, ["x"]);
}

#[test]
fn free_text_need_not_be_text() {
    let mut odd = with(&[relu("r", "x", "y")]);
    odd.doc_string = Some((&b"\xff\xfe"[..]).into());
    odd.producer_name = Some((&b"\xff"[..]).into());
    assert_eq!(graph(&odd).nodes.len(), 1);
}

#[test]
fn entries_have_names_of_their_own() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("m.onnx");
    std::fs::write(&path, with(&[relu("r", "x", "z")]).encode_to_vec()).expect("write");
    let error =
        import(&[("a".into(), &path), ("b".into(), &path)], &ImportOptions::default(), &CustomOperators::default())
            .expect_err("bad");
    assert_eq!(error.message, format!("'{}': nothing defines the output 'y'", path.display()));
    std::fs::write(&path, with(&[relu("r", "x", "y")]).encode_to_vec()).expect("write");
    let error =
        import(&[("a".into(), &path), ("a".into(), &path)], &ImportOptions::default(), &CustomOperators::default())
            .expect_err("bad");
    assert_eq!((error.code, error.message.as_str()), (Code::Usage, "two entries are called 'a'"));
}

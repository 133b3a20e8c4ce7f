//! The model's own functions.

use std::io::Write;
use std::sync::Arc;

use byoc_plugin_api::{
    Attribute, Backend, Claims, CustomAttribute, Description, Error, Generated, Job, Operator, Options, Pattern,
    Refusal, Region, Runtime,
};

use super::super::proto::FunctionProto;
use super::*;
use crate::ir::CustomOperator;

fn call(function: &str, name: &str, inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]) -> NodeProto {
    NodeProto { domain: Some("local".into()), name: Some(name.into()), ..node(function, inputs, outputs, attributes) }
}

fn function(name: &str, inputs: &[&str], outputs: &[&str], body: &[NodeProto]) -> FunctionProto {
    FunctionProto {
        name: Some(name.into()),
        domain: Some("local".into()),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: outputs.iter().map(|&name| name.into()).collect(),
        node: body.to_vec(),
        opset_import: vec![
            OperatorSetIdProto { domain: None, version: Some(11) },
            OperatorSetIdProto { domain: Some("local".into()), version: Some(1) },
        ],
        ..Default::default()
    }
}

fn with(functions: &[FunctionProto], nodes: &[NodeProto]) -> ModelProto {
    ModelProto { functions: functions.to_vec(), ..model(18, &[input("x", &[2, 3])], &[], nodes) }
}

#[test]
fn calls_are_replaced_by_the_body() {
    let given = AttributeProto { ref_attr_name: Some("over".into()), ..attribute("axes", AttributeType::Ints) };
    let keep = AttributeProto { ref_attr_name: Some("keep".into()), ..attribute("keepdims", AttributeType::Int) };
    let gone = AttributeProto { ref_attr_name: Some("none".into()), ..attribute("noop", AttributeType::Int) };
    let body = [node("ReduceMean", &["a"], &["m"], &[given, keep, gone]), node("Sub", &["a", "m"], &["r"], &[])];
    let mut center = function("Center", &["a", "unused"], &["r"], &body);
    center.attribute.extend(["over".into(), "none".into()]);
    center.attribute_proto.push(int("keep", 1));
    let outer = function(
        "Twice",
        &["a"],
        &["r"],
        &[
            call("Center", "", &["a"], &["m"], &[ints("over", &[0])]),
            call("Center", "", &["m"], &["r"], &[ints("over", &[1])]),
        ],
    );
    let model = with(&[center, outer], &[call("Twice", "t", &["x"], &["y"], &[])]);
    // The body is of operator set 11, where `axes` is an attribute, the model of 18.
    let expected = [
        "t/Center_0/m = ReduceMean(x, [0]) keepdims=Int(1)",
        "t/m = Sub(x, t/Center_0/m)",
        "t/Center_1/m = ReduceMean(t/m, [1]) keepdims=Int(1)",
        "y = Sub(t/m, t/Center_1/m)",
    ];
    assert_eq!(nodes(&model), expected);
    let names: Vec<_> = graph(&model).nodes.into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["t/Center_0/n", "t/Center_0/n_2", "t/Center_1/n", "t/Center_1/n_2"]);
}

#[test]
fn outputs_may_be_inputs() {
    let model = with(&[function("Same", &["a"], &["a"], &[])], &[call("Same", "s", &["x"], &["y"], &[])]);
    assert_eq!(nodes(&model), ["y = Identity(x)"]);
}

#[test]
fn functions_that_never_end_are_errors() {
    let own = function("F", &["a"], &["r"], &[call("F", "", &["a"], &["r"], &[])]);
    let message = "node 'f/F_0': function F calls itself, or is nested too deeply";
    assert_fails(&with(&[own], &[call("F", "f", &["x"], &["y"], &[])]), Code::BadGraph, message);
    // Each calls the next one ten times: 10^12 calls in all, of nothing.
    let mut functions = vec![function("F12", &["a"], &["r"], &[])];
    for level in 0..12 {
        let next = format!("F{}", level + 1);
        let body: Vec<_> = (0..10).map(|i| call(&next, "", &["a"], &[&format!("r{i}")], &[])).collect();
        functions.push(function(&format!("F{level}"), &["a"], &["r0"], &body));
    }
    let message = "the model's functions expand to more than 250000 nodes";
    assert_fails(&with(&functions, &[call("F0", "f", &["x"], &["y"], &[])]), Code::BadGraph, message);
}

#[test]
fn attributes_of_calls_are_the_functions() {
    let mut one = function("One", &["a"], &["r"], &[node("Relu", &["a"], &["r"], &[])]);
    one.attribute.push("slope".into());
    let with_attribute = |name: &str| with(&[one.clone()], &[call("One", "o", &["x"], &["y"], &[int(name, 1)])]);
    assert_eq!(nodes(&with_attribute("slope")), ["y = Relu(x)"]);
    let message = "node 'o': attribute 'slop' is not known for function One".to_owned();
    assert_eq!(failure(&with_attribute("slop")), (Code::BadNode, message, "Did you mean 'slope'?".into()));
}

#[test]
fn calls_must_fit() {
    let one = function("One", &["a"], &["r"], &[node("Relu", &["a"], &["r"], &[])]);
    let model = with(&[one], &[call("One", "o", &["x", "x"], &["y"], &[])]);
    assert_fails(&model, Code::BadNode, "node 'o': more inputs or outputs than function One has");
}

/// Brings operators, and is asked nothing.
struct Acme;

impl Backend for Acme {
    fn describe(&self) -> Description {
        Description::default()
    }

    fn patterns(&self, _: &Options) -> std::result::Result<Vec<Pattern>, Error> {
        unreachable!()
    }

    fn check(&self, _: &Region, _: &Options) -> std::result::Result<(), Refusal> {
        unreachable!()
    }

    fn codegen(&self, _: &Job<'_>, _: &mut dyn Write) -> std::result::Result<Generated, Error> {
        unreachable!()
    }

    fn constant_updater(&self, _: &Job<'_>, _: &[u8], _: &[u8], _: &mut Claims<'_>) -> std::result::Result<(), Error> {
        unreachable!()
    }

    fn runtime(&self) -> Runtime<'_> {
        unreachable!()
    }
}

/// A backend that brings `local::Scale` in version 1, with an attribute `by`, and of ONNX's own operators `Relu` and `Softsign`.
pub(super) fn brought() -> CustomOperators {
    let scale = Operator {
        domain: "local".into(),
        name: "Scale".into(),
        until: Some(1),
        attributes: vec![CustomAttribute::with_default("by", Attribute::Float(2.0))],
        ..Operator::default()
    };
    let core_own = |name: &str| Operator { name: name.into(), ..Operator::default() };
    let of = |operator| CustomOperator {
        operator,
        backend: "acme".into(),
        source: Arc::new(Acme),
        options: Options::default(),
        types: Vec::new(),
    };
    CustomOperators::new(vec!["acme".into()], [scale, core_own("Relu"), core_own("Softsign")].map(of).into())
}

/// A function that doubles, with an attribute `by`.
fn scale() -> FunctionProto {
    let mut scale = function("Scale", &["a"], &["r"], &[node("Add", &["a", "a"], &["r"], &[])]);
    scale.attribute.push("by".into());
    scale
}

fn importing(version: i64, model: ModelProto) -> ModelProto {
    let set = OperatorSetIdProto { domain: Some("local".into()), version: Some(version) };
    ModelProto { opset_import: [model.opset_import, vec![set]].concat(), ..model }
}

pub(super) fn import_for(model: &ModelProto, custom: &CustomOperators) -> Result<Model> {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("m.onnx");
    std::fs::write(&path, model.encode_to_vec()).expect("write");
    import(&[("main".into(), &path)], &ImportOptions::default(), custom)
}

/// The nodes of a good model, and the names of those that are calls.
pub(super) fn nodes_for(model: &ModelProto, custom: &CustomOperators) -> (Vec<String>, Vec<String>) {
    let model = import_for(model, custom).expect("a good model");
    let nodes = model.entries[0].nodes.iter().map(|node| show(&model, node)).collect();
    (nodes, model.entries[0].calls.iter().cloned().collect())
}

#[test]
fn calls_stay_where_a_backend_brings_the_operator() {
    let call_of = |attributes: &[AttributeProto]| call("Scale", "s", &["x"], &["y"], attributes);
    let found = |scale: FunctionProto, call: NodeProto| nodes_for(&importing(1, with(&[scale], &[call])), &brought());
    let whole = |by: &str| (vec![format!("y = Scale(x) by=Float({by})")], vec!["s".to_owned()]);
    assert_eq!(found(scale(), call_of(&[])), whole("2.0"));
    assert_eq!(found(scale(), call_of(&[float("by", 4.0)])), whole("4.0"));
    // The function's own default comes before the backend's.
    let with_default = FunctionProto { attribute: vec![], attribute_proto: vec![float("by", 3.0)], ..scale() };
    assert_eq!(found(with_default.clone(), call_of(&[])), whole("3.0"));
    assert_eq!(found(with_default, call_of(&[float("by", 4.0)])), whole("4.0"));
}

#[test]
fn calls_in_bodies_stay_as_well() {
    let given = AttributeProto { ref_attr_name: Some("factor".into()), ..attribute("by", AttributeType::Float) };
    let body = [
        call("Scale", "first", &["a"], &["m"], &[given]),
        call("Scale", "", &["m"], &["n"], &[]),
        node("Relu", &["n"], &["r"], &[]),
    ];
    let mut outer = function("Outer", &["a"], &["r"], &body);
    outer.attribute.push("factor".into());
    let model = importing(3, with(&[scale(), outer], &[call("Outer", "o", &["x"], &["y"], &[float("factor", 5.0)])]));
    // What counts is the version that the calling function imports. `Relu` is core's own.
    let expected = ["o/m = Scale(x) by=Float(5.0)", "o/n = Scale(o/m) by=Float(2.0)", "y = Relu(o/n)"];
    let (nodes, calls) = nodes_for(&model, &brought());
    assert_eq!((nodes, calls), (expected.map(str::to_owned).into(), vec!["o/Scale_1".into(), "o/first".into()]));
    let mut custom = brought();
    custom.expand([("main".into(), "o/first".into()), ("other".into(), "o/Scale_1".into())].into_iter());
    let (nodes, calls) = nodes_for(&model, &custom);
    assert_eq!((nodes[0].as_str(), calls), ("o/m = Add(x, x)", vec!["o/Scale_1".into()]));
}

#[test]
fn other_calls_are_replaced_whatever_backends_bring() {
    let calls = [call("Scale", "s", &["x"], &["y"], &[])];
    let body = (vec!["y = Add(x, x)".to_owned()], vec![]);
    let found = |version: i64, functions: &[FunctionProto], calls: &[NodeProto], custom: &CustomOperators| {
        nodes_for(&importing(version, with(functions, calls)), custom)
    };
    assert_eq!(found(2, &[scale()], &calls, &brought()), body, "another version");
    assert_eq!(nodes_for(&with(&[scale()], &calls), &brought()), body, "no version");
    assert_eq!(found(1, &[scale()], &calls, &CustomOperators::any()), body, "nobody brings it");
    let overload = FunctionProto { overload: Some("f32".into()), ..scale() };
    let overloaded = [NodeProto { overload: Some("f32".into()), ..calls[0].clone() }];
    assert_eq!(found(1, &[overload], &overloaded, &brought()), body, "an overload");
    let relu = FunctionProto { domain: None, name: Some("Relu".into()), ..scale() };
    assert_eq!(found(1, &[relu], &[node("Relu", &["x"], &["y"], &[])], &brought()), body, "core's own");
}

#[test]
fn whole_calls_fit_the_function_and_the_operator() {
    let fails = |function: FunctionProto, inputs: &[&str], attribute: AttributeProto, message: &str| {
        let calls = [call("Scale", "s", inputs, &["y"], &[attribute])];
        let error = import_for(&importing(1, with(&[function], &calls)), &brought()).expect_err("a bad model");
        assert_eq!((error.code, error.message.as_str()), (Code::BadNode, message));
    };
    let by = || float("by", 1.0);
    fails(scale(), &["x", "x"], by(), "node 's': more inputs or outputs than function Scale has");
    fails(scale(), &["x"], float("bye", 1.0), "node 's': attribute 'bye' is not known for function Scale");
    let wide = FunctionProto { input: vec!["a".into(), "b".into()], ..scale() };
    fails(wide, &["x", "x"], by(), "node 's' (local.Scale): has 2 inputs, expected 1");
    let mut more = scale();
    more.attribute.push("more".into());
    let message = "node 's' (local.Scale): attribute 'more' is not known to backend 'acme'";
    fails(more, &["x"], float("more", 1.0), message);
}

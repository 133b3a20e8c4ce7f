//! The model's own functions.

use super::super::proto::FunctionProto;
use super::*;

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

//! `Gradient` of ONNX's preview of training: the derivative of a value of the main graph by others. It is not a function of its
//! inputs alone: the nodes between those values decide what its body is, so each node has one of its own.
//!
//! Backwards from `y`, each node adds to the derivatives by its inputs what the derivative by its output is worth to them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::proto::{FunctionProto, NodeProto};
use super::body::{Body, Value};
use super::call::{Call, bad};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ops::training;

/// Its name.
pub(in super::super) const NAME: &str = "Gradient";

/// Makes a call of a function of its own of each `Gradient` among the nodes of a main graph: gives its overload and the function.
/// What the function reads are inputs of the node under the names that they have in the graph.
pub(in super::super) fn derive(nodes: &mut [NodeProto]) -> Result<Vec<(String, FunctionProto)>> {
    let mut derived = Vec::new();
    for index in 0..nodes.len() {
        let node = &nodes[index];
        if node.domain.as_deref() != Some(training::DOMAIN) || node.op_type.as_deref() != Some(NAME) {
            continue;
        }
        let name = node.name.clone().unwrap_or_default();
        let within = |error: Diagnostic| error.within(format!("node '{name}' ({NAME})"));
        let (read, function) = function(node, &nodes[..index]).map_err(within)?;
        let overload = format!("of node {index}");
        let node = &mut nodes[index];
        (node.input, node.attribute, node.overload) = (read, Vec::new(), Some(overload.clone()));
        derived.push((overload, function));
    }
    Ok(derived)
}

/// The body of a node that [`derive`] does not look at.
pub(super) fn elsewhere(_: &mut Body, _: &Call) -> Result<Vec<Value>> {
    Err(bad("stands for nodes around it, and is derived in the main graph only")
        .hint("Export the model with the gradients as nodes"))
}

/// The names that the derivatives read, and the function that gives them.
fn function(node: &NodeProto, before: &[NodeProto]) -> Result<(Vec<String>, FunctionProto)> {
    let list = |name: &str| -> Vec<String> {
        let given = node.attribute.iter().find(|attribute| attribute.name() == name);
        given.map_or_else(Vec::new, |it| it.strings.iter().map(|text| String::from_utf8_lossy(text).into()).collect())
    };
    let (by, kept) = (list("xs"), list("zs"));
    let y = node.attribute.iter().find(|attribute| attribute.name() == "y").and_then(|attribute| attribute.s.as_ref());
    let y = String::from_utf8_lossy(y.ok_or_else(|| bad("attribute 'y' is missing"))?).into_owned();
    if by.is_empty() || node.output.len() > by.len() {
        return Err(bad(format!("has {} outputs and {} names in 'xs'", node.output.len(), by.len())));
    }
    if !node.input.iter().eq(by.iter().chain(&kept)) {
        let cause = "its inputs are other values than those in 'xs' and 'zs': byoc derives at the graph's own values";
        return Err(Diagnostic::new(Code::UnknownOperator, cause).hint("Export the model with the gradients as nodes"));
    }
    let between = between(before, &by, &kept, &y);
    let names = between.iter().flat_map(|node| node.input.iter().chain(&node.output)).chain(&by).chain([&y]);
    let read: BTreeSet<String> = names.filter(|name| !name.is_empty()).cloned().collect();
    let mut body = Body::new(read.clone());
    let mut parts: BTreeMap<String, Value> = BTreeMap::new();
    let one = like(&mut body, 1.0, &Value(y.clone()));
    parts.insert(y, one);
    let varying: BTreeSet<_> =
        between.iter().map(|node| node.output[0].as_str()).chain(by.iter().map(String::as_str)).collect();
    for node in between.iter().rev() {
        let Some(part) = parts.get(&node.output[0]).cloned() else { continue };
        for (index, input) in node.input.iter().enumerate().filter(|(_, input)| varying.contains(input.as_str())) {
            let worth = rule(&mut body, node, index, &part)?;
            let sum = match parts.get(input) {
                Some(known) => body.op("Add", [known, &worth]),
                None => worth,
            };
            parts.insert(input.clone(), sum);
        }
    }
    let outputs: Vec<_> = by
        .into_iter()
        .map(|x| parts.get(&x).cloned().unwrap_or_else(|| like(&mut body, 0.0, &Value(x.clone()))))
        .collect();
    let read: Vec<String> = read.into_iter().collect();
    Ok((read.clone(), body.function(read, &outputs)))
}

/// The nodes that `y` depends on and that depend on `by`, in their order.
fn between<'a>(nodes: &'a [NodeProto], by: &[String], kept: &[String], y: &str) -> Vec<&'a NodeProto> {
    let ends = |name: &String| by.contains(name) || kept.contains(name);
    let mut varying: BTreeSet<&str> = by.iter().map(String::as_str).collect();
    let mut after = Vec::new();
    for node in nodes {
        let varies = node.input.iter().any(|input| varying.contains(input.as_str()));
        if varies && !node.output.iter().any(ends) {
            varying.extend(node.output.iter().map(String::as_str));
            after.push(node);
        }
    }
    let mut wanted = BTreeSet::from([y]);
    after.reverse();
    after.retain(|node| {
        let is_wanted = node.output.iter().any(|output| wanted.contains(output.as_str()));
        if is_wanted {
            wanted.extend(node.input.iter().map(String::as_str));
        }
        is_wanted
    });
    after.reverse();
    after
}

/// What `part`, the derivative by the output of a node, is worth to the derivative by one of its inputs.
fn rule(body: &mut Body, node: &NodeProto, index: usize, part: &Value) -> Result<Value> {
    let input = |index: usize| Value(node.input.get(index).cloned().unwrap_or_default());
    let (a, b, y) = (input(0), input(1), Value(node.output[0].clone()));
    let op = match node.domain.as_deref() {
        None | Some("" | "ai.onnx") => node.op_type.as_deref().unwrap_or_default(),
        Some(_) => "",
    };
    let by_element = match (op, index) {
        ("Add" | "Identity", _) | ("Sub", 0) => part.clone(),
        ("Sub", 1) | ("Neg", 0) => body.op("Neg", [part]),
        ("Mul", 0) => body.op("Mul", [part, &b]),
        ("Mul", 1) => body.op("Mul", [part, &a]),
        ("Div", 0) => body.op("Div", [part, &b]),
        ("Div", 1) => {
            let scaled = body.op("Mul", [part, &y]);
            let slope = body.op("Div", [&scaled, &b]);
            body.op("Neg", [&slope])
        }
        ("Exp", 0) => body.op("Mul", [part, &y]),
        ("Log", 0) => body.op("Div", [part, &a]),
        ("Sqrt", 0) => {
            let twice = body.op("Add", [&y, &y]);
            body.op("Div", [part, &twice])
        }
        ("Tanh", 0) => {
            let (square, one) = (body.op("Mul", [&y, &y]), body.number(1.0, &y));
            let slope = body.op("Sub", [&one, &square]);
            body.op("Mul", [part, &slope])
        }
        ("Sigmoid", 0) => {
            let one = body.number(1.0, &y);
            let rest = body.op("Sub", [&one, &y]);
            let slope = body.op("Mul", [&y, &rest]);
            body.op("Mul", [part, &slope])
        }
        ("Relu", 0) => {
            let zero = body.number(0.0, &a);
            let above = body.op("Greater", [&a, &zero]);
            body.op("Where", [&above, part, &zero])
        }
        _ => {
            let cause = format!("byoc has no derivative of {}", node.op_type.as_deref().unwrap_or_default());
            return Err(
                Diagnostic::new(Code::UnknownOperator, cause).hint("Export the model with the gradients as nodes")
            );
        }
    };
    Ok(if node.input.len() > 1 { summed(body, &by_element, &input(index)) } else { by_element })
}

/// The sum over what `like` was broadcast along, in its shape.
fn summed(body: &mut Body, x: &Value, like: &Value) -> Value {
    let (sizes, shape) = (body.sizes(x, 0, None), body.sizes(like, 0, None));
    let (rank, own) = (body.sizes(&sizes, 0, None), body.sizes(&shape, 0, None));
    let (more, one, all) = (body.op("Sub", [&rank, &own]), body.ints(&[1]), body.ints(&[-1]));
    let ones = body.op("Expand", [&one, &more]);
    let padded = body.concat(&[&ones, &shape], 0);
    let is_one = body.op("Equal", [&padded, &one]);
    let axes = body.op("NonZero", [&is_one]);
    let axes = body.op("Reshape", [&axes, &all]);
    let none_is_all = byoc_plugin_api::Attribute::Int(1);
    let sum = body.with("ReduceSum", [x, &axes], &[("noop_with_empty_axes", none_is_all)]);
    body.op("Reshape", [&sum, &shape])
}

/// A number as often as `like` has elements.
fn like(body: &mut Body, number: f32, like: &Value) -> Value {
    let (number, shape) = (body.number(number, like), body.sizes(like, 0, None));
    body.op("Expand", [&number, &shape])
}

//! What the body of a function depends on beside values: the node that stands for it.

use std::collections::BTreeMap;

use byoc_plugin_api::Attribute;

use super::super::proto::attribute_proto::AttributeType;
use super::super::proto::{AttributeProto, GraphProto, NodeProto};
use super::FunctionDef;
use super::body::Value;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ops::attributes::{self, AttributeDef, Default, Kind};

/// A node whose operator is a function.
#[derive(Debug)]
pub(super) struct Call {
    /// The version of the operator set.
    pub(super) version: i64,
    inputs: Vec<Value>,
    /// Which outputs the node has.
    outputs: Vec<bool>,
    /// With the defaults.
    attributes: BTreeMap<&'static str, Attribute>,
    graphs: BTreeMap<&'static str, GraphProto>,
}

impl Call {
    /// Reads a node. Its inputs are called `inputs` in the body.
    pub(super) fn new(def: &FunctionDef, version: i64, node: &NodeProto, inputs: &[String]) -> Result<Call> {
        attributes::check_names_of(def.name, def.attributes, version, node.attribute.iter().map(AttributeProto::name))?;
        let (mut values, mut graphs) = (BTreeMap::new(), BTreeMap::new());
        for attribute in def.attributes.iter().filter(|attribute| attribute.until.is_none()) {
            let given = node.attribute.iter().find(|given| given.name() == attribute.name);
            match given.map(|given| (read(attribute, given), given.g.clone())) {
                Some((_, Some(graph))) if attribute.kind == Kind::Graph => _ = graphs.insert(attribute.name, graph),
                Some((Some(value), _)) => _ = values.insert(attribute.name, value),
                Some(_) => return Err(bad(format!("attribute '{}' is of the wrong kind", attribute.name))),
                None if attribute.default == Default::Required => {
                    return Err(bad(format!("attribute '{}' is missing", attribute.name)));
                }
                None => values.extend(attribute.default.value().map(|value| (attribute.name, value))),
            }
        }
        let given =
            |(name, formal): (&String, &String)| Value(if name.is_empty() { String::new() } else { formal.clone() });
        let inputs = node.input.iter().zip(inputs).map(given).collect();
        let outputs = node.output.iter().map(|name| !name.is_empty()).collect();
        Ok(Call { version, inputs, outputs, attributes: values, graphs })
    }

    /// An optional input, where it is there.
    pub(super) fn optional(&self, index: usize) -> Option<Value> {
        self.inputs.get(index).filter(|value| !value.0.is_empty()).cloned()
    }

    /// All inputs.
    pub(super) fn inputs(&self) -> &[Value] {
        &self.inputs
    }

    /// An input that the operator needs.
    pub(super) fn input(&self, index: usize) -> Result<Value> {
        self.optional(index).ok_or_else(|| bad(format!("input {index} is missing")))
    }

    /// Fails where an optional input is there.
    pub(super) fn refuse_input(&self, index: usize, name: &str) -> Result<()> {
        self.optional(index).map_or(Ok(()), |_| Err(bad(format!("input {index} ({name}) is not supported"))))
    }

    /// Whether the node has that output.
    pub(super) fn wants(&self, index: usize) -> bool {
        self.outputs.get(index) == Some(&true)
    }

    /// Fails where an optional output is asked for.
    pub(super) fn refuse_output(&self, index: usize, name: &str) -> Result<()> {
        if self.wants(index) { Err(bad(format!("output {index} ({name}) is not supported"))) } else { Ok(()) }
    }

    /// Fails where an integer is another one.
    pub(super) fn expect_int(&self, name: &str, expected: i64) -> Result<()> {
        match self.int(name) {
            found if found == expected => Ok(()),
            found => Err(bad(format!("attribute '{name}' is {found}, and only {expected} is supported"))),
        }
    }

    /// An integer that is 0 or 1.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        match self.int(name) {
            value @ (0 | 1) => Ok(value == 1),
            other => Err(bad(format!("attribute '{name}' is {other}, expected 0 or 1"))),
        }
    }

    /// An integer that is at least 1.
    pub(super) fn count(&self, name: &str) -> Result<i64> {
        match self.int(name) {
            value @ 1.. => Ok(value),
            other => Err(bad(format!("attribute '{name}' is {other}, expected at least 1"))),
        }
    }

    /// Those of some attributes that are there, as they are.
    pub(super) fn given(&self, names: &[&'static str]) -> Vec<(&'static str, Attribute)> {
        names.iter().filter_map(|&name| Some((name, self.attributes.get(name)?.clone()))).collect()
    }

    /// An integer, if the attribute is there or has a default.
    pub(super) fn optional_int(&self, name: &str) -> Option<i64> {
        if let Some(Attribute::Int(value)) = self.attributes.get(name) { Some(*value) } else { None }
    }

    /// An integer that is required or has a default.
    pub(super) fn int(&self, name: &str) -> i64 {
        self.optional_int(name).unwrap_or_default()
    }

    /// A number, if the attribute is there or has a default.
    pub(super) fn optional_float(&self, name: &str) -> Option<f32> {
        if let Some(Attribute::Float(value)) = self.attributes.get(name) { Some(*value) } else { None }
    }

    /// A number that is required or has a default.
    pub(super) fn float(&self, name: &str) -> f32 {
        self.optional_float(name).unwrap_or_default()
    }

    /// A list of integers, if the attribute is there.
    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        if let Some(Attribute::Ints(values)) = self.attributes.get(name) { Some(values) } else { None }
    }

    /// A list of numbers, empty where the attribute is not there.
    pub(super) fn floats(&self, name: &str) -> &[f32] {
        if let Some(Attribute::Floats(values)) = self.attributes.get(name) { values } else { &[] }
    }

    /// A text, empty where the attribute is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        if let Some(Attribute::String(text)) = self.attributes.get(name) { text } else { "" }
    }

    /// A text that is one of some words.
    pub(super) fn word(&self, name: &str, words: &[&'static str]) -> Result<&'static str> {
        let Some(Attribute::String(text)) = self.attributes.get(name) else {
            return Err(bad(format!("attribute '{name}' is missing")));
        };
        let word = words.iter().find(|word| *word == text).copied();
        word.ok_or_else(|| bad(format!("attribute '{name}' is '{text}', expected one of {}", words.join(", "))))
    }

    /// A graph of one input and one output, if the attribute is there.
    pub(super) fn graph(&self, name: &str) -> Result<Option<&GraphProto>> {
        let graph = self.graphs.get(name);
        match graph.filter(|graph| graph.input.len() != 1 || graph.output.len() != 1) {
            None => Ok(graph),
            Some(_) => Err(bad(format!("the graph '{name}' does not have one input and one output"))),
        }
    }

    /// All graphs of the node.
    pub(super) fn graphs(&self) -> impl Iterator<Item = &GraphProto> {
        self.graphs.values()
    }
}

/// An attribute of the kind that it should have.
fn read(attribute: &AttributeDef, given: &AttributeProto) -> Option<Attribute> {
    let text = || String::from_utf8(given.s.as_ref()?.to_vec()).ok();
    match (attribute.kind, AttributeType::try_from(given.r#type.unwrap_or_default()).ok()?) {
        (Kind::Int, AttributeType::Int) => Some(Attribute::Int(given.i.unwrap_or_default())),
        (Kind::Float, AttributeType::Float) => Some(Attribute::Float(given.f.unwrap_or_default())),
        (Kind::String, AttributeType::String) => text().map(Attribute::String),
        (Kind::Ints, AttributeType::Ints) => Some(Attribute::Ints(given.ints.clone())),
        (Kind::Floats, AttributeType::Floats) => Some(Attribute::Floats(given.floats.clone())),
        _ => None,
    }
}

/// An error about the node, which the caller names.
pub(super) fn bad(cause: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::BadNode, cause.into())
}

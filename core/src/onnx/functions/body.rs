//! The body of a function while it is written.

use std::collections::BTreeSet;

use byoc_plugin_api::{Attribute, DType, to_hex};

use super::super::proto::attribute_proto::AttributeType;
use super::super::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto, ValueInfoProto};
use super::super::write;

/// A value in a body, by its name.
#[derive(Clone, Debug)]
pub(super) struct Value(pub(super) String);

/// The nodes of a body, in order.
#[derive(Debug)]
pub(super) struct Body {
    nodes: Vec<NodeProto>,
    /// What the values of this body begin with, so that a graph in it has names of its own.
    prefix: String,
    /// Names that its values keep clear of: those in the graphs that the node has.
    taken: BTreeSet<String>,
}

impl Body {
    pub(super) fn new(taken: BTreeSet<String>) -> Body {
        Body { nodes: Vec::new(), prefix: String::new(), taken }
    }

    /// Adds a node of ONNX's own domain.
    pub(super) fn op<const N: usize>(&mut self, op: &str, inputs: [&Value; N]) -> Value {
        self.with(op, inputs, &[])
    }

    /// Adds one with attributes.
    pub(super) fn with<const N: usize>(
        &mut self,
        op: &str,
        inputs: [&Value; N],
        attributes: &[(&str, Attribute)],
    ) -> Value {
        let attributes = attributes.iter().map(|(name, value)| write::attribute(name, value)).collect();
        let inputs: Vec<_> = inputs.into_iter().cloned().collect();
        self.add(op, &inputs, attributes, 1).swap_remove(0)
    }

    /// Adds one whose inputs are a list.
    pub(super) fn concat(&mut self, parts: &[&Value], axis: i64) -> Value {
        let parts: Vec<_> = parts.iter().map(|&part| part.clone()).collect();
        self.add("Concat", &parts, vec![write::attribute("axis", &Attribute::Int(axis))], 1).swap_remove(0)
    }

    /// Adds one with any number of inputs.
    pub(super) fn variadic(&mut self, op: &str, inputs: &[Value]) -> Value {
        self.add(op, inputs, Vec::new(), 1).swap_remove(0)
    }

    /// Adds one with several outputs.
    pub(super) fn outputs<const N: usize, const M: usize>(&mut self, op: &str, inputs: [&Value; N]) -> [Value; M] {
        let mut outputs = self.many(op, &inputs.map(Clone::clone), &[], M).into_iter();
        std::array::from_fn(|_| outputs.next().unwrap_or_else(Body::absent))
    }

    /// Adds one with any number of inputs, attributes and outputs.
    pub(super) fn many(
        &mut self,
        op: &str,
        inputs: &[Value],
        attributes: &[(&str, Attribute)],
        outputs: usize,
    ) -> Vec<Value> {
        let attributes = attributes.iter().map(|(name, value)| write::attribute(name, value)).collect();
        self.add(op, inputs, attributes, outputs)
    }

    fn add(&mut self, op: &str, inputs: &[Value], attributes: Vec<AttributeProto>, outputs: usize) -> Vec<Value> {
        let mut first = format!("{}{op}_{}", self.prefix, self.nodes.len());
        while self.taken.iter().any(|taken| taken.starts_with(&first)) {
            first.push('_');
        }
        let named = |index: usize| if index == 0 { first.clone() } else { format!("{first}_{index}") };
        let outputs: Vec<_> = (0..outputs).map(|index| Value(named(index))).collect();
        let mut node = write::node("", ("", op), names(inputs), names(&outputs));
        node.attribute = attributes;
        self.nodes.push(node);
        outputs
    }

    /// No value, in the place of an optional input.
    pub(super) fn absent() -> Value {
        Value(String::new())
    }

    /// A constant list of integers.
    pub(super) fn ints(&mut self, values: &[i64]) -> Value {
        self.with("Constant", [], &[("value_ints", Attribute::Ints(values.to_vec()))])
    }

    /// A constant integer.
    pub(super) fn int(&mut self, value: i64) -> Value {
        self.with("Constant", [], &[("value_int", Attribute::Int(value))])
    }

    /// A constant number, `f32`.
    pub(super) fn float(&mut self, value: f32) -> Value {
        self.with("Constant", [], &[("value_float", Attribute::Float(value))])
    }

    /// A constant number, `f64`.
    pub(super) fn double(&mut self, value: f64) -> Value {
        let hex = to_hex(&value.to_le_bytes());
        self.with("Constant", [], &[("value", Attribute::Tensor { dtype: DType::F64, shape: vec![], hex })])
    }

    /// A constant number of the type of `like`.
    pub(super) fn number(&mut self, value: f32, like: &Value) -> Value {
        let number = self.float(value);
        self.op("CastLike", [&number, like])
    }

    /// A constant integer of the type of `like`.
    pub(super) fn integer(&mut self, value: i64, like: &Value) -> Value {
        let number = self.int(value);
        self.op("CastLike", [&number, like])
    }

    /// The integers from 0 to before `count`, a scalar.
    pub(super) fn range(&mut self, count: &Value) -> Value {
        let [first, step] = [0, 1].map(|value| self.int(value));
        self.op("Range", [&first, count, &step])
    }

    /// A cast to the element type with that number in ONNX.
    pub(super) fn cast(&mut self, x: &Value, to: i64) -> Value {
        self.with("Cast", [x], &[("to", Attribute::Int(to))])
    }

    /// The sizes of the axes from `start` to before `end`, to the last one where there is no `end`.
    pub(super) fn sizes(&mut self, x: &Value, start: i64, end: Option<i64>) -> Value {
        let end = end.map(|end| ("end", Attribute::Int(end)));
        let attributes: Vec<_> = std::iter::once(("start", Attribute::Int(start))).chain(end).collect();
        self.with("Shape", [x], &attributes)
    }

    /// Another shape, of which some sizes are fixed: 0 keeps a size, -1 is what is left.
    pub(super) fn reshape(&mut self, x: &Value, shape: &[i64]) -> Value {
        let shape = self.ints(shape);
        self.op("Reshape", [x, &shape])
    }

    /// The axes in another order.
    pub(super) fn transpose(&mut self, x: &Value, perm: &[i64]) -> Value {
        self.with("Transpose", [x], &[("perm", Attribute::Ints(perm.to_vec()))])
    }

    /// A new axis of size 1.
    pub(super) fn unsqueeze(&mut self, x: &Value, axis: i64) -> Value {
        let axes = self.ints(&[axis]);
        self.op("Unsqueeze", [x, &axes])
    }

    /// Without an axis of size 1.
    pub(super) fn squeeze(&mut self, x: &Value, axis: i64) -> Value {
        let axes = self.ints(&[axis]);
        self.op("Squeeze", [x, &axes])
    }

    /// A list with some elements in place of those at these positions.
    pub(super) fn scatter(&mut self, list: &Value, positions: &Value, elements: &Value) -> Value {
        self.op("ScatterElements", [list, positions, elements])
    }

    /// The mean over some axes, which stay as axes of size 1.
    pub(super) fn mean(&mut self, x: &Value, axes: &Value) -> Value {
        self.op("ReduceMean", [x, axes])
    }

    /// One number for all elements of `x`.
    pub(super) fn reduce_all(&mut self, op: &str, x: &Value) -> Value {
        self.with(op, [x], &[("keepdims", Attribute::Int(0))])
    }

    /// A `Scan` along the first axis of `scanned`: the body gets `state` and an element of each, and gives the next state and an element
    /// of the output. Gives the last state and the output.
    pub(super) fn scan(
        &mut self,
        state: &Value,
        scanned: &[Value],
        step: impl FnOnce(&mut Body, &Value, &[Value]) -> (Value, Value),
    ) -> (Value, Value) {
        let mut inner = Body { nodes: Vec::new(), prefix: "step_".into(), taken: BTreeSet::new() };
        let given: Vec<_> = (0..=scanned.len()).map(|index| Value(format!("step_in_{index}"))).collect();
        let (next, element) = step(&mut inner, &given[0], &given[1..]);
        let ports = |values: &[Value]| values.iter().map(|value| port(&value.0)).collect();
        let graph = GraphProto {
            name: Some("step".into()),
            input: ports(&given),
            output: ports(&[next, element]),
            node: inner.nodes,
            ..GraphProto::default()
        };
        let body = graph_attribute("body", graph);
        let count = write::attribute("num_scan_inputs", &Attribute::Int(scanned.len() as i64));
        let inputs: Vec<_> = std::iter::once(state).chain(scanned).cloned().collect();
        let mut outputs = self.add("Scan", &inputs, vec![count, body], 2);
        let output = outputs.remove(1);
        (outputs.remove(0), output)
    }

    /// What a graph of the node makes of a value. It becomes a branch that is known to run, which is put in the place of its node
    /// later; within a branch its names are its own.
    pub(super) fn graph_of(&mut self, graph: &GraphProto, x: &Value) -> Value {
        let given = graph.input.first().and_then(|info| info.name.clone()).unwrap_or_default();
        let mut branch = GraphProto { input: Vec::new(), ..graph.clone() };
        branch.node.insert(0, write::node("", ("", "Identity"), vec![x.0.clone()], vec![given]));
        let always = self.with(
            "Constant",
            [],
            &[("value", Attribute::Tensor { dtype: DType::Bool, shape: vec![], hex: "01".into() })],
        );
        let branches = ["then_branch", "else_branch"].map(|name| graph_attribute(name, branch.clone()));
        self.add("If", &[always], branches.to_vec(), 1).swap_remove(0)
    }

    /// What one of two lists of nodes gives, by a condition. One that follows from ranks and fixed sizes is known when the model is
    /// compiled, and the branch stands in the place of the choice. Both give as many values.
    pub(super) fn choose(
        &mut self,
        condition: &Value,
        then: impl FnOnce(&mut Body) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Body) -> Vec<Value>,
    ) -> Vec<Value> {
        let place = self.nodes.len();
        let inner = |what: &str| Body {
            nodes: Vec::new(),
            prefix: format!("{}{what}_{place}_", self.prefix),
            taken: self.taken.clone(),
        };
        let (mut first, mut second) = (inner("then"), inner("else"));
        let (chosen, other) = (then(&mut first), otherwise(&mut second));
        let count = chosen.len();
        let branches = [("then_branch", first.graph(&chosen)), ("else_branch", second.graph(&other))];
        let branches = branches.map(|(name, graph)| graph_attribute(name, graph));
        self.add("If", std::slice::from_ref(condition), branches.to_vec(), count)
    }

    /// As [`Body::choose`], of one value.
    pub(super) fn either(
        &mut self,
        condition: &Value,
        then: impl FnOnce(&mut Body) -> Value,
        otherwise: impl FnOnce(&mut Body) -> Value,
    ) -> Value {
        self.choose(condition, |body| vec![then(body)], |body| vec![otherwise(body)]).swap_remove(0)
    }

    /// Whether a value has that many dimensions.
    pub(super) fn has_rank(&mut self, x: &Value, rank: i64) -> Value {
        let shape = self.sizes(x, 0, None);
        let (found, wanted) = (self.op("Size", [&shape]), self.int(rank));
        self.op("Equal", [&found, &wanted])
    }

    /// These nodes as a branch that gives values.
    fn graph(mut self, outputs: &[Value]) -> GraphProto {
        // A branch may give what it does not make.
        let outputs: Vec<_> = outputs.iter().map(|value| self.op("Identity", [value])).collect();
        GraphProto {
            name: Some("branch".into()),
            output: outputs.iter().map(|value| port(&value.0)).collect(),
            node: self.nodes,
            ..GraphProto::default()
        }
    }

    /// The function with these inputs, whose body gives these outputs.
    pub(super) fn function(mut self, inputs: Vec<String>, outputs: &[Value]) -> FunctionProto {
        // A value that is an output twice, or an input, is one under a name of its own. One that is absent has been refused where
        // it is asked for.
        let outputs: Vec<_> = outputs
            .iter()
            .map(|value| if value.0.is_empty() { value.clone() } else { self.op("Identity", [value]) })
            .collect();
        FunctionProto {
            input: inputs,
            output: names(&outputs),
            node: self.nodes,
            opset_import: vec![write::opset("", super::OPSET)],
            ..FunctionProto::default()
        }
    }
}

fn names(values: &[Value]) -> Vec<String> {
    values.iter().map(|value| value.0.clone()).collect()
}

fn graph_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::Graph as i32),
        g: Some(graph),
        ..AttributeProto::default()
    }
}

fn port(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() }
}

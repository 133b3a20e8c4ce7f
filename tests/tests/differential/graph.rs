//! A graph that both sides run: as data that can be made smaller, as an ONNX file, as text.

use std::collections::BTreeSet;

use byoc_core::ops::cast::to_onnx;
use byoc_plugin_api::{Attribute, DType};
use byoc_tests::onnx::Message;
use byoc_tests::tensor::Tensor;

/// A size of an input: a number, or a symbol that has another number in each run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Dim {
    Fixed(usize),
    Symbol(&'static str),
}

/// What no node makes: an input, or a constant, which is the same in each run.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) name: String,
    pub(crate) dims: Vec<Dim>,
    pub(crate) constant: bool,
    /// Its elements decide shapes, or say where elements are: they cannot be just a little different.
    pub(crate) structural: bool,
    /// One tensor a run; a constant has one.
    pub(crate) values: Vec<Tensor>,
}

impl Leaf {
    pub(crate) fn dtype(&self) -> DType {
        self.values[0].dtype
    }
}

/// A node. An absent input has the empty name.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op: &'static str,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
    /// The float type that its first result is rounded to, if it is.
    pub(crate) rounds: Option<DType>,
}

/// A graph with the inputs of every run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) opset: i64,
    pub(crate) leaves: Vec<Leaf>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<String>,
    pub(crate) runs: usize,
}

impl Case {
    /// The case without what its outputs do not need.
    pub(crate) fn pruned(mut self) -> Case {
        let mut wanted: BTreeSet<String> = self.outputs.iter().cloned().collect();
        let mut kept = Vec::new();
        for node in self.nodes.into_iter().rev() {
            if node.outputs.iter().any(|output| wanted.contains(output)) {
                wanted.extend(node.inputs.iter().cloned());
                kept.push(node);
            }
        }
        kept.reverse();
        self.nodes = kept;
        self.leaves.retain(|leaf| wanted.contains(&leaf.name));
        self
    }

    /// The inputs of a run, by name.
    pub(crate) fn inputs(&self, run: usize) -> Vec<(String, Tensor)> {
        let inputs = self.leaves.iter().filter(|leaf| !leaf.constant);
        inputs.map(|leaf| (leaf.name.clone(), leaf.values[run].clone())).collect()
    }

    /// The ONNX file.
    pub(crate) fn to_onnx(&self) -> Vec<u8> {
        let graph = self.nodes.iter().fold(Message::default(), |graph, node| graph.bytes(1, node.to_onnx()));
        let mut graph = graph.bytes(2, "graph");
        for leaf in &self.leaves {
            graph = if leaf.constant { graph.bytes(5, tensor(leaf)) } else { graph.bytes(11, port(leaf)) };
        }
        let graph = self.outputs.iter().fold(graph, |graph, name| graph.bytes(12, Message::default().bytes(1, name)));
        let opset = Message::default().bytes(1, "").int(2, self.opset);
        Message::default().int(1, 8).bytes(7, graph).bytes(8, opset).finish()
    }
}

fn port(leaf: &Leaf) -> Message {
    let sizes = leaf.dims.iter().fold(Message::default(), |sizes, dim| match dim {
        Dim::Fixed(size) => sizes.bytes(1, Message::default().int(1, *size as i64)),
        Dim::Symbol(name) => sizes.bytes(1, Message::default().bytes(2, name)),
    });
    let tensor = Message::default().int(1, to_onnx(leaf.dtype())).bytes(2, sizes);
    Message::default().bytes(1, &leaf.name).bytes(2, Message::default().bytes(1, tensor))
}

fn tensor(leaf: &Leaf) -> Message {
    let value = &leaf.values[0];
    let sizes = value.shape.iter().fold(Message::default(), |tensor, &size| tensor.int(1, size));
    sizes.int(2, to_onnx(value.dtype)).bytes(8, &leaf.name).bytes(9, &value.bytes)
}

impl Node {
    fn to_onnx(&self) -> Message {
        let node = self.inputs.iter().fold(Message::default(), |node, name| node.bytes(1, name));
        let node = self.outputs.iter().fold(node, |node, name| node.bytes(2, name));
        let node = node.bytes(3, format!("make_{}", self.outputs[0])).bytes(4, self.op);
        self.attributes.iter().fold(node, |node, (name, value)| node.bytes(5, attribute(name, value)))
    }
}

/// An attribute; the numbers of fields and kinds are those of `onnx.proto`.
fn attribute(name: &str, value: &Attribute) -> Message {
    let message = Message::default().bytes(1, name);
    match value {
        Attribute::Float(value) => message.fixed(2, *value).int(20, 1),
        Attribute::Int(value) => message.int(3, *value).int(20, 2),
        Attribute::String(text) => message.bytes(4, text).int(20, 3),
        Attribute::Ints(values) => values.iter().fold(message, |message, &value| message.int(8, value)).int(20, 7),
        Attribute::Tensor { dtype, shape, hex } => {
            let bytes = byoc_plugin_api::from_hex(hex).expect("our own hex");
            let sizes = shape.iter().fold(Message::default(), |tensor, &size| tensor.int(1, size as i64));
            message.bytes(5, sizes.int(2, to_onnx(*dtype)).bytes(9, bytes)).int(20, 4)
        }
        other => unreachable!("no operator is drawn with {other:?}"),
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "operator set {}", self.opset)?;
        for leaf in &self.leaves {
            let dims = leaf.dims.iter().map(|dim| match dim {
                Dim::Fixed(size) => size.to_string(),
                Dim::Symbol(name) => (*name).to_owned(),
            });
            let dims: Vec<_> = dims.collect();
            let kind = if leaf.constant { "constant" } else { "input" };
            writeln!(f, "{kind} {}: {}[{}]", leaf.name, leaf.dtype(), dims.join(","))?;
            for value in &leaf.values {
                writeln!(f, "    {}", super::values::show(value))?;
            }
        }
        for node in &self.nodes {
            write!(f, "{} = {}({})", node.outputs.join(", "), node.op, node.inputs.join(", "))?;
            for (name, value) in &node.attributes {
                write!(f, " {name}={value:?}")?;
            }
            writeln!(f)?;
        }
        write!(f, "outputs {}", self.outputs.join(", "))
    }
}

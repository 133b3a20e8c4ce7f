//! A graph that both sides run: as data that can be made smaller, as an ONNX file, as text.

use std::collections::{BTreeMap, BTreeSet};

use byoc_core::onnx::proto::{NodeProto, TensorProto, ValueInfoProto};
use byoc_core::onnx::write::{Model, attribute, node, tensor, texts, to_onnx, value};
use byoc_plugin_api::{Attribute, DType, texts_of_block};
use byoc_tests::tensor::Tensor;

use super::wrap::Wrap;

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
    /// The operator, behind its domain and a dot where that is not ONNX's own.
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
    /// The control flow that its nodes are in.
    pub(crate) wrap: Option<Wrap>,
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

    /// The domains of its operators beside ONNX's own, with the versions that its nodes are written for.
    fn domains(&self) -> BTreeMap<&'static str, i64> {
        let of = |node: &Node| match node.op.rsplit_once('.')? {
            ("ai.onnx.ml", "TreeEnsemble") => Some(("ai.onnx.ml", 5)),
            ("ai.onnx.ml", _) => Some(("ai.onnx.ml", 3)),
            (domain, _) => Some((domain, 1)),
        };
        let mut domains = BTreeMap::new();
        for (domain, version) in self.nodes.iter().filter_map(of) {
            let known = domains.entry(domain).or_insert(version);
            *known = version.max(*known);
        }
        domains
    }

    /// The inputs of a run, by name.
    pub(crate) fn inputs(&self, run: usize) -> Vec<(String, Tensor)> {
        let inputs = self.leaves.iter().filter(|leaf| !leaf.constant);
        let inputs = inputs.map(|leaf| (leaf.name.clone(), leaf.values[run].clone()));
        inputs.chain(self.wrap.map(|wrap| wrap.choice(run))).collect()
    }

    /// The ONNX file.
    pub(crate) fn to_onnx(&self) -> Vec<u8> {
        let mut model = Model::default().opset(self.opset);
        for (domain, version) in self.domains() {
            model = model.domain(domain, version);
        }
        let (constants, inputs): (Vec<&Leaf>, Vec<&Leaf>) = self.leaves.iter().partition(|leaf| leaf.constant);
        model.graph.input = inputs.into_iter().map(port).collect();
        model.graph.initializer = constants.into_iter().map(constant).collect();
        // Both sides infer what an output is.
        model.graph.output = self
            .outputs
            .iter()
            .map(|name| ValueInfoProto { name: Some(name.clone()), ..ValueInfoProto::default() })
            .collect();
        let nodes = self.nodes.iter().map(Node::to_onnx).collect();
        match self.wrap {
            Some(wrap) => model = wrap.put(model, nodes),
            None => model.graph.node = nodes,
        }
        model.finish()
    }
}

fn port(leaf: &Leaf) -> ValueInfoProto {
    let dim = |dim: &Dim| match dim {
        Dim::Fixed(size) => byoc_plugin_api::Dim::Fixed(*size),
        Dim::Symbol(name) => byoc_plugin_api::Dim::Symbolic((*name).into()),
    };
    let dims: Vec<_> = leaf.dims.iter().map(dim).collect();
    value(&leaf.name, to_onnx(leaf.dtype()), Some(&dims))
}

fn constant(leaf: &Leaf) -> TensorProto {
    let Tensor { dtype, shape, bytes } = &leaf.values[0];
    if *dtype == DType::String {
        return texts(&leaf.name, shape, &texts_of_block(bytes).expect("a block of texts"));
    }
    tensor(&leaf.name, to_onnx(*dtype), shape, bytes.clone())
}

impl Node {
    fn to_onnx(&self) -> NodeProto {
        let name = format!("make_{}", self.outputs[0]);
        let op = self.op.rsplit_once('.').unwrap_or(("", self.op));
        NodeProto {
            attribute: self.attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
            ..node(&name, op, self.inputs.clone(), self.outputs.clone())
        }
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
        if let Some(wrap) = self.wrap {
            writeln!(f, "in {wrap:?}")?;
        }
        write!(f, "outputs {}", self.outputs.join(", "))
    }
}

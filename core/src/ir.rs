//! The graph that the compile tower works on. Nodes refer to values by index; a constant value holds its place in the
//! constant table. These types are internal on purpose: backends see `Region`, artifacts have their own manifest.

mod custom;
mod list;
mod literal;
mod print;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use byoc_plugin_api::{Attribute, DType, Dim};
use bytes::Bytes;

use crate::constants::{BaseId, ConstantRef, ConstantTable};
use crate::overwrite::Input;

pub use self::custom::{CustomOperator, CustomOperators};
pub use self::list::{ElementShape, ListType};
pub use self::literal::elements;
pub(crate) use self::print::node_text;
pub use self::print::print;
pub use self::read::{Contents, read};

/// Index of a value in its [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub usize);

/// Type of a tensor: element type and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
}

impl TensorType {
    /// The shape as numbers, or `None` when a dimension is symbolic.
    pub fn fixed_shape(&self) -> Option<Vec<usize>> {
        self.shape.iter().map(Dim::fixed).collect()
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dims: Vec<_> = self.shape.iter().map(Dim::to_string).collect();
        write!(f, "{}[{}]", self.dtype, dims.join(","))
    }
}

/// A value of the graph: an input, a constant or a node's output.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The name in the model, unique in the graph.
    pub name: String,
    /// Type and shape, once they are known.
    pub ty: Option<TensorType>,
    /// What it holds, if it is a sequence or an optional: its type is [`ListType::handle`] then.
    pub list: Option<ListType>,
    /// The constant, if the value is one.
    pub constant: Option<ConstantRef>,
}

/// An operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The name in the model; made up as `<Op>_<n>` where the model has none. Unique in the graph.
    pub name: String,
    /// The operator, such as `Conv`.
    pub op: String,
    /// The operator's domain; empty for ONNX's own.
    pub domain: String,
    /// The version of its operator set that the model imports, where core does not know the operator: then the node is as the
    /// model has it. `None` for one in canonical form.
    pub version: Option<i64>,
    /// Inputs; `None` for an optional one that is absent.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs; `None` for one that is not used.
    pub outputs: Vec<Option<ValueId>>,
    /// Attributes that are set, but for graphs.
    pub attributes: BTreeMap<String, Attribute>,
    /// The graphs that a node of control flow runs.
    pub bodies: Option<Bodies>,
}

/// What a node of control flow runs: the branches of an `If`, the body of a `Loop` or a `Scan`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    /// Indices into [`Model::entries`], in the order of [`crate::ops::control::ControlDef::bodies`].
    pub graphs: Vec<usize>,
    /// How many of the node's inputs, the last ones, are values of the graph around it that a body reads. They are the last inputs of
    /// each body.
    pub captured: usize,
}

impl Node {
    /// The operator with its domain, as in messages: `Conv` or `com.acme.Conv`.
    pub fn qualified_op(&self) -> String {
        if self.domain.is_empty() { self.op.clone() } else { format!("{}.{}", self.domain, self.op) }
    }

    /// The value at input `index`, if the input is there.
    pub fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// The value at output `index`, if it is used.
    pub fn output(&self, index: usize) -> Option<ValueId> {
        self.outputs.get(index).copied().flatten()
    }

    /// An integer attribute, or `default` where it is absent or of another kind.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attributes.get(name) {
            Some(Attribute::Int(value)) => *value,
            _ => default,
        }
    }

    /// A list of integers, if it is there.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attributes.get(name) {
            Some(Attribute::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// A text attribute, or `default`.
    pub fn string<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        match self.attributes.get(name) {
            Some(Attribute::String(value)) => value,
            _ => default,
        }
    }
}

/// One main graph, or a body of control flow. `nodes` are in topological order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The entry's name.
    pub name: String,
    /// Every tensor.
    pub values: Vec<Value>,
    /// The operators.
    pub nodes: Vec<Node>,
    /// What the caller gives, without initializers.
    pub inputs: Vec<ValueId>,
    /// What the caller gets.
    pub outputs: Vec<ValueId>,
    /// Their types as the model declares them, in the same order; not trusted.
    pub declared: Vec<Declared>,
    /// The names of nodes that call a function of the model, which has a body for them.
    pub calls: BTreeSet<String>,
    /// Where a node of another graph runs it, as a body, the name of the entry that they are in. Names in it begin with the name of
    /// that node.
    pub body_of: Option<String>,
}

/// The declared type of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Element type, if supported.
    pub dtype: Option<DType>,
    /// Size of each dimension, where it is a number; `None` where not even the rank is given.
    pub shape: Option<Vec<Option<usize>>>,
}

impl Declared {
    /// Whether the type can be what is declared: sizes that either leaves open may be any.
    pub fn allows(&self, ty: &TensorType) -> bool {
        let size = |(declared, found): (&Option<usize>, &Dim)| {
            declared.zip(found.fixed()).is_none_or(|(declared, found)| declared == found)
        };
        let shape = |shape: &Vec<Option<usize>>| shape.len() == ty.shape.len() && shape.iter().zip(&ty.shape).all(size);
        self.dtype.is_none_or(|dtype| dtype == ty.dtype) && self.shape.as_ref().is_none_or(shape)
    }
}

impl std::fmt::Display for Declared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(dtype) = self.dtype {
            write!(f, "{dtype}")?;
        }
        let Some(shape) = &self.shape else { return Ok(()) };
        let sizes: Vec<_> = shape.iter().map(|size| size.map_or_else(|| "?".into(), |size| size.to_string())).collect();
        write!(f, "[{}]", sizes.join(","))
    }
}

impl Graph {
    /// The name of the entry that it is, or is in.
    pub fn entry(&self) -> &str {
        self.body_of.as_ref().unwrap_or(&self.name)
    }

    /// Adds a value and returns its index.
    pub fn add_value(&mut self, name: impl Into<String>, ty: Option<TensorType>) -> ValueId {
        self.values.push(Value { name: name.into(), ty, list: None, constant: None });
        ValueId(self.values.len() - 1)
    }

    /// Adds a constant value and returns its index.
    pub fn add_constant(&mut self, name: impl Into<String>, dtype: DType, constant: ConstantRef) -> ValueId {
        let shape = constant.view.shape.iter().map(|&size| Dim::Fixed(size)).collect();
        let ty = Some(TensorType { dtype, shape });
        self.values.push(Value { name: name.into(), ty, list: None, constant: Some(constant) });
        ValueId(self.values.len() - 1)
    }

    /// The value of that index.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// Whether core runs the node itself and asks no backend about it: control flow, and what reads or makes a sequence or an
    /// optional.
    pub fn is_run_by_core(&self, node: &Node) -> bool {
        let mut values = node.inputs.iter().chain(&node.outputs).flatten();
        node.bodies.is_some() || values.any(|&id| self.value(id).list.is_some())
    }

    /// For each value, the node that makes it.
    pub fn producers(&self) -> Vec<Option<usize>> {
        let mut producers = vec![None; self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            node.outputs.iter().flatten().for_each(|value| producers[value.0] = Some(index));
        }
        producers
    }

    /// For each value, the nodes that read it, once an input position, in order.
    pub fn consumers(&self) -> Vec<Vec<usize>> {
        let mut consumers = vec![Vec::new(); self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            node.inputs.iter().flatten().for_each(|value| consumers[value.0].push(index));
        }
        consumers
    }
}

/// A file that the model was read from.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The real path of its folder, and the name that it goes by there.
    pub path: PathBuf,
    /// The whole file. Constants that are in it are slices of these bytes.
    pub bytes: Bytes,
    /// What it is, such as `a model`.
    pub role: &'static str,
}

impl SourceFile {
    /// Where `bytes` start in the file, if they are a slice of it.
    pub fn offset_of(&self, bytes: &Bytes) -> Option<u64> {
        let offset = bytes.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr())?;
        let end = offset.checked_add(bytes.len())?;
        (end <= self.bytes.len()).then_some(offset as u64)
    }
}

/// One or more entries over one constant table. Stage 2's result; types may still be missing.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The main graphs. Behind each are the bodies of its control flow, each behind the graph whose node runs it.
    pub entries: Vec<Graph>,
    /// Every constant of every entry.
    pub constants: ConstantTable,
    /// Constants that were computed into others.
    pub folded: BTreeSet<BaseId>,
    /// Every file that was read.
    pub sources: Vec<SourceFile>,
    /// What is known of operators that core does not know.
    pub custom: CustomOperators,
}

impl Model {
    /// Every file that was read.
    pub fn inputs(&self) -> Vec<Input> {
        self.sources.iter().map(|source| Input::new(source.role, &source.path)).collect()
    }
}

/// A model in which every value has a type and every foldable node is gone. Stage 3's result.
#[derive(Clone, Debug)]
pub struct TypedModel(pub(crate) Arc<Model>);

impl TypedModel {
    /// The graphs and the constants.
    pub fn model(&self) -> &Model {
        &self.0
    }
}

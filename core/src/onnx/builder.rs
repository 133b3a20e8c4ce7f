//! Builds a graph for the importer and its rewrites.

use std::collections::{BTreeMap, HashMap};

use byoc_plugin_api::{Attribute, DType};
use bytes::Bytes;

use super::early_types::{self, EarlyType};
use super::names::Names;
use super::tensor::Tensor;
use crate::constants::ConstantTable;
use crate::ir::{Graph, Node, TensorType, ValueId};

/// Upper limit of elements in lists of axes, sizes and scales.
const MAX_KNOWN: usize = 1024;

/// The graph so far.
pub(super) struct Builder<'a> {
    /// The graph.
    pub(super) graph: Graph,
    constants: &'a mut ConstantTable,
    by_name: HashMap<String, ValueId>,
    value_names: Names,
    node_names: Names,
    types: HashMap<ValueId, EarlyType>,
}

impl<'a> Builder<'a> {
    /// An empty graph. Made-up names keep clear of the names given.
    pub(super) fn new(
        entry: &str,
        constants: &'a mut ConstantTable,
        value_names: Names,
        node_names: Names,
    ) -> Builder<'a> {
        let graph = Graph { name: entry.to_owned(), ..Graph::default() };
        Builder { graph, constants, by_name: HashMap::new(), value_names, node_names, types: HashMap::new() }
    }

    /// The value that the model calls `name`.
    pub(super) fn named(&self, name: &str) -> Option<ValueId> {
        self.by_name.get(name).copied()
    }

    /// Adds a value that the model calls `name`.
    pub(super) fn add_value(&mut self, name: &str, ty: Option<TensorType>) -> ValueId {
        let id = self.graph.add_value(name, ty);
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// Adds a constant that the model calls `name`.
    pub(super) fn add_constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let constant = self.constants.insert(name, tensor.dtype, &tensor.shape, tensor.bytes);
        let id = self.graph.add_constant(name, tensor.dtype, constant);
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// Adds a constant without readers, for the ledger.
    pub(super) fn add_unread(&mut self, name: &str, tensor: Tensor) {
        self.constants.insert(name, tensor.dtype, &tensor.shape, tensor.bytes);
    }

    /// Adds a node.
    pub(super) fn push(&mut self, node: Node) {
        let types = early_types::of_outputs(self, &node);
        self.types
            .extend(node.outputs.iter().zip(types).filter_map(|(output, early_type)| Some(((*output)?, early_type))));
        self.graph.nodes.push(node);
    }

    /// Adds a node that `node` is rewritten to, with one output, which is returned. Both are named after `node`.
    pub(super) fn emit(
        &mut self,
        node: &Node,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let wanted = format!("{}_{}", node.name, op.to_lowercase());
        let name = self.node_names.unique(&wanted);
        let output = self.graph.add_value(self.value_names.unique(&wanted), None);
        let attributes: BTreeMap<_, _> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let (op, outputs) = (op.to_owned(), vec![Some(output)]);
        self.push(Node { name, op, inputs, outputs, attributes, ..Node::default() });
        output
    }

    /// A new constant vector of integers, named `<node>_<suffix>`.
    pub(super) fn ints(&mut self, node: &Node, suffix: &str, values: &[i64]) -> ValueId {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.made_up(node, suffix, DType::I64, vec![values.len()], bytes)
    }

    /// A new constant vector of `f32`, named `<node>_<suffix>`.
    pub(super) fn floats(&mut self, node: &Node, suffix: &str, values: &[f32]) -> ValueId {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.made_up(node, suffix, DType::F32, vec![values.len()], bytes)
    }

    /// A new scalar of the element type that `like` has, named `<node>_<suffix>`.
    pub(super) fn scalar_like(&mut self, node: &Node, suffix: &str, like: Option<ValueId>, value: f32) -> ValueId {
        let dtype = like.and_then(|like| self.early_type(like).dtype).unwrap_or(DType::F32);
        let (dtype, bytes) = match dtype {
            DType::F16 => (dtype, half::f16::from_f32(value).to_le_bytes().to_vec()),
            DType::BF16 => (dtype, half::bf16::from_f32(value).to_le_bytes().to_vec()),
            DType::F64 => (dtype, f64::from(value).to_le_bytes().to_vec()),
            // The forms that call for this take floating-point tensors only.
            _ => (DType::F32, value.to_le_bytes().to_vec()),
        };
        self.made_up(node, suffix, dtype, vec![], bytes)
    }

    fn made_up(&mut self, node: &Node, suffix: &str, dtype: DType, shape: Vec<usize>, bytes: Vec<u8>) -> ValueId {
        let name = self.value_names.unique(&format!("{}_{suffix}", node.name));
        self.add_constant(&name, Tensor { dtype, shape, bytes: Bytes::from(bytes) })
    }

    /// The early type of a value.
    pub(super) fn early_type(&self, id: ValueId) -> EarlyType {
        match &self.graph.value(id).ty {
            Some(ty) => EarlyType { rank: Some(ty.shape.len()), dtype: Some(ty.dtype) },
            None => self.types.get(&id).copied().unwrap_or_default(),
        }
    }

    /// The rank of a value, where it is known.
    pub(super) fn rank(&self, id: Option<ValueId>) -> Option<usize> {
        self.early_type(id?).rank
    }

    /// How many elements a constant has; `None` for what is not a constant.
    pub(super) fn elements(&self, id: Option<ValueId>) -> Option<usize> {
        Some(self.graph.value(id?).constant.as_ref()?.view.elements())
    }

    /// The elements of a short constant of type `dtype`, as little-endian bytes.
    fn short_constant(&self, id: Option<ValueId>, dtype: DType) -> Option<Vec<u8>> {
        let constant = self.graph.value(id?).constant.as_ref()?;
        let fits = self.constants.get(constant.base).dtype == dtype && constant.view.elements() <= MAX_KNOWN;
        fits.then(|| self.constants.materialize(constant))
    }

    /// The elements of a short `f32` constant.
    pub(super) fn known_floats(&self, id: Option<ValueId>) -> Option<Vec<f32>> {
        let bytes = self.short_constant(id, DType::F32)?;
        Some(bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect())
    }

    /// The only element of a boolean constant.
    pub(super) fn known_bool(&self, id: Option<ValueId>) -> Option<bool> {
        let bytes = self.short_constant(id, DType::Bool)?;
        bytes.first().map(|&byte| byte != 0)
    }
}

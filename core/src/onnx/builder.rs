//! Builds a graph for the importer and its rewrites.

mod list;

use std::collections::{BTreeMap, HashMap};

use byoc_plugin_api::{Attribute, DType};
use bytes::Bytes;

pub(super) use self::list::{Holds, List};
use super::early_types::{self, EarlyType};
use super::names::Names;
use super::tensor::Tensor;
use crate::constants::ConstantTable;
use crate::ir::{Graph, Node, TensorType, Value, ValueId};
use crate::ops::strings;

/// Upper limit of elements in lists of axes, sizes and scales.
const MAX_KNOWN: usize = 1024;

/// The graph so far.
pub(super) struct Builder<'a> {
    /// The graph.
    pub(super) graph: Graph,
    constants: &'a mut ConstantTable,
    by_name: HashMap<String, ValueId>,
    names: &'a mut TakenNames,
    types: HashMap<ValueId, EarlyType>,
    /// The names that stand for no tensor.
    lists: HashMap<String, List>,
    /// What values hold that are sequences or optionals.
    holding: HashMap<ValueId, Holds>,
    /// What goes before the model's names of values, in a body.
    path: String,
}

/// The names in an entry, its bodies included.
pub(super) struct TakenNames {
    pub(super) values: Names,
    pub(super) nodes: Names,
}

/// A value of the graph around a body that the body reads.
pub(super) struct Captured {
    /// The model's name.
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) early_type: EarlyType,
    pub(super) holds: Option<Holds>,
}

impl<'a> Builder<'a> {
    /// An empty graph. Made-up names keep clear of the names given.
    pub(super) fn new(entry: &str, constants: &'a mut ConstantTable, names: &'a mut TakenNames) -> Builder<'a> {
        let graph = Graph { name: entry.to_owned(), ..Graph::default() };
        let (by_name, types, lists, holding) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        Builder { graph, constants, by_name, names, types, lists, holding, path: String::new() }
    }

    /// An empty graph, for a body that a node of this one runs. `path` goes before the names of its values.
    pub(super) fn body(&mut self, path: String) -> Builder<'_> {
        let name = format!("{}/{}", self.graph.entry(), path.trim_end_matches('/'));
        let graph = Graph { name, body_of: Some(self.graph.entry().to_owned()), ..Graph::default() };
        let (by_name, types, lists, holding) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        Builder { graph, constants: self.constants, by_name, names: self.names, types, lists, holding, path }
    }

    /// What a value is called that the model calls `name`. In bodies of one model, several values may have a name.
    fn shown(&mut self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { self.names.values.unique(&format!("{}{name}", self.path)) }
    }

    /// The value that the model calls `name`.
    pub(super) fn named(&self, name: &str) -> Option<ValueId> {
        self.by_name.get(name).copied()
    }

    /// The sequence or the optional that the model calls `name`.
    pub(super) fn list(&self, name: &str) -> Option<&List> {
        self.lists.get(name)
    }

    /// Adds a sequence or an optional.
    pub(super) fn add_list(&mut self, name: &str, list: List) {
        self.lists.insert(name.to_owned(), list);
    }

    /// Adds a value that the model calls `name`.
    pub(super) fn add_value(&mut self, name: &str, ty: Option<TensorType>) -> ValueId {
        let shown = self.shown(name);
        let id = self.graph.add_value(shown, ty);
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// Adds an input of a body, with what is known of it early.
    pub(super) fn add_formal(&mut self, name: &str, early_type: EarlyType, holds: Option<Holds>) -> ValueId {
        let id = self.add_value(name, None);
        self.types.insert(id, early_type);
        self.set_holds(id, holds);
        self.graph.inputs.push(id);
        id
    }

    /// Adds a constant that the model calls `name`.
    pub(super) fn add_constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let shown = self.shown(name);
        let id = self.insert_constant(&shown, tensor);
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// Adds what is stored of a tensor, and of one of texts the node that makes it.
    fn insert_constant(&mut self, shown: &str, tensor: Tensor) -> ValueId {
        let (dtype, shape) = tensor.stored();
        let constant = self.constants.insert(shown, dtype, &shape, tensor.bytes);
        if tensor.dtype != DType::String {
            return self.graph.add_constant(shown, dtype, constant);
        }
        let block = self.graph.add_constant(self.names.values.unique(&format!("{shown}_block")), dtype, constant);
        let output = self.graph.add_value(shown, None);
        let sizes = tensor.shape.iter().map(|&size| size as i64).collect();
        let name = self.names.nodes.unique(&format!("{shown}_texts"));
        self.push(Node {
            name,
            op: strings::DECODE.into(),
            domain: strings::DOMAIN.into(),
            inputs: vec![Some(block)],
            outputs: vec![Some(output)],
            attributes: BTreeMap::from([("shape".into(), Attribute::Ints(sizes))]),
            ..Node::default()
        });
        output
    }

    /// Adds a value of the graph around a body under the name that the model has for it: a constant as such, another value as an
    /// input.
    pub(super) fn add_captured(&mut self, captured: &Captured) {
        let Captured { name, value, early_type, holds } = captured;
        let id = self.graph.add_value(value.name.clone(), None);
        self.by_name.insert(name.clone(), id);
        if value.constant.is_some() {
            self.graph.values[id.0] = value.clone();
        } else {
            self.types.insert(id, *early_type);
            self.set_holds(id, *holds);
            self.graph.inputs.push(id);
        }
    }

    /// Adds a constant without readers, for the ledger.
    pub(super) fn add_unread(&mut self, name: &str, tensor: Tensor) {
        let (shown, (dtype, shape)) = (self.shown(name), tensor.stored());
        self.constants.insert(&shown, dtype, &shape, tensor.bytes);
    }

    /// Adds a node.
    pub(super) fn push(&mut self, node: Node) {
        self.note_lists(&node);
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
        self.emit_many(node, op, inputs, attributes, 1)[0]
    }

    /// The same for a node with that many outputs.
    pub(super) fn emit_many(
        &mut self,
        node: &Node,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: &[(&str, Attribute)],
        count: usize,
    ) -> Vec<ValueId> {
        let wanted = format!("{}_{}", node.name, op.to_lowercase());
        let name = self.names.nodes.unique(&wanted);
        let outputs: Vec<_> =
            (0..count).map(|_| self.graph.add_value(self.names.values.unique(&wanted), None)).collect();
        let attributes: BTreeMap<_, _> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let made = outputs.iter().copied().map(Some).collect();
        self.push(Node { name, op: op.to_owned(), inputs, outputs: made, attributes, ..Node::default() });
        outputs
    }

    /// A new constant vector of integers, named `<node>_<suffix>`.
    pub(super) fn ints(&mut self, node: &Node, suffix: &str, values: &[i64]) -> ValueId {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.made_up(node, suffix, DType::I64, vec![values.len()], bytes)
    }

    /// A new constant of one element, named `<node>_<suffix>`.
    pub(super) fn scalar(&mut self, node: &str, suffix: &str, dtype: DType, bytes: &[u8]) -> ValueId {
        let name = self.names.values.unique(&format!("{node}_{suffix}"));
        self.insert_constant(&name, Tensor { dtype, shape: vec![], bytes: Bytes::copy_from_slice(bytes) })
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

    /// A new constant of what the node has as an attribute of that name.
    pub(super) fn lifted(&mut self, node: &Node, attribute: &str, tensor: Tensor) -> ValueId {
        let name = self.names.values.unique(&format!("{}_{attribute}", node.name));
        self.insert_constant(&name, tensor)
    }

    fn made_up(&mut self, node: &Node, suffix: &str, dtype: DType, shape: Vec<usize>, bytes: Vec<u8>) -> ValueId {
        let name = self.names.values.unique(&format!("{}_{suffix}", node.name));
        self.insert_constant(&name, Tensor { dtype, shape, bytes: Bytes::from(bytes) })
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

    /// The elements of a short constant of `i64` or `i32`.
    pub(super) fn known_ints(&self, id: Option<ValueId>) -> Option<Vec<i64>> {
        if let Some(bytes) = self.short_constant(id, DType::I64) {
            return Some(bytes.as_chunks().0.iter().map(|chunk| i64::from_le_bytes(*chunk)).collect());
        }
        let bytes = self.short_constant(id, DType::I32)?;
        Some(bytes.as_chunks().0.iter().map(|chunk| i32::from_le_bytes(*chunk).into()).collect())
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

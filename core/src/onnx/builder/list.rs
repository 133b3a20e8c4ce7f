//! Sequences and optionals whose contents the model fixes: names that stand for their elements. Where one is read as a whole, a node
//! makes a value of it.

use std::collections::BTreeMap;

use byoc_plugin_api::Attribute;

use super::Builder;
use crate::ir::{Node, ValueId};

/// What a value holds that is a sequence or an optional: the same of an optional that holds a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::onnx) enum Holds {
    Sequence,
    Tensor,
}

/// What a name stands for that is no tensor.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::onnx) enum List {
    /// A sequence of these. An empty one has the ONNX number of its element type.
    Of(Vec<ValueId>, Option<i64>),
    /// The slices of a tensor along an axis, with that axis (of size 1) or without.
    Slices { of: ValueId, axis: i64, keeps_axis: bool },
    /// An optional that holds this tensor.
    Held(ValueId),
    /// An optional without an element, with the type that it could have.
    Nothing(String),
}

impl List {
    /// The values that it is made of.
    pub(in crate::onnx) fn values(&self) -> &[ValueId] {
        match self {
            List::Of(elements, _) => elements,
            List::Slices { of, .. } | List::Held(of) => std::slice::from_ref(of),
            List::Nothing(_) => &[],
        }
    }

    /// The same of other values, as many.
    pub(in crate::onnx) fn with(&self, values: Vec<ValueId>) -> List {
        match (self, values.as_slice()) {
            (&List::Slices { axis, keeps_axis, .. }, &[of]) => List::Slices { of, axis, keeps_axis },
            (List::Held(_), &[of]) => List::Held(of),
            (&List::Of(_, dtype), _) => List::Of(values, dtype),
            _ => self.clone(),
        }
    }

    /// The node that makes it a value: its operator and attributes, beside the values that it reads.
    fn maker(&self) -> (&'static str, Vec<(&'static str, Attribute)>) {
        match self {
            List::Of(elements, dtype) if elements.is_empty() => {
                ("SequenceEmpty", dtype.iter().map(|&number| ("dtype", Attribute::Int(number))).collect())
            }
            List::Of(..) => ("SequenceConstruct", Vec::new()),
            &List::Slices { axis, keeps_axis, .. } => {
                let keeps = Attribute::Int(i64::from(keeps_axis));
                ("SplitToSequence", vec![("axis", Attribute::Int(axis)), ("keepdims", keeps)])
            }
            List::Held(_) => ("Optional", Vec::new()),
            List::Nothing(ty) => ("Optional", vec![("type", Attribute::String(ty.clone()))]),
        }
    }
}

impl Builder<'_> {
    /// The sequence or the optional that the model calls `name` as a value, which a node makes; `None` where the name stands for none.
    pub(in crate::onnx) fn list_value(&mut self, name: &str) -> Option<ValueId> {
        if let Some(id) = self.named(name) {
            return Some(id);
        }
        let list = self.list(name)?.clone();
        let (op, attributes) = list.maker();
        let attributes: BTreeMap<_, _> = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let id = self.add_value(name, None);
        let inputs = list.values().iter().copied().map(Some).collect();
        let node = format!("{}_{}", self.graph.value(id).name, op.to_lowercase());
        let name = self.names.nodes.unique(&node);
        self.push(Node { name, op: op.into(), inputs, outputs: vec![Some(id)], attributes, ..Node::default() });
        Some(id)
    }

    /// What a value holds, if it is a sequence or an optional.
    pub(in crate::onnx) fn holds(&self, id: ValueId) -> Option<Holds> {
        let declared = self.graph.value(id).list.as_ref();
        let declared = declared.map(|list| if list.sequence { Holds::Sequence } else { Holds::Tensor });
        declared.or_else(|| self.holding.get(&id).copied())
    }

    /// Notes what a value holds.
    pub(in crate::onnx) fn set_holds(&mut self, id: ValueId, holds: Option<Holds>) {
        self.holding.extend(holds.map(|holds| (id, holds)));
    }

    /// Notes what the outputs of a node hold, where its operator says so.
    pub(super) fn note_lists(&mut self, node: &Node) {
        let first = node.input(0).and_then(|id| self.holds(id));
        let holds = match node.op.as_str() {
            _ if !node.domain.is_empty() => return,
            "SequenceEmpty" | "SequenceConstruct" | "SequenceInsert" | "SequenceErase" | "SplitToSequence"
            | "SequenceMap" => Some(Holds::Sequence),
            "Optional" => match node.string("type", "") {
                "" => Some(first.unwrap_or(Holds::Tensor)),
                ty if ty.contains("seq(") => Some(Holds::Sequence),
                _ => Some(Holds::Tensor),
            },
            "OptionalGetElement" => first.filter(|holds| *holds == Holds::Sequence),
            "Identity" => first,
            _ => None,
        };
        node.outputs.iter().flatten().for_each(|&id| self.set_holds(id, holds));
    }
}

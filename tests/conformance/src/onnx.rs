//! Small models as ONNX files: made by core, with what the cases have to know of them.

use byoc_core::onnx::proto::{NodeProto, OperatorSetIdProto};
use byoc_core::onnx::write::{self, attribute, node, tensor, to_onnx, value};
use byoc_plugin_api::{Attribute, DType, Dim};

use crate::tensor::Tensor;

/// The operator set that models are written in: the newest that core knows in all its operators.
const OPSET: i64 = 24;

/// The IR version of ONNX that has this operator set.
const IR_VERSION: i64 = 10;

/// What an input may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Any values: floats between -1 and 1, small integers, both booleans.
    Any,
    /// The same, but for integers of 8 bits: whatever they can be.
    Bytes,
    /// The same, and floats are finite also where others are not.
    Finite,
    /// Above zero.
    Positive,
    /// Of both signs, and at least a quarter away from zero, integers at least 1.
    NonZero,
    /// Up to 40 times as large: their exponentials are beyond all other values, or vanish.
    Large,
    /// Between 60 and 61: their mean is far from zero, and their variance small.
    Far,
    /// Few different ones, so that many are equal: small integers.
    Few,
    /// Indices from 0 up to and without this.
    Below(i64),
    /// Indices of that many elements that may count from the end: from minus that up to and without it.
    Within(i64),
}

impl Fill {
    /// Whether any number will do, so that other nodes may give it.
    pub(crate) fn is_free(self) -> bool {
        !matches!(self, Fill::Below(_) | Fill::Within(_))
    }
}

/// An input of a model.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// What it may hold.
    pub fill: Fill,
}

/// A model that is being written.
#[derive(Clone, Debug, Default)]
pub struct Model {
    file: write::Model,
    /// The inputs, for who fills them.
    pub inputs: Vec<Input>,
    /// (domain, operator) of each node.
    pub(crate) ops: Vec<(String, String)>,
    /// Nodes that stand in front of what the model is about, by name.
    pub(crate) front: Vec<String>,
    /// Whether constants were made for one size of what the model leaves open.
    pub(crate) is_for_one_size: bool,
    /// Whether its values lose bits in any arithmetic of their type: their differences are small beside them.
    pub(crate) is_coarse: bool,
}

/// The name of the node that gives the value `output` first.
fn node_name(output: &str) -> String {
    format!("make_{output}")
}

impl Model {
    /// Adds an input. The first of its sizes is known at run time only where it is `symbolic`.
    pub fn input(&mut self, name: &str, dtype: DType, shape: &[usize], fill: Fill, symbolic: bool) {
        let mut dims: Vec<_> = shape.iter().map(|&size| Dim::Fixed(size)).collect();
        if let Some(first) = dims.first_mut().filter(|_| symbolic) {
            *first = Dim::Symbolic("batch".into());
        }
        self.file.graph.input.push(value(name, to_onnx(dtype), Some(&dims)));
        self.inputs.push(Input { name: name.to_owned(), fill });
    }

    /// Adds a constant.
    pub fn constant(&mut self, name: &str, Tensor { dtype, shape, bytes }: Tensor) {
        self.file.graph.initializer.push(tensor(name, to_onnx(dtype), &shape, bytes));
    }

    /// Imports that version of the operators of a domain, if the model imports none of them yet.
    pub(crate) fn import(&mut self, domain: &str, version: i64) {
        let known = |it: &OperatorSetIdProto| it.domain() == domain;
        if !domain.is_empty() && !self.file.head.opset_import.iter().any(known) {
            self.file.head.opset_import.push(write::opset(domain, version));
        }
    }

    /// Adds a node; an empty name stands for an input that is absent. Operators of another domain are those of the newest version that
    /// core knows, or of version 1, where the model imports no other one.
    pub fn node(
        &mut self,
        (domain, op): (&str, &str),
        inputs: Vec<String>,
        outputs: Vec<String>,
        attributes: &[(String, Attribute)],
    ) {
        self.import(domain, byoc_core::ops::domain(domain).map_or(1, |domain| domain.newest));
        self.ops.push((domain.to_owned(), op.to_owned()));
        let name = outputs.first().map(|name| node_name(name)).unwrap_or_default();
        self.file.graph.node.push(NodeProto {
            attribute: attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
            ..node(&name, (domain, op), inputs, outputs)
        });
    }

    /// Says that the node that gives the value `output` first is not what the model is about.
    pub(crate) fn in_front(&mut self, output: &str) {
        self.front.push(node_name(output));
    }

    /// Adds an output. Core infers what it is.
    pub fn output(&mut self, name: &str, dtype: DType) {
        self.file.graph.output.push(value(name, to_onnx(dtype), None));
    }

    /// How many outputs there are.
    #[cfg(test)]
    pub(crate) fn outputs(&self) -> usize {
        self.file.graph.output.len()
    }

    /// The file.
    pub fn finish(&self) -> Vec<u8> {
        let mut file = self.file.clone().opset(OPSET);
        // Two operators for forests are in older versions only, where the newer one is not yet.
        let has = |of: &[&str]| self.ops.iter().any(|(_, op)| of.contains(&op.as_str()));
        if has(&["TreeEnsembleRegressor", "TreeEnsembleClassifier"]) && !has(&["TreeEnsemble"]) {
            let tables = file.head.opset_import.iter_mut().filter(|it| it.domain() == "ai.onnx.ml");
            tables.for_each(|it| it.version = Some(3));
        }
        file.graph.name = Some("conformance".into());
        file.head.ir_version = Some(IR_VERSION);
        file.finish()
    }
}

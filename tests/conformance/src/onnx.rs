//! Small models as ONNX files: what goes in is plain, and the messages are core's own.

use byoc_core::onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, attribute_proto::AttributeType, tensor_proto::DataType, tensor_shape_proto, type_proto,
};
use byoc_plugin_api::{Attribute, DType};
use prost::Message;

use crate::tensor::Tensor;

/// The operator set that models are written in: the newest that core knows in all its operators.
const OPSET: i64 = 24;

/// What an input may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Any values: floats between -1 and 1, small integers, both booleans.
    Any,
    /// Above zero.
    Positive,
    /// Indices from 0 up to and without this.
    Below(i64),
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
    graph: GraphProto,
    domains: Vec<String>,
    /// The inputs, for who fills them.
    pub inputs: Vec<Input>,
    /// (domain, operator) of each node.
    pub(crate) ops: Vec<(String, String)>,
    /// Nodes that stand in front of what the model is about, by name.
    pub(crate) front: Vec<String>,
}

fn code(dtype: DType) -> i32 {
    let code = match dtype {
        DType::F32 => DataType::Float,
        DType::F64 => DataType::Double,
        DType::F16 => DataType::Float16,
        DType::BF16 => DataType::Bfloat16,
        DType::I8 => DataType::Int8,
        DType::I16 => DataType::Int16,
        DType::I32 => DataType::Int32,
        DType::I64 => DataType::Int64,
        DType::U8 => DataType::Uint8,
        DType::U16 => DataType::Uint16,
        DType::U32 => DataType::Uint32,
        DType::U64 => DataType::Uint64,
        DType::Bool => DataType::Bool,
    };
    code as i32
}

fn info(name: &str, dtype: DType, shape: Option<TensorShapeProto>) -> ValueInfoProto {
    let tensor = type_proto::Tensor { elem_type: Some(code(dtype)), shape };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..Default::default() }
}

/// A shape, with a first size that is known at run time only where it is `symbolic`.
fn sizes(shape: &[usize], symbolic: bool) -> TensorShapeProto {
    let size = |(axis, &size): (usize, &usize)| {
        let value = match (axis, symbolic) {
            (0, true) => tensor_shape_proto::dimension::Value::DimParam("batch".into()),
            _ => tensor_shape_proto::dimension::Value::DimValue(size as i64),
        };
        tensor_shape_proto::Dimension { value: Some(value), ..Default::default() }
    };
    TensorShapeProto { dim: shape.iter().enumerate().map(size).collect() }
}

/// A tensor as ONNX has it.
fn tensor_proto(name: &str, dtype: DType, shape: &[i64], bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(code(dtype)),
        dims: shape.to_vec(),
        raw_data: Some(bytes.into()),
        ..Default::default()
    }
}

/// The name of the node that gives the value `output` first.
fn node_name(output: &str) -> String {
    format!("make_{output}")
}

fn attribute(name: &str, value: &Attribute) -> AttributeProto {
    let kind = |kind: AttributeType| AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(kind as i32),
        ..Default::default()
    };
    let text = |text: &String| text.clone().into_bytes().into();
    match value {
        Attribute::Int(value) => AttributeProto { i: Some(*value), ..kind(AttributeType::Int) },
        Attribute::Float(value) => AttributeProto { f: Some(*value), ..kind(AttributeType::Float) },
        Attribute::String(value) => AttributeProto { s: Some(text(value)), ..kind(AttributeType::String) },
        Attribute::Ints(values) => AttributeProto { ints: values.clone(), ..kind(AttributeType::Ints) },
        Attribute::Floats(values) => AttributeProto { floats: values.clone(), ..kind(AttributeType::Floats) },
        Attribute::Strings(values) => {
            AttributeProto { strings: values.iter().map(text).collect(), ..kind(AttributeType::Strings) }
        }
        Attribute::Tensor { dtype, shape, hex } => {
            let shape: Vec<_> = shape.iter().map(|&size| size as i64).collect();
            let bytes = byoc_plugin_api::from_hex(hex).unwrap_or_default();
            AttributeProto { t: Some(tensor_proto(name, *dtype, &shape, bytes)), ..kind(AttributeType::Tensor) }
        }
    }
}

impl Model {
    /// Adds an input. The first of its sizes is known at run time only where it is `symbolic`.
    pub fn input(&mut self, name: &str, dtype: DType, shape: &[usize], fill: Fill, symbolic: bool) {
        self.graph.input.push(info(name, dtype, Some(sizes(shape, symbolic))));
        self.inputs.push(Input { name: name.to_owned(), fill });
    }

    /// Adds a constant.
    pub fn constant(&mut self, name: &str, tensor: Tensor) {
        self.graph.initializer.push(tensor_proto(name, tensor.dtype, &tensor.shape, tensor.bytes));
    }

    /// Adds a node; an empty name stands for an input that is absent.
    pub fn node(
        &mut self,
        (domain, op): (&str, &str),
        inputs: Vec<String>,
        outputs: Vec<String>,
        attributes: &[(String, Attribute)],
    ) {
        let known = domain.is_empty() || self.domains.iter().any(|known| known == domain);
        if !known {
            self.domains.push(domain.to_owned());
        }
        self.ops.push((domain.to_owned(), op.to_owned()));
        self.graph.node.push(NodeProto {
            input: inputs,
            name: outputs.first().map(|name| node_name(name)),
            output: outputs,
            op_type: Some(op.to_owned()),
            domain: (!domain.is_empty()).then(|| domain.to_owned()),
            attribute: attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
            ..Default::default()
        });
    }

    /// Says that the node that gives the value `output` first is not what the model is about.
    pub(crate) fn in_front(&mut self, output: &str) {
        self.front.push(node_name(output));
    }

    /// Adds an output. Core infers what it is.
    pub fn output(&mut self, name: &str, dtype: DType) {
        self.graph.output.push(info(name, dtype, None));
    }

    /// The file.
    pub fn finish(&self) -> Vec<u8> {
        let opset =
            |domain: &str, version| OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) };
        let others = self.domains.iter().map(|domain| opset(domain, 1));
        let graph = GraphProto { name: Some("conformance".into()), ..self.graph.clone() };
        let model = ModelProto {
            ir_version: Some(10),
            opset_import: std::iter::once(opset("", OPSET)).chain(others).collect(),
            graph: Some(graph),
            ..Default::default()
        };
        model.encode_to_vec()
    }
}

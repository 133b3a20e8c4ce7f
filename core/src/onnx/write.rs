//! Writes ONNX models: builders for the messages of [`proto`](super::proto), and for a model.

use byoc_plugin_api::{Attribute, DType, Dim, from_hex, texts_of_block};
use bytes::Bytes;
use prost::Message;

pub use super::tensor::to_onnx;

use super::proto::attribute_proto::AttributeType;
use super::proto::tensor_proto::DataType;
use super::proto::tensor_shape_proto::{Dimension, dimension};
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, type_proto,
};

/// A tensor with these elements, row-major and little-endian. `ty` is ONNX's number of the element type.
pub fn tensor(name: &str, ty: impl Into<i32>, shape: &[i64], bytes: impl Into<Bytes>) -> TensorProto {
    TensorProto {
        dims: shape.to_vec(),
        data_type: Some(ty.into()),
        name: (!name.is_empty()).then(|| name.to_owned()),
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    }
}

/// A tensor of these texts, row-major.
pub fn texts<T: AsRef<str>>(name: &str, shape: &[i64], texts: &[T]) -> TensorProto {
    let text = |text: &T| Bytes::copy_from_slice(text.as_ref().as_bytes());
    let string_data = texts.iter().map(text).collect();
    TensorProto { string_data, raw_data: None, ..tensor(name, DataType::String, shape, Bytes::new()) }
}

/// An input or an output of a graph; without a shape, not even its rank is known.
pub fn value(name: &str, ty: impl Into<i32>, shape: Option<&[Dim]>) -> ValueInfoProto {
    let dim = |dim: &Dim| Dimension {
        value: Some(match dim {
            Dim::Fixed(size) => dimension::Value::DimValue(*size as i64),
            Dim::Symbolic(text) => dimension::Value::DimParam(text.clone()),
        }),
        ..Dimension::default()
    };
    let shape = shape.map(|shape| TensorShapeProto { dim: shape.iter().map(dim).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(ty.into()), shape };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
}

/// A node without attributes. An operator is (domain, name); an input or output with an empty name is absent.
pub fn node(name: &str, (domain, op): (&str, &str), inputs: Vec<String>, outputs: Vec<String>) -> NodeProto {
    NodeProto {
        input: inputs,
        output: outputs,
        name: Some(name.to_owned()),
        op_type: Some(op.to_owned()),
        domain: (!domain.is_empty()).then(|| domain.to_owned()),
        ..NodeProto::default()
    }
}

/// An attribute of a node.
pub fn attribute(name: &str, value: &Attribute) -> AttributeProto {
    let of = |kind: AttributeType| AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(kind as i32),
        ..AttributeProto::default()
    };
    let text = |text: &String| Bytes::copy_from_slice(text.as_bytes());
    match value {
        Attribute::Int(value) => AttributeProto { i: Some(*value), ..of(AttributeType::Int) },
        Attribute::Float(value) => AttributeProto { f: Some(*value), ..of(AttributeType::Float) },
        Attribute::String(value) => AttributeProto { s: Some(text(value)), ..of(AttributeType::String) },
        Attribute::Ints(values) => AttributeProto { ints: values.clone(), ..of(AttributeType::Ints) },
        Attribute::Floats(values) => AttributeProto { floats: values.clone(), ..of(AttributeType::Floats) },
        Attribute::Strings(values) => {
            AttributeProto { strings: values.iter().map(text).collect(), ..of(AttributeType::Strings) }
        }
        Attribute::Tensor { dtype, shape, hex } => {
            AttributeProto { t: Some(elements(*dtype, shape, hex)), ..of(AttributeType::Tensor) }
        }
        Attribute::Tensors(tensors) => {
            let tensors = tensors.iter().map(|tensor| elements(tensor.dtype, &tensor.shape, &tensor.hex)).collect();
            AttributeProto { tensors, ..of(AttributeType::Tensors) }
        }
        Attribute::Graph(hex) => {
            let graph = GraphProto::decode(&*from_hex(hex).unwrap_or_default()).unwrap_or_default();
            AttributeProto { g: Some(graph), ..of(AttributeType::Graph) }
        }
        // One that this function does not know yet: readers refuse it.
        _ => of(AttributeType::Undefined),
    }
}

fn elements(dtype: DType, shape: &[usize], hex: &str) -> TensorProto {
    let shape: Vec<_> = shape.iter().map(|&size| size as i64).collect();
    let bytes = from_hex(hex).unwrap_or_default();
    match dtype {
        DType::String => texts("", &shape, &texts_of_block(&bytes).unwrap_or_default()),
        dtype => tensor("", to_onnx(dtype), &shape, bytes),
    }
}

/// A version of a domain's operators.
pub fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) }
}

/// A model that is being written.
#[derive(Clone, Debug)]
pub struct Model {
    /// The graph.
    pub graph: GraphProto,
    /// Everything else. The first operator set is ONNX's own.
    pub head: ModelProto,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            graph: GraphProto { name: Some("graph".into()), ..GraphProto::default() },
            head: ModelProto { ir_version: Some(8), opset_import: vec![opset("", 17)], ..ModelProto::default() },
        }
    }
}

impl Model {
    /// Uses another version of ONNX's own operators.
    pub fn opset(mut self, version: i64) -> Model {
        self.head.opset_import[0].version = Some(version);
        self
    }

    /// Uses operators of another domain.
    pub fn domain(mut self, domain: &str, version: i64) -> Model {
        self.head.opset_import.push(opset(domain, version));
        self
    }

    /// Adds an input. A size below 0 is one that is known when the model runs, called `batch`.
    pub fn input(mut self, name: &str, ty: DataType, shape: &[i64]) -> Model {
        self.graph.input.push(value(name, ty, Some(&dims(shape))));
        self
    }

    /// Adds an output, as an input.
    pub fn output(mut self, name: &str, ty: DataType, shape: &[i64]) -> Model {
        self.graph.output.push(value(name, ty, Some(&dims(shape))));
        self
    }

    /// Adds a constant.
    pub fn tensor(mut self, tensor: TensorProto) -> Model {
        self.graph.initializer.push(tensor);
        self
    }

    /// Adds a constant of f32.
    pub fn weight(self, name: &str, shape: &[i64], values: &[f32]) -> Model {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(tensor(name, DataType::Float, shape, bytes))
    }

    /// Adds a constant of whole numbers of 64 bits.
    pub fn ints(self, name: &str, shape: &[i64], values: &[i64]) -> Model {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(tensor(name, DataType::Int64, shape, bytes))
    }

    /// Adds a node called after its first output.
    pub fn node(self, op: &str, inputs: &[&str], outputs: &[&str]) -> Model {
        self.node_with(op, inputs, outputs, &[])
    }

    /// Adds a node with attributes.
    pub fn node_with(self, op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Attribute)]) -> Model {
        self.node_of(("", op), inputs, outputs, attributes)
    }

    /// Adds a node of any domain: (domain, operator).
    pub fn node_of(
        mut self,
        op: (&str, &str),
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, Attribute)],
    ) -> Model {
        let attribute = attributes.iter().map(|(name, value)| attribute(name, value)).collect();
        self.graph.node.push(NodeProto { attribute, ..named(op, inputs, outputs) });
        self
    }

    /// Gives the last node a graph, that of the other model, as an attribute.
    pub fn body(mut self, attribute: &str, body: Model) -> Model {
        let kind = Some(AttributeType::Graph as i32);
        let name = Some(attribute.to_owned());
        let attribute = AttributeProto { name, r#type: kind, g: Some(body.graph), ..AttributeProto::default() };
        self.graph.node.iter_mut().last().into_iter().for_each(|node| node.attribute.push(attribute.clone()));
        self
    }

    /// Adds a `Cast`.
    pub fn cast(self, input: &str, to: DataType, output: &str) -> Model {
        self.node_with("Cast", &[input], &[output], &[("to", Attribute::Int(to as i64))])
    }

    /// The file.
    pub fn finish(self) -> Vec<u8> {
        ModelProto { graph: Some(self.graph), ..self.head }.encode_to_vec()
    }
}

fn dims(shape: &[i64]) -> Vec<Dim> {
    let dim = |&size: &i64| usize::try_from(size).map_or_else(|_| Dim::Symbolic("batch".into()), Dim::Fixed);
    shape.iter().map(dim).collect()
}

fn named(op: (&str, &str), inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    node(&format!("make_{}", outputs.first().unwrap_or(&"")), op, list(inputs), list(outputs))
}

//! A region as an ONNX model: the smallest model in which a backend meets it. Any tool for ONNX opens it, and compiling it
//! gives the backend the same nodes, shapes and constants again.

use std::collections::BTreeSet;

use byoc_plugin_api::{
    Attribute, ConstantId, Constants, DType, Dim, INLINE_BYTES, Node, Region, TensorView, Value, from_hex,
};
use bytes::Bytes;
use prost::Message;

use super::flatten::NEWEST_OPSET;
use super::proto::attribute_proto::AttributeType;
use super::proto::tensor_shape_proto::{Dimension, dimension};
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto, type_proto,
};
use super::tensor::to_onnx;
use crate::diagnostic::{Code, Diagnostic, Result};

/// The metadata key of the backend that a repro model was made for.
pub const REPRO_BACKEND: &str = "byoc.backend";

/// The metadata key of the backend's options, as JSON.
pub const REPRO_OPTIONS: &str = "byoc.options";

/// The newest IR version of ONNX that has everything used here.
const IR_VERSION: i64 = 10;

/// Most bytes of constants in the file: a protobuf message has less than 2 GiB.
const MOST_BYTES: usize = 1 << 30;

/// The model. With `strip` every constant of more than 256 bytes has made-up elements of the same type and shape; so it
/// is where they would not fit into the file. `about` goes into the model's metadata.
pub(crate) fn region_model(
    region: &Region,
    constants: &Constants<'_>,
    strip: bool,
    about: &[(&str, String)],
) -> Result<Bytes> {
    let size = |view: &TensorView<'_>| view.len() * view.dtype().size();
    let strip = strip || constants.iter().map(|(_, view)| size(view)).sum::<usize>() > MOST_BYTES;
    let name = |value: usize| region.values[value].name.clone();
    let mut initializer = Vec::with_capacity(region.constants.len());
    for constant in &region.constants {
        let missing = || Diagnostic::new(Code::BadGraph, format!("constant {} was not given", constant.id));
        let view = constants.get(constant.id).ok_or_else(missing)?;
        let bytes = match (&constant.inline, strip || !view.has_data()) {
            (Some(hex), _) => from_hex(hex).unwrap_or_default(),
            (None, true) if size(view) > INLINE_BYTES => made_up(view, constant.id),
            _ => elements(view),
        };
        initializer.push(tensor(Some(name(constant.value)), view, bytes));
    }
    let port = |&value: &usize| port(&region.values[value]);
    let graph = GraphProto {
        node: region.nodes.iter().map(|node| node_proto(node, &name)).collect(),
        name: Some(region.symbol.clone()),
        initializer,
        input: region.inputs.iter().map(port).collect(),
        output: region.outputs.iter().map(port).collect(),
        ..GraphProto::default()
    };
    let domains: BTreeSet<&str> = region.nodes.iter().map(|node| node.domain.as_str()).collect();
    let opset = |domain: &str| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(if domain.is_empty() { NEWEST_OPSET } else { 1 }),
    };
    let entry = |(key, value): &(&str, String)| StringStringEntryProto {
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
    };
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        opset_import: domains.into_iter().map(opset).collect(),
        producer_name: Some(Bytes::from_static(b"byoc")),
        producer_version: Some(Bytes::from_static(env!("CARGO_PKG_VERSION").as_bytes())),
        graph: Some(graph),
        metadata_props: about.iter().map(entry).collect(),
        ..ModelProto::default()
    };
    Ok(model.encode_to_vec().into())
}

fn elements(view: &TensorView<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(view.len() * view.dtype().size());
    view.for_each_element(|element| bytes.extend_from_slice(element));
    bytes
}

/// Small numbers of the view's type, other ones for each constant: between -1 and 1 for floating-point types, 0 and 1 for
/// others.
fn made_up(view: &TensorView<'_>, id: ConstantId) -> Vec<u8> {
    let mut state = id.0.wrapping_mul(2).wrapping_add(1);
    let mut element = || -> Vec<u8> {
        // Knuth's linear congruential generator (The Art of Computer Programming, volume 2): its high bits are good enough.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
        match view.dtype() {
            DType::F32 => number.to_le_bytes().to_vec(),
            DType::F64 => f64::from(number).to_le_bytes().to_vec(),
            DType::F16 => half::f16::from_f32(number).to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::from_f32(number).to_le_bytes().to_vec(),
            other => u64::from(number > 0.0).to_le_bytes()[..other.size()].to_vec(),
        }
    };
    (0..view.len()).flat_map(|_| element()).collect()
}

fn tensor(name: Option<String>, view: &TensorView<'_>, bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        dims: view.shape().to_vec(),
        data_type: Some(to_onnx(view.dtype())),
        name,
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    }
}

fn port(value: &Value) -> ValueInfoProto {
    let dim = |dim: &Dim| Dimension {
        denotation: None,
        value: Some(match dim {
            Dim::Fixed(size) => dimension::Value::DimValue(*size as i64),
            Dim::Symbolic(text) => dimension::Value::DimParam(text.clone()),
        }),
    };
    let tensor = type_proto::Tensor {
        elem_type: Some(to_onnx(value.dtype)),
        shape: Some(TensorShapeProto { dim: value.shape.iter().map(dim).collect() }),
    };
    let ty = TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) };
    ValueInfoProto { name: Some(value.name.clone()), r#type: Some(ty), ..ValueInfoProto::default() }
}

fn node_proto(node: &Node, name: &impl Fn(usize) -> String) -> NodeProto {
    let names = |values: &[Option<usize>]| values.iter().map(|value| value.map_or(String::new(), name)).collect();
    NodeProto {
        input: names(&node.inputs),
        output: names(&node.outputs),
        name: Some(node.name.clone()),
        op_type: Some(node.op.clone()),
        domain: Some(node.domain.clone()),
        attribute: node.attributes.iter().map(|(name, attribute)| attribute_proto(name, attribute)).collect(),
        ..NodeProto::default()
    }
}

fn attribute_proto(name: &str, attribute: &Attribute) -> AttributeProto {
    let text = |text: &String| Bytes::copy_from_slice(text.as_bytes());
    let mut proto = AttributeProto { name: Some(name.to_owned()), ..AttributeProto::default() };
    let kind = match attribute {
        Attribute::Int(value) => {
            proto.i = Some(*value);
            AttributeType::Int
        }
        Attribute::Float(value) => {
            proto.f = Some(*value);
            AttributeType::Float
        }
        Attribute::String(value) => {
            proto.s = Some(text(value));
            AttributeType::String
        }
        Attribute::Ints(values) => {
            proto.ints.clone_from(values);
            AttributeType::Ints
        }
        Attribute::Floats(values) => {
            proto.floats.clone_from(values);
            AttributeType::Floats
        }
        Attribute::Strings(values) => {
            proto.strings = values.iter().map(text).collect();
            AttributeType::Strings
        }
        Attribute::Tensor { dtype, shape, hex } => {
            proto.t = Some(TensorProto {
                dims: shape.iter().map(|&size| size as i64).collect(),
                data_type: Some(to_onnx(*dtype)),
                raw_data: Some(from_hex(hex).unwrap_or_default().into()),
                ..TensorProto::default()
            });
            AttributeType::Tensor
        }
    };
    proto.r#type = Some(kind as i32);
    proto
}

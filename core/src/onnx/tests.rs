//! Imports of models that are made by hand.

use std::path::Path;

use prost::Message;

use super::proto::attribute_proto::AttributeType;
use super::proto::tensor_proto::DataType;
use super::proto::tensor_shape_proto::{Dimension, dimension};
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, type_proto,
};
use super::{ImportOptions, import};
use crate::diagnostic::{Code, Result};
use crate::ir::{CustomOperators, Graph, Model, Node, ValueId};

mod bodies;
mod damaged;
mod external;
mod functions;
mod graphs;
mod inputs;
mod lists;
mod microsoft;
mod microsoft_quantised;
mod specified;
mod tables;
mod tensors;

/// A model of that operator set: `nodes` from `inputs` (f32) to the value `y`, with `initializers`.
fn model(opset: i64, inputs: &[ValueInfoProto], initializers: &[TensorProto], nodes: &[NodeProto]) -> ModelProto {
    let graph = GraphProto {
        node: nodes.to_vec(),
        name: Some("g".into()),
        initializer: initializers.to_vec(),
        input: inputs.to_vec(),
        output: vec![ValueInfoProto { name: Some("y".into()), ..Default::default() }],
        ..Default::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(opset) }];
    ModelProto { ir_version: Some(8), graph: Some(graph), opset_import, ..Default::default() }
}

fn typed(name: &str, dtype: DataType, dims: Option<Vec<dimension::Value>>) -> ValueInfoProto {
    let dim = |value| Dimension { value: Some(value), ..Default::default() };
    let shape = dims.map(|dims| TensorShapeProto { dim: dims.into_iter().map(dim).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(dtype as i32), shape };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
    ValueInfoProto { name: Some(name.into()), r#type: Some(ty), ..Default::default() }
}

/// An f32 input of fixed sizes.
fn input(name: &str, sizes: &[i64]) -> ValueInfoProto {
    typed(name, DataType::Float, Some(sizes.iter().map(|&size| dimension::Value::DimValue(size)).collect()))
}

/// An f32 input of named sizes; `""` has none.
fn named_input(name: &str, dims: &[&str]) -> ValueInfoProto {
    typed(name, DataType::Float, Some(dims.iter().map(|&dim| dimension::Value::DimParam(dim.into())).collect()))
}

/// An f32 tensor with the elements 0, 1, 2 ...
fn floats(name: &str, dims: &[i64]) -> TensorProto {
    let count: i64 = dims.iter().product();
    let raw: Vec<u8> = (0..count).flat_map(|value| (value as f32).to_le_bytes()).collect();
    raw_tensor(name, DataType::Float, dims, raw)
}

fn raw_tensor(name: &str, dtype: DataType, dims: &[i64], raw: Vec<u8>) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        dims: dims.to_vec(),
        data_type: Some(dtype as i32),
        raw_data: Some(raw.into()),
        ..Default::default()
    }
}

/// A node called `n`.
fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]) -> NodeProto {
    NodeProto {
        name: Some("n".into()),
        op_type: Some(op.into()),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: outputs.iter().map(|&name| name.into()).collect(),
        attribute: attributes.to_vec(),
        ..Default::default()
    }
}

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: Some(name.into()), r#type: Some(kind as i32), ..Default::default() }
}

fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..attribute(name, AttributeType::Int) }
}

fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { f: Some(value), ..attribute(name, AttributeType::Float) }
}

fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: Some(value.to_owned().into()), ..attribute(name, AttributeType::String) }
}

fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), ..attribute(name, AttributeType::Ints) }
}

fn import_bytes(bytes: &[u8], options: &ImportOptions) -> Result<Model> {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("m.onnx");
    std::fs::write(&path, bytes).expect("write");
    import(&[("main".into(), Path::new(&path))], options, &CustomOperators::default())
}

fn import_model(model: &ModelProto) -> Result<Model> {
    import_bytes(&model.encode_to_vec(), &ImportOptions::default())
}

/// The only graph of a good model.
fn graph(model: &ModelProto) -> Graph {
    import_model(model).expect("a good model").entries.remove(0)
}

/// Code, message and remedy of a bad model.
fn failure(model: &ModelProto) -> (Code, String, String) {
    let error = import_model(model).expect_err("a bad model");
    (error.code, error.message, error.hint.unwrap_or_default())
}

/// Checks code and message of a bad model.
fn assert_fails(model: &ModelProto, code: Code, message: &str) {
    let (found, text, _) = failure(model);
    assert_eq!((found, text.as_str()), (code, message));
}

/// A node as text: `y = Add(x, w)`; constants with their elements, attributes behind.
fn show(model: &Model, node: &Node) -> String {
    let graph = &model.entries[0];
    let value = |id: &Option<ValueId>| match id {
        None => "_".to_owned(),
        Some(id) => {
            let value = graph.value(*id);
            match &value.constant {
                None => value.name.clone(),
                Some(constant) => {
                    let dtype = model.constants.get(constant.base).dtype;
                    let elements = elements(dtype.name(), &model.constants.materialize(constant));
                    let rank = constant.view.shape.len();
                    if rank == 0 { elements } else { format!("[{elements}]") }
                }
            }
        }
    };
    let list = |ids: &[Option<ValueId>]| ids.iter().map(value).collect::<Vec<_>>().join(", ");
    let attributes: Vec<_> = node.attributes.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
    format!("{} = {}({}){}", list(&node.outputs), node.op, list(&node.inputs), attributes.concat())
}

fn elements(dtype: &str, bytes: &[u8]) -> String {
    let texts: Vec<String> = match dtype {
        "i64" => bytes.as_chunks().0.iter().map(|chunk| i64::from_le_bytes(*chunk).to_string()).collect(),
        "f32" => bytes.as_chunks().0.iter().map(|chunk| format!("{:?}", f32::from_le_bytes(*chunk))).collect(),
        _ => bytes.iter().map(|byte| format!("{dtype}:{byte:02x}")).collect(),
    };
    texts.join(" ")
}

/// The nodes of a good model as text.
fn nodes(model: &ModelProto) -> Vec<String> {
    let model = import_model(model).expect("a good model");
    model.entries[0].nodes.iter().map(|node| show(&model, node)).collect()
}

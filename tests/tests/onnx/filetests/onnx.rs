//! A graph of a test as an ONNX file, node by node: what the importer is tested with.

use byoc_core::ir::{Graph, Model, Node, TensorType, ValueId};
use byoc_core::onnx::proto::attribute_proto::AttributeType;
use byoc_core::onnx::proto::tensor_shape_proto::{Dimension, dimension};
use byoc_core::onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, type_proto,
};
use byoc_core::ops::cast::to_onnx;
use byoc_plugin_api::{Attribute, DType, Dim, from_hex};
use prost::Message;

/// The file of an entry. Nodes are of version `opset` of ONNX's operators, and of version 1 of other domains.
pub(crate) fn file(model: &Model, graph: &Graph, opset: i64) -> Vec<u8> {
    let name = |id: &ValueId| graph.value(*id).name.clone();
    let constants = graph.values.iter().filter_map(|value| Some((value, value.constant.as_ref()?)));
    let initializer = constants.map(|(value, constant)| {
        let dtype = value.ty.as_ref().map_or(DType::F32, |ty| ty.dtype);
        tensor(value.name.clone(), dtype, &constant.view.shape, model.constants.materialize(constant))
    });
    let output = graph.outputs.iter().zip(&graph.declared).map(|(id, declared)| {
        let dim = |size: &Option<usize>| size.map_or_else(|| Dim::Symbolic("any".into()), Dim::Fixed);
        let shape = declared.shape.as_ref().map(|shape| shape.iter().map(dim).collect::<Vec<_>>());
        let ty = declared.dtype.zip(shape).map(|(dtype, shape)| TensorType { dtype, shape });
        port(name(id), ty.as_ref())
    });
    let proto = GraphProto {
        name: Some(graph.name.clone()),
        node: graph.nodes.iter().map(|node| node_proto(node, &name)).collect(),
        initializer: initializer.collect(),
        input: graph.inputs.iter().map(|id| port(name(id), graph.value(*id).ty.as_ref())).collect(),
        output: output.collect(),
        ..GraphProto::default()
    };
    let mut domains: Vec<_> =
        graph.nodes.iter().map(|node| node.domain.clone()).filter(|domain| !domain.is_empty()).collect();
    domains.sort();
    domains.dedup();
    let set = |domain: String, version| OperatorSetIdProto { domain: Some(domain), version: Some(version) };
    let mut opset_import = vec![set(String::new(), opset)];
    opset_import.extend(domains.into_iter().map(|domain| set(domain, 1)));
    ModelProto { ir_version: Some(8), graph: Some(proto), opset_import, ..ModelProto::default() }.encode_to_vec()
}

fn port(name: String, ty: Option<&TensorType>) -> ValueInfoProto {
    let Some(ty) = ty else { return ValueInfoProto { name: Some(name), ..ValueInfoProto::default() } };
    let value = |dim: &Dim| match dim {
        Dim::Fixed(size) => dimension::Value::DimValue(*size as i64),
        Dim::Symbolic(name) => dimension::Value::DimParam(name.clone()),
    };
    let dim = |dim| Dimension { value: Some(value(dim)), ..Dimension::default() };
    let shape = TensorShapeProto { dim: ty.shape.iter().map(dim).collect() };
    let tensor = type_proto::Tensor { elem_type: Some(to_onnx(ty.dtype) as i32), shape: Some(shape) };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: Some(name), r#type: Some(ty), ..ValueInfoProto::default() }
}

fn tensor(name: String, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        name: Some(name),
        dims: shape.iter().map(|&size| size as i64).collect(),
        data_type: Some(to_onnx(dtype) as i32),
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    }
}

fn node_proto(node: &Node, name: &dyn Fn(&ValueId) -> String) -> NodeProto {
    let names = |ids: &[Option<ValueId>]| ids.iter().map(|id| id.as_ref().map(name).unwrap_or_default()).collect();
    NodeProto {
        name: Some(node.name.clone()),
        op_type: Some(node.op.clone()),
        domain: Some(node.domain.clone()),
        input: names(&node.inputs),
        output: names(&node.outputs),
        attribute: node.attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
        ..NodeProto::default()
    }
}

fn elements(dtype: DType, shape: &[usize], hex: &str) -> TensorProto {
    tensor(String::new(), dtype, shape, from_hex(hex).expect("hex digits"))
}

fn attribute(name: &str, value: &Attribute) -> AttributeProto {
    let named = |kind: AttributeType| AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(kind as i32),
        ..AttributeProto::default()
    };
    match value {
        Attribute::Int(value) => AttributeProto { i: Some(*value), ..named(AttributeType::Int) },
        Attribute::Float(value) => AttributeProto { f: Some(*value), ..named(AttributeType::Float) },
        Attribute::String(value) => AttributeProto { s: Some(value.clone().into()), ..named(AttributeType::String) },
        Attribute::Ints(values) => AttributeProto { ints: values.clone(), ..named(AttributeType::Ints) },
        Attribute::Floats(values) => AttributeProto { floats: values.clone(), ..named(AttributeType::Floats) },
        Attribute::Strings(values) => {
            let strings = values.iter().map(|value| value.clone().into()).collect();
            AttributeProto { strings, ..named(AttributeType::Strings) }
        }
        Attribute::Tensor { dtype, shape, hex } => {
            AttributeProto { t: Some(elements(*dtype, shape, hex)), ..named(AttributeType::Tensor) }
        }
        Attribute::Tensors(tensors) => {
            let tensors = tensors.iter().map(|tensor| elements(tensor.dtype, &tensor.shape, &tensor.hex)).collect();
            AttributeProto { tensors, ..named(AttributeType::Tensors) }
        }
        Attribute::Graph(hex) => {
            let graph = GraphProto::decode(&*from_hex(hex).expect("hex digits")).expect("a graph");
            AttributeProto { g: Some(graph), ..named(AttributeType::Graph) }
        }
        other => panic!("{other:?} has no form here"),
    }
}

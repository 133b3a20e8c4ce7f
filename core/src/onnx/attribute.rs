//! Attributes of a node, and the value of a `Constant` node.

use std::collections::BTreeMap;

use byoc_plugin_api::{Attribute, AttributeTensor, DType, to_hex};
use bytes::Bytes;
use prost::Message;

use super::external::ExternalFiles;
use super::proto::attribute_proto::AttributeType;
use super::proto::{AttributeProto, GraphProto, TensorProto};
use super::tensor::{self, Tensor};
use super::values;
use crate::diagnostic::{Code, Diagnostic, Result};

/// The attributes of the node that is called `node`.
pub(super) fn read_all(
    node: &str,
    protos: Vec<AttributeProto>,
    files: &mut ExternalFiles,
) -> Result<BTreeMap<String, Attribute>> {
    let mut attributes = BTreeMap::new();
    for mut proto in protos {
        let name = proto.name.take().unwrap_or_default();
        let attribute = read(node, &name, proto, files)?;
        if attributes.insert(name.clone(), attribute).is_some() {
            return Err(bad(node, format!("attribute '{name}' is set twice")));
        }
    }
    Ok(attributes)
}

/// The tensor that a `Constant` node stands for.
pub(super) fn constant(node: &str, protos: Vec<AttributeProto>, files: &mut ExternalFiles) -> Result<Tensor> {
    let mut values = protos.into_iter();
    let (Some(mut proto), None) = (values.next(), values.next()) else {
        return Err(bad(node, "Constant has exactly one attribute"));
    };
    let name = proto.name.take().unwrap_or_default();
    if name == "value"
        && let Some(value) = proto.t.take()
    {
        return tensor::read(&format!("node '{node}': attribute 'value'"), value, files);
    }
    let what = || format!("node '{node}': attribute '{name}'");
    match (name.as_str(), read(node, &name, proto, files)?) {
        ("value_int", Attribute::Int(value)) => Ok(numbers(DType::I64, vec![], &[value], i64::to_le_bytes)),
        ("value_ints", Attribute::Ints(values)) => {
            Ok(numbers(DType::I64, vec![values.len()], &values, i64::to_le_bytes))
        }
        ("value_float", Attribute::Float(value)) => Ok(numbers(DType::F32, vec![], &[value], f32::to_le_bytes)),
        ("value_floats", Attribute::Floats(values)) => {
            Ok(numbers(DType::F32, vec![values.len()], &values, f32::to_le_bytes))
        }
        ("value_string", Attribute::String(text)) => Tensor::of_texts(&what(), vec![], &[text]),
        ("value_strings", Attribute::Strings(texts)) => Tensor::of_texts(&what(), vec![texts.len()], &texts),
        _ => Err(bad(node, format!("Constant cannot have attribute '{name}' of this kind"))),
    }
}

fn numbers<T: Copy, const N: usize>(dtype: DType, shape: Vec<usize>, values: &[T], bytes: fn(T) -> [u8; N]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|&value| bytes(value)).collect();
    Tensor { dtype, shape, bytes: Bytes::from(bytes) }
}

fn read(node: &str, name: &str, proto: AttributeProto, files: &mut ExternalFiles) -> Result<Attribute> {
    if let Some(reference) = proto.ref_attr_name.as_deref().filter(|name| !name.is_empty()) {
        let cause = format!("attribute '{name}' refers to '{reference}' of a function, but is outside of one");
        return Err(bad(node, cause));
    }
    let text = |bytes: &Bytes| {
        let text = std::str::from_utf8(bytes).map_err(|_| bad(node, format!("attribute '{name}' is not UTF-8")))?;
        Ok::<_, Diagnostic>(text.to_owned())
    };
    let kind = AttributeType::try_from(proto.r#type.unwrap_or(0));
    let kind = kind.map_err(|_| bad(node, format!("attribute '{name}' is of an unknown kind")))?;
    let guess = if kind == AttributeType::Undefined { guess_kind(&proto) } else { kind };
    Ok(match guess {
        AttributeType::Int => Attribute::Int(proto.i.unwrap_or(0)),
        AttributeType::Float => Attribute::Float(proto.f.unwrap_or(0.0)),
        AttributeType::String => Attribute::String(text(&proto.s.unwrap_or_default())?),
        AttributeType::Ints => Attribute::Ints(proto.ints),
        AttributeType::Floats => Attribute::Floats(proto.floats),
        AttributeType::Strings => Attribute::Strings(proto.strings.iter().map(text).collect::<Result<_>>()?),
        AttributeType::Tensor => {
            let AttributeTensor { dtype, shape, hex } = elements(node, name, proto.t.unwrap_or_default(), files)?;
            Attribute::Tensor { dtype, shape, hex }
        }
        AttributeType::Tensors => {
            let tensors = proto.tensors.into_iter().map(|tensor| elements(node, name, tensor, files));
            Attribute::Tensors(tensors.collect::<Result<_>>()?)
        }
        AttributeType::Graph => graph(node, name, &proto.g.unwrap_or_default())?,
        other => return Err(refuse(node, name, other)),
    })
}

fn elements(node: &str, name: &str, proto: TensorProto, files: &mut ExternalFiles) -> Result<AttributeTensor> {
    let tensor = tensor::read(&format!("node '{node}': attribute '{name}'"), proto, files)?;
    Ok(AttributeTensor { dtype: tensor.dtype, shape: tensor.shape, hex: to_hex(&tensor.bytes) })
}

/// A graph as it is. What it needs beside its inputs would be lost.
fn graph(node: &str, name: &str, graph: &GraphProto) -> Result<Attribute> {
    if let Some(read) = values::free(graph).first() {
        return Err(bad(node, format!("the graph in attribute '{name}' reads '{read}', which is outside of it"))
            .hint("Make it an input of the node and of the graph"));
    }
    if values::has_files(graph) {
        return Err(bad(node, format!("the graph in attribute '{name}' has tensors in another file"))
            .hint("Save the model with these tensors in it"));
    }
    Ok(Attribute::Graph(to_hex(&graph.encode_to_vec())))
}

/// The kind of an attribute without a declared one (IR version 1), by the field that is set.
fn guess_kind(proto: &AttributeProto) -> AttributeType {
    let present = [
        (proto.f.is_some(), AttributeType::Float),
        (proto.i.is_some(), AttributeType::Int),
        (proto.s.is_some(), AttributeType::String),
        (proto.t.is_some(), AttributeType::Tensor),
        (proto.g.is_some(), AttributeType::Graph),
        (!proto.floats.is_empty(), AttributeType::Floats),
        (!proto.ints.is_empty(), AttributeType::Ints),
        (!proto.strings.is_empty(), AttributeType::Strings),
        (!proto.tensors.is_empty(), AttributeType::Tensors),
    ];
    present.into_iter().find(|(there, _)| *there).map_or(AttributeType::Undefined, |(_, kind)| kind)
}

fn refuse(node: &str, name: &str, kind: AttributeType) -> Diagnostic {
    match kind {
        AttributeType::SparseTensor | AttributeType::SparseTensors => {
            bad(node, format!("attribute '{name}' is a sparse tensor, which is not supported"))
                .hint("Export the model with dense tensors")
        }
        AttributeType::Undefined => bad(node, format!("attribute '{name}' has no value")),
        other => bad(node, format!("attribute '{name}' is of kind {}, which is not supported", other.as_str_name())),
    }
}

fn bad(node: &str, cause: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::BadNode, format!("node '{node}': {cause}"))
}

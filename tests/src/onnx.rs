//! Small ONNX models made on the spot.

use byoc_core::onnx::proto::tensor_proto::DataLocation;
use byoc_core::onnx::proto::{StringStringEntryProto, TensorProto, TypeProto, ValueInfoProto, type_proto};
use byoc_core::onnx::write;

pub use byoc_core::onnx::proto::tensor_proto::DataType as Type;
pub use byoc_core::onnx::write::{Model, tensor};

/// A tensor of f32 whose elements lie in another file, from its first byte on.
pub fn external(name: &str, shape: &[i64], location: &str) -> TensorProto {
    external_at(name, shape, location, 0)
}

/// A tensor of f32 whose elements lie in another file, from the byte `offset` on.
pub fn external_at(name: &str, shape: &[i64], location: &str, offset: usize) -> TensorProto {
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: Some(key.to_owned().into()),
        value: Some(value.into()),
    };
    let offset = (offset > 0).then(|| entry("offset", offset.to_string()));
    TensorProto {
        raw_data: None,
        external_data: std::iter::once(entry("location", location.to_owned())).chain(offset).collect(),
        data_location: Some(DataLocation::External as i32),
        ..tensor(name, Type::Float, shape, Vec::new())
    }
}

/// `y = relu(x * w + b)` with an `x` of 2 by 3 and a `w` of 3 by 4 that reaches the audit's least size nowhere.
pub fn small() -> Model {
    let weights: Vec<f32> = (0..12).map(|i| i as f32 / 4.0 - 1.0).collect();
    Model::default()
        .input("x", Type::Float, &[2, 3])
        .weight("w", &[3, 4], &weights)
        .weight("b", &[4], &[0.5, -0.5, 0.25, -0.25])
        .node("MatMul", &["x", "w"], &["product"])
        .node("Add", &["product", "b"], &["sum"])
        .node("Relu", &["sum"], &["y"])
        .output("y", Type::Float, &[2, 4])
}

/// Elements of the weight of [`scale`]: enough bytes for the audit to look for them.
pub const SCALE_WIDTH: i64 = 512;

/// `y = x * w`, element by element.
pub fn scale() -> Model {
    let weights: Vec<f32> = (0..SCALE_WIDTH).map(|i| i as f32 / 64.0 - 4.0).collect();
    Model::default()
        .input("x", Type::Float, &[1, SCALE_WIDTH])
        .weight("w", &[1, SCALE_WIDTH], &weights)
        .node("Mul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, SCALE_WIDTH])
}

/// An input that is a sequence of rows of two `f32`, perhaps in an optional, or an optional row.
pub fn list(name: &str, optional: bool, sequence: bool) -> ValueInfoProto {
    let mut ty = write::value(name, Type::Float, Some(&[2.into()])).r#type;
    let wrap = |ty: Option<TypeProto>, value: fn(Option<Box<TypeProto>>) -> type_proto::Value| {
        Some(TypeProto { value: Some(value(ty.map(Box::new))), ..TypeProto::default() })
    };
    if sequence {
        ty = wrap(ty, |elem_type| type_proto::Value::SequenceType(Box::new(type_proto::Sequence { elem_type })));
    }
    if optional {
        ty = wrap(ty, |elem_type| type_proto::Value::OptionalType(Box::new(type_proto::Optional { elem_type })));
    }
    ValueInfoProto { name: Some(name.into()), r#type: ty, ..ValueInfoProto::default() }
}

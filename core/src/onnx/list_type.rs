//! The types of sequences and optionals, as a model declares them.

use byoc_plugin_api::Dim;

use super::proto::{TensorShapeProto, TypeProto, tensor_shape_proto::dimension::Value as DimValue, type_proto};
use super::tensor as tensors;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{ElementShape, ListType};

/// The type of a sequence or an optional; `None` for a tensor, and where no type is declared. `what` begins the sentence of an
/// error: maps and sparse tensors are not supported in any place.
pub(super) fn read(what: &str, ty: Option<&TypeProto>) -> Result<Option<ListType>> {
    let Some(value) = ty.and_then(|ty| ty.value.as_ref()) else { return Ok(None) };
    match value {
        type_proto::Value::TensorType(_) => Ok(None),
        type_proto::Value::OptionalType(optional) => match read(what, optional.elem_type.as_deref())? {
            Some(list) => Ok(Some(ListType { optional: true, ..list })),
            None => element(what, optional.elem_type.as_deref(), (true, false)),
        },
        type_proto::Value::SequenceType(sequence) => match read(what, sequence.elem_type.as_deref())? {
            Some(list) => Err(refuse(what, &format!("a sequence of {list}"))),
            None => element(what, sequence.elem_type.as_deref(), (false, true)),
        },
        type_proto::Value::MapType(_) => Err(refuse(what, "a map")),
        type_proto::Value::SparseTensorType(_) => Err(refuse(what, "a sparse tensor")),
    }
}

/// The type of an optional that may hold such a tensor.
pub(super) fn tensor(what: &str, ty: Option<&TypeProto>) -> Result<Option<ListType>> {
    if ty.is_none() { Ok(None) } else { element(what, ty, (true, false)) }
}

fn element(what: &str, ty: Option<&TypeProto>, (optional, sequence): (bool, bool)) -> Result<Option<ListType>> {
    let Some(type_proto::Value::TensorType(tensor)) = ty.and_then(|ty| ty.value.as_ref()) else {
        return Err(Diagnostic::new(Code::BadGraph, format!("{what} has no type for its elements")));
    };
    let dtype = tensors::dtype(what, tensor.elem_type.unwrap_or(0))?;
    Ok(Some(ListType { optional, sequence, dtype, shape: shape(tensor.shape.as_ref()) }))
}

/// Sizes that are names may be others in each tensor. No sizes at all is how the `onnx` package writes a shape that is not known here.
fn shape(declared: Option<&TensorShapeProto>) -> ElementShape {
    let size = |dim: &Option<DimValue>| match dim {
        Some(DimValue::DimValue(size)) => usize::try_from(*size).ok().map(Dim::Fixed),
        Some(DimValue::DimParam(_)) | None => None,
    };
    match declared {
        Some(shape) if !shape.dim.is_empty() => {
            ElementShape::Sizes(shape.dim.iter().map(|dim| size(&dim.value)).collect())
        }
        _ => ElementShape::Any,
    }
}

fn refuse(what: &str, kind: &str) -> Diagnostic {
    Diagnostic::new(Code::BadTensor, format!("{what} is {kind}, which is not supported"))
        .hint("Export the model with tensors, or sequences and optionals of them, in its place")
}

//! A tensor of the model file as element type, shape and bytes: a slice of the file where it can be one.

use byoc_plugin_api::{DType, text_block};
use bytes::Bytes;

use super::external::ExternalFiles;
use super::proto::{TensorProto, tensor_proto::DataLocation, tensor_proto::DataType};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ops::cast;

/// A tensor whose bytes are exactly as many as its type and shape say; of strings, the block of its texts
/// ([`byoc_plugin_api::text_block`]).
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Bytes,
}

impl Tensor {
    /// A tensor of texts.
    pub(super) fn of_texts<T: AsRef<str>>(what: &str, shape: Vec<usize>, texts: &[T]) -> Result<Tensor> {
        let block = text_block(texts).ok_or_else(|| bad(what, "its texts have more than 4 GiB"))?;
        Ok(Tensor { dtype: DType::String, shape, bytes: block.into() })
    }

    /// Whether there is no element.
    pub(super) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Type and shape of what is stored of it.
    pub(super) fn stored(&self) -> (DType, Vec<usize>) {
        match self.dtype {
            DType::String => (DType::U8, vec![self.bytes.len()]),
            dtype => (dtype, self.shape.clone()),
        }
    }
}

/// Reads a tensor. `what` names it in messages, such as `tensor 'fc1.weight'`.
pub(super) fn read(what: &str, proto: TensorProto, files: &mut ExternalFiles) -> Result<Tensor> {
    let dtype = dtype(what, proto.data_type.unwrap_or(0))?;
    let shape = shape(what, &proto.dims)?;
    let length = byte_length(what, dtype, &shape)?;
    if proto.segment.is_some() {
        return Err(bad(what, "it is stored in segments, which is not supported"));
    }
    if dtype == DType::String {
        return texts(what, shape, &proto);
    }
    if proto.data_location == Some(DataLocation::External as i32) {
        return Ok(Tensor { dtype, shape, bytes: files.load(what, &proto.external_data, length)? });
    }
    let bytes = match proto.raw_data {
        Some(raw) if !raw.is_empty() || length == 0 => raw,
        _ => typed_bytes(dtype, &proto),
    };
    if bytes.len() != length {
        let cause = format!("{} needs {length} bytes, but the file has {}", describe(dtype, &shape), bytes.len());
        return Err(bad(what, cause));
    }
    Ok(Tensor { dtype, shape, bytes })
}

fn texts(what: &str, shape: Vec<usize>, proto: &TensorProto) -> Result<Tensor> {
    let count = shape.iter().product::<usize>();
    if proto.string_data.len() != count {
        let cause = format!(
            "{} needs {count} texts, but the file has {}",
            describe(DType::String, &shape),
            proto.string_data.len()
        );
        return Err(bad(what, cause));
    }
    let text = |(index, bytes): (usize, &Bytes)| {
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| bad(what, format!("its text {index} is not UTF-8")))
    };
    let texts = proto.string_data.iter().enumerate().map(text).collect::<Result<Vec<_>>>()?;
    Tensor::of_texts(what, shape, &texts)
}

/// Our element type for ONNX's number of it.
pub(super) fn dtype(what: &str, code: i32) -> Result<DType> {
    let unsupported = |name: &str| {
        bad(what, format!("element type {name} is not supported")).hint(format!("byoc takes {}", supported_types()))
    };
    let known = DataType::try_from(code).map_err(|_| unsupported(&code.to_string()))?;
    cast::from_onnx(i64::from(code)).ok_or_else(|| unsupported(known.as_str_name()))
}

/// ONNX's number of our element type.
pub fn to_onnx(dtype: DType) -> i32 {
    cast::to_onnx(dtype) as i32
}

/// ONNX's number for the element type that it calls `name`, such as `FLOAT`.
pub(super) fn onnx_code(name: &str) -> Option<i64> {
    DataType::from_str_name(name).map(|code| i64::from(code as i32))
}

fn supported_types() -> String {
    let names: Vec<_> = DType::all().map(DType::name).collect();
    names.join(", ")
}

/// Dimensions as sizes. Beside the signs it checks that strides over them fit their type, even where one size is 0.
fn shape(what: &str, dims: &[i64]) -> Result<Vec<usize>> {
    let mut shape = Vec::with_capacity(dims.len());
    let mut strides = 1usize;
    for (axis, &dim) in dims.iter().enumerate() {
        let size = usize::try_from(dim).map_err(|_| bad(what, format!("dimension {axis} is {dim}")))?;
        strides = checked_size(strides, size).ok_or_else(|| bad(what, format!("its shape {dims:?} is too large")))?;
        shape.push(size);
    }
    Ok(shape)
}

/// `product * size.max(1)`, if that many bytes of the widest type can be addressed.
pub(super) fn checked_size(product: usize, size: usize) -> Option<usize> {
    product.checked_mul(size.max(1)).filter(|&product| product <= isize::MAX as usize / 16)
}

fn byte_length(what: &str, dtype: DType, shape: &[usize]) -> Result<usize> {
    let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    let length = elements.and_then(|elements| dtype.bytes_for(elements));
    length.ok_or_else(|| bad(what, format!("its shape {shape:?} is too large")))
}

/// The bytes of a tensor that is stored as numbers. Narrow types are in `int32_data`, an element each, or a byte each where
/// elements share bytes; only their low bits count, as in every other reader.
fn typed_bytes(dtype: DType, proto: &TensorProto) -> Bytes {
    fn collect<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Bytes {
        values.iter().flat_map(|&value| bytes(value)).collect::<Vec<u8>>().into()
    }
    match dtype {
        DType::F32 | DType::C64 => collect(&proto.float_data, f32::to_le_bytes),
        DType::F64 | DType::C128 => collect(&proto.double_data, f64::to_le_bytes),
        DType::I64 => collect(&proto.int64_data, i64::to_le_bytes),
        DType::U64 => collect(&proto.uint64_data, u64::to_le_bytes),
        DType::U32 => collect(&proto.uint64_data, |value| (value as u32).to_le_bytes()),
        DType::I32 => collect(&proto.int32_data, i32::to_le_bytes),
        DType::I16 | DType::U16 | DType::F16 | DType::BF16 => {
            collect(&proto.int32_data, |value| (value as u16).to_le_bytes())
        }
        DType::I8 | DType::U8 => collect(&proto.int32_data, |value| [value as u8]),
        DType::Bool => collect(&proto.int32_data, |value| [u8::from(value != 0)]),
        small => {
            debug_assert!(small.is_asked_for());
            collect(&proto.int32_data, |value| [value as u8])
        }
    }
}

fn describe(dtype: DType, shape: &[usize]) -> String {
    let sizes: Vec<_> = shape.iter().map(usize::to_string).collect();
    format!("{dtype}[{}]", sizes.join(","))
}

fn bad(what: &str, cause: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::BadTensor, format!("{what}: {cause}"))
}

//! Files with one tensor, as ONNX's test data has them.

use std::path::Path;

use byoc_plugin_api::DType;
use bytes::Bytes;
use prost::Message;

use super::external::ExternalFiles;
use super::proto::TensorProto;
use super::tensor;
use crate::diagnostic::{Code, Diagnostic, Result};

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileTensor {
    /// Its name; empty where it has none.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// As many bytes as type and shape say; of texts, the block of them ([`byoc_plugin_api::text_block`]).
    pub bytes: Bytes,
}

/// Reads the tensor that the file at `path` is, which has these bytes; what it refers to is beside it.
///
/// Errors with [`Code::BadTensor`] where it is not a tensor, or one of a type that is not supported.
pub fn read_tensor(path: &Path, bytes: Bytes) -> Result<FileTensor> {
    let what = format!("'{}'", path.display());
    let proto = TensorProto::decode(bytes).map_err(|error| {
        let message = format!("{what} is not a tensor of ONNX: {error}");
        Diagnostic::new(Code::BadTensor, message).hint("Is the file complete? Write it again")
    })?;
    let name = proto.name.clone().unwrap_or_default();
    let read = tensor::read(&what, proto, &mut ExternalFiles::beside(path, false))?;
    Ok(FileTensor { name, dtype: read.dtype, shape: read.shape, bytes: read.bytes })
}

#[cfg(test)]
mod tests {
    use super::super::proto::tensor_proto::DataType;
    use super::super::write;
    use super::*;

    #[test]
    fn a_tensor_of_a_file_has_name_type_shape_and_bytes() {
        let bytes = write::tensor("x", DataType::Int16, &[2], vec![1, 0, 2, 0]).encode_to_vec();
        let found = read_tensor(Path::new("x.pb"), bytes.clone().into()).expect("a tensor");
        let expected =
            FileTensor { name: "x".into(), dtype: DType::I16, shape: vec![2], bytes: vec![1, 0, 2, 0].into() };
        assert_eq!(found, expected);
        let typed =
            TensorProto { raw_data: None, int32_data: vec![3, -1], ..write::tensor("", DataType::Int16, &[2], vec![]) };
        let found = read_tensor(Path::new("x.pb"), typed.encode_to_vec().into()).expect("a tensor");
        assert_eq!((found.name.as_str(), &found.bytes[..]), ("", &[3, 0, 255, 255][..]));
        let error = read_tensor(Path::new("x.pb"), bytes[..bytes.len() - 1].to_vec().into()).expect_err("it is cut");
        assert_eq!(error.code, Code::BadTensor);
        assert!(error.message.starts_with("'x.pb' is not a tensor of ONNX: "), "{}", error.message);
        let short = write::tensor("x", DataType::Int16, &[2], vec![1, 0]).encode_to_vec();
        let error = read_tensor(Path::new("x.pb"), short.into()).expect_err("it is short");
        assert_eq!(error.message, "'x.pb': i16[2] needs 4 bytes, but the file has 2");
    }
}

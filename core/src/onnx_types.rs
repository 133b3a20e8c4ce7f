//! ONNX's numbers of element types (`TensorProto.DataType`), which attributes, files of tensors and the C library have.

use byoc_plugin_api::DType;

/// ONNX's numbers of the element types that byoc has.
const CODES: [(i64, DType); 26] = [
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (4, DType::U16),
    (5, DType::I16),
    (6, DType::I32),
    (7, DType::I64),
    (8, DType::String),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (12, DType::U32),
    (13, DType::U64),
    (14, DType::C64),
    (15, DType::C128),
    (16, DType::BF16),
    (17, DType::F8E4M3FN),
    (18, DType::F8E4M3FNUZ),
    (19, DType::F8E5M2),
    (20, DType::F8E5M2FNUZ),
    (21, DType::U4),
    (22, DType::I4),
    (23, DType::F4E2M1),
    (24, DType::F8E8M0),
    (25, DType::U2),
    (26, DType::I2),
];

/// The element type with this number in ONNX (`TensorProto.DataType`), if byoc has it.
pub fn from_onnx(code: i64) -> Option<DType> {
    CODES.iter().find(|row| row.0 == code).map(|row| row.1)
}

/// ONNX's number of an element type.
pub fn to_onnx(dtype: DType) -> i64 {
    CODES.iter().find(|row| row.1 == dtype).map_or(0, |row| row.0)
}

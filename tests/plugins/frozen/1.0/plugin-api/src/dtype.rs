//! Element types of tensors, and how each is called in JSON, in DLPack and in the safetensors layout.

use serde::{Deserialize, Serialize};

use crate::dlpack::DLDataType;

/// The type of a tensor's elements. Its JSON name is the lower-case Rust name (`"f32"`, `"bool"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "each variant is named after the Rust or ONNX type it stands for")]
pub enum DType {
    F32,
    F64,
    F16,
    BF16,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    /// One byte an element, 0 or 1.
    Bool,
}

/// One row a type: name, DLPack code and bits, safetensors name. The only such list.
const TABLE: [(DType, &str, u8, u8, &str); 13] = [
    (DType::F32, "f32", 2, 32, "F32"),
    (DType::F64, "f64", 2, 64, "F64"),
    (DType::F16, "f16", 2, 16, "F16"),
    (DType::BF16, "bf16", 4, 16, "BF16"),
    (DType::I8, "i8", 0, 8, "I8"),
    (DType::I16, "i16", 0, 16, "I16"),
    (DType::I32, "i32", 0, 32, "I32"),
    (DType::I64, "i64", 0, 64, "I64"),
    (DType::U8, "u8", 1, 8, "U8"),
    (DType::U16, "u16", 1, 16, "U16"),
    (DType::U32, "u32", 1, 32, "U32"),
    (DType::U64, "u64", 1, 64, "U64"),
    (DType::Bool, "bool", 6, 8, "BOOL"),
];

impl DType {
    /// Every type there is.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (DType, &'static str, u8, u8, &'static str) {
        &TABLE[self as usize]
    }

    /// The name in JSON, messages and the command line, such as `f32`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes an element.
    pub fn size(self) -> usize {
        usize::from(self.row().3) / 8
    }

    /// The name in a safetensors header, such as `F32`.
    pub fn safetensors_name(self) -> &'static str {
        self.row().4
    }

    /// The type that a safetensors header calls `name`.
    pub fn from_safetensors_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.4 == name).map(|row| row.0)
    }

    /// The type's DLPack code.
    pub fn to_dlpack(self) -> DLDataType {
        let (_, _, code, bits, _) = *self.row();
        DLDataType { code, bits, lanes: 1 }
    }

    /// The type with this DLPack code, if it is one of ours.
    pub fn from_dlpack(code: DLDataType) -> Option<DType> {
        TABLE.iter().find(|row| (row.2, row.3) == (code.code, code.bits) && code.lanes == 1).map(|row| row.0)
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is the in-memory form of one [`DType`]. Sealed: the list is the table's.
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The element type whose bytes this type holds.
    const DTYPE: DType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(impl sealed::Sealed for $rust {} impl Element for $rust { const DTYPE: DType = DType::$dtype; })*
    };
}
// `bool` is left out: a byte from a file may hold something other than 0 or 1, so its element type is `u8`-like `Bool8`.
elements!(f32 => F32, f64 => F64, half::f16 => F16, half::bf16 => BF16, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
          u8 => U8, u16 => U16, u32 => U32, u64 => U64, Bool8 => Bool);

/// A boolean element: any byte is valid, zero is false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Bool8(pub u8);

impl Bool8 {
    /// Whether the element is true.
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool8 {
    fn from(value: bool) -> Self {
        Bool8(u8::from(value))
    }
}

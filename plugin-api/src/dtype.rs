//! Element types of tensors, and how each is called in JSON, in DLPack and in the safetensors layout.

use serde::{Deserialize, Serialize};

use crate::dlpack::DLDataType;

/// The type of a tensor's elements. Its JSON name is the lower-case Rust name (`"f32"`, `"bool"`).
///
/// Elements of types of less than 8 bits share bytes as in ONNX: the first one is in the lowest bits, what is left of the last
/// byte is zero, and no dimension begins at a byte of its own. Floats of 8 bits and less are named after their bits for
/// exponent and mantissa as in ONNX: `FN` has no infinities, `UZ` no negative zero, which stands for NaN there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "each variant is named after the Rust or ONNX type it stands for")]
#[non_exhaustive]
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
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    /// A power of two: no sign, no mantissa, and 255 is NaN.
    F8E8M0,
    /// 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with a sign: neither NaN nor infinity.
    F4E2M1,
    I4,
    U4,
    I2,
    U2,
    /// Two `f32`: the real part and the imaginary one.
    C64,
    /// Two `f64`.
    C128,
    /// A text, by a handle of 64 bits that stands for it ([`Texts`](crate::Texts)); 0 is the empty one.
    String,
}

/// How many types there were when the ABI was frozen: the first ones. A backend that does not name others in
/// [`Description::types`](crate::Description::types) knows no more.
const FROZEN: usize = 13;

/// One row a type: name, DLPack code and bits, and the name in safetensors, where it has one. The only such list.
const TABLE: [(DType, &str, u8, u8, Option<&str>); 26] = [
    (DType::F32, "f32", 2, 32, Some("F32")),
    (DType::F64, "f64", 2, 64, Some("F64")),
    (DType::F16, "f16", 2, 16, Some("F16")),
    (DType::BF16, "bf16", 4, 16, Some("BF16")),
    (DType::I8, "i8", 0, 8, Some("I8")),
    (DType::I16, "i16", 0, 16, Some("I16")),
    (DType::I32, "i32", 0, 32, Some("I32")),
    (DType::I64, "i64", 0, 64, Some("I64")),
    (DType::U8, "u8", 1, 8, Some("U8")),
    (DType::U16, "u16", 1, 16, Some("U16")),
    (DType::U32, "u32", 1, 32, Some("U32")),
    (DType::U64, "u64", 1, 64, Some("U64")),
    (DType::Bool, "bool", 6, 8, Some("BOOL")),
    (DType::F8E4M3FN, "f8e4m3fn", 10, 8, Some("F8_E4M3")),
    (DType::F8E4M3FNUZ, "f8e4m3fnuz", 11, 8, None),
    (DType::F8E5M2, "f8e5m2", 12, 8, Some("F8_E5M2")),
    (DType::F8E5M2FNUZ, "f8e5m2fnuz", 13, 8, None),
    (DType::F8E8M0, "f8e8m0", 14, 8, Some("F8_E8M0")),
    (DType::F4E2M1, "f4e2m1", 17, 4, Some("F4")),
    (DType::I4, "i4", 0, 4, None),
    (DType::U4, "u4", 1, 4, None),
    (DType::I2, "i2", 0, 2, None),
    (DType::U2, "u2", 1, 2, None),
    (DType::C64, "c64", 5, 64, None),
    (DType::C128, "c128", 5, 128, None),
    // To DLPack a handle is opaque.
    (DType::String, "string", 3, 64, None),
];

impl DType {
    /// Every type there is.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    /// The types that every backend may be given.
    pub fn frozen() -> impl Iterator<Item = DType> {
        DType::all().take(FROZEN)
    }

    /// Whether a backend is given the type only if it says that it knows it.
    pub fn is_asked_for(self) -> bool {
        self as usize >= FROZEN
    }

    fn row(self) -> &'static (DType, &'static str, u8, u8, Option<&'static str>) {
        &TABLE[self as usize]
    }

    /// The name in JSON, messages and the command line, such as `f32`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Bits an element.
    pub fn bits(self) -> usize {
        self.row().3.into()
    }

    /// Whether several elements share a byte.
    pub fn shares_bytes(self) -> bool {
        self.bits() < 8
    }

    /// Bytes an element; `None` where several share one.
    pub fn element_bytes(self) -> Option<usize> {
        (!self.shares_bytes()).then(|| self.bits() / 8)
    }

    /// Bytes of an element that has them for itself, as in [`DType::unpack`].
    pub fn unpacked_bytes(self) -> usize {
        self.bits().div_ceil(8)
    }

    /// Bytes of so many elements that lie one after another, unless that is more than can be counted.
    pub fn bytes_for(self, elements: usize) -> Option<usize> {
        // Eight elements are always whole bytes.
        let (eights, rest) = (elements / 8, elements % 8);
        eights.checked_mul(self.bits())?.checked_add((rest * self.bits()).div_ceil(8))
    }

    /// Bytes of a tensor of these sizes, unless that is more than can be counted.
    pub fn bytes_of(self, shape: &[usize]) -> Option<usize> {
        // Beside a size of 0 the product of the others may be more than can be counted.
        match shape.contains(&0) {
            true => Some(0),
            false => self.bytes_for(shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?),
        }
    }

    /// The elements of a tensor in bytes of their own, in the low bits: what `packed` holds `elements` of. Those of types of
    /// whole bytes stay as they are. `None` where the bytes are too few.
    pub fn unpack(self, packed: &[u8], elements: usize) -> Option<Vec<u8>> {
        let packed = packed.get(..self.bytes_for(elements)?)?;
        if !self.shares_bytes() {
            return Some(packed.to_vec());
        }
        let (bits, mask) = (self.bits(), (1u8 << self.bits()) - 1);
        let split = |&byte: &u8| (0..8).step_by(bits).map(move |shift| byte >> shift & mask);
        Some(packed.iter().flat_map(split).take(elements).collect())
    }

    /// The inverse of [`DType::unpack`]: of each byte the low bits count.
    pub fn pack(self, elements: &[u8]) -> Vec<u8> {
        if !self.shares_bytes() {
            return elements.to_vec();
        }
        let (bits, mask) = (self.bits(), (1u8 << self.bits()) - 1);
        let join = |byte: &[u8]| byte.iter().rev().fold(0, |byte, element| byte << bits | element & mask);
        elements.chunks(8 / bits).map(join).collect()
    }

    /// The name in a safetensors header, such as `F32`; `None` for a type that the format does not have.
    pub fn safetensors_name(self) -> Option<&'static str> {
        self.row().4
    }

    /// The type that a safetensors header calls `name`.
    pub fn from_safetensors_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.4 == Some(name)).map(|row| row.0)
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

    /// Whether this is a floating-point type that one calculates in: of 16 bits or more.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
    }

    /// Whether this is a floating-point type of 8 bits or less, in which values are stored and not calculated.
    pub fn is_small_float(self) -> bool {
        use DType::{F4E2M1, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0};
        matches!(self, F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0 | F4E2M1)
    }

    /// Whether an element is a number of one part, so not a complex one and no text.
    pub fn is_number(self) -> bool {
        !matches!(self, DType::C64 | DType::C128 | DType::String)
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
          u8 => U8, u16 => U16, u32 => U32, u64 => U64, Bool8 => Bool, Complex<f32> => C64, Complex<f64> => C128,
          Handle => String);

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

/// What stands for a text ([`Texts`](crate::Texts)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(pub u64);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_stand_in_the_order_of_the_variants() {
        for dtype in DType::all() {
            assert_eq!(dtype.row().0, dtype);
            assert_eq!(DType::from_dlpack(dtype.to_dlpack()), Some(dtype));
            if let Some(name) = dtype.safetensors_name() {
                assert_eq!(DType::from_safetensors_name(name), Some(dtype));
            }
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            assert_eq!(serde_json::to_string(&dtype).expect("json"), format!("\"{}\"", dtype.name()));
        }
    }

    #[test]
    fn elements_share_bytes_from_the_low_bits_on() {
        let cases: [(DType, &[u8], &[u8]); 4] = [
            (DType::I4, &[1, 15, 8], &[0xf1, 0x08]),
            (DType::U2, &[3, 0, 1, 2, 1], &[0b1001_0011, 1]),
            (DType::F4E2M1, &[0, 7], &[0x70]),
            (DType::F8E5M2, &[1, 255], &[1, 255]),
        ];
        for (dtype, elements, packed) in cases {
            assert_eq!(dtype.pack(elements), packed, "{dtype}");
            assert_eq!(dtype.unpack(packed, elements.len()).as_deref(), Some(elements), "{dtype}");
            assert_eq!(dtype.bytes_for(elements.len()), Some(packed.len()), "{dtype}");
            assert_eq!(dtype.unpack(packed, 8 * packed.len() + 1), None, "{dtype}");
        }
        // Only the low bits of an element count.
        assert_eq!(DType::I4.pack(&[0xff, 0xf3]), [0x3f]);
    }

    #[test]
    fn bytes_are_counted_as_far_as_they_can_be() {
        assert_eq!(
            (DType::U2.bytes_for(0), DType::U2.bytes_for(4), DType::U2.bytes_for(5)),
            (Some(0), Some(1), Some(2))
        );
        assert_eq!(DType::F64.bytes_for(usize::MAX / 8), Some(usize::MAX / 8 * 8));
        assert_eq!(DType::F64.bytes_for(usize::MAX / 8 + 1), None);
        assert_eq!(DType::I4.bytes_for(usize::MAX), Some(usize::MAX / 2 + 1));
        assert_eq!(DType::I4.bytes_of(&[3, 3]), Some(5));
        assert_eq!((DType::F32.bytes_of(&[usize::MAX, 0, 9]), DType::F32.bytes_of(&[usize::MAX, 2])), (Some(0), None));
        assert_eq!((DType::I4.element_bytes(), DType::F8E8M0.element_bytes()), (None, Some(1)));
    }

    #[test]
    fn the_types_of_the_frozen_interface_are_the_first_ones() {
        let names: Vec<_> = DType::frozen().map(DType::name).collect();
        assert_eq!(names.join(" "), "f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool");
        assert!(DType::all().skip(13).all(DType::is_asked_for) && !DType::frozen().any(DType::is_asked_for));
    }
}

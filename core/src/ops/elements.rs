//! Known elements of small tensors: how sizes travel through `Shape`, `Gather`, `Concat` and arithmetic to the
//! operator whose output they shape. What is computed here is exact, so that it may also replace the node.

use byoc_plugin_api::{DType, Dim};
use half::{bf16, f16};

use crate::constants::View;
use crate::dim::{DimError, Expr};
use crate::ir::TensorType;

/// Tensors with more elements than this are not followed.
pub const ELEMENT_LIMIT: usize = 4096;

/// Whole numbers up to this one are exact in `f64`.
const EXACT: u64 = 1 << 53;

/// One known element. Booleans are 0 and 1; a float without a fraction is `Int` as well.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A whole number, or a symbolic size.
    Int(Expr),
    /// A float that is not a whole number.
    Float(f64),
}

impl Scalar {
    /// The whole number or symbolic size.
    pub fn int(&self) -> Option<&Expr> {
        match self {
            Scalar::Int(expr) => Some(expr),
            Scalar::Float(_) => None,
        }
    }

    /// The number, if it is a whole one and not symbolic.
    pub fn as_i64(&self) -> Option<i64> {
        self.int().and_then(Expr::as_constant)
    }

    /// The number, if it is not symbolic.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Scalar::Int(expr) => expr.as_constant().map(|value| value as f64),
            Scalar::Float(value) => Some(*value),
        }
    }

    /// A float: `Int` where it has no fraction and its integer is exact. `None` for what is not a finite number, and for
    /// minus zero, which no integer tells from zero.
    pub fn from_f64(value: f64) -> Option<Scalar> {
        if !value.is_finite() || (value == 0.0 && value.is_sign_negative()) {
            None
        } else if value.fract() == 0.0 {
            (value.abs() <= EXACT as f64).then(|| Scalar::Int(Expr::from(value as i64)))
        } else {
            Some(Scalar::Float(value))
        }
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Scalar::Int(Expr::from(value))
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Scalar::from(i64::from(value))
    }
}

/// A scalar as an element of `dtype`: rounded as that type rounds. `None` where the type cannot hold it, or where a
/// symbolic size would have to be rounded or wrapped.
pub(super) fn round_to(value: Scalar, dtype: DType) -> Option<Scalar> {
    let symbolic = value.int().is_some_and(|expr| expr.as_constant().is_none());
    match dtype {
        // A size beyond what the type holds exactly is not a size that a model meets.
        DType::F32 | DType::F64 | DType::I32 | DType::I64 if symbolic => Some(value),
        _ if symbolic => None,
        DType::F32 => Scalar::from_f64(f64::from(value.as_f64()? as f32)),
        DType::F64 => match value.as_i64() {
            Some(int) if int.unsigned_abs() > EXACT => None,
            _ => Some(value),
        },
        DType::F16 => Scalar::from_f64(f16::from_f64(value.as_f64()?).to_f64()),
        DType::BF16 => Scalar::from_f64(bf16::from_f64(value.as_f64()?).to_f64()),
        _ => {
            let (low, high) = integer_range(dtype)?;
            value.as_i64().filter(|int| (low..=high).contains(int)).map(Scalar::from)
        }
    }
}

/// Least and greatest value of an integer type, as far as `i64` goes.
fn integer_range(dtype: DType) -> Option<(i64, i64)> {
    Some(match dtype {
        DType::Bool => (0, 1),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::U64 => (0, i64::MAX),
        // No size and no index has one of the other types.
        _ => return None,
    })
}

/// The elements in `bytes`, little-endian. `None` where one of them is not a finite number or does not fit, and for types that
/// Rust has not.
pub fn read(dtype: DType, bytes: &[u8]) -> Option<Vec<Scalar>> {
    bytes.chunks_exact(dtype.unpacked_bytes()).map(|chunk| read_one(dtype, chunk)).collect()
}

fn read_one(dtype: DType, chunk: &[u8]) -> Option<Scalar> {
    let int = match dtype {
        DType::I64 => i64::from_le_bytes(chunk.try_into().ok()?),
        DType::U64 => i64::try_from(u64::from_le_bytes(chunk.try_into().ok()?)).ok()?,
        DType::I32 => i32::from_le_bytes(chunk.try_into().ok()?).into(),
        DType::U32 => u32::from_le_bytes(chunk.try_into().ok()?).into(),
        DType::I16 => i16::from_le_bytes(chunk.try_into().ok()?).into(),
        DType::U16 => u16::from_le_bytes(chunk.try_into().ok()?).into(),
        DType::I8 => i8::from_le_bytes(chunk.try_into().ok()?).into(),
        DType::U8 => chunk.first().copied()?.into(),
        DType::Bool => i64::from(chunk.first().copied()? != 0),
        DType::F32 => return Scalar::from_f64(f32::from_le_bytes(chunk.try_into().ok()?).into()),
        DType::F64 => return Scalar::from_f64(f64::from_le_bytes(chunk.try_into().ok()?)),
        DType::F16 => return Scalar::from_f64(f16::from_le_bytes(chunk.try_into().ok()?).into()),
        DType::BF16 => return Scalar::from_f64(bf16::from_le_bytes(chunk.try_into().ok()?).into()),
        _ => return None,
    };
    Some(Scalar::from(int))
}

/// The elements as little-endian bytes, if none is symbolic: what a constant in their place holds. No constant holds texts, not even
/// none of them.
pub fn to_bytes(dtype: DType, values: &[Scalar]) -> Option<Vec<u8>> {
    if dtype == DType::String {
        return None;
    }
    let mut bytes = Vec::with_capacity(dtype.bytes_for(values.len())?);
    for value in values {
        let int = || value.as_i64();
        match dtype {
            DType::F32 => bytes.extend((value.as_f64()? as f32).to_le_bytes()),
            DType::F64 => bytes.extend(value.as_f64()?.to_le_bytes()),
            DType::F16 => bytes.extend(f16::from_f64(value.as_f64()?).to_le_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f64(value.as_f64()?).to_le_bytes()),
            _ => {
                let (low, high) = integer_range(dtype)?;
                let int = int().filter(|int| (low..=high).contains(int))?;
                // Two's complement, so the low bytes are the narrower type's.
                bytes.extend(&int.to_le_bytes()[..dtype.unpacked_bytes()]);
            }
        }
    }
    Some(bytes)
}

/// Whether the elements may stand for a tensor of that type: as many as its shape says, not too many, each in range.
pub(super) fn fit(values: &[Scalar], ty: &TensorType) -> bool {
    count(&ty.shape) == Some(values.len())
        && values.iter().all(|value| round_to(value.clone(), ty.dtype).as_ref() == Some(value))
}

/// The number of elements of a shape that is fixed and small enough to be followed.
pub(super) fn count(shape: &[Dim]) -> Option<usize> {
    let product = shape.iter().try_fold(1usize, |product, dim| product.checked_mul(dim.fixed()?));
    product.filter(|&count| count <= ELEMENT_LIMIT)
}

/// The sizes of a small fixed shape. Strides over them cannot overflow, also beside a size of 0.
pub(super) fn fixed(shape: &[Dim]) -> Option<Vec<usize>> {
    count(shape)?;
    let strides = shape.iter().try_fold(1i32, |product, dim| product.checked_mul(dim.fixed()?.max(1).try_into().ok()?));
    strides.and_then(|_| shape.iter().map(Dim::fixed).collect())
}

/// The elements that `view` shows of row-major `values`.
pub(super) fn through(view: &View, values: &[Scalar]) -> Option<Vec<Scalar>> {
    let count = view.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
    if count > ELEMENT_LIMIT {
        return None;
    }
    let place = |mut index: usize| {
        let mut offset = view.offset as i64;
        for (&size, &stride) in view.shape.iter().zip(&view.strides).rev() {
            offset += (index % size) as i64 * stride;
            index /= size;
        }
        values.get(usize::try_from(offset).ok()?).cloned()
    };
    (0..count).map(place).collect()
}

/// The elements of a tensor of `shape` repeated as broadcasting to `to` does.
pub(super) fn broadcast(values: &[Scalar], shape: &[Dim], to: &[Dim]) -> Option<Vec<Scalar>> {
    through(&View::contiguous(&fixed(shape)?).broadcast(&fixed(to)?)?, values)
}

/// A calculation with whole numbers, or none: an overflow makes an element unknown, it is not an error.
pub(super) fn checked_int(result: std::result::Result<Expr, DimError>) -> Option<Scalar> {
    result.ok().map(Scalar::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_reading_and_writing() {
        let cases: [(DType, Vec<u8>); 8] = [
            (DType::I64, [-1i64, i64::MAX].iter().flat_map(|value| value.to_le_bytes()).collect()),
            (DType::I32, [-1i32, i32::MIN].iter().flat_map(|value| value.to_le_bytes()).collect()),
            (DType::I8, vec![0x80, 0x7f]),
            (DType::U16, vec![0xff, 0xff]),
            (DType::Bool, vec![1, 0]),
            (DType::F32, [0.1f32, -3.0].iter().flat_map(|value| value.to_le_bytes()).collect()),
            (DType::F64, [0.1f64, 1e15].iter().flat_map(|value| value.to_le_bytes()).collect()),
            (DType::F16, f16::from_f32(0.1).to_le_bytes().to_vec()),
        ];
        for (dtype, bytes) in cases {
            let values = read(dtype, &bytes).unwrap_or_else(|| panic!("{dtype}"));
            assert_eq!(to_bytes(dtype, &values), Some(bytes), "{dtype}");
        }
    }

    #[test]
    fn what_is_not_exact_is_not_known() {
        for value in [f32::NAN, f32::INFINITY, -0.0, 1e30] {
            assert_eq!(read(DType::F32, &value.to_le_bytes()), None, "{value}");
        }
        assert_eq!(read(DType::U64, &u64::MAX.to_le_bytes()), None);
        assert_eq!(to_bytes(DType::I8, &[Scalar::from(128)]), None);
        assert_eq!(to_bytes(DType::I64, &[Scalar::Int(Expr::symbol("batch"))]), None);
        assert_eq!(round_to(Scalar::Float(0.1), DType::F32), Some(Scalar::Float(f64::from(0.1f32))));
        assert_eq!(round_to(Scalar::from(i64::MAX), DType::F64), None);
        assert_eq!(round_to(Scalar::from(300), DType::U8), None);
    }

    #[test]
    fn shapes_too_large_to_follow_are_left_alone() {
        assert_eq!(fixed(&[Dim::Fixed(0), Dim::Fixed(1 << 40), Dim::Fixed(1 << 40)]), None);
        assert_eq!(fixed(&[Dim::Fixed(ELEMENT_LIMIT + 1)]), None);
        assert_eq!(fixed(&[Dim::Fixed(0), Dim::Fixed(3)]), Some(vec![0, 3]));
    }
}

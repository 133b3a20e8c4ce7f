//! An owned tensor, and its elements.

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::memory::{self, Shortage};
use byoc_plugin_api::{DType, TensorView, contiguous_strides, small};
use half::{bf16, f16};

/// A row-major tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<i64>,
    strides: Vec<i64>,
    bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor over `bytes`, little-endian. `None` when shape and bytes do not agree.
    pub fn new(dtype: DType, shape: Vec<i64>, bytes: Vec<u8>) -> Option<Tensor> {
        (byte_length(dtype, &shape) == Some(bytes.len())).then(|| {
            let strides = contiguous_strides(&shape);
            Tensor { dtype, shape, strides, bytes }
        })
    }

    /// A copy of what the view shows. An error where there is no memory for it.
    pub fn copy(view: &TensorView<'_>) -> std::result::Result<Tensor, Shortage> {
        let mut bytes = memory::room(view.byte_len())?;
        match view.as_bytes() {
            Some(contiguous) => bytes.extend_from_slice(contiguous),
            None => view.for_each_element(|element| bytes.extend_from_slice(element)),
        }
        let shape = view.shape().to_vec();
        Ok(Tensor { dtype: view.dtype(), strides: contiguous_strides(&shape), shape, bytes })
    }

    /// The tensor as a run takes it.
    pub fn view(&self) -> Result<TensorView<'_>> {
        TensorView::from_bytes(&self.bytes, self.dtype, &self.shape, &self.strides)
            .map_err(|error| Diagnostic::new(Code::BadInput, error.message))
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Size of each dimension.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The bytes, row-major and little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The elements in row-major order.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = Number> {
        let (bits, size) = (self.dtype.bits(), self.dtype.unpacked_bytes());
        let elements = self.shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).product();
        (0..elements).map(move |index| match self.dtype.shares_bytes() {
            true => Number::read(self.dtype, &[self.bytes[index * bits / 8] >> (index * bits % 8)]),
            false => Number::read(self.dtype, &self.bytes[index * size..][..size]),
        })
    }

    /// Shows the nearest `f64` of each element to `see`, in row-major order: fast, for outputs may be large.
    pub fn each_value(&self, mut see: impl FnMut(f64)) {
        fn each<const SIZE: usize>(bytes: &[u8], see: impl FnMut([u8; SIZE])) {
            bytes.as_chunks().0.iter().copied().for_each(see);
        }
        let bytes = &self.bytes;
        match self.dtype {
            DType::F32 => each(bytes, |bits| see(f32::from_le_bytes(bits).into())),
            DType::F64 => each(bytes, |bits| see(f64::from_le_bytes(bits))),
            DType::I64 => each(bytes, |bits| see(i64::from_le_bytes(bits) as f64)),
            DType::I32 => each(bytes, |bits| see(i32::from_le_bytes(bits).into())),
            DType::U8 => each(bytes, |[bits]| see(bits.into())),
            _ => self.numbers().for_each(|number| see(number.value())),
        }
    }

    /// Where element `index` of the row-major order is, such as `[0,281]`.
    pub fn position(&self, index: usize) -> Vec<usize> {
        let mut rest = index;
        let mut position: Vec<_> = self
            .shape
            .iter()
            .rev()
            .map(|&size| {
                let size = usize::try_from(size).unwrap_or(1).max(1);
                let at = rest % size;
                rest /= size;
                at
            })
            .collect();
        position.reverse();
        position
    }
}

/// The bytes of a tensor; `None` when that is more than fits in memory.
pub fn byte_length(dtype: DType, shape: &[i64]) -> Option<usize> {
    let sizes: Option<Vec<usize>> = shape.iter().map(|&size| usize::try_from(size).ok()).collect();
    dtype.bytes_of(&sizes?)
}

/// One element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of `f32`, or a float of less bits.
    Single(f32),
    /// Of `f64`.
    Double(f64),
    /// Of an integer type.
    Int(i128),
    /// Of `bool`.
    Bool(bool),
}

impl Number {
    fn read(dtype: DType, bytes: &[u8]) -> Number {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        match dtype {
            DType::F32 => Number::Single(f32::from_bits(bits as u32)),
            DType::F64 => Number::Double(f64::from_bits(bits)),
            DType::F16 => Number::Single(f16::from_bits(bits as u16).to_f32()),
            DType::BF16 => Number::Single(bf16::from_bits(bits as u16).to_f32()),
            DType::I8 => Number::Int((bits as i8).into()),
            DType::I16 => Number::Int((bits as i16).into()),
            DType::I32 => Number::Int((bits as i32).into()),
            DType::I64 => Number::Int((bits as i64).into()),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Number::Int(bits.into()),
            DType::Bool => Number::Bool(bits != 0),
            small => {
                let number = small::decode(small, bytes[0]).unwrap_or(f64::NAN);
                if small.is_small_float() { Number::Single(number as f32) } else { Number::Int(number as i128) }
            }
        }
    }

    /// The nearest `f64`.
    pub fn value(self) -> f64 {
        match self {
            Number::Single(value) => value.into(),
            Number::Double(value) => value,
            Number::Int(value) => value as f64,
            Number::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// The number in JSON; `null` where it is not finite, for JSON has no such numbers.
    pub fn json(self) -> serde_json::Value {
        match self {
            Number::Bool(value) => value.into(),
            Number::Int(value) => i64::try_from(value).map(Into::into).unwrap_or_else(|_| (value as u64).into()),
            Number::Single(_) | Number::Double(_) => self.value().into(),
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Single(_) | Number::Double(_) => f.write_str(&crate::text::short(self.value())),
            Number::Int(value) => value.fmt(f),
            Number::Bool(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_its_own_bytes() {
        let cases: [(DType, &[u8], &str); 13] = [
            (DType::F8E4M3FN, &[0x7e], "448"),
            (DType::F8E8M0, &[0x80], "2"),
            (DType::F8E5M2FNUZ, &[0x41], "1.25"),
            (DType::F32, &[0, 0, 128, 63], "1"),
            (DType::I32, &[253, 255, 255, 255], "-3"),
            (DType::F64, &[0, 0, 0, 0, 0, 0, 0, 192], "-2"),
            (DType::F16, &[0, 0x3e], "1.5"),
            (DType::BF16, &[0x80, 0xbf], "-1"),
            (DType::I8, &[255], "-1"),
            (DType::I64, &[254, 255, 255, 255, 255, 255, 255, 255], "-2"),
            (DType::U64, &[255; 8], "18446744073709551615"),
            (DType::U8, &[255], "255"),
            (DType::Bool, &[2], "true"),
        ];
        for (dtype, bytes, text) in cases {
            assert_eq!(Number::read(dtype, bytes).to_string(), text, "{dtype}");
            let tensor = Tensor::new(dtype, vec![2], bytes.repeat(2)).expect("two elements");
            let mut seen = Vec::new();
            tensor.each_value(|value| seen.push(value));
            assert_eq!(seen, [Number::read(dtype, bytes).value(); 2], "{dtype}");
        }
    }

    #[test]
    fn shape_and_bytes_must_agree() {
        assert!(Tensor::new(DType::F32, vec![], vec![0; 4]).is_some());
        assert!(Tensor::new(DType::F32, vec![2, 0], vec![]).is_some());
        assert!(Tensor::new(DType::F32, vec![2], vec![0; 4]).is_none());
        assert!(Tensor::new(DType::F32, vec![-1], vec![]).is_none());
        assert!(Tensor::new(DType::F32, vec![i64::MAX, i64::MAX], vec![]).is_none());
    }

    #[test]
    fn elements_that_share_bytes_are_read_from_the_low_bits_on() {
        let tensor = Tensor::new(DType::I4, vec![3], vec![0x7f, 0x08]).expect("three elements");
        assert_eq!(tensor.numbers().map(Number::value).collect::<Vec<_>>(), [-1.0, 7.0, -8.0]);
        assert!(Tensor::new(DType::I4, vec![3], vec![0; 3]).is_none());
    }

    #[test]
    fn positions_are_row_major() {
        let tensor = Tensor::new(DType::U8, vec![2, 3], vec![0; 6]).expect("a tensor");
        assert_eq!(tensor.position(5), [1, 2]);
        assert_eq!(tensor.position(3), [1, 0]);
    }
}

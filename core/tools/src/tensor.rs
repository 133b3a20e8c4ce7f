//! An owned tensor, and its elements.

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::memory::{self, Shortage};
use byoc_plugin_api::{DType, TensorView, contiguous_strides, small, text_block, texts_of_block};
use half::{bf16, f16};

/// A row-major tensor; of strings with a block of its texts in the place of handles ([`byoc_plugin_api::text_block`]).
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
        let fits = match dtype {
            DType::String => texts_of_block(&bytes).is_ok_and(|texts| element_count(&shape) == Some(texts.len())),
            dtype => byte_length(dtype, &shape) == Some(bytes.len()),
        };
        fits.then(|| {
            let strides = contiguous_strides(&shape);
            Tensor { dtype, shape, strides, bytes }
        })
    }

    /// A tensor of texts. `None` when the shape does not count them.
    pub fn of_texts<T: AsRef<str>>(shape: Vec<i64>, texts: &[T]) -> Option<Tensor> {
        Tensor::new(DType::String, shape, text_block(texts)?)
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

    /// The tensor as a run takes it, but one of texts ([`Tensor::with_handles`]).
    pub fn view(&self) -> Result<TensorView<'_>> {
        match self.dtype {
            DType::String => Err(Diagnostic::new(Code::BadInput, "a tensor of texts belongs to no session yet")),
            _ => self.with_bytes(&self.bytes),
        }
    }

    /// A tensor of texts as a run takes it: with a handle for each of them, in their bytes.
    pub fn with_handles<'a>(&'a self, handles: &'a [u8]) -> Result<TensorView<'a>> {
        self.with_bytes(handles)
    }

    fn with_bytes<'a>(&'a self, bytes: &'a [u8]) -> Result<TensorView<'a>> {
        TensorView::from_bytes(bytes, self.dtype, &self.shape, &self.strides)
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

    /// The texts of a tensor of strings, in row-major order; none of another one.
    pub fn texts(&self) -> Vec<&str> {
        let texts = (self.dtype == DType::String).then(|| texts_of_block(&self.bytes).unwrap_or_default());
        texts.unwrap_or_default()
    }

    /// How many numbers an element is, and of which type they are.
    fn parts(&self) -> (usize, DType) {
        match self.dtype {
            DType::C64 => (2, DType::F32),
            DType::C128 => (2, DType::F64),
            DType::String => (0, DType::U8),
            dtype => (1, dtype),
        }
    }

    /// The elements in row-major order; of complex ones the real and the imaginary part, of texts nothing.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = Number> {
        let (parts, dtype) = self.parts();
        let (bits, size) = (dtype.bits(), dtype.unpacked_bytes());
        let elements = element_count(&self.shape).unwrap_or(0) * parts;
        (0..elements).map(move |index| match dtype.shares_bytes() {
            true => Number::read(dtype, &[self.bytes[index * bits / 8] >> (index * bits % 8)]),
            false => Number::read(dtype, &self.bytes[index * size..][..size]),
        })
    }

    /// The first elements, as text and in JSON: complex ones as `1+2i` and as pairs, texts in quotation marks.
    pub fn first(&self, count: usize) -> Vec<(String, serde_json::Value)> {
        if self.dtype == DType::String {
            let text = |text: &str| (format!("{text:?}"), text.into());
            return self.texts().into_iter().take(count).map(text).collect();
        }
        let numbers: Vec<_> = self.numbers().take(count * self.parts().0).collect();
        let complex = |pair: &[Number]| match pair {
            [re, im] => {
                let sign = if im.value().is_sign_negative() { "" } else { "+" };
                (format!("{re}{sign}{im}i"), vec![re.json(), im.json()].into())
            }
            [number, ..] => (number.to_string(), number.json()),
            [] => Default::default(),
        };
        numbers.chunks(self.parts().0).map(complex).collect()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        element_count(&self.shape).unwrap_or(0)
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

    /// Where number `index` of [`Tensor::numbers`], or that text, is: such as `[0,281]`.
    pub fn position(&self, index: usize) -> Vec<usize> {
        let mut rest = index / self.parts().0.max(1);
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

fn element_count(shape: &[i64]) -> Option<usize> {
    let sizes: Option<Vec<usize>> = shape.iter().map(|&size| usize::try_from(size).ok()).collect();
    let sizes = sizes?;
    if sizes.contains(&0) { Some(0) } else { sizes.iter().try_fold(1usize, |count, &size| count.checked_mul(size)) }
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

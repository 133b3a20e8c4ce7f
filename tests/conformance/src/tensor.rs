//! Tensors as plain bytes, and how two of them are compared.

use byoc_plugin_api::{DType, Handle, TensorView, contiguous_strides, small, text_block, texts_of_block};
use half::{bf16, f16};

/// A row-major tensor; of strings with a block of its texts in the place of handles.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<i64>,
    /// The elements.
    pub bytes: Vec<u8>,
}

/// What difference is allowed: `|a - b| <= absolute + relative * |b|`, where `b` is the expected value. Integers and
/// booleans must be equal.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// In proportion to the expected value.
    pub relative: f64,
    /// In the values' own unit.
    pub absolute: f64,
}

impl Tolerance {
    /// No difference at all.
    pub const EXACT: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };
}

/// A tensor with the strides that a view borrows.
pub struct BorrowedTensor<'a> {
    tensor: &'a Tensor,
    strides: Vec<i64>,
}

impl BorrowedTensor<'_> {
    /// The view.
    pub fn view(&self) -> TensorView<'_> {
        let Tensor { dtype, shape, bytes } = self.tensor;
        // SAFETY: a tensor's constructor checks that its bytes are as many as type and shape say, and the borrow keeps
        // them as they are.
        unsafe { TensorView::from_raw(bytes.as_ptr(), *dtype, shape, &self.strides) }
    }

    /// The tensor of texts, with handles for them.
    pub fn with_handles<'a>(&'a self, handles: &'a [Handle]) -> TensorView<'a> {
        assert_eq!(handles.len() as i64, self.tensor.shape.iter().product::<i64>());
        // SAFETY: there are as many handles as elements, and the borrows keep them as they are.
        unsafe { TensorView::from_raw(handles.as_ptr().cast(), DType::String, &self.tensor.shape, &self.strides) }
    }
}

impl Tensor {
    /// A tensor of these bytes. Panics when type and shape need another number of them.
    pub fn new(dtype: DType, shape: Vec<i64>, bytes: Vec<u8>) -> Tensor {
        let count = shape.iter().product::<i64>() as usize;
        match dtype {
            DType::String => assert_eq!(texts_of_block(&bytes).map(|texts| texts.len()), Ok(count), "{shape:?}"),
            _ => assert_eq!(dtype.bytes_for(count), Some(bytes.len()), "{dtype}{shape:?}"),
        }
        Tensor { dtype, shape, bytes }
    }

    /// A tensor of f32.
    pub fn f32(shape: &[i64], values: &[f32]) -> Tensor {
        Tensor::new(DType::F32, shape.to_vec(), values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// A tensor of texts.
    pub fn texts<T: AsRef<str>>(shape: &[i64], texts: &[T]) -> Tensor {
        Tensor::new(DType::String, shape.to_vec(), text_block(texts).expect("less than 4 GiB"))
    }

    /// The texts of a tensor of them.
    pub fn strings(&self) -> Option<Vec<&str>> {
        (self.dtype == DType::String).then(|| texts_of_block(&self.bytes).expect("the block was looked at"))
    }

    /// A copy of what a view shows. The view must be row-major.
    pub fn of(view: &TensorView<'_>) -> Tensor {
        let bytes = view.as_bytes().expect("outputs are row-major").to_vec();
        Tensor::new(view.dtype(), view.shape().to_vec(), bytes)
    }

    /// The tensor, ready to be looked at.
    pub fn borrowed(&self) -> BorrowedTensor<'_> {
        BorrowedTensor { strides: contiguous_strides(&self.shape), tensor: self }
    }

    /// The same bits as another type: numpy files hold bf16 as u16, and the codes of types of 8 bits and less as u8.
    pub fn reinterpret(mut self, dtype: DType) -> Tensor {
        assert_eq!(self.dtype.unpacked_bytes(), dtype.unpacked_bytes(), "{} as {dtype}", self.dtype);
        self.bytes = dtype.pack(&self.bytes);
        self.dtype = dtype;
        self
    }

    /// The elements of a float tensor.
    pub fn floats(&self) -> impl Iterator<Item = f64> {
        let dtype = self.dtype;
        self.bytes.chunks_exact(dtype.unpacked_bytes()).map(move |bytes| match dtype {
            DType::F16 => f16::from_le_bytes(bytes.try_into().expect("two bytes")).into(),
            DType::BF16 => bf16::from_le_bytes(bytes.try_into().expect("two bytes")).into(),
            DType::F32 => f32::from_le_bytes(bytes.try_into().expect("four bytes")).into(),
            _ => f64::from_le_bytes(bytes.try_into().expect("a float of eight bytes")),
        })
    }

    /// The largest magnitude of a float tensor's finite elements.
    pub fn scale(&self) -> f64 {
        self.floats().map(f64::abs).filter(|value| value.is_finite()).fold(0.0, f64::max)
    }
}

/// Whether both have the same codes, but for NaN, of which some types of 8 bits have several.
fn same_small_floats(found: &Tensor, expected: &Tensor) -> bool {
    let is_nan = |code: u8| small::decode(found.dtype, code).is_some_and(f64::is_nan);
    let same = |(&a, &b): (&u8, &u8)| a == b || is_nan(a) && is_nan(b);
    found.dtype.is_small_float() && found.dtype.bits() == 8 && found.bytes.iter().zip(&expected.bytes).all(same)
}

/// Where in a tensor of that shape the element of that number is, counted row-major.
fn position(shape: &[i64], index: usize) -> Vec<usize> {
    let mut rest = index;
    let mut at: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let size = usize::try_from(size).unwrap_or(0).max(1);
            let here = rest % size;
            rest /= size;
            here
        })
        .collect();
    at.reverse();
    at
}

/// Compares what came out with what is expected; the error tells the first and the worst difference.
pub fn compare(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Result<(), String> {
    if (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
        return Err(format!("is {}{:?}, expected {}{:?}", found.dtype, found.shape, expected.dtype, expected.shape));
    }
    if !found.dtype.is_float() {
        let same = found.bytes == expected.bytes || same_small_floats(found, expected);
        return same.then_some(()).ok_or_else(|| format!("{} values differ", found.dtype));
    }
    let mut differing = 0usize;
    let mut worst: Option<(f64, usize, f64, f64)> = None;
    for (index, (a, b)) in found.floats().zip(expected.floats()).enumerate() {
        let allowed = tolerance.absolute + tolerance.relative * b.abs();
        if a == b || (a.is_nan() && b.is_nan()) || (allowed.is_finite() && (a - b).abs() <= allowed) {
            continue;
        }
        differing += 1;
        let distance = if (a - b).is_nan() { f64::INFINITY } else { (a - b).abs() };
        if worst.is_none_or(|(known, ..)| known < distance) {
            worst = Some((distance, index, a, b));
        }
    }
    match worst {
        None => Ok(()),
        Some((_, index, a, b)) => {
            let count = expected.bytes.len() / expected.dtype.unpacked_bytes();
            let at = position(&expected.shape, index);
            Err(format!("{differing} of {count} elements differ, worst at {at:?}: {a:e}, expected {b:e}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_and_tolerances_kept() {
        let loose = Tolerance { relative: 1e-3, absolute: 0.0 };
        let cases = [
            ([1.0, 2.0], [1.0, 2.0], Tolerance::EXACT, true),
            ([1.0, 2.0], [1.0, 2.001], Tolerance::EXACT, false),
            ([1.0, 2.0], [1.0, 2.001], loose, true),
            ([1.0, 2.0], [1.0, 2.01], loose, false),
            ([f32::NAN, f32::INFINITY], [f32::NAN, f32::INFINITY], Tolerance::EXACT, true),
            ([f32::NAN, 1.0], [1.0, 1.0], loose, false),
            ([f32::INFINITY, 1.0], [f32::NEG_INFINITY, 1.0], loose, false),
            ([0.0, 1.0], [f32::INFINITY, 1.0], loose, false),
        ];
        for (found, expected, tolerance, same) in cases {
            let result = compare(&Tensor::f32(&[2], &found), &Tensor::f32(&[2], &expected), tolerance);
            assert_eq!(result.is_ok(), same, "{found:?} {expected:?}: {result:?}");
        }
        let codes = |dtype, codes: &[u8]| Tensor::new(dtype, vec![2], codes.to_vec());
        let same = |dtype, a: &[u8], b: &[u8]| compare(&codes(dtype, a), &codes(dtype, b), loose).is_ok();
        assert!(same(DType::F8E5M2, &[0x7f, 0x3c], &[0xfe, 0x3c]), "two codes of NaN");
        assert!(!same(DType::F8E5M2, &[0x7f, 0x3c], &[0x7c, 0x3c]), "infinity is a number");
        assert!(!same(DType::F8E5M2, &[0x7f, 0x3c], &[0x7f, 0x3d]), "other numbers");
        assert!(!same(DType::I8, &[0x7f, 0x3c], &[0xfe, 0x3c]), "other integers");
        let shapes = compare(&Tensor::f32(&[2], &[0.0; 2]), &Tensor::f32(&[2, 1], &[0.0; 2]), loose);
        assert_eq!(shapes, Err("is f32[2], expected f32[2, 1]".into()));
    }
}

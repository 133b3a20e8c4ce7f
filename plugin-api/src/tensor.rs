//! Safe views of tensors that somebody else owns: what `codegen`, `load` and `run` receive.

use std::marker::PhantomData;

use crate::dlpack::{CPU, DLTensor};
use crate::dtype::{DType, Element};
use crate::error::Error;

/// A read-only tensor in memory that the host owns. Shapes and strides are in elements; any strides are possible
/// (a constant may be a transposed or broadcast view of other bytes), and constants that are looked at during
/// `codegen` may be misaligned, because they lie wherever the model file put them.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    data: *const u8,
    dtype: DType,
    shape: &'a [i64],
    strides: &'a [i64],
}

/// A tensor to be written, in memory that the host owns. Always contiguous in row-major order and aligned to 64 bytes
/// when core allocates it.
pub struct TensorViewMut<'a> {
    data: *mut u8,
    dtype: DType,
    shape: &'a [i64],
    strides: &'a [i64],
    exclusive: PhantomData<&'a mut [u8]>,
}

// SAFETY: a view is a shared borrow of plain bytes; nothing about it is tied to a thread.
unsafe impl Send for TensorView<'_> {}
// SAFETY: see above; no method writes through a `TensorView`.
unsafe impl Sync for TensorView<'_> {}
// SAFETY: a mutable view is an exclusive borrow of plain bytes; it may move to another thread like `&mut [u8]`.
unsafe impl Send for TensorViewMut<'_> {}

/// Strides, in elements, of a contiguous row-major tensor.
pub fn contiguous_strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for i in (1..shape.len()).rev() {
        // Beside a size of 0 the others may be anything.
        strides[i - 1] = strides[i].saturating_mul(shape[i].max(1));
    }
    strides
}

pub(crate) fn is_contiguous(shape: &[i64], strides: &[i64]) -> bool {
    // First: beside a size of 0 the product of the others may be more than can be counted.
    if shape.contains(&0) {
        return true;
    }
    let mut expected = 1i64;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        if size != 1 && stride != expected {
            return false;
        }
        expected = expected.saturating_mul(size);
    }
    true
}

/// The elements that the bytes are of; `None` where their number or their alignment is another one's.
pub(crate) fn elements_of<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    let fits = bytes.len().is_multiple_of(size_of::<T>()) && bytes.as_ptr().cast::<T>().is_aligned();
    // SAFETY: so many elements are in the bytes, at their alignment, and every `Element` accepts every bit pattern.
    fits.then(|| unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) })
}

impl<'a> TensorView<'a> {
    /// A contiguous tensor over a slice of elements. Errors when `shape` does not count the elements.
    pub fn from_slice<T: Element>(data: &'a [T], shape: &'a [i64], strides: &'a [i64]) -> Result<Self, Error> {
        let elements: i64 = shape.iter().product();
        if usize::try_from(elements) != Ok(data.len()) || !is_contiguous(shape, strides) || shape.len() != strides.len()
        {
            return Err(Error::new(format!("a slice of {} elements is not a tensor of shape {shape:?}", data.len())));
        }
        Ok(TensorView { data: data.as_ptr().cast(), dtype: T::DTYPE, shape, strides })
    }

    /// A contiguous tensor over bytes, row-major and little-endian, at any alignment. Errors when `shape` does not
    /// count the bytes.
    pub fn from_bytes(bytes: &'a [u8], dtype: DType, shape: &'a [i64], strides: &'a [i64]) -> Result<Self, Error> {
        let size = |count: usize, &size: &i64| count.checked_mul(usize::try_from(size).ok()?);
        let length = shape.iter().try_fold(1, size).and_then(|count| dtype.bytes_for(count));
        if length != Some(bytes.len()) || shape.len() != strides.len() || !is_contiguous(shape, strides) {
            return Err(Error::new(format!("{} bytes are not a tensor of {dtype} and shape {shape:?}", bytes.len())));
        }
        Ok(TensorView { data: bytes.as_ptr(), dtype, shape, strides })
    }

    /// A tensor with any strides over bytes, of which the first element begins at byte `first`. Errors when shape and
    /// strides reach beyond the bytes, and where elements share bytes.
    #[cfg(feature = "testing")]
    pub(crate) fn strided(
        bytes: &'a [u8],
        first: usize,
        dtype: DType,
        shape: &'a [i64],
        strides: &'a [i64],
    ) -> Result<Self, Error> {
        let (mut least, mut most) = (0i64, 0i64);
        for (size, stride) in shape.iter().zip(strides) {
            let reach = size.saturating_sub(1).saturating_mul(*stride);
            (least, most) = (least.saturating_add(reach.min(0)), most.saturating_add(reach.max(0)));
        }
        let Some(size) = dtype.element_bytes() else {
            return Err(Error::new(format!("a tensor of {dtype} has no strides")));
        };
        let (size, first_at) = (size as i64, i64::try_from(first).unwrap_or(i64::MAX));
        let begin = least.saturating_mul(size).saturating_add(first_at);
        let end = most.saturating_add(1).saturating_mul(size).saturating_add(first_at);
        let fits = begin >= 0 && usize::try_from(end).is_ok_and(|end| end <= bytes.len());
        let counts = shape.len() == strides.len() && shape.iter().all(|&size| size >= 0);
        if !counts || !(fits || shape.contains(&0) && first <= bytes.len()) {
            let bytes = bytes.len();
            return Err(Error::new(format!("{bytes} bytes hold no tensor of {dtype}, {shape:?} by {strides:?}")));
        }
        // SAFETY: the elements from the lowest to the highest address lie within the bytes, as was just checked.
        Ok(unsafe { Self::from_raw(bytes[first..].as_ptr(), dtype, shape, strides) })
    }

    /// The same tensor without its bytes, as a backend sees it that does not ask for them.
    #[cfg(feature = "testing")]
    pub(crate) fn without_data(self) -> Self {
        TensorView { data: std::ptr::null(), ..self }
    }

    /// A tensor with any strides over raw bytes.
    ///
    /// # Safety
    /// Every element that `shape` and `strides` reach from `data` must lie in one allocation that stays readable and
    /// unchanged for `'a`; `shape` and `strides` must have the same length and `shape` no negative entry. `data` may be
    /// null when there is no element, or when the bytes were not asked for ([`TensorView::has_data`]). A tensor of a type of
    /// less than 8 bits must be contiguous.
    pub unsafe fn from_raw(data: *const u8, dtype: DType, shape: &'a [i64], strides: &'a [i64]) -> Self {
        TensorView { data, dtype, shape, strides }
    }

    /// The view that a DLPack tensor describes.
    ///
    /// # Safety
    /// `tensor` must follow the ABI's rules (shape and strides of `ndim` entries, CPU memory) and outlive `'a`.
    pub unsafe fn from_dlpack(tensor: &DLTensor) -> Result<Self, Error> {
        // SAFETY: the caller vouches for the pointers.
        let (data, dtype, shape, strides) = unsafe { parts(tensor)? };
        Ok(TensorView { data, dtype, shape, strides })
    }

    /// The DLPack form, borrowed from this view's shape and strides.
    pub fn to_dlpack(&self) -> DLTensor {
        dlpack(self.data.cast_mut(), self.dtype, self.shape, self.strides)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Size of each dimension.
    pub fn shape(&self) -> &'a [i64] {
        self.shape
    }

    /// Stride of each dimension, in elements.
    pub fn strides(&self) -> &'a [i64] {
        self.strides
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        // Beside a size of 0 the product of the others may be more than can be counted.
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product::<i64>().try_into().unwrap_or(0) }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all elements where they lie one after another.
    pub fn byte_len(&self) -> usize {
        self.dtype.bytes_for(self.len()).unwrap_or(usize::MAX)
    }

    /// Address of the first element.
    pub fn as_ptr(&self) -> *const u8 {
        self.data
    }

    /// Whether the bytes are there. A backend that asked to see constants only at load gets views without data before.
    pub fn has_data(&self) -> bool {
        !self.data.is_null() || self.is_empty()
    }

    /// Whether the elements lie one after another in row-major order.
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(self.shape, self.strides)
    }

    /// The elements as a slice: only if the type matches, the view is contiguous and the address aligned, which that of
    /// no element need not be.
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        let aligned = self.is_empty() || (self.data as usize).is_multiple_of(align_of::<T>());
        if self.dtype != T::DTYPE || !self.is_contiguous() || !aligned || !self.has_data() {
            return None;
        }
        if self.is_empty() {
            return Some(&[]);
        }
        // SAFETY: the constructor's contract gives `len` readable elements for `'a`; type and alignment were checked,
        // and every `Element` accepts every bit pattern.
        Some(unsafe { std::slice::from_raw_parts(self.data.cast(), self.len()) })
    }

    /// The bytes of a contiguous view, whatever its type and alignment.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        if !self.is_contiguous() || !self.has_data() {
            return None;
        }
        if self.is_empty() {
            return Some(&[]);
        }
        // SAFETY: as in `as_slice`; bytes have no alignment.
        Some(unsafe { std::slice::from_raw_parts(self.data, self.byte_len()) })
    }

    /// Calls `visit` with the bytes of each element in row-major order; handles every stride and alignment. Where elements
    /// share bytes, it is called once, with the bytes of all.
    pub fn for_each_element(&self, mut visit: impl FnMut(&[u8])) {
        if self.is_empty() || !self.has_data() {
            return;
        }
        let Some(size) = self.dtype.element_bytes() else {
            return self.as_bytes().into_iter().for_each(visit);
        };
        let mut index = vec![0i64; self.shape.len()];
        let mut offset = 0i64;
        loop {
            // SAFETY: `offset` is that of a valid index, which the constructor's contract makes readable.
            visit(unsafe { std::slice::from_raw_parts(self.data.offset(offset as isize * size as isize), size) });
            let mut axis = self.shape.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                offset += self.strides[axis];
                if index[axis] < self.shape[axis] {
                    break;
                }
                offset -= self.strides[axis] * self.shape[axis];
                index[axis] = 0;
            }
        }
    }

    /// A copy of the elements in row-major order. Errors when the type is another or the bytes are not there.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        if self.dtype != T::DTYPE {
            return Err(Error::new(format!("expected a tensor of {}, found {}", T::DTYPE, self.dtype)));
        }
        if !self.has_data() {
            return Err(Error::new("the constant's bytes were not asked for (constant_access)"));
        }
        if let Some(slice) = self.as_slice::<T>() {
            return Ok(slice.to_vec());
        }
        let mut out = Vec::with_capacity(self.len());
        // SAFETY: each visited slice holds the bytes of one `T`, and every bit pattern is a valid `Element`.
        self.for_each_element(|bytes| out.push(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }));
        Ok(out)
    }
}

impl<'a> TensorViewMut<'a> {
    /// A contiguous tensor over a slice of elements. Errors when `shape` does not count the elements.
    pub fn from_slice<T: Element>(data: &'a mut [T], shape: &'a [i64], strides: &'a [i64]) -> Result<Self, Error> {
        let dtype = TensorView::from_slice(data, shape, strides)?.dtype;
        Ok(TensorViewMut { data: data.as_mut_ptr().cast(), dtype, shape, strides, exclusive: PhantomData })
    }

    /// A contiguous tensor over bytes, as [`TensorView::from_bytes`].
    pub fn from_bytes(bytes: &'a mut [u8], dtype: DType, shape: &'a [i64], strides: &'a [i64]) -> Result<Self, Error> {
        TensorView::from_bytes(bytes, dtype, shape, strides)?;
        Ok(TensorViewMut { data: bytes.as_mut_ptr(), dtype, shape, strides, exclusive: PhantomData })
    }

    /// A tensor over raw bytes.
    ///
    /// # Safety
    /// As [`TensorView::from_raw`], and nobody else may read or write those elements during `'a`.
    pub unsafe fn from_raw(data: *mut u8, dtype: DType, shape: &'a [i64], strides: &'a [i64]) -> Self {
        TensorViewMut { data, dtype, shape, strides, exclusive: PhantomData }
    }

    /// The view that a DLPack tensor describes.
    ///
    /// # Safety
    /// As [`TensorView::from_dlpack`], and the memory must be writable and not shared during `'a`.
    pub unsafe fn from_dlpack(tensor: &DLTensor) -> Result<Self, Error> {
        // SAFETY: the caller vouches for the pointers.
        let (data, dtype, shape, strides) = unsafe { parts(tensor)? };
        Ok(TensorViewMut { data: data.cast_mut(), dtype, shape, strides, exclusive: PhantomData })
    }

    /// The DLPack form, borrowed from this view's shape and strides.
    pub fn to_dlpack(&self) -> DLTensor {
        dlpack(self.data, self.dtype, self.shape, self.strides)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Size of each dimension.
    pub fn shape(&self) -> &'a [i64] {
        self.shape
    }

    /// Stride of each dimension, in elements.
    pub fn strides(&self) -> &'a [i64] {
        self.strides
    }

    /// A read-only view of the same elements.
    pub fn as_view(&self) -> TensorView<'_> {
        TensorView { data: self.data, dtype: self.dtype, shape: self.shape, strides: self.strides }
    }

    /// Address of the first element.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.data
    }

    /// The elements as a slice: only if the type matches, the view is contiguous and the address aligned.
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        let len = self.as_view().as_slice::<T>()?.len();
        if len == 0 {
            return Some(&mut []);
        }
        // SAFETY: `as_slice` checked type, contiguity and alignment; this view is the only access to the elements.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data.cast(), len) })
    }

    /// The bytes of a contiguous view.
    pub fn as_mut_bytes(&mut self) -> Option<&mut [u8]> {
        let len = self.as_view().as_bytes()?.len();
        if len == 0 {
            return Some(&mut []);
        }
        // SAFETY: as in `as_mut_slice`.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data, len) })
    }
}

/// First element, type, shape and strides.
pub(crate) type Parts<'a> = (*const u8, DType, &'a [i64], &'a [i64]);

/// Reads a DLPack struct's fields, with the checks that need no trust in the pointers.
///
/// # Safety
/// `shape` and `strides` of `tensor` must point to `ndim` entries that live for `'a`.
unsafe fn parts<'a>(tensor: &DLTensor) -> Result<Parts<'a>, Error> {
    if tensor.device.device_type != CPU.device_type {
        return Err(Error::new(format!("expected a tensor in host memory, found {:?}", tensor.device)));
    }
    // SAFETY: the caller vouches for the pointers.
    unsafe { parts_anywhere(tensor) }
}

/// The same, wherever the tensor is: its address may be one of a device.
///
/// # Safety
/// As for [`parts`].
pub(crate) unsafe fn parts_anywhere<'a>(tensor: &DLTensor) -> Result<Parts<'a>, Error> {
    let dtype = DType::from_dlpack(tensor.dtype)
        .ok_or_else(|| Error::new(format!("unknown element type {:?}", tensor.dtype)))?;
    let ndim = usize::try_from(tensor.ndim).map_err(|_| Error::new("negative number of dimensions"))?;
    if ndim == 0 {
        return Ok((offset(tensor), dtype, &[], &[]));
    }
    if tensor.shape.is_null() || tensor.strides.is_null() {
        return Err(Error::new("a tensor's shape or strides are null"));
    }
    // SAFETY: not null, and of `ndim` entries by the caller's contract.
    let (shape, strides) =
        unsafe { (std::slice::from_raw_parts(tensor.shape, ndim), std::slice::from_raw_parts(tensor.strides, ndim)) };
    if shape.iter().any(|&size| size < 0) {
        return Err(Error::new(format!("negative size in shape {shape:?}")));
    }
    if dtype.shares_bytes() && !is_contiguous(shape, strides) {
        return Err(Error::new(format!(
            "a tensor of {dtype} with the strides {strides:?}, whose elements share bytes"
        )));
    }
    Ok((offset(tensor), dtype, shape, strides))
}

fn offset(tensor: &DLTensor) -> *const u8 {
    tensor.data.cast::<u8>().cast_const().wrapping_add(tensor.byte_offset as usize)
}

fn dlpack(data: *mut u8, dtype: DType, shape: &[i64], strides: &[i64]) -> DLTensor {
    DLTensor {
        data: data.cast(),
        device: CPU,
        ndim: shape.len() as i32,
        dtype: dtype.to_dlpack(),
        shape: shape.as_ptr(),
        strides: strides.as_ptr(),
        byte_offset: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of code that lies: beside a size of 0, sizes whose product is more than can be counted.
    #[test]
    fn a_tensor_without_elements_may_have_any_other_sizes() {
        for shape in [[0, i64::MAX, i64::MAX], [i64::MAX, 0, i64::MAX], [i64::MAX, i64::MAX, 0]] {
            assert!(is_contiguous(&shape, &contiguous_strides(&shape)), "{shape:?}");
        }
        assert!(!is_contiguous(&[i64::MAX, i64::MAX], &[1, 1]));
    }

    #[test]
    fn strided_and_broadcast_views_read_in_row_major_order() {
        let data = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let cases: [(&[i64], &[i64], &[f32]); 4] = [
            (&[2, 3], &[3, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            (&[3, 2], &[1, 3], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]),
            (&[2, 2], &[0, 0], &[1.0, 1.0, 1.0, 1.0]),
            (&[], &[], &[1.0]),
        ];
        for (shape, strides, expected) in cases {
            // SAFETY: the largest reached index is 5.
            let view = unsafe { TensorView::from_raw(data.as_ptr().cast(), DType::F32, shape, strides) };
            assert_eq!(view.to_vec::<f32>().expect("f32"), expected);
            let back = view.to_dlpack();
            // SAFETY: `back` borrows the same live slices.
            let back = unsafe { TensorView::from_dlpack(&back) }.expect("round trip");
            assert_eq!(back.to_vec::<f32>().expect("f32"), expected);
        }
    }

    #[test]
    fn misaligned_and_wrongly_typed_slices_are_refused_but_copies_work() {
        let bytes = [0u8, 0, 0, 128, 63, 9];
        // SAFETY: four bytes from offset 1 lie in the array.
        let view = unsafe { TensorView::from_raw(bytes.as_ptr().wrapping_add(1), DType::F32, &[1], &[1]) };
        assert_eq!(view.to_vec::<f32>().expect("copied"), [1.0]);
        assert!(view.as_slice::<i32>().is_none());
        assert!(view.as_slice::<f32>().is_none_or(|_| (bytes.as_ptr() as usize + 1).is_multiple_of(4)));
        // SAFETY: no element is read.
        let empty = unsafe { TensorView::from_raw(bytes.as_ptr().wrapping_add(1), DType::F64, &[0], &[1]) };
        assert_eq!(empty.as_slice::<f64>(), Some(&[][..]));
        assert_eq!(view.to_vec::<i32>().expect_err("type").message, "expected a tensor of i32, found f32");
    }
}

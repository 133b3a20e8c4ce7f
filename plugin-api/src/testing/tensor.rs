//! A tensor with its elements.

use std::ops::Range;

use fastrand::Rng;

use super::Type;
use super::elements::{decode, encode};
use crate::dtype::{DType, Element};
use crate::tensor::{TensorView, TensorViewMut, contiguous_strides};

/// How elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// One after another.
    RowMajor,
    /// The last two dimensions the other way round.
    Transposed,
    /// Every second element of something larger, behind a first one.
    Spread,
    /// All elements are the first one.
    Splat,
}

/// A tensor with memory of its own, aligned as core aligns it.
#[derive(Debug)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<i64>,
    strides: Vec<i64>,
    memory: Vec<u8>,
    /// Where the tensor's bytes begin in the memory, and how many they are.
    bytes: Range<usize>,
    /// The first element, in elements from there.
    first: usize,
}

/// What core aligns tensors to.
const ALIGNMENT: usize = 64;

/// Bytes behind so many that the first one is aligned, and where that is.
fn aligned(bytes: &[u8], alignment: usize) -> (Vec<u8>, Range<usize>) {
    let mut memory = vec![0; bytes.len() + alignment];
    let address = memory.as_ptr() as usize;
    let start = address.next_multiple_of(alignment) - address;
    let range = start..start + bytes.len();
    memory[range.clone()].copy_from_slice(bytes);
    (memory, range)
}

impl Tensor {
    /// A tensor of that type over little-endian elements in row-major order, the first byte at a multiple of `alignment`.
    #[track_caller]
    pub(super) fn from_bytes(dtype: DType, sizes: &[usize], bytes: &[u8], alignment: usize) -> Tensor {
        assert_eq!(
            Some(bytes.len()),
            dtype.bytes_of(sizes),
            "the bytes of a tensor of {dtype} with the shape {sizes:?}"
        );
        let shape: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        let (memory, bytes) = aligned(bytes, alignment.max(ALIGNMENT));
        Tensor { dtype, strides: contiguous_strides(&shape), shape, memory, bytes, first: 0 }
    }

    /// A tensor of these numbers in row-major order. The type names its elements, or they are of `f32`.
    #[track_caller]
    pub fn new(ty: impl Into<Type>, numbers: &[f64]) -> Tensor {
        let ty = ty.into();
        let dtype = ty.dtype.unwrap_or(DType::F32);
        Tensor::from_bytes(dtype, &ty.sizes(), &encode(dtype, numbers), ALIGNMENT)
    }

    /// A tensor of that shape with these elements in row-major order.
    #[track_caller]
    pub fn of<T: Element>(shape: impl Into<Type>, elements: &[T]) -> Tensor {
        let length = [elements.len() as i64];
        let view = TensorView::from_slice(elements, &length, &[1]).expect("a slice is a tensor of one dimension");
        Tensor::from_bytes(T::DTYPE, &shape.into().sizes(), view.as_bytes().unwrap_or_default(), ALIGNMENT)
    }

    /// A tensor of random numbers of that range, its end not included; rounded down where the elements are integers.
    #[track_caller]
    pub fn random(ty: impl Into<Type>, range: Range<f64>, random: &mut Rng) -> Tensor {
        let ty = ty.into();
        let count = ty.sizes().iter().product();
        let is_float = ty.dtype.is_none_or(|dtype| dtype.is_float() || dtype.is_small_float());
        let whole = |number: f64| if is_float { number } else { number.floor() };
        let number = |_| whole(range.start + (range.end - range.start) * random.f64());
        let numbers: Vec<_> = (0..count).map(number).collect();
        Tensor::new(ty, &numbers)
    }

    /// Room for a result: every byte is 255, which is NaN in types of floats.
    pub(super) fn room(dtype: DType, sizes: &[usize]) -> Tensor {
        let bytes = vec![0xff; dtype.bytes_of(sizes).expect("the tensor of a test is small")];
        Tensor::from_bytes(dtype, sizes, &bytes, ALIGNMENT)
    }

    /// The same elements in other places; where they are [`Lies::Splat`], all of them become the first one. Elements that
    /// share bytes lie one after another only.
    #[track_caller]
    pub fn lying(&self, lies: Lies) -> Tensor {
        let Some(size) = self.dtype.element_bytes() else {
            assert_eq!(lies, Lies::RowMajor, "elements of {} share bytes", self.dtype);
            return self.clone();
        };
        let rank = self.shape.len();
        let mut turned = self.shape.clone();
        let swaps = lies == Lies::Transposed && rank > 1;
        if swaps {
            turned.swap(rank - 1, rank - 2);
        }
        let mut strides = contiguous_strides(&turned);
        if swaps {
            strides.swap(rank - 1, rank - 2);
        }
        let (step, count, first) = match lies {
            Lies::Spread => (2, 2 * self.len() + 1, 1),
            Lies::Splat => (0, self.len().min(1), 0),
            Lies::RowMajor | Lies::Transposed => (1, self.len(), 0),
        };
        strides.iter_mut().for_each(|stride| *stride *= step);
        let mut bytes = vec![0xff; count * size];
        let dense = self.bytes();
        for (number, element) in dense.chunks_exact(size).enumerate().take(if step == 0 { 1 } else { usize::MAX }) {
            let mut rest = number as i64;
            let axes = self.shape.iter().zip(&strides).rev();
            let place = axes.fold(first as i64, |place, (size, stride)| {
                let index = rest % size;
                rest /= size;
                place + index * stride
            });
            let place = place as usize * size;
            bytes[place..place + size].copy_from_slice(element);
        }
        let (memory, bytes) = aligned(&bytes, ALIGNMENT);
        Tensor { dtype: self.dtype, shape: self.shape.clone(), strides, memory, bytes, first }
    }

    /// The same numbers as elements of another type.
    pub fn cast(&self, dtype: DType) -> Tensor {
        Tensor::from_bytes(dtype, &self.sizes(), &encode(dtype, &self.numbers()), ALIGNMENT)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Size of each dimension.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Size of each dimension.
    pub fn sizes(&self) -> Vec<usize> {
        self.shape.iter().map(|&size| size as usize).collect()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor for a backend.
    pub fn view(&self) -> TensorView<'_> {
        let view = match self.dtype.shares_bytes() {
            true => TensorView::from_bytes(self.memory(), self.dtype, &self.shape, &self.strides),
            false => TensorView::strided(self.memory(), self.offset(), self.dtype, &self.shape, &self.strides),
        };
        view.expect("the tensor reaches its own elements")
    }

    /// The tensor to be written, which lies in row-major order.
    pub fn view_mut(&mut self) -> TensorViewMut<'_> {
        let bytes = &mut self.memory[self.bytes.clone()];
        TensorViewMut::from_bytes(bytes, self.dtype, &self.shape, &self.strides).expect("it lies in row-major order")
    }

    /// All bytes of its memory, as they lie; the first element is at [`Tensor::offset`].
    pub fn memory(&self) -> &[u8] {
        &self.memory[self.bytes.clone()]
    }

    /// The byte of the memory at which the first element begins.
    pub fn offset(&self) -> usize {
        self.dtype.bytes_for(self.first).expect("the first element is in memory")
    }

    /// The bytes of its elements in row-major order.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.view().for_each_element(|element| bytes.extend_from_slice(element));
        bytes
    }

    /// Its elements in row-major order, as numbers.
    pub fn numbers(&self) -> Vec<f64> {
        let mut numbers = decode(self.dtype, &self.bytes());
        numbers.truncate(self.len());
        numbers
    }

    /// Its elements in row-major order, which must be of that type.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        self.view().to_vec().unwrap_or_else(|error| panic!("{}", error.message))
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        let (memory, bytes) = aligned(self.memory(), ALIGNMENT);
        let (shape, strides) = (self.shape.clone(), self.strides.clone());
        Tensor { dtype: self.dtype, shape, strides, memory, bytes, first: self.first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_the_same_however_they_lie() {
        let tensor = Tensor::of([2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        for lies in [Lies::RowMajor, Lies::Transposed, Lies::Spread] {
            let other = tensor.lying(lies).clone();
            assert_eq!(other.numbers(), tensor.numbers(), "{lies:?}");
            assert_eq!(other.memory().as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(other.view().is_contiguous(), lies == Lies::RowMajor);
        }
        assert_eq!(tensor.lying(Lies::Splat).numbers(), [1.0; 6]);
        assert_eq!(tensor.lying(Lies::Splat).memory().len(), 4);
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |ty: &str| Tensor::random(ty, -3.0..3.0, &mut Rng::with_seed(7)).numbers();
        assert_eq!(draw("f64[4]"), draw("f64[4]"));
        assert!(draw("i8[50]").iter().all(|number| number.fract() == 0.0 && (-3.0..3.0).contains(number)));
    }
}

//! Tensors of any element type as `ndarray` arrays, and how they come from and go to the border's views.

use byoc_plugin_api::small::{self, Round};
use byoc_plugin_api::{Bool8, Complex, DType, Element, Error, Handle, TensorView, TensorViewMut};
use half::{bf16, f16};
use ndarray::{ArrayD, ArrayViewD, CowArray, IxDyn};

/// A tensor of any element type. Always in row-major order when it came from a view.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each variant is named after its `DType`")]
pub enum Array<'a> {
    F32(CowArray<'a, f32, IxDyn>),
    F64(CowArray<'a, f64, IxDyn>),
    F16(CowArray<'a, f16, IxDyn>),
    BF16(CowArray<'a, bf16, IxDyn>),
    I8(CowArray<'a, i8, IxDyn>),
    I16(CowArray<'a, i16, IxDyn>),
    I32(CowArray<'a, i32, IxDyn>),
    I64(CowArray<'a, i64, IxDyn>),
    U8(CowArray<'a, u8, IxDyn>),
    U16(CowArray<'a, u16, IxDyn>),
    U32(CowArray<'a, u32, IxDyn>),
    U64(CowArray<'a, u64, IxDyn>),
    Bool(CowArray<'a, bool, IxDyn>),
    C64(CowArray<'a, Complex<f32>, IxDyn>),
    C128(CowArray<'a, Complex<f64>, IxDyn>),
    /// By handles, which [`Call`](super::call::Call) turns into texts.
    String(CowArray<'a, Handle, IxDyn>),
    /// Of a type that Rust has not: the code of each element in a byte of its own.
    Small(DType, CowArray<'a, u8, IxDyn>),
}

/// Evaluates `$body` with `$x` bound to the ndarray inside, whatever its element type. Types that Rust has not are seen as
/// their codes.
macro_rules! each {
    ($array:expr, $x:ident => $body:expr) => {
        match $array {
            $crate::array::Array::F32($x) => $body,
            $crate::array::Array::F64($x) => $body,
            $crate::array::Array::F16($x) => $body,
            $crate::array::Array::BF16($x) => $body,
            $crate::array::Array::I8($x) => $body,
            $crate::array::Array::I16($x) => $body,
            $crate::array::Array::I32($x) => $body,
            $crate::array::Array::I64($x) => $body,
            $crate::array::Array::U8($x) => $body,
            $crate::array::Array::U16($x) => $body,
            $crate::array::Array::U32($x) => $body,
            $crate::array::Array::U64($x) => $body,
            $crate::array::Array::Bool($x) => $body,
            $crate::array::Array::C64($x) => $body,
            $crate::array::Array::C128($x) => $body,
            $crate::array::Array::String($x) => $body,
            $crate::array::Array::Small(_, $x) => $body,
        }
    };
}

/// Like `each!` for the types one can calculate with; `$body` is a `Result`, and others are an error.
macro_rules! each_number {
    ($array:expr, $x:ident => $body:expr) => {
        match $array {
            $crate::array::Array::F32($x) => $body,
            $crate::array::Array::F64($x) => $body,
            $crate::array::Array::F16($x) => $body,
            $crate::array::Array::BF16($x) => $body,
            $crate::array::Array::I8($x) => $body,
            $crate::array::Array::I16($x) => $body,
            $crate::array::Array::I32($x) => $body,
            $crate::array::Array::I64($x) => $body,
            $crate::array::Array::U8($x) => $body,
            $crate::array::Array::U16($x) => $body,
            $crate::array::Array::U32($x) => $body,
            $crate::array::Array::U64($x) => $body,
            $crate::array::Array::Bool(_) => Err(byoc_plugin_api::Error::new("no arithmetic on booleans")),
            other => Err(byoc_plugin_api::Error::new(format!("no arithmetic on {}", other.dtype()))),
        }
    };
}

pub(crate) use super::item::Item;
pub(crate) use {each, each_number};

/// Shape as `ndarray` wants it.
pub(crate) fn dims(shape: &[i64]) -> Result<Vec<usize>, Error> {
    let sizes: Result<Vec<usize>, _> = shape.iter().map(|&size| usize::try_from(size)).collect();
    let sizes = sizes.map_err(|_| Error::new(format!("negative size in shape {shape:?}")))?;
    count(&sizes)?;
    Ok(sizes)
}

/// No kernel makes a larger tensor: a hostile `Range` or `Expand` shall be an error, not the end of the process.
const MOST_ELEMENTS: usize = 1 << 31;

/// Number of elements of a tensor with this shape; an error where that is too many (`ndarray` would panic).
pub(crate) fn count(shape: &[usize]) -> Result<usize, Error> {
    let nonzero = shape.iter().filter(|&&size| size != 0).try_fold(1usize, |product, &size| product.checked_mul(size));
    match nonzero {
        // Also where another size is zero, because kernels multiply parts of a shape.
        Some(product) if product <= MOST_ELEMENTS => Ok(shape.iter().product()),
        _ => Err(Error::new(format!("a tensor of shape {shape:?} is too large"))),
    }
}

/// An array of this shape over `data`, which must have as many elements.
pub(crate) fn shaped<T>(shape: &[usize], data: Vec<T>) -> Result<ArrayD<T>, Error> {
    let len = data.len();
    ArrayD::from_shape_vec(IxDyn(shape), data)
        .map_err(|_| Error::new(format!("{len} elements do not make a tensor of shape {shape:?}")))
}

/// The elements of an array in row-major order, borrowed where they are so.
pub(crate) fn elements<'b, T: Copy>(array: &'b ArrayViewD<'_, T>) -> std::borrow::Cow<'b, [T]> {
    match array.as_slice() {
        Some(slice) => slice.into(),
        None => array.iter().copied().collect(),
    }
}

fn borrow<'a, T: Element>(view: &TensorView<'a>) -> Result<CowArray<'a, T, IxDyn>, Error> {
    let shape = dims(view.shape())?;
    if let Some(slice) = view.as_slice::<T>() {
        let array = ArrayViewD::from_shape(IxDyn(&shape), slice).map_err(|error| Error::new(error.to_string()))?;
        return Ok(array.into());
    }
    Ok(shaped(&shape, view.to_vec()?)?.into())
}

fn store<T: Item>(array: &ArrayViewD<'_, T>, out: &mut TensorViewMut<'_>) -> Result<(), Error> {
    if array.is_empty() {
        return Ok(());
    }
    let slice = out
        .as_mut_slice::<T::Stored>()
        .ok_or_else(|| Error::new("the output's memory is not contiguous and aligned"))?;
    // Walking any strides costs many times as much for each element.
    match array.as_slice() {
        Some(values) => slice.iter_mut().zip(values).for_each(|(to, &from)| *to = from.into()),
        None => slice.iter_mut().zip(array).for_each(|(to, &from)| *to = from.into()),
    }
    Ok(())
}

/// The elements of a type that Rust has not, in bytes of their own.
fn codes(view: &TensorView<'_>) -> Result<ArrayD<u8>, Error> {
    let mut bytes = Vec::with_capacity(view.byte_len());
    view.for_each_element(|element| bytes.extend_from_slice(element));
    let codes = view.dtype().unpack(&bytes, view.len());
    shaped(&dims(view.shape())?, codes.ok_or_else(|| Error::new("a tensor's bytes are not there"))?)
}

fn store_codes(codes: &ArrayViewD<'_, u8>, out: &mut TensorViewMut<'_>) -> Result<(), Error> {
    let packed = out.dtype().pack(&elements(codes));
    let bytes = out.as_mut_bytes().filter(|bytes| bytes.len() == packed.len());
    bytes.ok_or_else(|| Error::new("the output's memory is not contiguous"))?.copy_from_slice(&packed);
    Ok(())
}

impl<'a> Array<'a> {
    /// The tensor that `view` describes: borrowed where the elements are contiguous and aligned, else copied.
    pub fn from_view(view: &TensorView<'a>) -> Result<Self, Error> {
        Ok(match view.dtype() {
            DType::F32 => Array::F32(borrow(view)?),
            DType::F64 => Array::F64(borrow(view)?),
            DType::F16 => Array::F16(borrow(view)?),
            DType::BF16 => Array::BF16(borrow(view)?),
            DType::I8 => Array::I8(borrow(view)?),
            DType::I16 => Array::I16(borrow(view)?),
            DType::I32 => Array::I32(borrow(view)?),
            DType::I64 => Array::I64(borrow(view)?),
            DType::U8 => Array::U8(borrow(view)?),
            DType::U16 => Array::U16(borrow(view)?),
            DType::U32 => Array::U32(borrow(view)?),
            DType::U64 => Array::U64(borrow(view)?),
            DType::Bool => Array::Bool(borrow::<Bool8>(view)?.mapv(Bool8::get).into()),
            DType::C64 => Array::C64(borrow(view)?),
            DType::C128 => Array::C128(borrow(view)?),
            DType::String => Array::String(borrow(view)?),
            dtype => Array::Small(dtype, codes(view)?.into()),
        })
    }

    /// Writes the elements to `out`, which must have this type and shape and be contiguous.
    pub fn store(&self, out: &mut TensorViewMut<'_>) -> Result<(), Error> {
        let same_shape = self.shape().iter().map(|&size| size as i64).eq(out.shape().iter().copied());
        if self.dtype() != out.dtype() || !same_shape {
            return Err(Error::new(format!(
                "computed {} {:?} for an output of {} {:?}",
                self.dtype(),
                self.shape(),
                out.dtype(),
                out.shape()
            )));
        }
        match self {
            Array::Small(_, codes) => store_codes(&codes.view(), out),
            _ => each!(self, x => store(&x.view(), out)),
        }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        fn of<T: Item>(_: &CowArray<'_, T, IxDyn>) -> DType {
            T::DTYPE
        }
        match self {
            Array::Small(dtype, _) => *dtype,
            _ => each!(self, x => of(x)),
        }
    }

    /// Size of each dimension.
    pub fn shape(&self) -> &[usize] {
        each!(self, x => x.shape())
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        each!(self, x => x.len())
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy that borrows nothing.
    pub fn to_owned(&self) -> Array<'static> {
        match self {
            Array::Small(dtype, codes) => Array::Small(*dtype, codes.to_owned().into()),
            _ => each!(self, x => Item::wrap(x.to_owned())),
        }
    }

    /// The codes of a type that Rust has not, as bytes; other arrays stay as they are.
    pub(crate) fn into_codes(self) -> Array<'a> {
        match self {
            Array::Small(_, codes) => Array::U8(codes),
            other => other,
        }
    }

    /// Bytes as the codes of a type that Rust has not; other arrays stay as they are.
    pub(crate) fn into_typed(self, dtype: DType) -> Array<'a> {
        match self {
            Array::U8(codes) => Array::Small(dtype, codes),
            other => other,
        }
    }

    /// The elements as `f64`, in row-major order.
    pub fn to_f64(&self) -> ArrayD<f64> {
        match self {
            Array::Small(dtype, codes) => {
                let numbers: Vec<f64> =
                    (0..=u8::MAX).map(|code| small::decode(*dtype, code).unwrap_or(f64::NAN)).collect();
                codes.as_standard_layout().mapv(|code| numbers[usize::from(code)])
            }
            _ => each!(self, x => x.as_standard_layout().mapv(Item::to_f64)),
        }
    }

    /// An array of type `dtype`, each element rounded once (see `Item::from_f64`); one that is too large for a type that Rust
    /// has not becomes its largest.
    pub fn from_f64(dtype: DType, values: ArrayD<f64>) -> Array<'static> {
        Array::cast(dtype, values, true, Round::Up)
    }

    /// The same, where floats of 8 bits may not saturate (see `small::encode`).
    pub(crate) fn cast(dtype: DType, values: ArrayD<f64>, saturates: bool, round: Round) -> Array<'static> {
        fn convert<T: Item>(values: &ArrayD<f64>) -> Array<'static> {
            T::wrap(values.mapv(T::from_f64))
        }
        match dtype {
            DType::F32 => convert::<f32>(&values),
            DType::F64 => f64::wrap(values),
            DType::F16 => convert::<f16>(&values),
            DType::BF16 => convert::<bf16>(&values),
            DType::I8 => convert::<i8>(&values),
            DType::I16 => convert::<i16>(&values),
            DType::I32 => convert::<i32>(&values),
            DType::I64 => convert::<i64>(&values),
            DType::U8 => convert::<u8>(&values),
            DType::U16 => convert::<u16>(&values),
            DType::U32 => convert::<u32>(&values),
            DType::U64 => convert::<u64>(&values),
            DType::Bool => convert::<bool>(&values),
            other => {
                let code = |value| small::encode(other, value, saturates, round).unwrap_or_default();
                Array::Small(other, values.mapv(code).into())
            }
        }
    }

    /// The elements as integers, in row-major order.
    pub fn to_ints(&self) -> Vec<i64> {
        match self {
            Array::Small(..) => self.to_f64().iter().map(|&value| value as i64).collect(),
            _ => each!(self, x => x.iter().map(|&value| value.to_int() as i64).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_round_trip_and_wrong_outputs_are_refused() {
        let data = [1f32, 2.0, 3.0, 4.0];
        // SAFETY: the transposed view reaches exactly the four elements.
        let view = unsafe { TensorView::from_raw(data.as_ptr().cast(), DType::F32, &[2, 2], &[1, 2]) };
        let array = Array::from_view(&view).expect("view");
        let mut out = [0f32; 4];
        array.store(&mut TensorViewMut::from_slice(&mut out, &[2, 2], &[2, 1]).expect("out")).expect("store");
        assert_eq!(out, [1.0, 3.0, 2.0, 4.0]);
        let error = array.store(&mut TensorViewMut::from_slice(&mut out, &[4], &[1]).expect("out"));
        assert_eq!(error.expect_err("shape").message, "computed f32 [2, 2] for an output of f32 [4]");
    }

    #[test]
    fn numbers_convert_as_in_numpy() {
        assert_eq!(i8::from_f64(300.7), 127);
        assert_eq!(i8::from_int(300), 44);
        assert_eq!(f32::from_int(16_777_217), 16_777_216.0);
        assert_eq!(bf16::from_f64(1.00390625), bf16::from_f32(1.0));
        assert!(bool::from_f64(f64::NAN) && !bool::from_f64(-0.0));
        assert!(f32::NAN.larger(1.0).is_nan() && 1f32.larger(f32::NAN).is_nan() && 1f32.smaller(f32::NAN).is_nan());
        assert!(count(&[usize::MAX, 0, 2]).is_err());
        assert_eq!(count(&[0, 5]), Ok(0));
    }
}

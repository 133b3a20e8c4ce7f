//! The Rust types that elements of arrays have.

use byoc_plugin_api::{Bool8, Complex, DType, Element, Handle};
use half::{bf16, f16};
use ndarray::{ArrayD, ArrayViewD};

use super::array::Array;

/// A Rust type that can be the element of an [`Array`].
pub(crate) trait Item: Copy + Default + PartialEq + PartialOrd + Send + Sync + 'static {
    /// The element's form in a view.
    type Stored: Element + From<Self>;
    /// The element type.
    const DTYPE: DType;
    /// The ndarray inside, if it has this element type.
    fn of<'b>(array: &'b Array<'_>) -> Option<ArrayViewD<'b, Self>>;
    /// The array with the element type forgotten.
    fn wrap(array: ArrayD<Self>) -> Array<'static>;
    /// The value as a float.
    fn to_f64(self) -> f64;
    /// The nearest float; integers truncate and saturate, NaN becomes 0; a boolean is "not zero".
    fn from_f64(value: f64) -> Self;
    /// The value of an integer; floats truncate.
    fn to_int(self) -> i128;
    /// The integer, wrapped around to this type's range; floats round.
    fn from_int(value: i128) -> Self;
    /// The element with these little-endian bytes.
    fn from_le(bytes: &[u8]) -> Option<Self>;
    /// Whether this is a NaN.
    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
    /// The larger one; NaN if either is, as in numpy.
    fn larger(self, other: Self) -> Self {
        if self.is_nan() || self >= other { self } else { other }
    }
    /// The smaller one; NaN if either is, as in numpy.
    fn smaller(self, other: Self) -> Self {
        if self.is_nan() || self <= other { self } else { other }
    }
}

macro_rules! items {
    ($($rust:ty, $variant:ident, $stored:ty, $x:ident, $to_f64:expr, $from_f64:expr, $to_int:expr, $from_int:expr, $from_le:expr;)*) => {$(
        impl Item for $rust {
            type Stored = $stored;
            const DTYPE: DType = DType::$variant;
            fn of<'b>(array: &'b Array<'_>) -> Option<ArrayViewD<'b, Self>> {
                match array {
                    Array::$variant(x) => Some(x.view()),
                    _ => None,
                }
            }
            fn wrap(array: ArrayD<Self>) -> Array<'static> {
                Array::$variant(array.into())
            }
            fn to_f64(self) -> f64 {
                let $x = self;
                $to_f64
            }
            fn from_f64($x: f64) -> Self {
                $from_f64
            }
            fn to_int(self) -> i128 {
                let $x = self;
                $to_int
            }
            fn from_int($x: i128) -> Self {
                $from_int
            }
            fn from_le(bytes: &[u8]) -> Option<Self> {
                let $x = bytes.try_into().ok()?;
                Some($from_le)
            }
        }
    )*};
}

/// The rows of `items!` for the types between which `as` converts.
macro_rules! plain_items {
    ($($rust:ty, $variant:ident;)*) => {
        items! { $(
            $rust, $variant, $rust, x, x as f64, x as $rust, x as i128, x as $rust, <$rust>::from_le_bytes(x);
        )* }
    };
}

plain_items! {
    f32, F32; f64, F64; i8, I8; i16, I16; i32, I32; i64, I64; u8, U8; u16, U16; u32, U32; u64, U64;
}
items! {
    f16, F16, f16, x, x.to_f64(), f16::from_f64(x), x.to_f64() as i128, f16::from_f64(x as f64), f16::from_le_bytes(x);
    bf16, BF16, bf16, x, x.to_f64(), bf16::from_f64(x), x.to_f64() as i128, bf16::from_f64(x as f64), bf16::from_le_bytes(x);
    Complex<f32>, C64, Complex<f32>, x, x.re.into(), complex(x as f32), x.re as i128, complex(x as f32), complex32(x);
    Complex<f64>, C128, Complex<f64>, x, x.re, complex(x), x.re as i128, complex(x as f64), complex64(x);
    Handle, String, Handle, x, x.0 as f64, Handle(x as u64), x.0.into(), Handle(x as u64), Handle(u64::from_le_bytes(x));
    bool, Bool, Bool8, x, f64::from(u8::from(x)), x != 0.0, i128::from(x), x != 0, u8::from_le_bytes(x) != 0;
}

fn complex<T: Default>(re: T) -> Complex<T> {
    Complex { re, im: T::default() }
}

fn complex32([a, b, c, d, e, f, g, h]: [u8; 8]) -> Complex<f32> {
    Complex { re: f32::from_le_bytes([a, b, c, d]), im: f32::from_le_bytes([e, f, g, h]) }
}

fn complex64(bytes: [u8; 16]) -> Complex<f64> {
    let (re, im) = bytes.split_at(8);
    let part = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    Complex { re: f64::from_bits(part(re)), im: f64::from_bits(part(im)) }
}

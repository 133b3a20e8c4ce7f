//! Tensors of any type, each in memory of its own that ends with its last element.

use byoc_plugin_api::{Bool8, DType, TensorView, TensorViewMut, contiguous_strides};
use half::{bf16, f16};

use crate::run;

macro_rules! owned {
    ($($dtype:ident $element:ty),*) => {
        enum Elements {
            $($dtype(Vec<$element>),)*
            /// Of a type that Rust has not.
            Small(DType, Vec<u8>),
        }

        impl Elements {
            fn zeros(dtype: DType, count: usize) -> Elements {
                match dtype {
                    $(DType::$dtype => Elements::$dtype(vec![<$element>::default(); count]),)*
                    small => Elements::Small(small, vec![0; small.bytes_for(count).unwrap_or(0)]),
                }
            }

            fn view_mut<'a>(&'a mut self, shape: &'a [i64], strides: &'a [i64]) -> Option<TensorViewMut<'a>> {
                match self {
                    $(Elements::$dtype(elements) => TensorViewMut::from_slice(elements, shape, strides).ok(),)*
                    Elements::Small(dtype, bytes) => TensorViewMut::from_bytes(bytes, *dtype, shape, strides).ok(),
                }
            }
        }
    };
}

owned!(
    F32 f32, F64 f64, F16 f16, BF16 bf16, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, Bool Bool8
);

/// A tensor that is written.
pub(crate) struct Output {
    elements: Elements,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Output {
    /// A tensor of zeros; `None` where it would be large.
    pub(crate) fn new(dtype: DType, shape: &[usize]) -> Option<Output> {
        let shape = run::sizes(shape)?;
        let elements = Elements::zeros(dtype, shape.iter().product::<i64>() as usize);
        Some(Output { elements, strides: contiguous_strides(&shape), shape })
    }

    /// The view.
    pub(crate) fn view(&mut self) -> Option<TensorViewMut<'_>> {
        self.elements.view_mut(&self.shape, &self.strides)
    }
}

/// A tensor that is read.
pub(crate) struct Input {
    dtype: DType,
    bytes: Vec<u8>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Input {
    /// A tensor of small numbers; `None` where it would be large.
    pub(crate) fn new(dtype: DType, shape: &[usize]) -> Option<Input> {
        let shape = run::sizes(shape)?;
        let mut bytes = run::ramp(dtype, shape.iter().product::<i64>() as usize);
        bytes.shrink_to_fit();
        Some(Input { dtype, bytes, strides: contiguous_strides(&shape), shape })
    }

    /// The view.
    pub(crate) fn view(&self) -> Option<TensorView<'_>> {
        TensorView::from_bytes(&self.bytes, self.dtype, &self.shape, &self.strides).ok()
    }
}

//! The right side of a product in panels, made a part at a time: it may be as large as memory.

use std::borrow::Cow;
use std::ops::Range;

use byoc_plugin_api::{DType, Error, TensorView, bf16, f16};
use half::slice::HalfFloatSliceExt;

use super::store;
use crate::kernels::integer::packed_len;
use crate::kernels::{BLOCK, Int8Columns, pack_b, product, round_b};

/// Elements that are packed at a time.
const PART: usize = 1 << 20;

/// A matrix of K rows and N columns, and how it is given and stored.
pub(super) struct Matrix {
    pub(super) k: usize,
    pub(super) n: usize,
    /// Whether it is given as [N, K].
    pub(super) transposed: bool,
    /// What the elements are stored as.
    pub(super) dtype: DType,
}

impl Matrix {
    /// Gives the bytes of the panels to `write`, in order.
    pub(super) fn pack(
        &self,
        view: &TensorView<'_>,
        write: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.check(view.len())?;
        let bytes = bytes_of(view)?;
        let (mut panels, mut stored) = (Vec::new(), Vec::new());
        let mut rounded = Int8Columns::default();
        for columns in self.parts() {
            let (part, strides) = (self.part(&bytes, &columns), self.strides(columns.len()));
            let elements = floats(view.dtype(), &part)?;
            stored.clear();
            if self.dtype == DType::I8 {
                let mut panels = vec![0; packed_len(self.k, columns.len()).unwrap_or(0)];
                round_b(self.k, columns.len(), &elements, strides, &mut rounded, &mut panels);
                stored.extend(panels.into_iter().map(|byte| byte as u8));
            } else {
                panels.resize(columns.len().next_multiple_of(BLOCK) * self.k, 0.0);
                pack_b(self.k, columns.len(), &elements, strides, &mut panels);
                store(self.dtype, &panels, &mut stored);
            }
            write(&stored)?;
        }
        write(&rounded.bytes())
    }

    /// Row and column stride of the matrix if it has so many columns.
    fn strides(&self, columns: usize) -> [usize; 2] {
        if self.transposed { [1, self.k] } else { [columns, 1] }
    }

    /// Columns, full panels of them but for the last, that are packed at a time.
    fn parts(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (n, each) = (self.n, (PART / self.k.max(1) / BLOCK * BLOCK).max(BLOCK));
        (0..n).step_by(each).map(move |first| first..(first + each).min(n))
    }

    /// The bytes of some columns, in the order in which all are given.
    fn part<'b>(&self, bytes: &'b [u8], columns: &Range<usize>) -> Cow<'b, [u8]> {
        let each = bytes.len() / (self.k * self.n).max(1);
        if self.transposed {
            return Cow::Borrowed(&bytes[columns.start * self.k * each..columns.end * self.k * each]);
        }
        let mut part = Vec::with_capacity(columns.len() * self.k * each);
        for row in 0..self.k {
            part.extend_from_slice(&bytes[(row * self.n + columns.start) * each..(row * self.n + columns.end) * each]);
        }
        Cow::Owned(part)
    }

    /// Whether so many elements are those of the matrix.
    fn check(&self, len: usize) -> Result<(), Error> {
        match product(&[self.k, self.n]) == Some(len) {
            true => Ok(()),
            false => Err(Error::new(format!("{len} values for a matrix of {} by {}", self.k, self.n))),
        }
    }
}

/// The bytes of the elements in order, wherever they start in memory; without a copy where they lie so.
fn bytes_of<'v>(view: &TensorView<'v>) -> Result<Cow<'v, [u8]>, Error> {
    if let Some(bytes) = view.as_bytes() {
        return Ok(Cow::Borrowed(bytes));
    }
    if !view.has_data() {
        return Err(Error::new("the constant's bytes were not asked for (constant_access)"));
    }
    let mut bytes = Vec::with_capacity(view.byte_len());
    view.for_each_element(|element| bytes.extend_from_slice(element));
    Ok(Cow::Owned(bytes))
}

/// Elements of f32 or 16 bits as f32: what is of 16 bits becomes the same bits when it is stored, but for numbers that are none.
fn floats(dtype: DType, bytes: &[u8]) -> Result<Vec<f32>, Error> {
    Ok(match dtype {
        DType::F32 => bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
        DType::F16 => {
            let elements: Vec<f16> = bytes.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes)).collect();
            elements.to_f32_vec()
        }
        DType::BF16 => bytes.as_chunks().0.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f32()).collect(),
        _ => return Err(Error::new(format!("expected a matrix of floats, found one of {dtype}"))),
    })
}

//! A product for given shapes: sizes and strides, as [`byoc_nvidia::matmul`] needs them.

use byoc_nvidia::matmul::{self, Batch, Problem, View};
use byoc_nvidia::product::{Activation, MatrixView, Product};

/// A shape and its strides.
#[derive(Clone, Copy)]
pub(crate) struct Tensor<'a> {
    pub(crate) shape: &'a [i64],
    /// In elements.
    pub(crate) strides: &'a [i64],
}

/// A tensor read as a batch of matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrices {
    /// Sizes and strides of the batch's dimensions.
    pub(crate) batch: Vec<(i64, i64)>,
    pub(crate) rows: i64,
    pub(crate) columns: i64,
    pub(crate) view: View,
}

impl Matrices {
    /// Views a tensor as matrices. `None` if dimensions that should merge are not contiguous, and for a rank that the view does
    /// not support.
    pub(crate) fn read(read: MatrixView, tensor: Tensor<'_>) -> Option<Matrices> {
        let dims: Vec<_> = tensor.shape.iter().copied().zip(tensor.strides.iter().copied()).collect();
        let one = (1, 0);
        let (batch, row, column) = match (read, dims.as_slice()) {
            (MatrixView::Matrix, [batch @ .., row, column]) => (batch, *row, *column),
            (MatrixView::Transposed, [batch @ .., column, row]) => (batch, *row, *column),
            (MatrixView::Row, [column]) => (&[][..], one, *column),
            (MatrixView::Column, [row]) => (&[][..], *row, one),
            (MatrixView::Filter, [row, column, ..]) => (&[][..], *row, *column),
            (MatrixView::Pixels, [image, row, pixels @ ..]) => (std::slice::from_ref(image), *row, together(pixels)?),
            _ => return None,
        };
        let view = View { row: row.1, column: column.1 };
        Some(Matrices { batch: batch.to_vec(), rows: row.0, columns: column.0, view })
    }
}

/// Merges dimensions.
fn together(dims: &[(i64, i64)]) -> Option<(i64, i64)> {
    dims.iter().try_fold((1, 0), |(size, stride), &(inner, step)| match (size, inner) {
        (_, 1) => Some((size, stride)),
        (1, _) => Some((inner, step)),
        _ => (step.checked_mul(inner) == Some(stride)).then_some((size.checked_mul(inner)?, step)),
    })
}

/// The problem of a product of these operands, whose result is row-major and contiguous. Errors are one line, without the
/// node's name.
pub(crate) fn problem<S>(product: &Product<S>, x: &Matrices, w: &Matrices) -> Result<Problem, String> {
    let (m, n, k) = (x.rows, w.columns, x.columns);
    if k != w.rows {
        return Err(format!("X has {k} columns and W has {} rows", w.rows));
    }
    Ok(Problem {
        m,
        n,
        k,
        batch: batch(x, w)?,
        x: x.view,
        w: w.view,
        y: View { row: n, column: 1 },
        bias: product.bias.is_some(),
        activation: of_call(product.activation)?,
    })
}

/// The activation of a call.
fn of_call(activation: Activation) -> Result<matmul::Activation, String> {
    match activation {
        Activation::None => Ok(matmul::Activation::None),
        Activation::Relu => Ok(matmul::Activation::Relu),
        Activation::GeluTanh => Ok(matmul::Activation::GeluTanh),
        Activation::Gelu | Activation::Silu => Err(format!("cublasLt does not compute {activation:?}")),
    }
}

/// The dimensions of a batch, broadcast as in numpy.
fn batch(x: &Matrices, w: &Matrices) -> Result<Vec<Batch>, String> {
    let too_large = || "the result is too large".to_owned();
    let rank = x.batch.len().max(w.batch.len());
    let mut step = x.rows.checked_mul(w.columns).ok_or_else(too_large)?;
    let mut all = Vec::with_capacity(rank);
    for from_last in 1..=rank {
        let of = |batch: &[(i64, i64)]| batch.len().checked_sub(from_last).map_or((1, 0), |at| batch[at]);
        let (left, right) = (of(&x.batch), of(&w.batch));
        let count = match (left.0, right.0) {
            (1, count) | (count, 1) => count,
            (a, b) if a == b => a,
            (a, b) => return Err(format!("batches of {a} and {b} do not broadcast")),
        };
        let distance = |(size, stride): (i64, i64)| if size == 1 { 0 } else { stride };
        all.push(Batch { count, x: distance(left), w: distance(right), y: step });
        step = step.checked_mul(count).ok_or_else(too_large)?;
    }
    all.reverse();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(read: MatrixView, shape: &[i64], strides: &[i64]) -> Option<Matrices> {
        Matrices::read(read, Tensor { shape, strides })
    }

    #[test]
    fn tensors_are_read_as_matrices() {
        let matrices = |batch: &[(i64, i64)], rows: i64, columns: i64, row: i64, column: i64| {
            Some(Matrices { batch: batch.to_vec(), rows, columns, view: View { row, column } })
        };
        let batch = [(2, 60), (3, 20)];
        assert_eq!(read(MatrixView::Matrix, &[2, 3, 4, 5], &[60, 20, 5, 1]), matrices(&batch, 4, 5, 5, 1));
        assert_eq!(read(MatrixView::Transposed, &[2, 3, 4, 5], &[60, 20, 5, 1]), matrices(&batch, 5, 4, 1, 5));
        assert_eq!(read(MatrixView::Row, &[4], &[2]), matrices(&[], 1, 4, 0, 2));
        assert_eq!(read(MatrixView::Column, &[4], &[2]), matrices(&[], 4, 1, 2, 0));
        assert_eq!(read(MatrixView::Filter, &[4, 5, 1, 1], &[5, 1, 9, 9]), matrices(&[], 4, 5, 5, 1));
        // Rows of pixels merge if they are contiguous.
        assert_eq!(read(MatrixView::Pixels, &[2, 3, 4, 5], &[60, 20, 5, 1]), matrices(&[(2, 60)], 3, 20, 20, 1));
        assert_eq!(read(MatrixView::Pixels, &[2, 3, 4, 5], &[120, 40, 10, 2]), matrices(&[(2, 120)], 3, 20, 40, 2));
        assert_eq!(read(MatrixView::Pixels, &[2, 3, 4, 5], &[60, 20, 1, 4]), None);
        assert_eq!(read(MatrixView::Pixels, &[2, 3, 4, 1], &[12, 4, 1, 9]), matrices(&[(2, 12)], 3, 4, 4, 1));
        assert_eq!(read(MatrixView::Pixels, &[2, 3, 1, 1], &[3, 1, 7, 9]), matrices(&[(2, 3)], 3, 1, 1, 0));
        assert_eq!(read(MatrixView::Row, &[4, 5], &[5, 1]), None);
        assert_eq!(read(MatrixView::Matrix, &[4], &[1]), None);
    }
}

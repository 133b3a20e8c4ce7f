//! `Det`: determinants by Gaussian elimination with pivots.

use byoc_plugin_api::Error;

use super::array::shaped;
use super::call::{Call, Outputs};
use super::{FLOAT, Kernel, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[kernel("Det", det, &[FLOAT])];

/// `Det` of each matrix of the last two dimensions.
pub(crate) fn det(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let [batch @ .., rows, columns] = x.shape() else {
        return Err(Error::new(format!("Det of {:?}, expected matrices", x.shape())));
    };
    if rows != columns {
        return Err(Error::new(format!("Det of {:?}, expected square matrices", x.shape())));
    }
    let count = call.count(batch)?;
    let mut values: Vec<f64> = x.to_f64().into_iter().collect();
    let size = rows * rows;
    let results = (0..count).map(|index| determinant(&mut values[index * size..][..size], *rows)).collect();
    call.rounded(shaped(batch, results)?)
}

/// The determinant of a matrix of so many rows, which is changed. That of none is 1.
fn determinant(matrix: &mut [f64], rows: usize) -> f64 {
    let mut product = 1.0;
    for column in 0..rows {
        let size = |row: usize| matrix[row * rows + column].abs();
        let pivot = (column..rows).fold(column, |best, row| if size(row) > size(best) { row } else { best });
        if pivot != column {
            (0..rows).for_each(|at| matrix.swap(pivot * rows + at, column * rows + at));
            product = -product;
        }
        let pivot = matrix[column * rows + column];
        product *= pivot;
        if pivot == 0.0 {
            return product;
        }
        for row in column + 1..rows {
            let factor = matrix[row * rows + column] / pivot;
            (column..rows).for_each(|at| matrix[row * rows + at] -= factor * matrix[column * rows + at]);
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, counting, first, tensor};

    #[test]
    fn determinants_of_matrices() {
        let of = |shape: &[usize], values: &[f64]| first("Det", &[], vec![tensor(shape, values)]).1;
        assert_eq!(of(&[2, 2], &[0.0, 2.0, 3.0, 4.0]), [-6.0]);
        assert_eq!(of(&[2, 1, 1], &[5.0, -7.0]), [5.0, -7.0]);
        assert_eq!(of(&[3, 3], &[2.0, 0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 5.0, 0.0]), [-30.0]);
        assert_eq!(of(&[2, 2], &[1.0, 2.0, 2.0, 4.0]), [0.0]);
        assert_eq!(of(&[0, 0], &[]), [1.0]);
        let error = all("Det", &[], vec![counting(&[2, 3])]).expect_err("not square");
        assert_eq!(error.message, "Det of [2, 3], expected square matrices");
    }
}

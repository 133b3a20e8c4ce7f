//! The packed form of weights: panels of 8 columns, one after another, the last one filled up with zeros.

use byoc_plugin_api::{DType, Error, Packed, TensorView};

use crate::tensor::Tensor;

/// The layout's name and version.
pub(crate) const LAYOUT: &str = "mutant-panels/1";

const WIDTH: usize = 8;

/// How the panels of a matrix are declared.
pub(crate) fn packed(rows: usize, columns: usize) -> Packed {
    Packed::new(LAYOUT, DType::F32, &[columns.div_ceil(WIDTH), rows, WIDTH])
}

/// The bytes of the panels of a matrix.
pub(crate) fn pack(bug: &str, view: &TensorView<'_>, rows: usize, columns: usize) -> Result<Vec<u8>, Error> {
    let matrix = match bug {
        "strided-constant" => Tensor::copy_as_it_lies(view)?,
        _ => Tensor::copy(view)?,
    };
    let matrix = matrix.view()?;
    let mut bytes = Vec::new();
    for panel in 0..columns.div_ceil(WIDTH) {
        for row in 0..rows {
            for column in panel * WIDTH..(panel + 1) * WIDTH {
                let mut value = if column < columns { matrix.at(&[row, column]) } else { 0.0 };
                if bug == "packing-tail" && (panel + 1) * WIDTH > columns {
                    value = 0.0;
                }
                if bug == "packing-square" && rows == columns && column < columns {
                    value = matrix.at(&[column, row]);
                }
                bytes.extend(value.to_le_bytes());
            }
        }
    }
    Ok(bytes)
}

/// The matrix in panels.
pub(crate) fn unpack(view: &TensorView<'_>, shape: &[usize]) -> Result<Tensor, Error> {
    let &[rows, columns] = shape else { return Err(Error::new("damaged code: only a matrix is packed")) };
    if view.shape() != [columns.div_ceil(WIDTH) as i64, rows as i64, WIDTH as i64] {
        return Err(Error::new(format!("panels of shape {:?} hold no matrix of {shape:?}", view.shape())));
    }
    let panels = Tensor::copy(view)?;
    let panels = panels.view()?;
    Ok(Tensor::of(shape, |index| panels.at(&[index[1] / WIDTH, index[0], index[1] % WIDTH])))
}

/// A matrix of the host, read as if it was panels.
pub(crate) fn misread(view: &TensorView<'_>) -> Result<Tensor, Error> {
    let right = Tensor::copy(view)?;
    let (&[rows, _], Ok(matrix)) = (right.shape(), right.view()) else { return Ok(right) };
    let place = |index: &[usize]| (index[1] / WIDTH * rows + index[0]) * WIDTH + index[1] % WIDTH;
    Ok(Tensor::of(matrix.shape, |index| matrix.nth(place(index))))
}

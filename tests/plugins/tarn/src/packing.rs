//! The forms of weights: a matrix of rows and columns, packed for 16 lanes.

use byoc_plugin_api::{BoundConstants, Claims, ConstantId, DType, Error, Packed, Part};
use serde::{Deserialize, Serialize};

/// Columns that are computed at once.
const LANES: usize = 16;

/// In which form a matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// As the model has it.
    Original,
    /// Of a convolution: bf16, blocks of 16 filters, the last one filled up with zeros.
    Filters,
    /// Of a product: bf16, panels of 16 columns, the last one filled up with zeros.
    Panels,
    /// Of a product: i8 with a scale for each column.
    Int8,
}

impl Form {
    /// The tag of the layout.
    fn layout(self) -> &'static str {
        match self {
            Form::Original => "",
            Form::Filters => "tarn-filters/1",
            Form::Panels => "tarn-panels/1",
            Form::Int8 => "tarn-int8/1",
        }
    }
}

/// A matrix of f32, row-major.
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) elements: Vec<f32>,
}

impl Matrix {
    /// Weights as the model has them: those of a convolution have their filters first.
    pub(crate) fn of(elements: Vec<f32>, rows: usize, columns: usize, is_filters: bool) -> Matrix {
        let turned = |at: usize| elements[at % columns * rows + at / columns];
        let elements = if is_filters { (0..rows * columns).map(turned).collect() } else { elements };
        Matrix { rows, columns, elements }
    }

    pub(crate) fn row(&self, row: usize) -> &[f32] {
        &self.elements[row * self.columns..][..self.columns]
    }

    /// Claims the constant and writes it in that form.
    pub(crate) fn pack(&self, id: ConstantId, form: Form, claims: &mut Claims<'_>) -> Result<(), Error> {
        match form {
            Form::Original => claims.host(id),
            Form::Filters | Form::Panels => {
                let packed = Packed::new(form.layout(), DType::BF16, &self.blocks());
                Ok(std::io::Write::write_all(&mut claims.packed(id, packed)?, &self.bf16())?)
            }
            Form::Int8 => {
                let (values, scales) = self.int8();
                let scales: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
                claims.packed_group(id, Packed::group(form.layout(), &self.parts())?, &[&values, &scales])
            }
        }
    }

    fn blocks(&self) -> [usize; 3] {
        [self.columns.div_ceil(LANES), self.rows, LANES]
    }

    fn parts(&self) -> [Part; 2] {
        [Part::new(DType::I8, &[self.rows, self.columns]), Part::new(DType::F32, &[self.columns])]
    }

    fn bf16(&self) -> Vec<u8> {
        let [blocks, rows, lanes] = self.blocks();
        let place = |at: usize| (at / lanes % rows, at / (lanes * rows) * lanes + at % lanes);
        let element = |(row, column): (usize, usize)| {
            if column < self.columns { self.elements[row * self.columns + column] } else { 0.0 }
        };
        (0..blocks * rows * lanes).map(place).flat_map(|at| rounded(element(at)).to_le_bytes()).collect()
    }

    /// The elements as shares of 127 of the largest of their column, and the scale of each column.
    fn int8(&self) -> (Vec<u8>, Vec<f32>) {
        let largest = |column: usize| (0..self.rows).map(|row| self.row(row)[column].abs()).fold(0.0, f32::max);
        let scales: Vec<f32> =
            (0..self.columns).map(|column| (largest(column) / 127.0).max(f32::MIN_POSITIVE)).collect();
        let share = |at: usize| (self.elements[at] / scales[at % self.columns]).round() as i8;
        ((0..self.elements.len()).map(|at| share(at).cast_unsigned()).collect(), scales)
    }
}

/// The nearest of bf16, ties to even.
fn rounded(value: f32) -> u16 {
    let bits = value.to_bits();
    match value.is_nan() {
        true => (bits >> 16) as u16 | 1,
        false => (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16,
    }
}

/// The matrix that was stored in that form; `next` reads the scale of the next column in place of a column's own.
pub(crate) fn unpack(
    constants: &BoundConstants<'_>,
    id: ConstantId,
    form: Form,
    (rows, columns, is_filters): (usize, usize, bool),
    next: bool,
) -> Result<Matrix, Error> {
    let mut matrix = Matrix { rows, columns, elements: vec![0.0; rows * columns] };
    match form {
        Form::Original => {
            let elements = constants.host(id)?.to_vec::<f32>()?;
            return Ok(Matrix::of(elements, rows, columns, is_filters));
        }
        Form::Filters | Form::Panels => {
            let view = constants.packed(id, form.layout())?;
            let bytes = view.as_bytes().ok_or_else(|| Error::new("packed weights lie in one piece"))?;
            let (chunks, _) = bytes.as_chunks::<2>();
            for (at, bits) in chunks.iter().map(|bytes| u16::from_le_bytes(*bytes)).enumerate() {
                let (row, column) = (at / LANES % rows, at / (LANES * rows) * LANES + at % LANES);
                if column < columns {
                    matrix.elements[row * columns + column] = f32::from_bits(u32::from(bits) << 16);
                }
            }
        }
        Form::Int8 => {
            let parts = constants.packed_group(id, form.layout(), &matrix.parts())?;
            let (Some(values), Some(scales)) = (parts[0].as_slice::<i8>(), parts[1].as_slice::<f32>()) else {
                return Err(Error::new("weights of 8 bits have scales of f32"));
            };
            let shift = usize::from(next);
            for (at, (element, value)) in matrix.elements.iter_mut().zip(values).enumerate() {
                *element = f32::from(*value) * scales[(at + shift) % columns];
            }
        }
    }
    Ok(matrix)
}

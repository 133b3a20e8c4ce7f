//! Products with weights of a few bits, which are unpacked a few columns at a time.

use byoc_plugin_api::{DType, Error};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};

use super::array::{Array, shaped};
use super::call::{Call, Outputs};
use super::types::Types;
use super::{ANY, Kernel, SAME, kernel};
use crate::packing::Packing;

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("com.microsoft.MatMulNBits", matmul_nbits, &[REAL, Types::of(&[DType::U8]), SAME, REAL.or(Types::of(&[DType::U8])), ANY, SAME]),
];

const REAL: Types = Types::of(&[DType::F32, DType::F16, DType::BF16]);

/// Columns that are unpacked at a time.
const COLUMNS: usize = 64;

/// `MatMulNBits`: `A * ((B - zero point) * scale) + bias`, with a scale and a zero point for each block of a column. Without
/// zero points they are the middle of the numbers.
pub(crate) fn matmul_nbits(call: &Call<'_, '_>) -> Outputs {
    let packing = Packing::of(call.node)?;
    let Packing { depth, columns, bits, block_size, bytes: _ } = packing;
    let (a, scales) = (call.input(0)?, call.input(2)?);
    let Array::U8(packed) = call.input(1)? else { return Err(Error::new("the weights are not of u8")) };
    let (blocks, column_bytes) = (packing.blocks(), packing.blocks() * packing.block_bytes());
    let packed = packed.as_slice().filter(|packed| packed.len() == columns * column_bytes);
    let packed = packed.ok_or_else(|| Error::new("the weights have another size than the attributes say"))?;
    let scales: Vec<f64> = scales.to_f64().into_iter().collect();
    let zeros = zero_points(call.optional(3), &packing)?;
    let bias: Option<Vec<f64>> = call.optional(5).map(|bias| bias.to_f64().into_iter().collect());
    if scales.len() != columns * blocks || bias.as_ref().is_some_and(|bias| bias.len() != columns) {
        return Err(Error::new("the scales or the bias have another size than the attributes say"));
    }
    let Some((&last, rows)) = a.shape().split_last() else { return Err(Error::new("A has no dimensions")) };
    if last != depth {
        return Err(Error::new(format!("A has {last} columns, and attribute 'K' is {depth}")));
    }
    let shape = [rows, &[columns]].concat();
    let mut y = vec![0.0; call.count(&shape)?];
    let rows: usize = rows.iter().product();
    let factor = a.to_f64();
    let factor = factor.as_slice().and_then(|factor| ArrayView2::from_shape((rows, depth), factor).ok());
    let (Some(factor), Ok(mut y_matrix)) = (factor, ArrayViewMut2::from_shape((rows, columns), y.as_mut_slice()))
    else {
        return Err(Error::new("the sizes of the product do not match"));
    };
    for start in (0..columns).step_by(COLUMNS) {
        let end = (start + COLUMNS).min(columns);
        let weights = Array2::from_shape_fn((depth, end - start), |(k, n)| {
            let (column, block) = (start + n, k / block_size);
            let number =
                packing.number(&packed[column * column_bytes + block * block_size * bits / 8..], k % block_size);
            let of = column * blocks + block;
            (f64::from(number) - zeros[of]) * scales[of]
        });
        general_mat_mul(1.0, &factor, &weights, 0.0, &mut y_matrix.slice_mut(s![.., start..end]));
    }
    if let Some(bias) = bias {
        y.iter_mut().zip(bias.iter().cycle()).for_each(|(y, bias)| *y += bias);
    }
    call.rounded(shaped(&shape, y)?)
}

/// The zero point of each block of each column: packed like the weights, or a number each.
fn zero_points(given: Option<&Array<'_>>, packing: &Packing) -> Result<Vec<f64>, Error> {
    let Packing { columns, bits, .. } = *packing;
    let (blocks, bytes) = (packing.blocks(), packing.zero_bytes());
    let wrong = || Error::new("the zero points have another size than the attributes say");
    match given {
        None => Ok(vec![f64::from(1u32 << (bits - 1)); columns * blocks]),
        Some(Array::U8(packed)) => {
            let packed = packed.as_slice().filter(|packed| packed.len() == columns * bytes).ok_or_else(wrong)?;
            let number = |at: usize| f64::from(packing.number(&packed[at / blocks * bytes..], at % blocks));
            Ok((0..columns * blocks).map(number).collect())
        }
        Some(numbers) => {
            let numbers: Vec<f64> = numbers.to_f64().into_iter().collect();
            if numbers.len() == columns * blocks { Ok(numbers) } else { Err(wrong()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, first, tensor};
    use super::*;

    const OP: &str = "com.microsoft.MatMulNBits";

    fn attributes(depth: i64, columns: i64) -> [(&'static str, Attribute); 3] {
        [("K", Attribute::Int(depth)), ("N", Attribute::Int(columns)), ("block_size", Attribute::Int(16))]
    }

    /// Two columns of 17 numbers in two blocks: 8 + 1 and 8 + 3 everywhere.
    fn weights() -> Option<Array<'static>> {
        tensor(&[2, 2, 8], &[[0x99u8; 16], [0xbb; 16]].concat())
    }

    #[test]
    fn blocks_have_scales_and_zero_points() {
        let a = || tensor(&[1, 17], &[1f32; 17]);
        let scales = || tensor(&[4], &[1f32, 10.0, 0.5, 2.0]);
        assert_eq!(first(OP, &attributes(17, 2), vec![a(), weights(), scales()]), (vec![1, 2], vec![26.0, 30.0]));
        // Of the first column 9 and 8, of the second 11 and 10.
        let packed = vec![a(), weights(), scales(), tensor(&[2], &[0x89u8, 0xab])];
        assert_eq!(first(OP, &attributes(17, 2), packed).1, [10.0, 2.0]);
        let bias = tensor(&[2], &[100f32, 200.0]);
        let numbers = vec![a(), weights(), scales(), tensor(&[4], &[9f32, 8.0, 11.0, 10.5]), None, bias];
        assert_eq!(first(OP, &attributes(17, 2), numbers).1, [110.0, 201.0]);
    }

    #[test]
    fn sizes_that_do_not_fit_are_errors() {
        let a = || tensor(&[1, 17], &[1f32; 17]);
        let scales = || tensor(&[4], &[1f32; 4]);
        let cases = [
            (
                vec![a(), weights(), tensor(&[3], &[1f32; 3])],
                "the scales or the bias have another size than the attributes say",
            ),
            (vec![a(), tensor(&[16], &[0u8; 16]), scales()], "the weights have another size than the attributes say"),
            (
                vec![a(), weights(), scales(), tensor(&[3], &[0u8; 3])],
                "the zero points have another size than the attributes say",
            ),
            (vec![tensor(&[1], &[1f32]), weights(), scales()], "A has 1 columns, and attribute 'K' is 17"),
        ];
        for (inputs, message) in cases {
            let found = all(OP, &attributes(17, 2), inputs).map(drop).map_err(|error| error.message);
            assert_eq!(found, Err(message.to_owned()));
        }
    }
}

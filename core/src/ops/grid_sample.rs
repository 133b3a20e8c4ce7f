//! Sampling at positions that a tensor gives, after ONNX: GridSample 22.

use byoc_plugin_api::Dim;

use super::attributes::{List, int_or, string_or};
use super::infer::{FLOAT, Infer, mismatch, unsupported};
use crate::diagnostic::Result;
use crate::dim;

pub(super) const ATTRIBUTES: List =
    &[int_or("align_corners", 0), string_or("mode", "linear"), string_or("padding_mode", "zeros")];

/// Most spatial axes: each multiplies the elements that a position is made of.
const AXES: usize = 5;

/// GridSample.
pub(super) fn grid_sample(infer: &mut Infer<'_>) -> Result<()> {
    let (x, grid) = (infer.input(0)?, infer.typed(1, FLOAT)?);
    infer.choice("mode", &["linear", "nearest", "cubic"])?;
    infer.choice("padding_mode", &["zeros", "border", "reflection"])?;
    let rank = x.shape.len();
    if rank < 3 || grid.shape.len() != rank {
        return Err(mismatch(format!(
            "X is {x} and the grid {grid}, expected the same number of dimensions, at least 3"
        )));
    }
    if rank - 2 > AXES {
        return Err(unsupported(format!("X is {x}, but at most {AXES} spatial axes are supported")));
    }
    if dim::same(&x.shape[0], &grid.shape[0]).is_none() {
        return Err(mismatch(format!("X is {x} and the grid {grid}: their batches differ")));
    }
    if dim::same(&grid.shape[rank - 1], &Dim::Fixed(rank - 2)).is_none() {
        let axes = rank - 2;
        return Err(mismatch(format!("the grid is {grid}, expected {axes} coordinates in its last dimension")));
    }
    let shape = [&x.shape[..2], &grid.shape[1..rank - 1]].concat();
    infer.set(0, x.dtype, shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const GRIDS: &[Case] = &[
        ("GridSample", "", "f32[n,3,4,4] f32[n,h,w,2]", "f32[n,3,h,w]"),
        ("GridSample", "mode=nearest padding_mode=border", "u8[2,3,4,4,4] f16[2,1,2,3,3]", "u8[2,3,1,2,3]"),
        (
            "GridSample",
            "mode=bilinear",
            "f32[n,3,4,4] f32[n,h,w,2]",
            "[B106] attribute 'mode' is 'bilinear', expected one of linear, nearest, cubic",
        ),
        (
            "GridSample",
            "",
            "f32[1,3,4,4] f32[1,2,2,3]",
            "[B202] the grid is f32[1,2,2,3], expected 2 coordinates in its last dimension",
        ),
        (
            "GridSample",
            "",
            "f32[1,3,4] f32[2,2,1]",
            "[B202] X is f32[1,3,4] and the grid f32[2,2,1]: their batches differ",
        ),
        (
            "GridSample",
            "",
            "f32[1,1,1,1,1,1,1,1] f32[1,1,1,1,1,1,1,6]",
            "[B102] X is f32[1,1,1,1,1,1,1,1], but at most 5 spatial axes are supported",
        ),
        (
            "GridSample",
            "",
            "f32[1,3,4] i64[1,2,1]",
            "[B201] input 1 is i64[1,2,1], expected one of f32, f64, f16, bf16",
        ),
    ];

    #[test]
    fn grids() {
        check(GRIDS);
    }
}

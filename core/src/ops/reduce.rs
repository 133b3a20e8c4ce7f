//! Reductions, after ONNX: ReduceSum 13, ReduceMax and ReduceMin 20, the others 18 (axes are an input), ArgMax and ArgMin
//! 13; CumSum 14 and CumProd 26.

use byoc_plugin_api::{DType, Dim};

use super::Infer;
use super::infer::{INDEX, NUMERIC, WIDE, axes_in, mismatch};
use crate::diagnostic::Result;

/// The reductions that calculate.
pub(super) fn sum(infer: &mut Infer<'_>) -> Result<()> {
    reduce(infer, WIDE)
}

/// ReduceMax and ReduceMin.
pub(super) fn extreme(infer: &mut Infer<'_>) -> Result<()> {
    let mut types = WIDE.to_vec();
    types.extend([DType::I8, DType::U8, DType::Bool]);
    reduce(infer, &types)
}

fn reduce(infer: &mut Infer<'_>, types: &[DType]) -> Result<()> {
    let x = infer.typed(0, types)?;
    let rank = x.shape.len();
    let given = infer.optional_numbers(1, "axes")?.unwrap_or_default();
    let mut axes = axes_in(&given, rank)?;
    if given.is_empty() && infer.int("noop_with_empty_axes", 0)? == 0 {
        axes = (0..rank).collect();
    }
    let shape = reduced(&x.shape, &axes, infer.int("keepdims", 1)? != 0);
    infer.set(0, x.dtype, shape);
    Ok(())
}

fn reduced(shape: &[Dim], axes: &[usize], keep: bool) -> Vec<Dim> {
    let dims = shape.iter().enumerate().filter(|(axis, _)| keep || !axes.contains(axis));
    dims.map(|(axis, dim)| if axes.contains(&axis) { Dim::Fixed(1) } else { dim.clone() }).collect()
}

/// ArgMax and ArgMin.
pub(super) fn arg(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, NUMERIC)?;
    let axis = infer.axis("axis", 0, x.shape.len())?;
    infer.int("select_last_index", 0)?;
    if x.shape[axis] == Dim::Fixed(0) {
        return Err(mismatch(format!("input 0 is {x}: axis {axis} has no element to choose from")));
    }
    let shape = reduced(&x.shape, &[axis], infer.int("keepdims", 1)? != 0);
    infer.set(0, DType::I64, shape);
    Ok(())
}

/// CumSum and CumProd: the axis is an input, but shapes do not depend on it.
pub(super) fn cumsum(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, WIDE)?;
    let axis = infer.typed(1, INDEX)?;
    if axis.shape.iter().any(|dim| dim.fixed().is_some_and(|size| size != 1)) {
        return Err(mismatch(format!("input 1 (axis) is {axis}, expected one element")));
    }
    if let Some(value) = infer.known(1).and_then(|values| values.first()?.as_i64()) {
        super::infer::axis_in(value, x.shape.len())?;
    }
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const REDUCTIONS: &[Case] = &[
        ("ReduceMean", "", "f32[b,3,4] i64[2]=-1,1", "f32[b,1,1]"),
        ("ReduceMean", "keepdims=0", "f32[b,3,4] i64[1]=1", "f32[b,4]"),
        ("ReduceSum", "keepdims=0", "f32[b,3,4]", "f32[]"),
        ("ReduceSum", "", "f32[b,3,4] i64[0]=", "f32[1,1,1]"),
        ("ReduceSum", "noop_with_empty_axes=1", "f32[b,3,4] i64[0]=", "f32[b,3,4]"),
        ("ReduceSum", "noop_with_empty_axes=1", "f32[b,3,4]", "f32[b,3,4]"),
        ("ReduceMax", "", "bool[3] i64[1]=0", "bool[1]"),
        ("ReduceMin", "keepdims=0", "u8[b,3] i64[1]=-1", "u8[b]"),
        ("ReduceL2", "", "i32[b,3] i64[1]=1", "i32[b,1]"),
        ("ReduceSum", "", "f32[b,3] i64[2]=1,-1", "[B106] axis -1 is given twice"),
        ("ReduceSum", "", "f32[b,3] i64[1]=2", "[B106] axis 2 is out of range for 2 dimensions"),
        ("ReduceSum", "", "f32[b,3] i64[1]", "f32[n_size0,n_size1]"),
        ("ReduceSum", "", "f32[b,3] f32[1]", "[B201] input 1 is f32[1], expected one of i32, i64"),
        ("ReduceMean", "", "u8[3]", "[B201] input 0 is u8[3], expected one of f32, f64, f16, bf16, i32, i64, u32, u64"),
        ("ArgMax", "axis=-1 select_last_index=1", "f32[b,10]", "i64[b,1]"),
        ("ArgMax", "keepdims=0", "f32[b,10]", "i64[10]"),
        ("ArgMax", "", "f32[0]", "[B202] input 0 is f32[0]: axis 0 has no element to choose from"),
        ("ArgMin", "axis=0", "u8[b,10]", "i64[1,10]"),
        ("ReduceLogSum", "", "f32[b,3] i64[1]=1", "f32[b,1]"),
        ("ReduceLogSumExp", "keepdims=0", "f32[b,3]", "f32[]"),
        ("CumSum", "", "f32[b,10] i32[]", "f32[b,10]"),
        ("CumSum", "", "f32[b,10] i32[]=2", "[B106] axis 2 is out of range for 2 dimensions"),
        ("CumSum", "", "f32[b,10] i32[2]", "[B202] input 1 (axis) is i32[2], expected one element"),
    ];

    #[test]
    fn reductions() {
        check(REDUCTIONS);
    }
}

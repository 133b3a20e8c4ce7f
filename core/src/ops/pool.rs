//! Pooling, after ONNX: AveragePool, LpPool, MaxPool, MaxUnpool, GlobalAveragePool, GlobalLpPool and GlobalMaxPool 22.

use byoc_plugin_api::{DType, Dim};

use super::attributes::{AUTO_PAD, AttributeDef, List, int_or, ints};
use super::conv::{Window, checked};
use super::infer::{FLOAT, Infer, bad, mismatch};
use super::run_time::{PartialType, all_open};
use crate::diagnostic::Result;
use crate::dim::{self, Expr};
use crate::ir::TensorType;

/// The power of a norm; it was a number before 2, which the importer reads.
const POWER: AttributeDef = int_or("p", 2);

pub(super) const GLOBAL_LP_POOL: List = &[POWER];
pub(super) const LP_POOL: List = &[
    AUTO_PAD,
    int_or("ceil_mode", 0).since(18),
    ints("dilations").by_shapes().since(18),
    ints("kernel_shape").required(),
    POWER,
    ints("pads").by_shapes(),
    ints("strides").by_shapes(),
];
pub(super) const MAX_UNPOOL: List =
    &[ints("kernel_shape").required(), ints("pads").by_shapes(), ints("strides").by_shapes()];

/// AveragePool.
pub(super) fn average(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let shape = pooled(infer, &x)?;
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// LpPool.
pub(super) fn lp(infer: &mut Infer<'_>) -> Result<()> {
    power(infer)?;
    average(infer)
}

fn power(infer: &Infer<'_>) -> Result<()> {
    match infer.int("p", 2)? {
        1.. => Ok(()),
        other => Err(bad(format!("attribute 'p' is {other}, expected at least 1"))),
    }
}

/// MaxPool with its optional indices.
pub(super) fn max(infer: &mut Infer<'_>) -> Result<()> {
    let mut types = FLOAT.to_vec();
    types.extend([DType::I8, DType::U8]);
    let x = infer.typed(0, &types)?;
    let shape = pooled(infer, &x)?;
    infer.set(1, DType::I64, shape.clone());
    infer.set(0, x.dtype, shape);
    Ok(())
}

fn pooled(infer: &Infer<'_>, x: &TensorType) -> Result<Vec<Dim>> {
    let window = window(infer, x)?;
    let mut shape = x.shape[..2].to_vec();
    shape.extend(window.output(&x.shape[2..])?);
    Ok(shape)
}

/// The window over the spatial axes.
fn window(infer: &Infer<'_>, x: &TensorType) -> Result<Window> {
    spatial(x)?;
    let kernel = infer.ints("kernel_shape")?.ok_or_else(|| bad("attribute 'kernel_shape' is missing"))?;
    Window::read(infer, checked("kernel_shape", kernel.to_vec(), x.shape.len() - 2)?)
}

fn spatial(x: &TensorType) -> Result<()> {
    if x.shape.len() >= 3 { Ok(()) } else { Err(mismatch(format!("X is {x}, expected at least 3 dimensions"))) }
}

/// GlobalAveragePool and GlobalMaxPool.
pub(super) fn global(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    spatial(&x)?;
    let mut shape = x.shape[..2].to_vec();
    shape.resize(x.shape.len(), Dim::Fixed(1));
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// GlobalLpPool.
pub(super) fn global_lp(infer: &mut Infer<'_>) -> Result<()> {
    power(infer)?;
    global(infer)
}

/// MaxUnpool: what MaxPool took the elements and indices from, or more than that where input 2 says so.
pub(super) fn unpool(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let indices = infer.typed(1, &[DType::I64])?;
    let window = window(infer, &x)?;
    if indices.shape.len() != x.shape.len()
        || indices.shape.iter().zip(&x.shape).any(|(a, b)| dim::same(a, b).is_none())
    {
        return Err(mismatch(format!("X is {x} and the indices {indices}, expected the same shape")));
    }
    if infer.has(2) {
        infer.typed(2, &[DType::I64])?;
        let sizes = infer.sizes(2, "output_shape")?;
        if sizes.len() != x.shape.len() {
            return Err(mismatch(format!("input 2 (output_shape) has {} sizes for X, which is {x}", sizes.len())));
        }
        if let Some(size) = sizes.iter().find(|size| size.as_constant().is_some_and(|size| size < 0)) {
            return Err(bad(format!("input 2 (output_shape) holds the negative size {size}")));
        }
        let shape = sizes.iter().map(Expr::to_dim).collect::<std::result::Result<_, _>>()?;
        infer.set(0, x.dtype, shape);
        return Ok(());
    }
    let axis = |(axis, size): (usize, &Dim)| -> Result<Dim> {
        let (before, after) = window.pads[axis];
        let steps = Expr::of(size)?.minus(&Expr::from(1))?.times(&Expr::from(window.strides[axis]))?;
        let full = steps.plus(&Expr::from(window.kernel[axis]))?;
        let left = full.minus(&Expr::from(before))?.minus(&Expr::from(after))?;
        if left.as_constant().is_some_and(|left| left < 0) {
            return Err(mismatch(format!("the padding of spatial axis {axis} is larger than what it cuts, {full}")));
        }
        Ok(left.to_dim()?)
    };
    let spatial = x.shape[2..].iter().enumerate().map(axis).collect::<Result<Vec<_>>>()?;
    infer.set(0, x.dtype, [x.shape[..2].to_vec(), spatial].concat());
    Ok(())
}

/// MaxUnpool to a shape that is known at run time only.
pub(super) fn unpooled(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let x = infer.input(0)?;
    Ok(Some(vec![PartialType { dtype: x.dtype, shape: all_open(x.shape.len()) }]))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const POOLS: &[Case] = &[
        ("MaxPool", "kernel_shape=[3,3] strides=[2,2]", "f32[1,3,32,32]", "f32[1,3,15,15]"),
        ("MaxPool", "kernel_shape=[3,3] strides=[2,2] ceil_mode=1", "f32[1,3,4,4]", "f32[1,3,2,2] i64[1,3,2,2]"),
        // The third window would start behind the input: 1 x 1 kernel, stride 2, size 2.
        ("MaxPool", "kernel_shape=[1,1] strides=[2,2] ceil_mode=1", "f32[1,1,2,2]", "f32[1,1,1,1]"),
        ("AveragePool", "kernel_shape=[3] strides=[2] pads=[1,1] ceil_mode=1", "f32[1,1,h]", "f32[1,1,floor(h/2) + 1]"),
        ("AveragePool", "kernel_shape=[2,2] auto_pad=SAME_LOWER", "f32[1,3,32,32]", "f32[1,3,32,32]"),
        ("AveragePool", "kernel_shape=[2,2] auto_pad=VALID", "f32[1,3,32,32]", "f32[1,3,31,31]"),
        ("MaxPool", "", "f32[1,3,4]", "[B106] attribute 'kernel_shape' is missing"),
        (
            "MaxPool",
            "kernel_shape=[-2]",
            "f32[1,3,4]",
            "[B106] attribute 'kernel_shape' is [-2], expected numbers of at least 1",
        ),
        ("MaxPool", "kernel_shape=[2,2]", "f32[1,3,4]", "[B106] attribute 'kernel_shape' has 2 numbers, expected 1"),
        (
            "MaxPool",
            "kernel_shape=[2]",
            "i64[1,3,4]",
            "[B201] input 0 is i64[1,3,4], expected one of f32, f64, f16, bf16, i8, u8",
        ),
        ("LpPool", "kernel_shape=[3] p=1", "f32[1,3,l]", "f32[1,3,l - 2]"),
        ("LpPool", "kernel_shape=[3] p=0", "f32[1,3,4]", "[B106] attribute 'p' is 0, expected at least 1"),
        ("GlobalLpPool", "p=3", "f16[n,3,h]", "f16[n,3,1]"),
        ("GlobalLpPool", "p=-1", "f16[n,3,h]", "[B106] attribute 'p' is -1, expected at least 1"),
        ("MaxPool", "kernel_shape=[]", "f32[1,3]", "[B202] X is f32[1,3], expected at least 3 dimensions"),
        ("GlobalAveragePool", "", "f32[n,3,h,w]", "f32[n,3,1,1]"),
        ("GlobalAveragePool", "", "f32[3]", "[B202] X is f32[3], expected at least 3 dimensions"),
    ];

    #[test]
    fn pools() {
        check(POOLS);
    }

    const UNPOOLS: &[Case] = &[
        ("MaxUnpool", "kernel_shape=[2,2] strides=[2,2]", "f32[n,3,h,4] i64[n,3,h,4]", "f32[n,3,h*2,8]"),
        ("MaxUnpool", "kernel_shape=[3] pads=[1,1]", "f32[1,1,4] i64[1,1,4]", "f32[1,1,4]"),
        ("MaxUnpool", "kernel_shape=[2]", "f32[1,1,4] i64[1,1,4] i64[3]=1,1,l", "f32[1,1,l]"),
        ("MaxUnpool", "kernel_shape=[2]", "f32[1,1,4] i64[1,1,4] i64[3]", "f32[n_size0,n_size1,n_size2]"),
        (
            "MaxUnpool",
            "kernel_shape=[2]",
            "f32[1,1,4] i64[1,1,4] i64[2]=1,9",
            "[B202] input 2 (output_shape) has 2 sizes for X, which is f32[1,1,4]",
        ),
        (
            "MaxUnpool",
            "kernel_shape=[2]",
            "f32[1,1,4] i64[1,1,4] i64[3]=1,1,-1",
            "[B106] input 2 (output_shape) holds the negative size -1",
        ),
        (
            "MaxUnpool",
            "kernel_shape=[2]",
            "f32[1,1,4] i64[1,1,5]",
            "[B202] X is f32[1,1,4] and the indices i64[1,1,5], expected the same shape",
        ),
        (
            "MaxUnpool",
            "kernel_shape=[2] pads=[9,0]",
            "f32[1,1,4] i64[1,1,4]",
            "[B202] the padding of spatial axis 0 is larger than what it cuts, 5",
        ),
    ];

    #[test]
    fn unpools() {
        check(UNPOOLS);
    }
}

//! Pooling, after ONNX: AveragePool 22, MaxPool 22, GlobalAveragePool and GlobalMaxPool 22.

use byoc_plugin_api::{DType, Dim};

use super::conv::Window;
use super::infer::{FLOAT, Infer, bad, mismatch};
use crate::diagnostic::Result;
use crate::ir::TensorType;

/// AveragePool.
pub(super) fn average(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let shape = pooled(infer, &x)?;
    infer.set(0, x.dtype, shape);
    Ok(())
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
    spatial(x)?;
    let kernel = infer.ints("kernel_shape")?.ok_or_else(|| bad("attribute 'kernel_shape' is missing"))?;
    if kernel.len() != x.shape.len() - 2 {
        return Err(bad(format!(
            "attribute 'kernel_shape' has {} numbers, expected {}",
            kernel.len(),
            x.shape.len() - 2
        )));
    }
    let window = Window::read(infer, kernel.to_vec())?;
    let mut shape = x.shape[..2].to_vec();
    shape.extend(window.output(&x.shape[2..])?);
    Ok(shape)
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
        ("MaxPool", "kernel_shape=[]", "f32[1,3]", "[B202] X is f32[1,3], expected at least 3 dimensions"),
        ("GlobalAveragePool", "", "f32[n,3,h,w]", "f32[n,3,1,1]"),
        ("GlobalAveragePool", "", "f32[3]", "[B202] X is f32[3], expected at least 3 dimensions"),
    ];

    #[test]
    fn pools() {
        check(POOLS);
    }
}

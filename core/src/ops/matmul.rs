//! Matrix products, after ONNX: MatMul 13, Gemm 13; and Det 22.

use byoc_plugin_api::Dim;

use super::infer::{FLOAT, Infer, WIDE, mismatch};
use crate::diagnostic::Result;
use crate::dim;
use crate::ir::TensorType;

/// MatMul: NumPy's `matmul`.
pub(super) fn matmul(infer: &mut Infer<'_>) -> Result<()> {
    let a = infer.typed(0, WIDE)?;
    let b = infer.like_first(1)?;
    let shape = output(&a, &b)?;
    infer.set(0, a.dtype, shape);
    Ok(())
}

/// The shape of the product of two tensors, as NumPy's `matmul` has it.
pub(super) fn output(a: &TensorType, b: &TensorType) -> Result<Vec<Dim>> {
    if a.shape.is_empty() || b.shape.is_empty() {
        return Err(mismatch(format!("the factors are {a} and {b}, expected at least one dimension each")));
    }
    // A vector counts as a row on the left and as a column on the right; the added dimension is dropped again.
    let (mut left, mut right) = (a.shape.clone(), b.shape.clone());
    if a.shape.len() == 1 {
        left.insert(0, Dim::Fixed(1));
    }
    if b.shape.len() == 1 {
        right.push(Dim::Fixed(1));
    }
    let (left_batch, left_matrix) = left.split_at(left.len() - 2);
    let (right_batch, right_matrix) = right.split_at(right.len() - 2);
    if dim::same(&left_matrix[1], &right_matrix[0]).is_none() {
        return Err(mismatch(format!(
            "the factors are {a} and {b}: {} columns of the first against {} rows of the second",
            left_matrix[1], right_matrix[0]
        )));
    }
    let mut shape = dim::broadcast(left_batch, right_batch)
        .ok_or_else(|| mismatch(format!("the factors are {a} and {b}: their batch dimensions do not broadcast")))?;
    if a.shape.len() > 1 {
        shape.push(left_matrix[0].clone());
    }
    if b.shape.len() > 1 {
        shape.push(right_matrix[1].clone());
    }
    Ok(shape)
}

/// Gemm: `alpha * A' * B' + beta * C`.
pub(super) fn gemm(infer: &mut Infer<'_>) -> Result<()> {
    let a = infer.ranked(0, WIDE, 2)?;
    let b = infer.ranked(1, WIDE, 2)?;
    infer.like_first(1)?;
    let flipped = |name: &str| -> Result<bool> { Ok(infer.int(name, 0)? != 0) };
    let (rows, depth) = if flipped("transA")? { (&a.shape[1], &a.shape[0]) } else { (&a.shape[0], &a.shape[1]) };
    let (other, columns) = if flipped("transB")? { (&b.shape[1], &b.shape[0]) } else { (&b.shape[0], &b.shape[1]) };
    if dim::same(depth, other).is_none() {
        return Err(mismatch(format!("A is {a} and B is {b}: the inner sizes {depth} and {other} differ")));
    }
    let shape = vec![rows.clone(), columns.clone()];
    if infer.has(2) {
        let c = infer.like_first(2)?;
        let fits = c.shape.len() <= 2 && dim::broadcast(&shape, &c.shape).is_some_and(|wide| fits_into(&wide, &shape));
        if !fits {
            return Err(mismatch(format!("C is {c}, which does not broadcast to [{rows},{columns}]")));
        }
    }
    infer.set(0, a.dtype, shape);
    Ok(())
}

/// Whether broadcasting left each size what it was: a 1 may not have grown.
fn fits_into(wide: &[Dim], shape: &[Dim]) -> bool {
    wide.len() == shape.len() && wide.iter().zip(shape).all(|(a, b)| dim::same(a, b).is_some())
}

/// Det: the determinant of each of the last two dimensions.
pub(super) fn det(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    match x.shape.as_slice() {
        [batch @ .., rows, columns] if dim::same(rows, columns).is_some() => infer.set(0, x.dtype, batch.to_vec()),
        _ => return Err(mismatch(format!("X is {x}, expected square matrices"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const PRODUCTS: &[Case] = &[
        ("MatMul", "", "f32[2,3] f32[3,4]", "f32[2,4]"),
        ("MatMul", "", "f32[b,1,s,3] f32[12,3,4]", "f32[b,12,s,4]"),
        ("MatMul", "", "f32[3] f32[3]", "f32[]"),
        ("MatMul", "", "f32[3] f32[5,3,4]", "f32[5,4]"),
        ("MatMul", "", "f32[5,2,3] f32[3]", "f32[5,2]"),
        ("MatMul", "", "f32[] f32[3]", "[B202] the factors are f32[] and f32[3], expected at least one dimension each"),
        (
            "MatMul",
            "",
            "f32[2,3] f32[4,5]",
            "[B202] the factors are f32[2,3] and f32[4,5]: 3 columns of the first against 4 rows of the second",
        ),
        (
            "MatMul",
            "",
            "f32[2,2,3] f32[3,3,5]",
            "[B202] the factors are f32[2,2,3] and f32[3,3,5]: their batch dimensions do not broadcast",
        ),
        (
            "MatMul",
            "",
            "i8[2,3] i8[3,4]",
            "[B201] input 0 is i8[2,3], expected one of f32, f64, f16, bf16, i32, i64, u32, u64",
        ),
        ("Gemm", "", "f32[n,3] f32[3,4] f32[4]", "f32[n,4]"),
        ("Gemm", "transA=1 transB=1", "f32[3,2] f32[4,3] -", "f32[2,4]"),
        ("Gemm", "", "f32[2,3] f32[3,4] f32[2,1]", "f32[2,4]"),
        ("Gemm", "", "f32[1,3] f32[3,4] f32[2,4]", "[B202] C is f32[2,4], which does not broadcast to [1,4]"),
        ("Gemm", "", "f32[2,3] f32[4,4]", "[B202] A is f32[2,3] and B is f32[4,4]: the inner sizes 3 and 4 differ"),
        ("Gemm", "", "f32[1,2,3] f32[3,4]", "[B202] input 0 is f32[1,2,3], expected 2 dimensions"),
        ("Det", "", "f32[n,2,3,3]", "f32[n,2]"),
        ("Det", "", "f64[m,m]", "f64[]"),
        ("Det", "", "f32[2,3]", "[B202] X is f32[2,3], expected square matrices"),
        ("Det", "", "f32[3]", "[B202] X is f32[3], expected square matrices"),
    ];

    #[test]
    fn products() {
        check(PRODUCTS);
    }
}

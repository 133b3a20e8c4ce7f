//! Operators that change a tensor's shape or order alone, after ONNX: Identity, Reshape, Squeeze, Unsqueeze, Flatten,
//! Transpose 24; Trilu 14, which keeps shape and order.

use byoc_plugin_api::{DType, Dim};

use super::infer::{INDEX, Infer, axes_in, bad, mismatch};
use crate::constants::View;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::{self, Expr};
use crate::ir::{Node, TensorType};

/// Identity.
pub(super) fn identity(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

/// Reshape. Each entry of the shape is a size, 0 (keep the input's, unless `allowzero`) or once -1 (what is left).
pub(super) fn reshape(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let entries = infer.sizes(1, "shape")?;
    let keep = infer.int("allowzero", 0)? == 0;
    let (mut shape, mut rest) = (Vec::with_capacity(entries.len()), None);
    for (index, entry) in entries.iter().enumerate() {
        match entry.as_constant() {
            Some(-1) if rest.is_some() => return Err(bad("the new shape holds -1 more than once")),
            Some(-1) => {
                rest = Some(index);
                shape.push(Dim::Fixed(1));
            }
            Some(0) if keep => {
                let size = x.shape.get(index).cloned();
                shape.push(
                    size.ok_or_else(|| mismatch(format!("entry {index} of the new shape is 0, but input 0 is {x}")))?,
                );
            }
            Some(size) if size < 0 => return Err(bad(format!("entry {index} of the new shape is {size}"))),
            _ => shape.push(entry.to_dim()?),
        }
    }
    let (total, known) = (dim::product(&x.shape)?, dim::product(&shape)?);
    let show = || shape.iter().map(Dim::to_string).collect::<Vec<_>>().join(",");
    match rest {
        Some(index) => {
            let wrong = || {
                mismatch(format!("input 0 is {x}: its elements do not divide by the {known} of the other dimensions"))
            };
            if known.as_constant() == Some(0) {
                return Err(mismatch(format!("input 0 is {x}: -1 beside a size of 0 is ambiguous")));
            }
            let exact = total.exact_div(&known)?;
            let fixed = total.as_constant().is_some() && known.as_constant().is_some();
            shape[index] = match exact {
                Some(size) => size.to_dim()?,
                None if fixed => return Err(wrong()),
                None => total.floor_div(&known)?.to_dim()?,
            };
        }
        None if total.equals(&known)? == Some(false) && total.minus(&known)?.as_constant().is_some() => {
            return Err(mismatch(format!(
                "input 0 is {x} with {total} elements, but the new shape [{}] has {known}",
                show()
            )));
        }
        None => {}
    }
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// Squeeze: the given axes, or every axis of size 1.
pub(super) fn squeeze(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let dropped = match infer.optional_numbers(1, "axes")? {
        Some(axes) => axes_in(&axes, x.shape.len())?,
        None => ones(&x)?,
    };
    if let Some(&axis) = dropped.iter().find(|&&axis| x.shape[axis].fixed().is_some_and(|size| size != 1)) {
        return Err(mismatch(format!("input 0 is {x}: axis {axis} has not the size 1")));
    }
    let kept = (0..x.shape.len()).filter(|axis| !dropped.contains(axis));
    let shape = kept.map(|axis| x.shape[axis].clone()).collect();
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// The axes of size 1. One whose size may turn out to be 1 leaves the rank open.
fn ones(x: &TensorType) -> Result<Vec<usize>> {
    let mut axes = Vec::new();
    for (axis, size) in x.shape.iter().enumerate() {
        match Expr::of(size)?.equals(&Expr::from(1))? {
            Some(true) => axes.push(axis),
            Some(false) => {}
            None => {
                let cause =
                    format!("input 0 is {x}: without axes, whether axis {axis} is dropped is known only at run time");
                return Err(Diagnostic::new(Code::ShapeUnknown, cause)
                    .hint("Export the model with the axes, or fix the size with --shape or --dim"));
            }
        }
    }
    Ok(axes)
}

/// Unsqueeze.
pub(super) fn unsqueeze(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let axes = infer.numbers(1, "axes")?;
    let rank = x.shape.len() + axes.len();
    let added = axes_in(&axes, rank)?;
    let mut old = x.shape.into_iter();
    let place = |axis: usize| {
        if added.contains(&axis) { Some(Dim::Fixed(1)) } else { old.next() }
    };
    let shape = (0..rank).filter_map(place).collect();
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// Flatten into two dimensions.
pub(super) fn flatten(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let rank = x.shape.len() as i64;
    let axis = infer.int("axis", 1)?;
    // Unlike elsewhere, an axis as large as the rank is allowed: everything then goes to the first dimension.
    if axis < -rank || axis > rank {
        return Err(bad(format!("axis {axis} is out of range for {rank} dimensions")));
    }
    let axis = if axis < 0 { axis + rank } else { axis } as usize;
    let (front, back) = x.shape.split_at(axis);
    let shape = vec![dim::product(front)?.to_dim()?, dim::product(back)?.to_dim()?];
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// Transpose.
pub(super) fn transpose(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let perm = match infer.ints("perm")? {
        Some(perm) => permutation(perm, &x)?,
        None => (0..x.shape.len()).rev().collect(),
    };
    let shape = perm.iter().map(|&axis| x.shape[axis].clone()).collect();
    infer.set(0, x.dtype, shape);
    Ok(())
}

fn permutation(perm: &[i64], x: &TensorType) -> Result<Vec<usize>> {
    let wrong = || {
        bad(format!("attribute 'perm' is {perm:?}, which is not a permutation of the {} axes of {x}", x.shape.len()))
    };
    if perm.len() != x.shape.len() || perm.iter().any(|&axis| axis < 0) {
        return Err(wrong());
    }
    axes_in(perm, x.shape.len()).map_err(|_| wrong())
}

/// Trilu.
pub(super) fn trilu(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    if infer.has(1) {
        infer.typed(1, &[DType::I64])?;
        let k = infer.input(1)?;
        if k.shape.iter().any(|dim| dim.fixed().is_some_and(|size| size != 1)) {
            return Err(mismatch(format!("input 1 (k) is {k}, expected one element")));
        }
    }
    if x.shape.len() < 2 {
        return Err(mismatch(format!("input 0 is {x}, expected at least 2 dimensions")));
    }
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

/// The view itself.
pub(super) fn identity_view(_: &Node, view: &View, _: &[usize], _: &[Option<Vec<i64>>]) -> Option<View> {
    Some(view.clone())
}

/// The view itself, of a node without other inputs.
pub(super) fn alone_view(node: &Node, view: &View, _: &[usize], _: &[Option<Vec<i64>>]) -> Option<View> {
    (node.inputs.len() == 1).then(|| view.clone())
}

/// The same elements in the same order under the new shape.
pub(super) fn reshape_view(_: &Node, view: &View, shape: &[usize], _: &[Option<Vec<i64>>]) -> Option<View> {
    view.reshape(shape)
}

/// Permuted dimensions.
pub(super) fn transpose_view(node: &Node, view: &View, _: &[usize], _: &[Option<Vec<i64>>]) -> Option<View> {
    let rank = view.shape.len();
    let perm = match node.ints("perm") {
        Some(perm) if perm.len() == rank => axes_in(perm, rank).ok()?,
        Some(_) => return None,
        None => (0..rank).rev().collect(),
    };
    Some(view.transpose(&perm))
}

/// Repeated elements.
pub(super) fn expand_view(_: &Node, view: &View, shape: &[usize], _: &[Option<Vec<i64>>]) -> Option<View> {
    view.broadcast(shape)
}

/// The one index type list, for rules of other families that take a shape.
pub(super) fn shape_input(infer: &Infer<'_>, index: usize) -> Result<Vec<Expr>> {
    infer.typed(index, INDEX)?;
    let entries = infer.sizes(index, "shape")?;
    if let Some(size) = entries.iter().filter_map(Expr::as_constant).find(|&size| size < 0) {
        return Err(bad(format!("input {index} (shape) holds the negative size {size}")));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const RESHAPES: &[Case] = &[
        ("Reshape", "", "f32[2,3,4] i64[2]=6,4", "f32[6,4]"),
        ("Reshape", "", "f32[2,3,4] i64[2]=0,-1", "f32[2,12]"),
        ("Reshape", "", "f32[batch,12,64] i64[3]=batch,-1,8", "f32[batch,96,8]"),
        ("Reshape", "", "f32[batch,seq,768] i64[4]=batch,seq,12,64", "f32[batch,seq,12,64]"),
        ("Reshape", "", "f32[batch,seq,768] i64[4]=0,0,12,-1", "f32[batch,seq,12,64]"),
        ("Reshape", "", "f32[batch,16,768] i64[2]=-1,768", "f32[batch*16,768]"),
        ("Reshape", "", "f32[batch,16] i64[2]=-1,3", "f32[floor(batch*16/3),3]"),
        (
            "Reshape",
            "",
            "f32[0,3] i64[2]=3,0",
            "[B202] input 0 is f32[0,3] with 0 elements, but the new shape [3,3] has 9",
        ),
        ("Reshape", "allowzero=1", "f32[0,3] i64[2]=3,0", "f32[3,0]"),
        (
            "Reshape",
            "allowzero=1",
            "f32[0,3] i64[2]=-1,0",
            "[B202] input 0 is f32[0,3]: -1 beside a size of 0 is ambiguous",
        ),
        ("Reshape", "", "f32[1] i64[0]=", "f32[]"),
        ("Reshape", "", "f32[2,3] i64[2]=-1,-1", "[B106] the new shape holds -1 more than once"),
        ("Reshape", "", "f32[2,3] i64[1]=-3", "[B106] entry 0 of the new shape is -3"),
        (
            "Reshape",
            "",
            "f32[2,3] i64[2]=-1,4",
            "[B202] input 0 is f32[2,3]: its elements do not divide by the 4 of the other dimensions",
        ),
        (
            "Reshape",
            "",
            "f32[2,3] i64[2]=2,4",
            "[B202] input 0 is f32[2,3] with 6 elements, but the new shape [2,4] has 8",
        ),
        ("Reshape", "", "f32[2] i64[2]=2,0", "[B202] entry 1 of the new shape is 0, but input 0 is f32[2]"),
        ("Reshape", "", "f32[2,3] i64[2]", "f32[n_size0,n_size1]"),
        ("Reshape", "", "f32[2,3] i64[1,1]=6", "[B202] input 1 (shape) is i64[1,1], expected one dimension"),
        (
            "Reshape",
            "",
            "f32[batch] i64[2]=9223372036854775807,9223372036854775807",
            "[B202] a size is too large to compute with",
        ),
    ];

    #[test]
    fn reshapes() {
        check(RESHAPES);
    }

    const DIMENSIONS_COME_AND_GO: &[Case] = &[
        ("Squeeze", "", "f32[1,3,1] i64[1]=-1", "f32[1,3]"),
        ("Squeeze", "", "f32[1,3,1,n+2]", "f32[3,n + 2]"),
        (
            "Squeeze",
            "",
            "f32[1,3,1,n]",
            "[B203] input 0 is f32[1,3,1,n]: without axes, whether axis 3 is dropped is known only at run time",
        ),
        ("Squeeze", "", "f32[1,3,1,n] i64[2]=0,2", "f32[3,n]"),
        ("Squeeze", "", "f32[n,3] i64[1]=0", "f32[3]"),
        ("Squeeze", "", "f32[1,3] i64[1]=1", "[B202] input 0 is f32[1,3]: axis 1 has not the size 1"),
        ("Squeeze", "", "f32[1] i64[1]", "f32[]"),
        ("Unsqueeze", "", "f32[3,4] i64[2]=0,-1", "f32[1,3,4,1]"),
        ("Unsqueeze", "", "f32[3] i64[2]=1,1", "[B106] axis 1 is given twice"),
        ("Unsqueeze", "", "f32[3] i64[1]=2", "[B106] axis 2 is out of range for 2 dimensions"),
        ("Flatten", "", "f32[n,3,4]", "f32[n,12]"),
        ("Flatten", "axis=0", "f32[n,3,4]", "f32[1,n*12]"),
        ("Flatten", "axis=3", "f32[n,3,4]", "f32[n*12,1]"),
        ("Flatten", "axis=-4", "f32[n,3,4]", "[B106] axis -4 is out of range for 3 dimensions"),
        ("Flatten", "axis=0", "f32[]", "f32[1,1]"),
        ("Transpose", "", "f32[2,3,n]", "f32[n,3,2]"),
        ("Transpose", "perm=[0,2,1]", "f32[2,3,n]", "f32[2,n,3]"),
        (
            "Transpose",
            "perm=[0,0]",
            "f32[2,3]",
            "[B106] attribute 'perm' is [0, 0], which is not a permutation of the 2 axes of f32[2,3]",
        ),
        (
            "Transpose",
            "perm=[0]",
            "f32[2,3]",
            "[B106] attribute 'perm' is [0], which is not a permutation of the 2 axes of f32[2,3]",
        ),
        ("Trilu", "", "bool[3,4] i64[]", "bool[3,4]"),
        ("Trilu", "", "bool[3]", "[B202] input 0 is bool[3], expected at least 2 dimensions"),
        ("Identity", "", "u8[n]", "u8[n]"),
    ];

    #[test]
    fn dimensions_come_and_go() {
        check(DIMENSIONS_COME_AND_GO);
    }
}

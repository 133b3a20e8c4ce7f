//! Operators that join, cut and repeat, after ONNX: Concat 13, Split 18, Tile 13, Pad 24.

use byoc_plugin_api::{DType, Dim};

use super::elements::{self, Scalar};
use super::infer::{INDEX, Infer, axes_in, bad, mismatch};
use crate::diagnostic::Result;
use crate::dim::{self, Expr};

/// Concat.
pub(super) fn concat(infer: &mut Infer<'_>) -> Result<()> {
    let first = infer.input(0)?;
    if infer.optional_int("axis")?.is_none() {
        return Err(bad("attribute 'axis' is missing"));
    }
    let axis = infer.axis("axis", 0, first.shape.len())?;
    let mut shape = first.shape.clone();
    let mut length = Expr::of(&shape[axis])?;
    for index in 1..infer.inputs.len() {
        let ty = infer.like_first(index)?;
        let wrong =
            || mismatch(format!("input {index} is {ty}, but input 0 is {first}: they may differ on axis {axis} only"));
        if ty.shape.len() != shape.len() {
            return Err(wrong());
        }
        for (place, size) in ty.shape.iter().enumerate().filter(|(place, _)| *place != axis) {
            shape[place] = dim::same(&shape[place], size).ok_or_else(wrong)?;
        }
        length = length.plus(&Expr::of(&ty.shape[axis])?)?;
    }
    shape[axis] = length.to_dim()?;
    let joined = joined_elements(infer, axis);
    infer.set(0, first.dtype, shape);
    infer.set_elements(joined);
    Ok(())
}

/// For each index before `axis`, the run of elements of each input in turn.
fn joined_elements(infer: &Infer<'_>, axis: usize) -> Option<Vec<Scalar>> {
    let mut parts = Vec::with_capacity(infer.inputs.len());
    let mut rows = 1;
    for (index, ty) in infer.inputs.iter().enumerate() {
        let sizes = elements::fixed(&ty.as_ref()?.shape)?;
        rows = sizes[..axis].iter().product();
        parts.push((infer.known(index)?, sizes[axis..].iter().product::<usize>()));
    }
    let mut joined = Vec::new();
    for row in 0..rows {
        for (values, run) in &parts {
            joined.extend_from_slice(values.get(row * run..(row + 1) * run)?);
        }
    }
    Some(joined)
}

/// Split: by the given sizes, or into `num_outputs` parts of which the last may be smaller.
pub(super) fn split(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let axis = infer.axis("axis", 0, x.shape.len())?;
    let count = infer.outputs.len();
    let size = Expr::of(&x.shape[axis])?;
    let parts = match (infer.has(1), infer.optional_int("num_outputs")?) {
        (true, Some(_)) => {
            return Err(bad("input 1 (split) and attribute 'num_outputs' are both given, expected one"));
        }
        (true, None) => given_parts(infer, &size)?,
        (false, Some(number)) if number != count as i64 => {
            return Err(bad(format!("attribute 'num_outputs' is {number}, but there are {count} outputs")));
        }
        (false, _) => equal_parts(&size, count)?,
    };
    if parts.len() != count {
        return Err(mismatch(format!("input 1 (split) has {} entries, but there are {count} outputs", parts.len())));
    }
    let mut place = 0usize;
    let flat = if x.shape.len() == 1 { infer.known(0).map(<[Scalar]>::to_vec) } else { None };
    for (index, part) in parts.iter().enumerate() {
        let mut shape = x.shape.clone();
        shape[axis] = part.to_dim()?;
        if let (Some(values), Some(length)) = (&flat, shape[axis].fixed()) {
            infer.output_elements[index] = values.get(place..place.saturating_add(length)).map(<[Scalar]>::to_vec);
            place = place.saturating_add(length);
        }
        infer.set(index, x.dtype, shape);
    }
    Ok(())
}

fn given_parts(infer: &Infer<'_>, size: &Expr) -> Result<Vec<Expr>> {
    let parts = infer.sizes(1, "split")?;
    if let Some(part) = parts.iter().filter_map(Expr::as_constant).find(|&part| part < 0) {
        return Err(bad(format!("input 1 (split) holds the negative size {part}")));
    }
    let sum = parts.iter().try_fold(Expr::from(0), |sum, part| sum.plus(part))?;
    if sum.as_constant().zip(size.as_constant()).is_some_and(|(sum, size)| sum != size) {
        return Err(mismatch(format!("input 1 (split) adds up to {sum}, but the axis has the size {size}")));
    }
    Ok(parts)
}

fn equal_parts(size: &Expr, count: usize) -> Result<Vec<Expr>> {
    let part = size.ceil_div(&Expr::from(count as i64))?;
    let mut parts = vec![part.clone(); count];
    let last = size.minus(&part.scale(count as i64 - 1)?)?;
    if let Some(number) = last.as_constant().filter(|&number| number < 0) {
        return Err(mismatch(format!(
            "a size of {size} does not split into {count} parts of {part}: the last would have {number}"
        )));
    }
    parts[count - 1] = last;
    Ok(parts)
}

/// Tile.
pub(super) fn tile(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let repeats = infer.sizes(1, "repeats")?;
    if repeats.len() != x.shape.len() {
        return Err(mismatch(format!("input 1 (repeats) has {} entries, but input 0 is {x}", repeats.len())));
    }
    let times = |(dim, repeat): (&Dim, &Expr)| match repeat.as_constant() {
        Some(number) if number < 0 => Err(bad(format!("input 1 (repeats) holds {number}"))),
        _ => Ok(Expr::of(dim)?.times(repeat)?.to_dim()?),
    };
    let shape = x.shape.iter().zip(&repeats).map(times).collect::<Result<Vec<_>>>()?;
    // Repeating one dimension repeats the list.
    let count = elements::count(&shape).filter(|_| shape.len() == 1);
    let known = infer.known(0).zip(count);
    let repeated = known.map(|(values, count)| values.iter().cycle().take(count).cloned().collect());
    infer.set(0, x.dtype, shape);
    infer.set_elements(repeated);
    Ok(())
}

/// Pad. A negative number cuts off.
pub(super) fn pad(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let mode = infer.choice("mode", &["constant", "reflect", "edge", "wrap"])?;
    infer.typed(1, &[DType::I64])?;
    let pads = infer.sizes(1, "pads")?;
    if infer.has(2) && infer.like_first(2)?.shape.iter().any(|dim| dim.fixed().is_some_and(|size| size != 1)) {
        return Err(mismatch(format!("input 2 (constant_value) is {}, expected one element", infer.input(2)?)));
    }
    let rank = x.shape.len();
    let axes = match infer.has(3) {
        true => {
            infer.typed(3, INDEX)?;
            axes_in(&infer.numbers(3, "axes")?, rank)?
        }
        false => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(mismatch(format!(
            "input 1 (pads) has {} entries, expected {} for {} axes",
            pads.len(),
            2 * axes.len(),
            axes.len()
        )));
    }
    let mut shape = x.shape.clone();
    for (index, &axis) in axes.iter().enumerate() {
        let size = Expr::of(&x.shape[axis])?.plus(&pads[index])?.plus(&pads[index + axes.len()])?;
        if size.as_constant().is_some_and(|size| size < 0) {
            return Err(mismatch(format!("axis {axis} of {x} would have the negative size {size}")));
        }
        let grows = size.as_constant().is_some_and(|size| size > 0);
        if mode != "constant" && x.shape[axis] == Dim::Fixed(0) && grows {
            return Err(mismatch(format!("axis {axis} of {x} has no element to repeat (mode {mode})")));
        }
        shape[axis] = size.to_dim()?;
    }
    infer.set(0, x.dtype, shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const JOINS_AND_CUTS: &[Case] = &[
        ("Concat", "axis=1", "f32[2,3] f32[2,n] f32[2,4]", "f32[2,n + 7]"),
        ("Concat", "axis=-1", "f32[b,3] f32[2,4]", "f32[2,7]"),
        ("Concat", "axis=0", "i64[1]=batch i64[2]=12,-1", "i64[3] = batch,12,-1"),
        ("Concat", "axis=1", "i64[2,1]=1,2 i64[2,2]=3,4,5,6", "i64[2,3] = 1,3,4,2,5,6"),
        ("Concat", "axis=0", "i64[1]=batch i64[2]", "i64[3] = unknown"),
        ("Concat", "", "f32[2]", "[B106] attribute 'axis' is missing"),
        (
            "Concat",
            "axis=0",
            "f32[2,3] f32[2,4]",
            "[B202] input 1 is f32[2,4], but input 0 is f32[2,3]: they may differ on axis 0 only",
        ),
        (
            "Concat",
            "axis=0",
            "f32[2] i32[2]",
            "[B201] input 1 is i32[2], but input 0 is f32[2]: both must have the same element type",
        ),
        ("Split", "", "f32[6,2]", "f32[3,2] f32[3,2]"),
        ("Split", "num_outputs=3", "f32[7]", "f32[3] f32[3] f32[1]"),
        ("Split", "axis=1", "f32[2,6] i64[2]=2,4", "f32[2,2] f32[2,4]"),
        ("Split", "", "i64[3]=batch,2,3 i64[2]=1,2", "i64[1] i64[2] = batch"),
        ("Split", "", "f32[h]", "f32[floor((h + 1)/2)] f32[h - floor((h + 1)/2)]"),
        ("Split", "num_outputs=4", "f32[5]", "[B106] attribute 'num_outputs' is 4, but there are 1 outputs"),
        ("Split", "", "f32[6] i64[1]=4", "[B202] input 1 (split) adds up to 4, but the axis has the size 6"),
        ("Split", "", "f32[6] i64[2]=3,3", "[B202] input 1 (split) has 2 entries, but there are 1 outputs"),
        ("Split", "", "f32[6] i64[1]=-6", "[B106] input 1 (split) holds the negative size -6"),
        (
            "Split",
            "num_outputs=1",
            "f32[6] i64[1]=6",
            "[B106] input 1 (split) and attribute 'num_outputs' are both given, expected one",
        ),
    ];

    #[test]
    fn joins_and_cuts() {
        check(JOINS_AND_CUTS);
    }

    const REPEATS_AND_PADS: &[Case] = &[
        ("Tile", "", "f32[2,n] i64[2]=3,2", "f32[6,n*2]"),
        ("Tile", "", "i64[2]=1,batch i64[1]=2", "i64[4] = 1,batch,1,batch"),
        ("Tile", "", "f32[2,n] i64[1]=3", "[B202] input 1 (repeats) has 1 entries, but input 0 is f32[2,n]"),
        ("Tile", "", "f32[2] i64[1]=-3", "[B106] input 1 (repeats) holds -3"),
        ("Pad", "", "f32[1,3,h] i64[6]=0,0,1,0,0,1", "f32[1,3,h + 2]"),
        ("Pad", "mode=reflect", "f32[1,3,4] i64[2]=1,2 - i64[1]=-1", "f32[1,3,7]"),
        ("Pad", "", "f32[4] i64[2]=-1,-2 f32[]", "f32[1]"),
        ("Pad", "", "f32[2] i64[2]=-1,-2", "[B202] axis 0 of f32[2] would have the negative size -1"),
        ("Pad", "", "f32[2] i64[3]=1,1,1", "[B202] input 1 (pads) has 3 entries, expected 2 for 1 axes"),
        (
            "Pad",
            "mode=mirror",
            "f32[2] i64[2]=1,1",
            "[B106] attribute 'mode' is 'mirror', expected one of constant, reflect, edge, wrap",
        ),
        ("Pad", "mode=edge", "f32[0] i64[2]=1,1", "[B202] axis 0 of f32[0] has no element to repeat (mode edge)"),
        ("Pad", "", "f32[2] i64[2]", "f32[n_size0]"),
        ("Pad", "", "f32[2] i64[2]=9223372036854775807,1", "[B202] a size is too large to compute with"),
    ];

    #[test]
    fn repeats_and_pads() {
        check(REPEATS_AND_PADS);
    }
}

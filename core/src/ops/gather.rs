//! Operators that pick elements by index, after ONNX: Gather 13, GatherElements 13, GatherND 13, ReverseSequence 10.

use byoc_plugin_api::{DType, Dim};

use super::elements::{self, Scalar};
use super::infer::{INDEX, Infer, bad, mismatch, unknown};
use crate::diagnostic::Result;
use crate::dim;
use crate::ir::TensorType;

/// Gather along one axis.
pub(super) fn gather(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let indices = infer.typed(1, INDEX)?;
    let axis = infer.axis("axis", 0, x.shape.len())?;
    in_range(infer, &x.shape[axis])?;
    let mut shape = x.shape[..axis].to_vec();
    shape.extend_from_slice(&indices.shape);
    shape.extend_from_slice(&x.shape[axis + 1..]);
    let picked = picked_elements(infer, axis);
    infer.set(0, x.dtype, shape);
    infer.set_elements(picked);
    Ok(())
}

/// Known indices must be in the axis; negative ones count from its end.
fn in_range(infer: &Infer<'_>, size: &Dim) -> Result<()> {
    let Some(size) = size.fixed().and_then(|size| i64::try_from(size).ok()) else {
        return Ok(());
    };
    let known = infer.known(1).unwrap_or_default();
    match known.iter().filter_map(Scalar::as_i64).find(|&index| index < -size || index >= size) {
        Some(index) => Err(mismatch(format!("input 1 (indices) holds {index}, but the axis has the size {size}"))),
        None => Ok(()),
    }
}

fn picked_elements(infer: &Infer<'_>, axis: usize) -> Option<Vec<Scalar>> {
    let sizes = elements::fixed(&infer.inputs.first()?.as_ref()?.shape)?;
    let (values, indices) = (infer.known(0)?, infer.known(1)?);
    let (rows, run) = (sizes[..axis].iter().product::<usize>(), sizes[axis + 1..].iter().product::<usize>());
    if rows.checked_mul(indices.len())?.checked_mul(run)? > elements::ELEMENT_LIMIT {
        return None;
    }
    let mut picked = Vec::new();
    for row in 0..rows {
        for index in indices {
            let index = index.as_i64()?;
            let index = if index < 0 { index.checked_add(sizes[axis] as i64)? } else { index };
            let start = (row * sizes[axis] + usize::try_from(index).ok()?) * run;
            picked.extend_from_slice(values.get(start..start + run)?);
        }
    }
    Some(picked)
}

/// GatherElements: the shape of the indices.
pub(super) fn gather_elements(infer: &mut Infer<'_>) -> Result<()> {
    let (x, indices) = elements_at(infer)?;
    infer.set(0, x.dtype, indices.shape);
    Ok(())
}

/// The data and the indices of GatherElements and ScatterElements: each index names the element of the data that is in the same
/// place on all other axes.
pub(super) fn elements_at(infer: &Infer<'_>) -> Result<(TensorType, TensorType)> {
    let x = infer.input(0)?;
    let indices = infer.typed(1, INDEX)?;
    let axis = infer.axis("axis", 0, x.shape.len())?;
    if indices.shape.len() != x.shape.len() {
        return Err(mismatch(format!(
            "input 1 (indices) is {indices}, but input 0 is {x}: expected as many dimensions"
        )));
    }
    in_range(infer, &x.shape[axis])?;
    let larger = |place: &usize| match (indices.shape[*place].fixed(), x.shape[*place].fixed()) {
        (Some(index), Some(size)) => *place != axis && index > size,
        _ => false,
    };
    if let Some(place) = (0..x.shape.len()).find(larger) {
        return Err(mismatch(format!("input 1 (indices) is {indices}, which is larger than {x} on axis {place}")));
    }
    Ok((x, indices))
}

/// ReverseSequence: one length for each batch.
pub(super) fn reverse_sequence(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let lengths = infer.ranked(1, &[DType::I64], 1)?;
    let (batch, time) = (infer.int("batch_axis", 1)?, infer.int("time_axis", 0)?);
    if !matches!((batch, time), (0, 1) | (1, 0)) || x.shape.len() < 2 {
        return Err(bad(format!(
            "input 0 is {x}, batch_axis is {batch}, time_axis is {time}: expected 0 and 1, or 1 and 0"
        )));
    }
    let size = &x.shape[batch as usize];
    if dim::same(size, &lengths.shape[0]).is_none() {
        return Err(mismatch(format!("input 1 (sequence_lens) is {lengths}, expected {size} elements")));
    }
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

/// GatherND: each row of the indices picks a slice.
pub(super) fn gather_nd(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let indices = infer.typed(1, &[DType::I64])?;
    let (rank, index_rank) = (x.shape.len(), indices.shape.len());
    let batch = usize::try_from(infer.int("batch_dims", 0)?).ok().filter(|&batch| batch < rank.min(index_rank));
    let batch = batch.ok_or_else(|| {
        bad(format!(
            "input 0 is {x}, input 1 is {indices}, batch_dims is {}: expected fewer batch dimensions than either has",
            infer.int("batch_dims", 0).unwrap_or(0)
        ))
    })?;
    let depth = indices.shape[index_rank - 1].fixed();
    let depth = depth.ok_or_else(|| unknown("the last size of input 1 (indices) is known only at run time"))?;
    if depth < 1 || depth > rank - batch {
        return Err(mismatch(format!(
            "input 1 (indices) is {indices}: rows of {depth} indices into {x}, expected 1 to {}",
            rank - batch
        )));
    }
    let mut shape = Vec::new();
    for place in 0..batch {
        let size = dim::same(&x.shape[place], &indices.shape[place]);
        shape.push(size.ok_or_else(|| {
            mismatch(format!("input 1 (indices) is {indices}, but {x} has another size on batch axis {place}"))
        })?);
    }
    shape.extend_from_slice(&indices.shape[batch..index_rank - 1]);
    shape.extend_from_slice(&x.shape[batch + depth..]);
    infer.set(0, x.dtype, shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const GATHERS: &[Case] = &[
        ("Gather", "", "f32[50257,768] i64[b,s]", "f32[b,s,768]"),
        ("Gather", "axis=1", "f32[b,s,768] i64[]", "f32[b,768]"),
        ("Gather", "", "i64[3]=batch,3,4 i64[]=0", "i64[] = batch"),
        ("Gather", "", "i64[3]=batch,3,4 i64[2]=-1,0", "i64[2] = 4,batch"),
        ("Gather", "axis=1", "i64[2,3]=1,2,3,4,5,6 i64[1]=-1", "i64[2,1] = 3,6"),
        ("Gather", "", "f32[3] i64[1]=3", "[B202] input 1 (indices) holds 3, but the axis has the size 3"),
        ("Gather", "", "f32[3] f32[1]", "[B201] input 1 is f32[1], expected one of i32, i64"),
        ("Gather", "", "f32[] i64[1]", "[B106] axis 0 is out of range for 0 dimensions"),
        ("GatherElements", "axis=1", "f32[3,4] i64[3,9]", "f32[3,9]"),
        (
            "GatherElements",
            "axis=1",
            "f32[3,4] i64[4,2]",
            "[B202] input 1 (indices) is i64[4,2], which is larger than f32[3,4] on axis 0",
        ),
        (
            "GatherElements",
            "",
            "f32[3,4] i64[4]",
            "[B202] input 1 (indices) is i64[4], but input 0 is f32[3,4]: expected as many dimensions",
        ),
        ("GatherND", "", "f32[2,3,4] i64[5,2]", "f32[5,4]"),
        ("GatherND", "batch_dims=1", "f32[b,3,4] i64[b,7,1]", "f32[b,7,4]"),
        (
            "GatherND",
            "",
            "f32[2,3] i64[5,3]",
            "[B202] input 1 (indices) is i64[5,3]: rows of 3 indices into f32[2,3], expected 1 to 2",
        ),
        (
            "GatherND",
            "batch_dims=2",
            "f32[2,3] i64[2,3]",
            "[B106] input 0 is f32[2,3], input 1 is i64[2,3], batch_dims is 2: expected fewer batch dimensions than either has",
        ),
        ("ReverseSequence", "", "f32[t,b,4] i64[b]", "f32[t,b,4]"),
        ("ReverseSequence", "batch_axis=0 time_axis=1", "f32[3,4] i64[3]", "f32[3,4]"),
        ("ReverseSequence", "", "f32[4,3] i64[4]", "[B202] input 1 (sequence_lens) is i64[4], expected 3 elements"),
        (
            "ReverseSequence",
            "batch_axis=0",
            "f32[4,3] i64[4]",
            "[B106] input 0 is f32[4,3], batch_axis is 0, time_axis is 0: expected 0 and 1, or 1 and 0",
        ),
        ("GatherND", "", "f32[2,3] i64[5,n]", "[B203] the last size of input 1 (indices) is known only at run time"),
    ];

    #[test]
    fn gathers() {
        check(GATHERS);
    }
}

//! Operators that only move elements or look at shapes.

use byoc_plugin_api::Error;
use ndarray::{Array1, ArrayD, ArrayViewD, Axis, IxDyn, Slice};

use super::array::{Array, Item, count, dims, each, elements, shaped};
use super::binary::{broadcast, broadcast_shape};
use super::call::{Call, Outputs, around, axes, same};
use super::{ALL, I64, Kernel, MOVED, SAME, kernel, mover};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Concat", concat, &[MOVED, SAME]),
    kernel("Expand", expand, &[MOVED, I64]),
    mover("Flatten", flatten, &[ALL]),
    mover("Reshape", reshape, &[ALL, I64]),
    mover("Shape", shape, &[ALL]),
    mover("Size", size, &[ALL]),
    kernel("Split", split, &[MOVED, I64]),
    mover("Squeeze", squeeze, &[ALL, I64]),
    kernel("Tile", tile, &[MOVED, I64]),
    mover("Transpose", transpose, &[ALL]),
    mover("Unsqueeze", unsqueeze, &[ALL, I64]),
];

fn reshaped(x: &Array<'_>, shape: &[usize]) -> Outputs {
    Ok(vec![each!(x, x => Item::wrap(shaped(shape, elements(&x.view()).into_owned())?))])
}

fn needed(call: &Call<'_, '_>, input: usize) -> Result<Vec<i64>, Error> {
    call.ints(input).ok_or_else(|| Error::new(format!("{} needs input {input}", call.node.op)))
}

/// `Reshape`, with 0 for "as before" (unless `allowzero`) and -1 for "what is left".
pub(crate) fn reshape(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let wanted = needed(call, 1)?;
    let copy_zero = call.node.int("allowzero", 0) == 0;
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (axis, &size) in wanted.iter().enumerate() {
        shape.push(match size {
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            0 if copy_zero => *x.shape().get(axis).ok_or_else(|| Error::new(format!("nothing to copy at {axis}")))?,
            size => usize::try_from(size).map_err(|_| Error::new(format!("cannot reshape to {wanted:?}")))?,
        });
    }
    if let Some(axis) = open {
        let rest = count(&shape)?;
        shape[axis] = x.len().checked_div(rest).unwrap_or(0);
    }
    reshaped(x, &shape)
}

/// `Flatten` to a matrix.
pub(crate) fn flatten(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let (axis, rank) = (call.node.int("axis", 1), x.shape().len() as i64);
    let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|&axis| axis as i64 <= rank);
    let axis = axis.ok_or_else(|| Error::new(format!("axis of Flatten for a tensor of rank {rank}")))?;
    let (rows, columns) = x.shape().split_at(axis);
    reshaped(x, &[rows.iter().product(), columns.iter().product()])
}

/// `Squeeze`.
pub(crate) fn squeeze(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let gone = call.ints(1).map(|values| axes(&values, x.shape().len())).transpose()?;
    if let Some(&axis) = gone.iter().flatten().find(|&&axis| x.shape()[axis] != 1) {
        return Err(Error::new(format!("cannot squeeze axis {axis} of shape {:?}", x.shape())));
    }
    let keep = |axis: usize, size: usize| gone.as_ref().map_or(size != 1, |gone| !gone.contains(&axis));
    let kept = x.shape().iter().enumerate().filter(|&(axis, &size)| keep(axis, size));
    reshaped(x, &kept.map(|(_, &size)| size).collect::<Vec<_>>())
}

/// `Unsqueeze`.
pub(crate) fn unsqueeze(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let values = needed(call, 1)?;
    let mut new = axes(&values, x.shape().len() + values.len())?;
    new.sort_unstable();
    let mut shape = x.shape().to_vec();
    for &axis in &new {
        if axis > shape.len() {
            return Err(Error::new(format!("axes {values:?} of Unsqueeze are not distinct")));
        }
        shape.insert(axis, 1);
    }
    reshaped(x, &shape)
}

/// `Transpose`.
pub(crate) fn transpose(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let rank = x.shape().len();
    let reversed: Vec<i64> = (0..rank as i64).rev().collect();
    let order = axes(call.node.ints("perm").unwrap_or(&reversed), rank)?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..rank) {
        return Err(Error::new(format!("{order:?} is not a permutation of {rank} axes")));
    }
    Ok(vec![each!(x, x => Item::wrap(x.view().permuted_axes(IxDyn(&order)).to_owned()))])
}

/// `Expand`: both shapes broadcast against each other.
pub(crate) fn expand(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let shape = broadcast_shape(x.shape(), &dims(&needed(call, 1)?)?)?;
    call.count(&shape)?;
    Ok(vec![each!(x, x => Item::wrap(broadcast(&x.view(), &shape)?.to_owned()))])
}

/// `Shape`, or the part of it from `start` to `end`.
pub(crate) fn shape(call: &Call<'_, '_>) -> Outputs {
    let sizes = call.input(0)?.shape();
    let rank = sizes.len() as i64;
    let clamp = |value: i64| (if value < 0 { value.saturating_add(rank) } else { value }).clamp(0, rank) as usize;
    let (start, end) = (clamp(call.node.int("start", 0)), clamp(call.node.int("end", rank)));
    let part = sizes.get(start..end.max(start)).unwrap_or_default();
    Ok(vec![Item::wrap(part.iter().map(|&size| size as i64).collect::<Array1<i64>>().into_dyn())])
}

/// `Size`: the number of elements.
pub(crate) fn size(call: &Call<'_, '_>) -> Outputs {
    Ok(vec![Item::wrap(ArrayD::from_elem(IxDyn(&[]), call.input(0)?.len() as i64))])
}

/// `Concat`.
pub(crate) fn concat(call: &Call<'_, '_>) -> Outputs {
    fn joined<T: Item>(call: &Call<'_, '_>, first: &ArrayViewD<'_, T>) -> Outputs {
        let axis = call.axis("axis", 0, first.ndim())?;
        let parts: Vec<_> = call.inputs().map(|input| same(first, input)).collect::<Result<_, _>>()?;
        let mut shape = first.shape().to_vec();
        shape[axis] = 0;
        for part in &parts {
            let fits = |(i, &size): (usize, &usize)| i == axis || part.shape()[i] == size;
            if part.ndim() != shape.len() || !shape.iter().enumerate().all(fits) {
                return Err(Error::new(format!("cannot join {:?} and {:?}", first.shape(), part.shape())));
            }
            shape[axis] += part.shape()[axis];
        }
        let mut data = Vec::with_capacity(count(&shape)?);
        let parts: Vec<_> = parts.iter().map(|part| (elements(part), around(part.shape(), axis))).collect();
        for outer in 0..around(&shape, axis).0 {
            for (part, (_, size, inner)) in &parts {
                let run = size * inner;
                data.extend_from_slice(&part[outer * run..(outer + 1) * run]);
            }
        }
        Ok(vec![T::wrap(shaped(&shape, data)?)])
    }
    each!(call.input(0)?, x => joined(call, &x.view()))
}

/// `Split`, by the sizes of input 1 or into equal parts of which the last may be smaller.
pub(crate) fn split(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axis = call.axis("axis", 0, x.shape().len())?;
    let size = x.shape()[axis];
    let sizes = match call.ints(1) {
        Some(sizes) => {
            let parts: Result<Vec<usize>, _> = sizes.iter().map(|&size| usize::try_from(size)).collect();
            let parts = parts.map_err(|_| Error::new(format!("a negative size in {sizes:?}")))?;
            if parts.len() != call.node.outputs.len() {
                return Err(Error::new(format!("{} parts for {} outputs", parts.len(), call.node.outputs.len())));
            }
            parts
        }
        None => {
            let parts = call.node.outputs.len();
            if parts == 0 || call.node.int("num_outputs", parts as i64) != parts as i64 {
                return Err(Error::new(format!("num_outputs of Split is not {parts}")));
            }
            let each = size.div_ceil(parts);
            (0..parts).map(|part| each.min(size.saturating_sub(part * each))).collect()
        }
    };
    if sizes.iter().try_fold(0usize, |sum, &part| sum.checked_add(part)) != Some(size) {
        return Err(Error::new(format!("cannot split {size} into {sizes:?}")));
    }
    let mut start = 0;
    let part = |size| {
        let range = Slice::from(start..start + size);
        start += size;
        each!(x, x => Item::wrap(x.slice_axis(Axis(axis), range).to_owned()))
    };
    Ok(sizes.into_iter().map(part).collect())
}

/// `Tile`.
pub(crate) fn tile(call: &Call<'_, '_>) -> Outputs {
    fn tiled<T: Item>(x: &ArrayViewD<'_, T>, repeats: &[usize], shape: &[usize]) -> Result<ArrayD<T>, Error> {
        let mut data = elements(x).into_owned();
        // From the last axis to the first, so that one run of memory is repeated at a time.
        let mut run = 1;
        for axis in (0..x.ndim()).rev() {
            run *= x.shape()[axis];
            if run > 0 {
                data = data
                    .chunks(run)
                    .flat_map(|chunk| std::iter::repeat_n(chunk, repeats[axis]))
                    .flatten()
                    .copied()
                    .collect();
            }
            run *= repeats[axis];
        }
        shaped(shape, if shape.contains(&0) { Vec::new() } else { data })
    }
    let x = call.input(0)?;
    let repeats = dims(&needed(call, 1)?)?;
    if repeats.len() != x.shape().len() {
        return Err(Error::new(format!("{} repeats for a tensor of rank {}", repeats.len(), x.shape().len())));
    }
    let sizes = x.shape().iter().zip(&repeats);
    let shape: Vec<usize> = sizes.map(|(size, times)| size.saturating_mul(*times)).collect();
    call.count(&shape)?;
    Ok(vec![each!(x, x => Item::wrap(tiled(&x.view(), &repeats, &shape)?))])
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, counting, first, ints, list, node};
    use super::*;

    #[test]
    fn shapes_follow_their_special_values() {
        let zero = ("allowzero", Attribute::Int(1));
        type Case<'a> = (&'a str, Vec<(&'a str, Attribute)>, Vec<usize>, Option<&'a [i64]>, Option<Vec<usize>>);
        let cases: [Case<'_>; 11] = [
            ("Reshape", vec![], vec![2, 3, 4], Some(&[0, -1]), Some(vec![2, 12])),
            ("Reshape", vec![], vec![2, 0], Some(&[0, 0, 0]), None),
            ("Reshape", vec![zero.clone()], vec![2, 0], Some(&[0, 7]), Some(vec![0, 7])),
            ("Reshape", vec![], vec![0, 3], Some(&[-1, 3]), Some(vec![0, 3])),
            ("Reshape", vec![], vec![6], Some(&[-1, -1]), None),
            ("Reshape", vec![], vec![6], Some(&[4]), None),
            ("Unsqueeze", vec![], vec![2, 3], Some(&[-1, 0]), Some(vec![1, 2, 3, 1])),
            ("Squeeze", vec![], vec![1, 2, 1], Some(&[-1]), Some(vec![1, 2])),
            ("Squeeze", vec![], vec![1, 2, 1], None, Some(vec![2])),
            ("Flatten", vec![("axis", Attribute::Int(-1))], vec![2, 3, 4], None, Some(vec![6, 4])),
            ("Flatten", vec![("axis", Attribute::Int(0))], vec![], None, Some(vec![1, 1])),
        ];
        for (op, attributes, shape, values, expected) in cases {
            let found = all(op, &attributes, vec![counting(&shape), values.and_then(ints)]);
            assert_eq!(found.ok().map(|y| y[0].shape().to_vec()), expected, "{op} {shape:?} {values:?}");
        }
    }

    #[test]
    fn elements_move_to_where_they_should() {
        let x = || counting(&[2, 3]);
        assert_eq!(first("Transpose", &[], vec![x()]), (vec![3, 2], vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
        assert!(all("Transpose", &[("perm", list(&[0, 0]))], vec![x()]).is_err());
        assert_eq!(
            first("Tile", &[], vec![counting(&[2, 1]), ints(&[2, 2])]),
            (vec![4, 2], vec![1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0])
        );
        assert_eq!(first("Tile", &[], vec![x(), ints(&[0, 2])]), (vec![0, 6], vec![]));
        assert_eq!(first("Expand", &[], vec![counting(&[2, 1]), ints(&[3, 1, 1])]).0, [3, 2, 1]);
        let joined = first("Concat", &[("axis", Attribute::Int(-1))], vec![x(), counting(&[2, 0]), counting(&[2, 1])]);
        assert_eq!(joined, (vec![2, 4], vec![1.0, 2.0, 3.0, 1.0, 4.0, 5.0, 6.0, 2.0]));
        assert_eq!(first("Size", &[], vec![x()]), (vec![], vec![6.0]));
        let part = [("start", Attribute::Int(-2)), ("end", Attribute::Int(9))];
        assert_eq!(first("Shape", &part, vec![counting(&[4, 2, 3])]).1, [2.0, 3.0]);
    }

    #[test]
    fn the_last_part_of_a_split_may_be_smaller() {
        let parts = super::super::compute(&node("Split", 3, &[]), vec![counting(&[7])], &[]).expect("split");
        assert_eq!(parts.iter().map(Array::len).collect::<Vec<_>>(), [3, 3, 1]);
        let wrong = super::super::compute(&node("Split", 2, &[]), vec![counting(&[7]), ints(&[3, 3])], &[]);
        assert_eq!(wrong.expect_err("sizes").message, "cannot split 7 into [3, 3]");
    }
}

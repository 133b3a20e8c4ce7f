//! Operators that read or write elements at given indices. An index out of range is an error.

use byoc_plugin_api::Error;
use ndarray::{ArrayViewD, Dimension, IxDyn};

use super::array::{Array, Item, count, each, each_number, elements, shaped};
use super::call::{Call, Outputs, around, index, same};
use super::number::Number;
use super::{I64, INDEX, Kernel, MOVED, SAME, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Gather", gather, &[MOVED, INDEX]),
    kernel("GatherElements", gather_elements, &[MOVED, INDEX]),
    kernel("GatherND", gather_nd, &[MOVED, I64]),
    kernel("ReverseSequence", reverse_sequence, &[MOVED, I64]),
    kernel("ScatterElements", scatter_elements, &[MOVED, INDEX, SAME]),
    kernel("ScatterND", scatter_nd, &[MOVED, I64, SAME]),
];

/// `Gather` along one axis.
pub(crate) fn gather(call: &Call<'_, '_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, x.shape().len())?;
    let (outer, size, inner) = around(x.shape(), axis);
    let picks: Vec<usize> = indices.to_ints().into_iter().map(|value| index(value, size)).collect::<Result<_, _>>()?;
    let shape = [&x.shape()[..axis], indices.shape(), &x.shape()[axis + 1..]].concat();
    count(&shape)?;
    taken(x, (outer, size, inner), &picks, &shape)
}

/// The slices at `picks` of an axis, as a tensor of that shape; what is around the axis as [`around`] tells it.
pub(crate) fn taken(
    x: &Array<'_>,
    (outer, size, inner): (usize, usize, usize),
    picks: &[usize],
    shape: &[usize],
) -> Outputs {
    each!(x, x => {
        let x = x.view();
        let x = elements(&x);
        let mut data = Vec::with_capacity(outer * picks.len() * inner);
        for o in 0..outer {
            for &pick in picks {
                let start = (o * size + pick) * inner;
                data.extend_from_slice(&x[start..start + inner]);
            }
        }
        Ok(vec![Item::wrap(shaped(shape, data)?)])
    })
}

/// For each element of the indices of `GatherElements` and `ScatterElements`, the place of the element that it names: in the same
/// place on all axes but one.
fn places(x: &Array<'_>, indices: &Array<'_>, axis: usize) -> Result<Vec<usize>, Error> {
    let inside = indices.shape().iter().zip(x.shape()).enumerate().all(|(i, (a, b))| i == axis || a <= b);
    if indices.shape().len() != x.shape().len() || !inside {
        return Err(Error::new(format!("indices {:?} for data {:?}", indices.shape(), x.shape())));
    }
    let indices = shaped(indices.shape(), indices.to_ints())?;
    let place = |(mut position, &value): (IxDyn, &i64)| {
        position[axis] = index(value, x.shape()[axis])?;
        Ok(position.slice().iter().zip(x.shape()).fold(0, |place, (at, size)| place * size + at))
    };
    indices.indexed_iter().map(place).collect()
}

/// `GatherElements`: the index tensor has the output's shape.
pub(crate) fn gather_elements(call: &Call<'_, '_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let places = places(x, indices, call.axis("axis", 0, x.shape().len())?)?;
    taken(x, (1, x.len(), 1), &places, indices.shape())
}

/// `ReverseSequence`: the first elements of each batch, as many as input 1 says, go the other way.
pub(crate) fn reverse_sequence(call: &Call<'_, '_>) -> Outputs {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    let rank = x.shape().len();
    let (batch, time) = (call.axis("batch_axis", 1, rank)?, call.axis("time_axis", 0, rank)?);
    if batch == time || batch.max(time) > 1 || lengths.shape() != [x.shape()[batch]] {
        let (shape, lengths) = (x.shape(), lengths.shape());
        return Err(Error::new(format!(
            "lengths {lengths:?} for data {shape:?}, batch axis {batch}, time axis {time}"
        )));
    }
    let steps = x.shape()[time];
    let lengths = lengths.to_ints();
    if let Some(length) = lengths.iter().find(|length| usize::try_from(**length).map_or(true, |length| length > steps))
    {
        return Err(Error::new(format!("a length of ReverseSequence is {length}, but the axis has {steps} elements")));
    }
    let (rows, columns) = (x.shape()[0], x.shape()[1]);
    let place = |row: usize, column: usize| {
        let (at, length) = if time == 0 { (row, lengths[column]) } else { (column, lengths[row]) };
        let at = if at < length as usize { length as usize - 1 - at } else { at };
        if time == 0 { at * columns + column } else { row * columns + at }
    };
    let picks: Vec<usize> = (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| place(row, column))
        .collect();
    taken(x, (1, rows * columns, x.shape()[2..].iter().product()), &picks, x.shape())
}

/// For each tuple in the last axis of `indices`, the number of the block of `data` that it names; the blocks count on
/// within the batch that the tuple belongs to.
fn blocks(indices: &Array<'_>, shape: &[usize], batch_dims: usize) -> Result<Vec<usize>, Error> {
    let wrong = || Error::new(format!("indices {:?} for data {shape:?}", indices.shape()));
    let depth = *indices.shape().last().ok_or_else(wrong)?;
    let named = shape.get(batch_dims..batch_dims + depth).ok_or_else(wrong)?;
    if indices.shape().len() <= batch_dims || indices.shape()[..batch_dims] != shape[..batch_dims] {
        return Err(wrong());
    }
    let batches: usize = shape[..batch_dims].iter().product();
    let tuples: usize = indices.shape()[..indices.shape().len() - 1].iter().product();
    let values = indices.to_ints();
    let mut blocks = Vec::with_capacity(tuples);
    for t in 0..tuples {
        let mut block = t / (tuples / batches);
        for (&value, &size) in values[t * depth..(t + 1) * depth].iter().zip(named) {
            block = block * size + index(value, size)?;
        }
        blocks.push(block);
    }
    Ok(blocks)
}

/// `GatherND`.
pub(crate) fn gather_nd(call: &Call<'_, '_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let batch_dims = usize::try_from(call.node.int("batch_dims", 0)).unwrap_or(usize::MAX / 2);
    let blocks = blocks(indices, x.shape(), batch_dims)?;
    let (tuple_shape, depth) = split_last(indices.shape());
    let rest = &x.shape()[batch_dims + depth..];
    let run: usize = rest.iter().product();
    let shape = [tuple_shape, rest].concat();
    count(&shape)?;
    each!(x, x => {
        let x = x.view();
        let x = elements(&x);
        let mut data = Vec::with_capacity(blocks.len() * run);
        for block in blocks {
            data.extend_from_slice(&x[block * run..(block + 1) * run]);
        }
        Ok(vec![Item::wrap(shaped(&shape, data)?)])
    })
}

fn split_last(shape: &[usize]) -> (&[usize], usize) {
    shape.split_last().map_or((&[], 0), |(&last, rest)| (rest, last))
}

/// `ScatterElements`, with each reduction.
pub(crate) fn scatter_elements(call: &Call<'_, '_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let places = places(x, indices, call.axis("axis", 0, x.shape().len())?)?;
    combined(call, &places, indices.shape(), 1)
}

/// `ScatterND`, with each reduction.
pub(crate) fn scatter_nd(call: &Call<'_, '_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let blocks = blocks(indices, x.shape(), 0)?;
    let (tuple_shape, depth) = split_last(indices.shape());
    let rest = &x.shape()[depth..];
    combined(call, &blocks, &[tuple_shape, rest].concat(), rest.iter().product())
}

/// The data with updates of that shape put in blocks of `run` elements, one after another.
fn combined(call: &Call<'_, '_>, blocks: &[usize], shape: &[usize], run: usize) -> Outputs {
    let (x, updates) = (call.input(0)?, call.input(2)?);
    if updates.shape() != shape {
        let (updates, indices) = (updates.shape(), call.input(1)?.shape());
        return Err(Error::new(format!("updates {updates:?} for indices {indices:?}")));
    }
    match call.node.string("reduction", "none") {
        "none" => each!(x, x => scattered(&x.view(), updates, blocks, run, |_, new| new)),
        "add" => each_number!(x, x => scattered(&x.view(), updates, blocks, run, Number::add)),
        "mul" => each_number!(x, x => scattered(&x.view(), updates, blocks, run, Number::mul)),
        "max" => each!(x, x => scattered(&x.view(), updates, blocks, run, Item::larger)),
        "min" => each!(x, x => scattered(&x.view(), updates, blocks, run, Item::smaller)),
        other => Err(Error::new(format!("unknown reduction '{other}' of {}", call.node.op))),
    }
}

fn scattered<T: Item>(
    x: &ArrayViewD<'_, T>,
    updates: &Array<'_>,
    blocks: &[usize],
    run: usize,
    combine: impl Fn(T, T) -> T,
) -> Outputs {
    let mut data = elements(x).into_owned();
    let updates = same(x, updates)?;
    let updates = elements(&updates);
    for (i, &block) in blocks.iter().enumerate() {
        let new = &updates[i * run..(i + 1) * run];
        for (old, &new) in data[block * run..(block + 1) * run].iter_mut().zip(new) {
            *old = combine(*old, new);
        }
    }
    Ok(vec![T::wrap(shaped(x.shape(), data)?)])
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, counting, first, ints, tensor, text};

    #[test]
    fn indices_count_from_the_back_and_are_checked() {
        let x = || counting(&[3, 2]);
        let axis = |value| [("axis", Attribute::Int(value))];
        assert_eq!(first("Gather", &axis(1), vec![x(), ints(&[-1])]), (vec![3, 1], vec![2.0, 4.0, 6.0]));
        assert_eq!(first("Gather", &axis(0), vec![x(), tensor(&[], &[2i32])]), (vec![2], vec![5.0, 6.0]));
        for (op, indices) in [
            ("Gather", tensor(&[1], &[3i64])),
            ("Gather", tensor(&[1], &[-4i64])),
            ("GatherElements", tensor(&[1, 1], &[3i64])),
            ("GatherND", tensor(&[1, 2], &[0i64, 2])),
        ] {
            let error = all(op, &[], vec![x(), indices]).expect_err("out of range");
            assert!(error.message.contains("out of range"), "{op}: {error}");
            assert_eq!(error.node.as_deref(), Some("node"));
        }
    }

    #[test]
    fn tuples_name_blocks_within_their_batch() {
        let batch = [("batch_dims", Attribute::Int(1))];
        let found = first("GatherND", &batch, vec![counting(&[2, 2, 2]), tensor(&[2, 1], &[1i64, 0])]);
        assert_eq!(found, (vec![2, 2], vec![3.0, 4.0, 5.0, 6.0]));
        let found = first("GatherND", &[], vec![counting(&[2, 2]), tensor(&[2, 2], &[0i64, 0, -1, -1])]);
        assert_eq!(found, (vec![2], vec![1.0, 4.0]));
        let elements = first("GatherElements", &[], vec![counting(&[2, 2]), tensor(&[1, 2], &[1i64, -2])]);
        assert_eq!(elements, (vec![1, 2], vec![3.0, 2.0]));
    }

    #[test]
    fn updates_are_combined_in_order() {
        let cases = [("none", 5.0), ("add", 10.0), ("mul", 30.0), ("max", 5.0), ("min", 2.0)];
        for (reduction, expected) in cases {
            let inputs = vec![counting(&[3]), tensor(&[2, 1], &[1i64, -2]), tensor(&[2], &[3f32, 5.0])];
            let found = first("ScatterND", &[("reduction", text(reduction))], inputs);
            assert_eq!(found.1, [1.0, expected, 3.0], "{reduction}");
            let inputs = vec![counting(&[3]), tensor(&[2], &[1i32, -2]), tensor(&[2], &[3f32, 5.0])];
            let found = first("ScatterElements", &[("reduction", text(reduction))], inputs);
            assert_eq!(found.1, [1.0, expected, 3.0], "{reduction}");
        }
    }

    #[test]
    fn updates_go_to_their_axis() {
        let scatter = |indices: Option<_>, updates: Option<_>| {
            all("ScatterElements", &[("axis", Attribute::Int(1))], vec![counting(&[2, 3]), indices, updates])
        };
        let found = scatter(tensor(&[2, 1], &[-1i64, 0]), tensor(&[2, 1], &[8f32, 9.0])).expect("updates");
        assert_eq!(found[0].to_ints(), [1, 2, 8, 9, 5, 6]);
        for (indices, updates, expected) in [
            (tensor(&[1, 1], &[3i64]), tensor(&[1, 1], &[8f32]), "index 3 is out of range for 3 elements"),
            (tensor(&[1, 1], &[0i64]), tensor(&[1], &[8f32]), "updates [1] for indices [1, 1]"),
            (tensor(&[3, 1], &[0i64; 3]), tensor(&[3, 1], &[8f32; 3]), "indices [3, 1] for data [2, 3]"),
        ] {
            assert_eq!(scatter(indices, updates).expect_err("wrong").message, expected);
        }
    }

    #[test]
    fn sequences_turn_as_far_as_they_go() {
        let turned = |batch: i64, lengths: &[i64]| {
            let axes = [("batch_axis", Attribute::Int(batch)), ("time_axis", Attribute::Int(1 - batch))];
            all("ReverseSequence", &axes, vec![counting(&[3, 2]), ints(lengths)]).map(|y| y[0].to_ints())
        };
        assert_eq!(turned(1, &[3, 2]).expect("lengths"), [5, 4, 3, 2, 1, 6]);
        assert_eq!(turned(0, &[2, 0, 1]).expect("lengths"), [2, 1, 3, 4, 5, 6]);
        let error = "a length of ReverseSequence is 4, but the axis has 3 elements";
        assert_eq!(turned(1, &[4, 0]).expect_err("too long").message, error);
        assert!(turned(1, &[-1, 0]).is_err() && turned(2, &[0]).is_err() && turned(1, &[0]).is_err());
    }
}

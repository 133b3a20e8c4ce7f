//! Operators that read or write elements at given indices. An index out of range is an error.

use byoc_plugin_api::Error;
use ndarray::{ArrayD, ArrayViewD};

use super::array::{Array, Item, count, each, each_number, elements, shaped};
use super::call::{Call, Outputs, around, index, same};
use super::number::Number;
use super::{ANY, I64, INDEX, Kernel, SAME, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Gather", gather, &[ANY, INDEX]),
    kernel("GatherElements", gather_elements, &[ANY, INDEX]),
    kernel("GatherND", gather_nd, &[ANY, I64]),
    kernel("ScatterND", scatter_nd, &[ANY, I64, SAME]),
];

/// `Gather` along one axis.
pub(crate) fn gather(call: &Call<'_, '_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, x.shape().len())?;
    let (outer, size, inner) = around(x.shape(), axis);
    let picks: Vec<usize> = indices.to_ints().into_iter().map(|value| index(value, size)).collect::<Result<_, _>>()?;
    let shape = [&x.shape()[..axis], indices.shape(), &x.shape()[axis + 1..]].concat();
    count(&shape)?;
    each!(x, x => {
        let x = x.view();
        let x = elements(&x);
        let mut data = Vec::with_capacity(outer * picks.len() * inner);
        for o in 0..outer {
            for &pick in &picks {
                let start = (o * size + pick) * inner;
                data.extend_from_slice(&x[start..start + inner]);
            }
        }
        Ok(vec![Item::wrap(shaped(&shape, data)?)])
    })
}

/// `GatherElements`: the index tensor has the output's shape.
pub(crate) fn gather_elements(call: &Call<'_, '_>) -> Outputs {
    fn picked<T: Item>(x: &ArrayViewD<'_, T>, indices: &ArrayD<i64>, axis: usize) -> Outputs {
        let inside = indices.shape().iter().zip(x.shape()).enumerate().all(|(i, (a, b))| i == axis || a <= b);
        if indices.ndim() != x.ndim() || !inside {
            return Err(Error::new(format!("indices {:?} for data {:?}", indices.shape(), x.shape())));
        }
        let mut data = Vec::with_capacity(indices.len());
        for (mut position, &value) in indices.indexed_iter() {
            position[axis] = index(value, x.shape()[axis])?;
            data.push(x[position]);
        }
        Ok(vec![T::wrap(shaped(indices.shape(), data)?)])
    }
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, x.shape().len())?;
    let indices = shaped(indices.shape(), indices.to_ints())?;
    each!(x, x => picked(&x.view(), &indices, axis))
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

/// `ScatterND`, with each reduction. Updates are applied one after another.
pub(crate) fn scatter_nd(call: &Call<'_, '_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let blocks = blocks(indices, x.shape(), 0)?;
    let (tuple_shape, depth) = split_last(indices.shape());
    let rest = &x.shape()[depth..];
    let updates = call.input(2)?;
    if updates.shape() != [tuple_shape, rest].concat() {
        return Err(Error::new(format!("updates {:?} for indices {:?}", updates.shape(), indices.shape())));
    }
    let run: usize = rest.iter().product();
    let reduction = call.node.string("reduction", "none");
    if reduction == "none" {
        return each!(x, x => scattered(&x.view(), updates, &blocks, run, |_, new| new));
    }
    match reduction {
        "add" => each_number!(x, x => scattered(&x.view(), updates, &blocks, run, Number::add)),
        "mul" => each_number!(x, x => scattered(&x.view(), updates, &blocks, run, Number::mul)),
        "max" => each!(x, x => scattered(&x.view(), updates, &blocks, run, Item::larger)),
        "min" => each!(x, x => scattered(&x.view(), updates, &blocks, run, Item::smaller)),
        other => Err(Error::new(format!("unknown reduction '{other}' of ScatterND"))),
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
        }
    }
}

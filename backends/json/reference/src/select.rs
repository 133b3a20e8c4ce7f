//! Operators that choose elements by their values: `NonZero`, `Compress`, `Unique`, `TopK`; and `OneHot`. NaN is the greatest of
//! all numbers and equal to itself, as where numpy sorts.

use std::cmp::Ordering;

use byoc_plugin_api::{Attribute, Error};
use ndarray::ArrayViewD;

use super::array::{Array, Item, count, each, elements, shaped};
use super::call::{Call, Outputs, around, axis};
use super::gather::taken;
use super::{BOOL, I64, Kernel, MOVED, NUMBER, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Compress", compress, &[MOVED, BOOL]),
    kernel("NonZero", non_zero, &[MOVED]),
    kernel("OneHot", one_hot, &[NUMBER, NUMBER, MOVED]),
    kernel("TopK", top_k, &[NUMBER, I64]),
    kernel("Unique", unique, &[MOVED]),
];

/// How elements are sorted.
pub(crate) fn order<T: Item>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The axis in attribute `axis`, if it is there.
fn optional_axis(call: &Call<'_, '_>, rank: usize) -> Result<Option<usize>, Error> {
    match call.node.attributes.get("axis") {
        Some(Attribute::Int(value)) => axis(*value, rank).map(Some),
        _ => Ok(None),
    }
}

/// The only element of an integer input.
fn number(call: &Call<'_, '_>, input: usize, what: &str) -> Result<i64, Error> {
    match call.input(input)?.to_ints()[..] {
        [value] => Ok(value),
        _ => Err(Error::new(format!("input {input} ({what}) of {} must have one element", call.node.op))),
    }
}

/// `NonZero`: a row of indices for each axis; of a scalar there is no row.
pub(crate) fn non_zero(call: &Call<'_, '_>) -> Outputs {
    fn places<T: Item>(x: &ArrayViewD<'_, T>) -> Vec<usize> {
        x.iter().enumerate().filter(|(_, value)| **value != T::default()).map(|(place, _)| place).collect()
    }
    let [x] = &call.comparable([0])?;
    let found = each!(x, x => places(&x.view()));
    let shape = [x.shape().len(), found.len()];
    let mut data = Vec::with_capacity(call.count(&shape)?);
    for axis in 0..x.shape().len() {
        let (_, size, inner) = around(x.shape(), axis);
        data.extend(found.iter().map(|place| (place / inner % size) as i64));
    }
    Ok(vec![Item::wrap(shaped(&shape, data)?)])
}

/// `Compress`: what lies beyond the end of either the condition or the data is left out.
pub(crate) fn compress(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axis = optional_axis(call, x.shape().len())?;
    let condition = call.input(1)?.to_ints();
    let (outer, size, inner) = axis.map_or((1, x.len(), 1), |axis| around(x.shape(), axis));
    let kept: Vec<usize> = (0..size.min(condition.len())).filter(|&place| condition[place] != 0).collect();
    let shape = along(x, axis, kept.len());
    call.count(&shape)?;
    taken(x, (outer, size, inner), &kept, &shape)
}

/// The shape of `x` with another size along `axis`, or only that size.
fn along(x: &Array<'_>, axis: Option<usize>, size: usize) -> Vec<usize> {
    let Some(axis) = axis else { return vec![size] };
    let mut shape = x.shape().to_vec();
    shape[axis] = size;
    shape
}

/// `Unique`: elements, or slices along an axis.
pub(crate) fn unique(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axis = optional_axis(call, x.shape().len())?;
    let (outer, size, inner) = axis.map_or((1, x.len(), 1), |axis| around(x.shape(), axis));
    let [compared] = &call.comparable([0])?;
    let mut groups = each!(compared, x => groups(&x.view(), (outer, size, inner)));
    if call.node.int("sorted", 1) == 0 {
        groups.sort_unstable();
    }
    let mut inverse = vec![0i64; size];
    for (number, group) in groups.iter().enumerate() {
        group.iter().for_each(|&place| inverse[place] = number as i64);
    }
    let first: Vec<usize> = groups.iter().map(|group| group[0]).collect();
    let list = |values: Vec<i64>| Ok::<_, Error>(Item::wrap(shaped(&[values.len()], values)?));
    let mut outputs = taken(x, (outer, size, inner), &first, &along(x, axis, first.len()))?;
    outputs.push(list(first.iter().map(|&place| place as i64).collect())?);
    outputs.push(list(inverse)?);
    outputs.push(list(groups.iter().map(|group| group.len() as i64).collect())?);
    Ok(outputs)
}

/// The slices that are equal, by their numbers, in the order of their elements.
fn groups<T: Item>(x: &ArrayViewD<'_, T>, (outer, size, inner): (usize, usize, usize)) -> Vec<Vec<usize>> {
    let x = elements(x);
    let part = |slice: usize, o: usize| &x[(o * size + slice) * inner..][..inner];
    let compare = |a: usize, b: usize| {
        let pairs = (0..outer).flat_map(|o| part(a, o).iter().zip(part(b, o)));
        pairs.map(|(&a, &b)| order(a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut places: Vec<usize> = (0..size).collect();
    places.sort_by(|&a, &b| compare(a, b));
    places.chunk_by(|&a, &b| compare(a, b).is_eq()).map(<[usize]>::to_vec).collect()
}

/// `TopK`: of equal values the first comes first. The result is sorted whether that is asked for or not.
pub(crate) fn top_k(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axis = call.axis("axis", -1, x.shape().len())?;
    let (k, size) = (number(call, 1, "K")?, x.shape()[axis]);
    let k = usize::try_from(k)
        .ok()
        .filter(|&k| k <= size)
        .ok_or_else(|| Error::new(format!("K of TopK is {k}, but the axis has {size} elements")))?;
    let shape = along(x, Some(axis), k);
    call.count(&shape)?;
    let largest = call.node.int("largest", 1) != 0;
    each!(x, x => best(&x.view(), axis, &shape, largest))
}

fn best<T: Item>(x: &ArrayViewD<'_, T>, axis: usize, shape: &[usize], largest: bool) -> Outputs {
    let ((outer, size, inner), k) = (around(x.shape(), axis), shape[axis]);
    let x = elements(x);
    let total = count(shape)?;
    let (mut values, mut indices) = (vec![T::default(); total], vec![0i64; total]);
    let mut places = Vec::new();
    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
        let value = |place: usize| x[(o * size + place) * inner + i];
        best_places(value, size, k, largest, &mut places);
        for (rank, &place) in places.iter().enumerate() {
            let at = (o * k + rank) * inner + i;
            (values[at], indices[at]) = (value(place), place as i64);
        }
    }
    Ok(vec![T::wrap(shaped(shape, values)?), Item::wrap(shaped(shape, indices)?)])
}

/// Finds the `k` best of `size` values, the best first, and of equal ones the first.
fn best_places<T: Item>(value: impl Fn(usize) -> T, size: usize, k: usize, largest: bool, places: &mut Vec<usize>) {
    let compare = |&a: &usize, &b: &usize| {
        let order = if largest { order(value(b), value(a)) } else { order(value(a), value(b)) };
        order.then(a.cmp(&b))
    };
    places.clear();
    // Candidates are cut to the best ones whenever there are twice as many. From then on most values need one comparison
    // with the last of those; one that is equal comes too late.
    let mut bound = None;
    for place in if k == 0 { 0..0 } else { 0..size } {
        let found = value(place);
        let worse = |bound: T| if largest { found <= bound } else { found >= bound };
        if bound.is_some_and(worse) {
            continue;
        }
        places.push(place);
        if places.len() == 2 * k {
            places.select_nth_unstable_by(k - 1, compare);
            places.truncate(k);
            bound = Some(value(places[k - 1]));
        }
    }
    places.sort_unstable_by(compare);
    places.truncate(k);
}

/// `OneHot`: an index that is not in the new axis has no element there.
pub(crate) fn one_hot(call: &Call<'_, '_>) -> Outputs {
    fn spread<T: Item>(values: &ArrayViewD<'_, T>, hot: &[usize], shape: &[usize]) -> Outputs {
        let [off, on] = elements(values)[..] else {
            return Err(Error::new("the values of OneHot must be two elements"));
        };
        let mut data = vec![off; count(shape)?];
        hot.iter().for_each(|&place| data[place] = on);
        Ok(vec![T::wrap(shaped(shape, data)?)])
    }
    let indices = call.input(0)?;
    let axis = call.axis("axis", -1, indices.shape().len() + 1)?;
    let depth = number(call, 1, "depth")?;
    let size = usize::try_from(depth).ok().filter(|&depth| depth > 0);
    let size = size.ok_or_else(|| Error::new(format!("the depth of OneHot is {depth}")))?;
    let mut shape = indices.shape().to_vec();
    shape.insert(axis, size);
    call.count(&shape)?;
    let inner: usize = indices.shape()[axis..].iter().product();
    let place = |(at, index): (usize, i64)| {
        let index = super::call::index(index, size).ok()?;
        Some((at / inner * size + index) * inner + at % inner)
    };
    let hot: Vec<usize> = indices.to_ints().into_iter().enumerate().filter_map(place).collect();
    each!(call.input(2)?, values => spread(&values.view(), &hot, &shape))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, first, ints, tensor};
    use super::*;

    fn int(name: &str, value: i64) -> (&str, Attribute) {
        (name, Attribute::Int(value))
    }

    #[test]
    fn places_that_are_not_zero() {
        let x = tensor(&[2, 2], &[f32::NAN, -0.0, 0.0, 2.0]);
        assert_eq!(first("NonZero", &[], vec![x]), (vec![2, 2], vec![0.0, 1.0, 0.0, 1.0]));
        assert_eq!(first("NonZero", &[], vec![tensor(&[], &[true])]), (vec![0, 1], vec![]));
        assert_eq!(first("NonZero", &[], vec![tensor::<i64>(&[3, 0], &[])]), (vec![2, 0], vec![]));
    }

    #[test]
    fn conditions_may_be_shorter_and_longer() {
        let x = || tensor(&[2, 3], &[1i32, 2, 3, 4, 5, 6]);
        let condition = |values: &[bool]| tensor(&[values.len()], values);
        type Case<'a> = (&'a [(&'a str, Attribute)], &'a [bool], &'a [usize], &'a [f64]);
        let cases: [Case<'_>; 4] = [
            (&[], &[false, true, false, false, true], &[2], &[2.0, 5.0]),
            (&[int("axis", 1)], &[false, true], &[2, 1], &[2.0, 5.0]),
            (&[int("axis", 0)], &[false, true, true, true], &[1, 3], &[4.0, 5.0, 6.0]),
            (&[int("axis", -1)], &[], &[2, 0], &[]),
        ];
        for (attributes, values, shape, expected) in cases {
            let found = first("Compress", attributes, vec![x(), condition(values)]);
            assert_eq!(found, (shape.to_vec(), expected.to_vec()), "{values:?}");
        }
        let error = all("Compress", &[int("axis", 2)], vec![x(), condition(&[])]).expect_err("axis");
        assert_eq!(error.message, "axis 2 of a tensor of rank 2");
    }

    fn lists(attributes: &[(&str, Attribute)], x: Option<Array<'static>>) -> Vec<Vec<f64>> {
        let outputs = all("Unique", attributes, vec![x]).expect("Unique");
        outputs.iter().map(|output| output.to_f64().iter().copied().collect()).collect()
    }

    #[test]
    fn different_elements_and_slices() {
        let x = || tensor(&[6], &[2i64, 1, 1, 3, 4, 3]);
        let sorted: [&[f64]; 4] =
            [&[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 3.0, 4.0], &[1.0, 0.0, 0.0, 2.0, 3.0, 2.0], &[2.0, 1.0, 2.0, 1.0]];
        assert_eq!(lists(&[], x()), sorted);
        let found: [&[f64]; 4] =
            [&[2.0, 1.0, 3.0, 4.0], &[0.0, 1.0, 3.0, 4.0], &[0.0, 1.0, 1.0, 2.0, 3.0, 2.0], &[1.0, 2.0, 2.0, 1.0]];
        assert_eq!(lists(&[int("sorted", 0)], x()), found);
        let rows = tensor(&[2, 3], &[1f32, 0.0, 1.0, 5.0, 9.0, 5.0]);
        let columns: [&[f64]; 4] = [&[0.0, 1.0, 9.0, 5.0], &[1.0, 0.0], &[1.0, 0.0, 1.0], &[1.0, 2.0]];
        assert_eq!(lists(&[int("axis", -1)], rows), columns);
        let nan = lists(&[], tensor(&[4], &[f32::NAN, 1.0, f32::NAN, -0.0]));
        assert!(nan[0][2].is_nan());
        assert_eq!(nan[1..], [vec![3.0, 1.0, 0.0], vec![2.0, 1.0, 2.0, 0.0], vec![1.0, 1.0, 2.0]]);
        assert!(lists(&[], tensor::<f32>(&[0, 2], &[])).iter().all(Vec::is_empty));
        assert_eq!(lists(&[int("axis", 1)], tensor::<f32>(&[0, 2], &[])), [vec![], vec![0.0], vec![0.0; 2], vec![2.0]]);
    }

    #[test]
    fn the_best_are_sorted_and_ties_stay_in_order() {
        let x = || tensor(&[1, 5], &[1f32, 3.0, f32::NAN, 3.0, -1.0]);
        let top = |attributes: &[_], k: i64| {
            let outputs = all("TopK", attributes, vec![x(), ints(&[k])]).expect("TopK");
            (outputs[0].shape().to_vec(), outputs[1].to_ints())
        };
        assert_eq!(top(&[], 4), (vec![1, 4], vec![2, 1, 3, 0]));
        assert_eq!(top(&[int("largest", 0)], 3), (vec![1, 3], vec![4, 0, 1]));
        assert_eq!(top(&[int("axis", 0)], 1), (vec![1, 5], vec![0; 5]));
        assert_eq!(top(&[int("axis", 0)], 0), (vec![0, 5], vec![]));
        for k in [-1, 6, i64::MIN, i64::MAX] {
            let error = all("TopK", &[], vec![x(), ints(&[k])]).expect_err("too many");
            assert_eq!(error.message, format!("K of TopK is {k}, but the axis has 5 elements"));
        }
        let error = all("TopK", &[], vec![x(), ints(&[])]).expect_err("no element");
        assert_eq!(error.message, "input 1 (K) of TopK must have one element");
    }

    #[test]
    fn few_of_many_are_those_that_come_first_when_all_are_sorted() {
        let values: Vec<f32> = (0..997).map(|i| ((i * 7919) % 211) as f32).collect();
        for (k, largest) in [(1, 1), (7, 1), (7, 0), (400, 1), (600, 0), (997, 1)] {
            let mut expected: Vec<i64> = (0..997).collect();
            let value = |place: i64| values[place as usize] * if largest == 1 { -1.0 } else { 1.0 };
            expected.sort_by(|&a, &b| value(a).total_cmp(&value(b)));
            let inputs = vec![tensor(&[997], &values), ints(&[k])];
            let found = all("TopK", &[int("largest", largest)], inputs).expect("TopK");
            assert_eq!(found[1].to_ints(), expected[..k as usize], "{k} {largest}");
        }
    }

    #[test]
    fn indices_become_vectors() {
        let hot = |attributes: &[_], depth: i64| {
            let inputs = vec![tensor(&[3], &[-1f32, 0.0, 7.0]), ints(&[depth]), tensor(&[2], &[2u8, 9])];
            all("OneHot", attributes, inputs).map(|y| (y[0].shape().to_vec(), y[0].to_ints()))
        };
        assert_eq!(hot(&[], 2).expect("OneHot"), (vec![3, 2], vec![2, 9, 9, 2, 2, 2]));
        assert_eq!(hot(&[int("axis", 0)], 2).expect("OneHot"), (vec![2, 3], vec![2, 9, 2, 9, 2, 2]));
        for (depth, expected) in [
            (0, "the depth of OneHot is 0".to_owned()),
            (-3, "the depth of OneHot is -3".to_owned()),
            (i64::MAX, format!("a tensor of shape [3, {}] is too large", i64::MAX)),
        ] {
            assert_eq!(hot(&[], depth).expect_err("depth").message, expected);
        }
    }
}

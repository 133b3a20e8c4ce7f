//! Operators that run along axes: sums, means, products, norms, extremes, `ArgMax`, `ArgMin`, `CumSum`, `CumProd`.

use byoc_plugin_api::Error;
use ndarray::{ArrayD, ArrayViewD, Axis, IxDyn};

use super::array::{Item, each, each_number, elements, shaped};
use super::call::{Call, Outputs, axes};
use super::number::Number;
use super::{ANY, I64, INDEX, Kernel, NUMBER, WIDE, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("ArgMax", |call| arg(call, true), &[NUMBER]),
    kernel("ArgMin", |call| arg(call, false), &[NUMBER]),
    kernel("CumProd", cum_prod, &[WIDE, INDEX]),
    kernel("CumSum", cum_sum, &[WIDE, INDEX]),
    kernel("ReduceL1", l1, &[WIDE, I64]),
    kernel("ReduceL2", l2, &[WIDE, I64]),
    kernel("ReduceLogSum", log_sum, &[WIDE, I64]),
    kernel("ReduceLogSumExp", log_sum_exp, &[WIDE, I64]),
    kernel("ReduceMax", max, &[ANY, I64]),
    kernel("ReduceMean", mean, &[WIDE, I64]),
    kernel("ReduceMin", min, &[ANY, I64]),
    kernel("ReduceProd", prod, &[WIDE, I64]),
    kernel("ReduceSum", sum, &[WIDE, I64]),
    kernel("ReduceSumSquare", sum_square, &[WIDE, I64]),
];

/// Maps the elements along `along` to one each; the other axes stay, those become 1 or go.
pub(crate) fn fold<T: Item, R>(
    x: &ArrayViewD<'_, T>,
    along: &[usize],
    keep: bool,
    f: impl Fn(&[T]) -> R,
) -> Result<ArrayD<R>, Error> {
    let (gone, stay): (Vec<usize>, Vec<usize>) = (0..x.ndim()).partition(|axis| along.contains(axis));
    let inner: usize = gone.iter().map(|&axis| x.shape()[axis]).product();
    let outer: usize = stay.iter().map(|&axis| x.shape()[axis]).product();
    let order = [stay.as_slice(), gone.as_slice()].concat();
    let ordered = x.view().permuted_axes(IxDyn(&order));
    let ordered = elements(&ordered);
    let shape: Vec<usize> = if keep {
        x.shape().iter().enumerate().map(|(axis, &size)| if gone.contains(&axis) { 1 } else { size }).collect()
    } else {
        stay.iter().map(|&axis| x.shape()[axis]).collect()
    };
    shaped(&shape, (0..outer).map(|o| f(&ordered[o * inner..(o + 1) * inner])).collect())
}

/// The axes of a reduction: input 1, or all. Over none at all each element is reduced by itself: its square stays one.
fn reduced_axes(call: &Call<'_, '_>, rank: usize) -> Result<Vec<usize>, Error> {
    match call.ints(1) {
        Some(values) if !values.is_empty() => axes(&values, rank),
        _ if call.node.int("noop_with_empty_axes", 0) != 0 => Ok(Vec::new()),
        _ => Ok((0..rank).collect()),
    }
}

/// Runs one reduction: `float` in `f64`, `integer` as a loop over wide integers that wrap at the end.
fn reduce(
    call: &Call<'_, '_>,
    float: impl Fn(&[f64]) -> f64,
    integer: impl Fn(&mut dyn Iterator<Item = i128>, i128) -> i128,
) -> Outputs {
    fn integers<T: Item>(
        x: &ArrayViewD<'_, T>,
        along: &[usize],
        keep: bool,
        f: impl Fn(&mut dyn Iterator<Item = i128>, i128) -> i128,
    ) -> Outputs {
        let f = |values: &[T]| T::from_int(f(&mut values.iter().map(|&value| value.to_int()), values.len() as i128));
        Ok(vec![T::wrap(fold(x, along, keep, f)?)])
    }
    let x = call.input(0)?;
    let keep = call.node.int("keepdims", 1) != 0;
    let along = reduced_axes(call, x.shape().len())?;
    if x.dtype().is_float() {
        return call.rounded(fold(&x.to_f64().view(), &along, keep, float)?);
    }
    each!(x, x => integers(&x.view(), &along, keep, integer))
}

/// `ReduceSum`.
pub(crate) fn sum(call: &Call<'_, '_>) -> Outputs {
    reduce(call, |values| values.iter().sum(), |values, _| values.fold(0, i128::wrapping_add))
}

/// `ReduceMean`; of integers truncated toward zero, of nothing NaN or 0.
pub(crate) fn mean(call: &Call<'_, '_>) -> Outputs {
    reduce(
        call,
        |values| values.iter().sum::<f64>() / values.len() as f64,
        |values, count| values.fold(0, i128::wrapping_add).checked_div(count).unwrap_or(0),
    )
}

/// `ReduceProd`.
pub(crate) fn prod(call: &Call<'_, '_>) -> Outputs {
    reduce(call, |values| values.iter().product(), |values, _| values.fold(1, i128::wrapping_mul))
}

/// `ReduceL1`.
pub(crate) fn l1(call: &Call<'_, '_>) -> Outputs {
    let sum = |sum: i128, value: i128| sum.wrapping_add(value.abs());
    reduce(call, |values| values.iter().map(|value| value.abs()).sum(), |values, _| values.fold(0, sum))
}

/// The sum of squares.
fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

/// As [`squares`]; more than `i128` holds stays its largest number.
fn whole_squares(values: &mut dyn Iterator<Item = i128>) -> i128 {
    values.fold(0, |sum, value| sum.saturating_add(value.saturating_mul(value)))
}

/// `ReduceSumSquare`.
pub(crate) fn sum_square(call: &Call<'_, '_>) -> Outputs {
    reduce(call, squares, |values, _| values.fold(0, |sum, value| sum.wrapping_add(value.wrapping_mul(value))))
}

/// `ReduceL2`; of integers truncated.
pub(crate) fn l2(call: &Call<'_, '_>) -> Outputs {
    reduce(call, |values| squares(values).sqrt(), |values, _| whole_squares(values).isqrt())
}

/// Runs one reduction in `f64`, of integers too: the result is truncated, and the least integer for minus infinity.
fn by_floats(call: &Call<'_, '_>, f: impl Fn(&[f64]) -> f64) -> Outputs {
    let x = call.input(0)?;
    let along = reduced_axes(call, x.shape().len())?;
    call.rounded(fold(&x.to_f64().view(), &along, call.node.int("keepdims", 1) != 0, f)?)
}

/// `ReduceLogSum`.
pub(crate) fn log_sum(call: &Call<'_, '_>) -> Outputs {
    by_floats(call, |values| values.iter().sum::<f64>().ln())
}

/// `ReduceLogSumExp`, also where the sum is too large for a number.
pub(crate) fn log_sum_exp(call: &Call<'_, '_>) -> Outputs {
    by_floats(call, |values| {
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, Item::larger);
        match largest.is_finite() {
            true => largest + values.iter().map(|value| (value - largest).exp()).sum::<f64>().ln(),
            false => largest,
        }
    })
}

/// `ReduceMax`; NaN wins, and of nothing it is the least value of the type.
pub(crate) fn max(call: &Call<'_, '_>) -> Outputs {
    extreme(call, true)
}

/// `ReduceMin`; NaN wins, and of nothing it is the greatest value of the type.
pub(crate) fn min(call: &Call<'_, '_>) -> Outputs {
    extreme(call, false)
}

fn extreme(call: &Call<'_, '_>, largest: bool) -> Outputs {
    fn folded<T: Item>(x: &ArrayViewD<'_, T>, along: &[usize], keep: bool, largest: bool) -> Outputs {
        // Saturates to the least or greatest integer; of booleans minus infinity would be "not zero".
        let start = match (T::DTYPE, largest) {
            (byoc_plugin_api::DType::Bool, true) => T::default(),
            (_, true) => T::from_f64(f64::NEG_INFINITY),
            (_, false) => T::from_f64(f64::INFINITY),
        };
        let choose = if largest { T::larger } else { T::smaller };
        Ok(vec![T::wrap(fold(x, along, keep, |values| values.iter().copied().fold(start, choose))?)])
    }
    let x = call.input(0)?;
    let along = reduced_axes(call, x.shape().len())?;
    each!(x, x => folded(&x.view(), &along, call.node.int("keepdims", 1) != 0, largest))
}

/// `ArgMax` and `ArgMin`: the first (or last) of the largest or smallest; NaN goes before all others, as in numpy.
fn arg(call: &Call<'_, '_>, largest: bool) -> Outputs {
    let x = call.input(0)?;
    let axis = call.axis("axis", 0, x.shape().len())?;
    let keep = call.node.int("keepdims", 1) != 0;
    let last = call.node.int("select_last_index", 0) != 0;
    if x.shape()[axis] == 0 && x.shape().iter().enumerate().all(|(i, &size)| i == axis || size > 0) {
        return Err(Error::new(format!("{} of no element", call.node.op)));
    }
    each!(x, x => Ok(vec![Item::wrap(fold(&x.view(), &[axis], keep, |values| first_best(values, last, largest))?)]))
}

/// The place of the first (or last) of the largest or smallest elements.
pub(crate) fn first_best<T: Item>(values: &[T], last: bool, largest: bool) -> i64 {
    let mut best = 0;
    for (i, &value) in values.iter().enumerate() {
        let (equal, better) = if values[best].is_nan() {
            (value.is_nan(), false)
        } else {
            let beyond = if largest { value > values[best] } else { value < values[best] };
            (value == values[best], value.is_nan() || beyond)
        };
        if better || last && equal {
            best = i;
        }
    }
    best as i64
}

/// `CumSum`; floats are added up in `f64` and each sum rounded once.
pub(crate) fn cum_sum(call: &Call<'_, '_>) -> Outputs {
    running(call, Step::Sum)
}

/// `CumProd`, likewise.
pub(crate) fn cum_prod(call: &Call<'_, '_>) -> Outputs {
    running(call, Step::Product)
}

/// How an element is joined to those before it.
#[derive(Clone, Copy)]
enum Step {
    Sum,
    Product,
}

impl Step {
    fn join<T: Number>(self, total: T, value: T) -> T {
        match self {
            Step::Sum => total.add(value),
            Step::Product => total.mul(value),
        }
    }

    /// What nothing gives.
    fn nothing<T: Number>(self) -> T {
        match self {
            Step::Sum => T::default(),
            Step::Product => T::from_int(1),
        }
    }
}

fn running(call: &Call<'_, '_>, step: Step) -> Outputs {
    let x = call.input(0)?;
    let axis = call.ints(1).and_then(|values| values.first().copied());
    let missing = || Error::new(format!("{} needs an axis", call.node.op));
    let axis = super::call::axis(axis.ok_or_else(missing)?, x.shape().len())?;
    let (exclusive, reverse) = (call.node.int("exclusive", 0) != 0, call.node.int("reverse", 0) != 0);
    if x.dtype().is_float() {
        return call.rounded(joined(x.to_f64().view(), step, axis, exclusive, reverse));
    }
    each_number!(x, x => Ok(vec![Item::wrap(joined(x.view(), step, axis, exclusive, reverse))]))
}

fn joined<T: Number>(x: ArrayViewD<'_, T>, step: Step, axis: usize, exclusive: bool, reverse: bool) -> ArrayD<T> {
    let mut sums = x.to_owned();
    for mut lane in sums.lanes_mut(Axis(axis)) {
        if reverse {
            lane.invert_axis(Axis(0));
        }
        // The first sum is the first element itself, a -0 too.
        let mut total: Option<T> = None;
        for value in lane {
            let next = total.map_or(*value, |total| step.join(total, *value));
            *value = if exclusive { total.unwrap_or_else(|| step.nothing()) } else { next };
            total = Some(next);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_last_best_treat_nan_as_numpy() {
        let nan = f64::NAN;
        let cases = [
            (vec![1.0, 3.0, 3.0], (1, 2)),
            (vec![1.0, nan, 5.0, nan], (1, 3)),
            (vec![nan, 1.0], (0, 0)),
            (vec![f64::NEG_INFINITY, f64::NEG_INFINITY], (0, 1)),
        ];
        for (values, expected) in cases {
            assert_eq!((first_best(&values, false, true), first_best(&values, true, true)), expected, "{values:?}");
            let negated: Vec<f64> = values.iter().map(|value| -value).collect();
            assert_eq!((first_best(&negated, false, false), first_best(&negated, true, false)), expected, "{values:?}");
        }
    }

    #[test]
    fn reductions_of_floats_of_integers_and_of_nothing() {
        use crate::testing::{first, tensor};
        let infinity = f64::INFINITY;
        let cases = [
            ("ReduceProd", [-6.0, -6.0, 1.0]),
            ("ReduceSumSquare", [14.0, 14.0, 0.0]),
            ("ReduceL1", [6.0, 6.0, 0.0]),
            ("ReduceLogSumExp", [(1f64.exp() + 2f64.exp() + (-3f64).exp()).ln(), 2.0, -infinity]),
            ("ReduceL2", [14f64.sqrt(), 3.0, 0.0]),
            ("ReduceMax", [2.0, 2.0, -infinity]),
            ("ReduceMin", [-3.0, -3.0, infinity]),
        ];
        for (op, expected) in cases {
            let floats = first(op, &[], vec![tensor(&[3], &[1f64, 2.0, -3.0])]).1;
            let integers = first(op, &[], vec![tensor(&[3], &[1i32, 2, -3])]).1;
            let nothing = first(op, &[], vec![tensor::<f64>(&[0], &[])]).1;
            assert_eq!([floats[0], integers[0], nothing[0]], expected, "{op}");
        }
        assert!(first("ReduceMin", &[], vec![tensor(&[2], &[f32::NAN, 1.0])]).1[0].is_nan());
        let logarithms = |op, values: &[f64]| first(op, &[], vec![tensor(&[values.len()], values)]).1[0];
        assert_eq!(logarithms("ReduceLogSum", &[1.0, 6.0]), 7f64.ln());
        assert_eq!(logarithms("ReduceLogSum", &[]), -infinity);
        assert_eq!(first("ReduceLogSum", &[], vec![tensor(&[1], &[0i32])]).1, [f64::from(i32::MIN)]);
        assert_eq!(logarithms("ReduceLogSumExp", &[1000.0, 1000.0]), 1000.0 + 2f64.ln());
        assert_eq!(logarithms("ReduceLogSumExp", &[infinity, 1.0]), infinity);
        let all = |values: &[bool]| first("ReduceMin", &[], vec![tensor(&[values.len()], values)]).1[0];
        assert_eq!([all(&[true, false]), all(&[true]), all(&[])], [0.0, 1.0, 1.0]);
        for (op, expected) in [("ReduceSumSquare", [4.0, 9.0]), ("ReduceL1", [2.0, 3.0]), ("ReduceSum", [-2.0, 3.0])] {
            let noop = [("noop_with_empty_axes", byoc_plugin_api::Attribute::Int(1))];
            assert_eq!(first(op, &noop, vec![tensor(&[2], &[-2f32, 3.0])]).1, expected, "{op}");
        }
        let large = first("ReduceL2", &[], vec![tensor(&[1], &[i64::MIN])]).1;
        assert_eq!(large, [i64::MIN as f64]);
    }

    #[test]
    fn sums_so_far_start_with_the_first_element() {
        let x = ArrayD::from_shape_vec(IxDyn(&[3]), vec![-0.0, 1.0, 2.0]).expect("shape");
        for (exclusive, reverse, expected) in [
            (false, false, [-0.0, 1.0, 3.0]),
            (true, false, [0.0, -0.0, 1.0]),
            (false, true, [3.0, 3.0, 2.0]),
            (true, true, [3.0, 2.0, 0.0]),
        ] {
            let sums = joined(x.view(), Step::Sum, 0, exclusive, reverse);
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(sums.as_slice().expect("order")), bits(&expected), "{exclusive} {reverse}");
        }
    }

    #[test]
    fn folds_keep_or_drop_axes_and_take_nothing() {
        let x = ArrayD::from_shape_vec(IxDyn(&[2, 3]), vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("shape");
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        type Case<'a> = (&'a [usize], bool, &'a [usize], &'a [f64]);
        let cases: [Case<'_>; 4] = [
            (&[0], true, &[1, 3], &[5.0, 7.0, 9.0]),
            (&[1], false, &[2], &[6.0, 15.0]),
            (&[0, 1], false, &[], &[21.0]),
            (&[], false, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ];
        for (along, keep, shape, expected) in cases {
            let folded = fold(&x.view(), along, keep, sum).expect("fold");
            assert_eq!((folded.shape(), folded.as_slice().expect("order")), (shape, expected));
        }
        let empty = ArrayD::<f64>::zeros(IxDyn(&[2, 0]));
        assert_eq!(fold(&empty.view(), &[1], false, sum).expect("fold").as_slice(), Some(&[0.0, 0.0][..]));
        assert_eq!(fold(&empty.view(), &[0], true, sum).expect("fold").shape(), [1, 0]);
    }
}

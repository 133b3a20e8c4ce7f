//! Operators on several tensors that broadcast against each other as in numpy.

use std::borrow::Cow;

use byoc_plugin_api::Error;
use ndarray::{ArrayD, ArrayViewD, IxDyn};

use super::array::{Array, Item, count, each, each_number, elements};
use super::call::{Call, Outputs, same};
use super::number::Number;
use super::{ANY, BOOL, FLOAT, INDEX, Kernel, MOVED, NUMBER, SAME, STRING, Types, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Add", add, &[NUMBER, SAME]),
    kernel("And", |call| logic(call, |a, b| a && b), &[BOOL, BOOL]),
    kernel("BitShift", shift, &[Types::INTEGER, SAME]),
    kernel("BitwiseAnd", |call| bitwise(call, |a, b| a & b), &[Types::INTEGER, SAME]),
    kernel("BitwiseOr", |call| bitwise(call, |a, b| a | b), &[Types::INTEGER, SAME]),
    kernel("BitwiseXor", |call| bitwise(call, |a, b| a ^ b), &[Types::INTEGER, SAME]),
    kernel("Div", div, &[NUMBER, SAME]),
    kernel("Equal", equal, &[ANY.or(STRING), SAME]),
    kernel("Greater", greater, &[NUMBER, SAME]),
    kernel("GreaterOrEqual", greater_or_equal, &[NUMBER, SAME]),
    kernel("Less", less, &[NUMBER, SAME]),
    kernel("LessOrEqual", less_or_equal, &[NUMBER, SAME]),
    kernel("Max", max, &[NUMBER, SAME]),
    kernel("Min", min, &[NUMBER, SAME]),
    kernel("Mod", modulo, &[NUMBER, SAME]),
    kernel("Mul", mul, &[NUMBER, SAME]),
    kernel("Or", |call| logic(call, |a, b| a || b), &[BOOL, BOOL]),
    kernel("Pow", pow, &[FLOAT.or(INDEX), NUMBER]),
    kernel("Sub", sub, &[NUMBER, SAME]),
    kernel("Sum", sum, &[FLOAT, SAME]),
    kernel("Where", select, &[BOOL, MOVED]),
    kernel("Xor", |call| logic(call, |a, b| a != b), &[BOOL, BOOL]),
];

/// The shape that both shapes broadcast to.
pub(crate) fn broadcast_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>, Error> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    let pick = |axis| match (size(a, axis), size(b, axis)) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    };
    let shape: Option<Vec<usize>> = (0..rank).map(pick).collect();
    let shape = shape.ok_or_else(|| Error::new(format!("shapes {a:?} and {b:?} do not broadcast")))?;
    count(&shape)?;
    Ok(shape)
}

/// `x` repeated to `shape`.
pub(crate) fn broadcast<'b, T>(x: &'b ArrayViewD<'_, T>, shape: &[usize]) -> Result<ArrayViewD<'b, T>, Error> {
    x.broadcast(IxDyn(shape))
        .ok_or_else(|| Error::new(format!("shape {:?} does not broadcast to {shape:?}", x.shape())))
}

/// Combines two arrays element by element.
pub(crate) fn zip<A: Copy, B: Copy, C>(
    a: &ArrayViewD<'_, A>,
    b: &ArrayViewD<'_, B>,
    f: impl Fn(A, B) -> C,
) -> Result<ArrayD<C>, Error> {
    let shape = broadcast_shape(a.shape(), b.shape())?;
    let (a, b) = (flat(a, &shape)?, flat(b, &shape)?);
    array(&shape, a.iter().zip(&*b).map(|(&a, &b)| f(a, b)).collect())
}

/// The elements of `x` repeated to `shape`, row-major, and borrowed where they are so. Walking strides is compiled once a type
/// here; in a `Zip` it would be compiled once a type and operator, which is most of what this crate takes to build.
fn flat<'b, T: Copy>(x: &'b ArrayViewD<'_, T>, shape: &[usize]) -> Result<Cow<'b, [T]>, Error> {
    broadcast(x, shape)?;
    let data = elements(x);
    if x.shape() == shape {
        return Ok(data);
    }
    let sizes = [vec![1; shape.len() - x.shape().len()], x.shape().to_vec()].concat();
    let mut all = Vec::with_capacity(count(shape)?);
    repeat(&data, &sizes, shape, &mut all);
    Ok(all.into())
}

/// Appends the elements of a tensor with these sizes, repeated to those of `shape`: in whole runs.
fn repeat<T: Copy>(data: &[T], sizes: &[usize], shape: &[usize], all: &mut Vec<T>) {
    if sizes == shape {
        return all.extend_from_slice(data);
    }
    if let &[value] = data {
        return all.extend(std::iter::repeat_n(value, shape.iter().product()));
    }
    let ([size, sizes @ ..], [times, shape @ ..]) = (sizes, shape) else { return };
    let start = all.len();
    let run = data.len().checked_div(*size).unwrap_or(0);
    (0..*size).for_each(|at| repeat(&data[at * run..][..run], sizes, shape, all));
    let end = all.len();
    if *size == 1 {
        (1..*times).for_each(|_| all.extend_from_within(start..end));
        if *times == 0 {
            all.truncate(start);
        }
    }
}

fn array<T>(shape: &[usize], elements: Vec<T>) -> Result<ArrayD<T>, Error> {
    ArrayD::from_shape_vec(IxDyn(shape), elements).map_err(|error| Error::new(error.to_string()))
}

fn wrapped<T: Item, C: Item>(x: &ArrayViewD<'_, T>, other: &Array<'_>, f: impl Fn(T, T) -> C) -> Outputs {
    Ok(vec![C::wrap(zip(x, &same(x, other)?, f)?)])
}

macro_rules! arithmetic {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(call: &Call<'_, '_>) -> Outputs {
            each_number!(call.input(0)?, x => wrapped(&x.view(), call.input(1)?, Number::$method))
        }
    )*};
}
arithmetic! {
    /// `Add`.
    add add;
    /// `Sub`.
    sub sub;
    /// `Mul`.
    mul mul;
    /// `Div`.
    div div;
}

/// `Mod`, with the sign of the dividend (`fmod = 1`) or of the divisor.
pub(crate) fn modulo(call: &Call<'_, '_>) -> Outputs {
    let fmod = call.node.int("fmod", 0) != 0;
    each_number!(call.input(0)?, x => {
        wrapped(&x.view(), call.input(1)?, |a, b| if fmod { Number::fmod(a, b) } else { Number::modulo(a, b) })
    })
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident $operator:tt;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(call: &Call<'_, '_>) -> Outputs {
            each!(call.input(0)?, x => wrapped(&x.view(), call.input(1)?, |a, b| a $operator b))
        }
    )*};
}
/// `Equal`.
pub(crate) fn equal(call: &Call<'_, '_>) -> Outputs {
    let [a, b] = &call.comparable([0, 1])?;
    each!(a, x => wrapped(&x.view(), b, |a, b| a == b))
}

comparisons! {
    /// `Greater`.
    greater >;
    /// `GreaterOrEqual`.
    greater_or_equal >=;
    /// `Less`.
    less <;
    /// `LessOrEqual`.
    less_or_equal <=;
}

/// `And`, `Or` and `Xor`.
fn logic(call: &Call<'_, '_>, f: fn(bool, bool) -> bool) -> Outputs {
    match call.input(0)? {
        Array::Bool(x) => wrapped(&x.view(), call.input(1)?, f),
        _ => Err(Error::new(format!("{} takes booleans", call.node.op))),
    }
}

/// Combines integers as numbers of more bits, and keeps the low bits of what comes out.
fn bitwise(call: &Call<'_, '_>, f: fn(i128, i128) -> i128) -> Outputs {
    fn combined<T: Item>(x: &ArrayViewD<'_, T>, other: &Array<'_>, f: fn(i128, i128) -> i128) -> Outputs {
        wrapped(x, other, |a, b| T::from_int(f(a.to_int(), b.to_int())))
    }
    each_number!(call.input(0)?, x => combined(&x.view(), call.input(1)?, f))
}

/// `BitShift`: what is shifted out is gone, and numbers with a sign are shifted to the right with it. By a negative number, or by
/// all bits, no bit is left but the sign.
fn shift(call: &Call<'_, '_>) -> Outputs {
    /// More than any type has.
    const ALL: i128 = 64;
    match call.node.string("direction", "") {
        "LEFT" => bitwise(call, |x, by| if (0..ALL).contains(&by) { x << by } else { 0 }),
        _ => bitwise(call, |x, by| if (0..ALL).contains(&by) { x >> by } else { x >> ALL }),
    }
}

fn wrapping_pow(mut base: i64, mut exponent: u64) -> i64 {
    let mut power = 1i64;
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent /= 2;
    }
    power
}

/// `Pow`: the result has the base's type. Integer powers wrap; a negative integer exponent gives the truncated quotient.
pub(crate) fn pow(call: &Call<'_, '_>) -> Outputs {
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    if base.dtype().is_float() || exponent.dtype().is_float() {
        return call.rounded(zip(&base.to_f64().view(), &exponent.to_f64().view(), f64::powf)?);
    }
    let power = |base: i64, exponent: i64| match u64::try_from(exponent) {
        Ok(exponent) => wrapping_pow(base, exponent),
        Err(_) => (base as f64).powf(exponent as f64) as i64,
    };
    let integers = |array: &Array<'_>| each!(array, x => x.mapv(|value| value.to_int() as i64));
    let powers = zip(&integers(base).view(), &integers(exponent).view(), power)?;
    each_number!(base, x => {
        fn back<T: Item>(_: &ArrayViewD<'_, T>, powers: &ArrayD<i64>) -> Outputs {
            Ok(vec![T::wrap(powers.mapv(|value| T::from_int(value.into())))])
        }
        back(&x.view(), &powers)
    })
}

/// `Where`.
pub(crate) fn select(call: &Call<'_, '_>) -> Outputs {
    fn choose<T: Item>(condition: &ArrayViewD<'_, bool>, x: &ArrayViewD<'_, T>, y: &Array<'_>) -> Outputs {
        let y = same(x, y)?;
        let shape = broadcast_shape(condition.shape(), &broadcast_shape(x.shape(), y.shape())?)?;
        let (x, y) = (flat(x, &shape)?, flat(&y, &shape)?);
        let condition = flat(condition, &shape)?;
        let both = condition.iter().zip(x.iter().zip(&*y));
        let chosen = both.map(|(&condition, (&x, &y))| if condition { x } else { y });
        Ok(vec![T::wrap(array(&shape, chosen.collect())?)])
    }
    let Array::Bool(condition) = call.input(0)? else {
        return Err(Error::new("the condition of Where is not boolean"));
    };
    each!(call.input(1)?, x => choose(&condition.view(), &x.view(), call.input(2)?))
}

fn fold<T: Item>(first: &ArrayViewD<'_, T>, call: &Call<'_, '_>, f: impl Fn(T, T) -> T) -> Outputs {
    let mut total = first.to_owned();
    for other in call.inputs().skip(1) {
        total = zip(&total.view(), &same(first, other)?, &f)?;
    }
    Ok(vec![T::wrap(total)])
}

/// `Max`; NaN wins.
pub(crate) fn max(call: &Call<'_, '_>) -> Outputs {
    each_number!(call.input(0)?, x => fold(&x.view(), call, Item::larger))
}

/// `Min`; NaN wins.
pub(crate) fn min(call: &Call<'_, '_>) -> Outputs {
    each_number!(call.input(0)?, x => fold(&x.view(), call, Item::smaller))
}

/// `Sum`, rounded once.
pub(crate) fn sum(call: &Call<'_, '_>) -> Outputs {
    let mut total = call.input(0)?.to_f64();
    for other in call.inputs().skip(1) {
        total = zip(&total.view(), &other.to_f64().view(), |a, b| a + b)?;
    }
    call.rounded(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        type Case<'a> = (&'a [usize], &'a [usize], Option<&'a [usize]>);
        let cases: [Case<'_>; 6] = [
            (&[2, 3], &[3], Some(&[2, 3])),
            (&[2, 1], &[1, 4], Some(&[2, 4])),
            (&[], &[5], Some(&[5])),
            (&[0], &[1], Some(&[0])),
            (&[1, 3], &[0, 1], Some(&[0, 3])),
            (&[2], &[3], None),
        ];
        for (a, b, expected) in cases {
            assert_eq!(broadcast_shape(a, b).ok().as_deref(), expected, "{a:?} and {b:?}");
        }
    }

    #[test]
    fn elements_are_repeated_as_their_strides_say() {
        let shapes: [(&[usize], &[usize]); 8] = [
            (&[2, 3], &[2, 3]),
            (&[3], &[2, 3]),
            (&[2, 1], &[2, 3]),
            (&[1, 2, 1, 3], &[4, 2, 5, 3]),
            (&[2, 1, 2, 1], &[2, 3, 2, 4]),
            (&[], &[2, 2]),
            (&[1, 3], &[0, 3]),
            (&[0, 1], &[0, 3]),
        ];
        for (from, to) in shapes {
            let count = from.iter().product::<usize>();
            let x = ArrayD::from_shape_vec(IxDyn(from), (0..count).collect()).expect("a tensor");
            let expected: Vec<usize> = broadcast(&x.view(), to).expect("fits").iter().copied().collect();
            assert_eq!(*flat(&x.view(), to).expect("fits"), expected, "{from:?} to {to:?}");
        }
    }
}

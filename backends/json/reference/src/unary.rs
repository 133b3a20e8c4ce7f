//! Operators that map each element by itself.

use byoc_plugin_api::small::Round;
use byoc_plugin_api::{DType, Error};
use ndarray::{ArrayD, ArrayViewD};

use super::array::{Array, Item, each, each_number};
use super::call::{Call, Outputs, same};
use super::number::Number;
use super::{ALL, ANY, BOOL, FLOAT, Kernel, NUMBER, SAME, SIGNED, STRING, Types, kernel, mover, text_numbers};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Abs", abs, &[NUMBER]),
    kernel("Acos", |call| float(call, f64::acos), &[FLOAT]),
    kernel("Acosh", |call| float(call, f64::acosh), &[FLOAT]),
    kernel("Asin", |call| float(call, f64::asin), &[FLOAT]),
    kernel("Asinh", |call| float(call, f64::asinh), &[FLOAT]),
    kernel("Atan", |call| float(call, f64::atan), &[FLOAT]),
    kernel("Atanh", |call| float(call, f64::atanh), &[FLOAT]),
    kernel("BitwiseNot", bitwise_not, &[Types::INTEGER]),
    kernel("Cast", cast, &[ANY.or(Types::SMALL).or(STRING)]),
    kernel("Ceil", |call| float(call, f64::ceil), &[FLOAT]),
    kernel("Clip", clip, &[NUMBER, SAME]),
    kernel("Cosh", |call| float(call, f64::cosh), &[FLOAT]),
    kernel("Cos", |call| float(call, f64::cos), &[FLOAT]),
    kernel("Elu", elu, &[FLOAT]),
    kernel("Erf", |call| float(call, erf), &[FLOAT]),
    kernel("Exp", |call| float(call, f64::exp), &[FLOAT]),
    kernel("Floor", |call| float(call, f64::floor), &[FLOAT]),
    kernel("Gelu", gelu, &[FLOAT]),
    kernel("HardSigmoid", hard_sigmoid, &[FLOAT]),
    kernel("HardSwish", hard_swish, &[FLOAT]),
    mover("Identity", identity, &[ALL]),
    kernel("IsInf", is_inf, &[FLOAT.or(Types::FLOAT8)]),
    kernel("IsNaN", is_nan, &[FLOAT.or(Types::FLOAT8)]),
    kernel("LeakyRelu", leaky_relu, &[FLOAT]),
    kernel("Log", |call| float(call, f64::ln), &[FLOAT]),
    kernel("Mish", |call| float(call, |x| x * softplus(x).tanh()), &[FLOAT]),
    kernel("Neg", neg, &[SIGNED]),
    kernel("Not", not, &[BOOL]),
    kernel("Reciprocal", |call| float(call, f64::recip), &[FLOAT]),
    kernel("Relu", relu, &[SIGNED]),
    kernel("Round", |call| float(call, f64::round_ties_even), &[FLOAT]),
    kernel("Sigmoid", |call| float(call, sigmoid), &[FLOAT]),
    kernel("Sign", sign, &[NUMBER]),
    kernel("Sinh", |call| float(call, f64::sinh), &[FLOAT]),
    kernel("Sin", |call| float(call, f64::sin), &[FLOAT]),
    kernel("Softplus", |call| float(call, softplus), &[FLOAT]),
    kernel("Sqrt", |call| float(call, f64::sqrt), &[FLOAT]),
    kernel("Swish", swish, &[FLOAT]),
    kernel("Tan", |call| float(call, f64::tan), &[FLOAT]),
    kernel("Tanh", |call| float(call, f64::tanh), &[FLOAT]),
];

/// Maps a float tensor through `f` in `f64`.
pub(crate) fn float(call: &Call<'_, '_>, f: impl Fn(f64) -> f64) -> Outputs {
    call.rounded(call.input(0)?.to_f64().mapv_into(f))
}

/// `BitwiseNot`.
pub(crate) fn bitwise_not(call: &Call<'_, '_>) -> Outputs {
    each_number!(call.input(0)?, x => number(&x.view(), |x| Item::from_int(!x.to_int())))
}

/// The error function, to the last bits of `f64`.
pub(crate) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a > 6.0 {
        return x.signum();
    }
    if a < 3.0 || x.is_nan() {
        // erf(x) = 2/sqrt(pi) * exp(-x^2) * sum of 2^n x^(2n+1) / (1*3*..*(2n+1)): every term has the same sign.
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > sum.abs() * 1e-17 {
            n += 1.0;
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
        }
        return std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum;
    }
    // erfc(a) = exp(-a^2) / sqrt(pi) / (a + (1/2)/(a + (2/2)/(a + (3/2)/(a + ...)))), from the inside out.
    let fraction = (1..=60).rev().fold(a, |rest, n| a + f64::from(n) / 2.0 / rest);
    let erfc = (-a * a).exp() / fraction * std::f64::consts::FRAC_2_SQRT_PI / 2.0;
    (1.0 - erfc).copysign(x)
}

/// The logistic function, without overflow on either side.
pub(crate) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

/// `Gelu`, exact or approximated with `tanh`.
pub(crate) fn gelu(call: &Call<'_, '_>) -> Outputs {
    match call.node.string("approximate", "none") {
        "none" => float(call, |x| 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))),
        "tanh" => {
            let scale = (2.0 / std::f64::consts::PI).sqrt();
            float(call, |x| 0.5 * x * (1.0 + (scale * (x + 0.044715 * x * x * x)).tanh()))
        }
        other => Err(Error::new(format!("unknown approximation '{other}' of Gelu"))),
    }
}

/// `Elu`: `x < 0 ? alpha * (e^x - 1) : x`.
pub(crate) fn elu(call: &Call<'_, '_>) -> Outputs {
    let alpha = f64::from(call.node.float("alpha", 1.0));
    float(call, |x| if x < 0.0 { alpha * x.exp_m1() } else { x })
}

/// `LeakyRelu`: `x < 0 ? alpha * x : x`.
pub(crate) fn leaky_relu(call: &Call<'_, '_>) -> Outputs {
    let alpha = f64::from(call.node.float("alpha", 0.01));
    float(call, |x| if x < 0.0 { alpha * x } else { x })
}

/// `ln(1 + e^x)`, also where `e^x` is too large for a number.
pub(crate) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `HardSigmoid`: `max(0, min(1, alpha * x + beta))`.
pub(crate) fn hard_sigmoid(call: &Call<'_, '_>) -> Outputs {
    let alpha = f64::from(call.node.float("alpha", 0.2));
    let beta = f64::from(call.node.float("beta", 0.5));
    float(call, |x| (alpha * x + beta).clamp(0.0, 1.0))
}

/// `HardSwish`: `x * max(0, min(1, x / 6 + 1/2))`.
pub(crate) fn hard_swish(call: &Call<'_, '_>) -> Outputs {
    float(call, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0))
}

/// `Swish`: `x * sigmoid(alpha * x)`.
pub(crate) fn swish(call: &Call<'_, '_>) -> Outputs {
    let alpha = f64::from(call.node.float("alpha", 1.0));
    float(call, |x| x * sigmoid(alpha * x))
}

fn number<T: Item>(x: &ArrayViewD<'_, T>, f: impl Fn(T) -> T) -> Outputs {
    Ok(vec![T::wrap(x.mapv(f))])
}

/// `Relu`; NaN stays NaN.
pub(crate) fn relu(call: &Call<'_, '_>) -> Outputs {
    each_number!(call.input(0)?, x => number(&x.view(), |value| value.larger(Default::default())))
}

/// `Neg`; of floats this flips the sign of zero too.
pub(crate) fn neg(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    if x.dtype().is_float() {
        return float(call, |x| -x);
    }
    each_number!(x, x => number(&x.view(), |value| Number::sub(Default::default(), value)))
}

/// `Abs`.
pub(crate) fn abs(call: &Call<'_, '_>) -> Outputs {
    each_number!(call.input(0)?, x => number(&x.view(), Number::abs))
}

/// `Sign`: -1, 0 or 1; NaN stays NaN.
pub(crate) fn sign(call: &Call<'_, '_>) -> Outputs {
    fn sign<T: Item>(x: T) -> T {
        let zero = T::default();
        match x.partial_cmp(&zero) {
            Some(std::cmp::Ordering::Less) => T::from_f64(-1.0),
            Some(std::cmp::Ordering::Equal) => zero,
            Some(std::cmp::Ordering::Greater) => T::from_f64(1.0),
            None => x,
        }
    }
    each_number!(call.input(0)?, x => number(&x.view(), sign))
}

/// `Clip`; NaN stays NaN, and the upper bound wins where the bounds cross, as in numpy.
pub(crate) fn clip(call: &Call<'_, '_>) -> Outputs {
    fn bound<T: Item>(x: &ArrayViewD<'_, T>, array: Option<&Array<'_>>) -> Result<Option<T>, Error> {
        let Some(array) = array else { return Ok(None) };
        let bound = same(x, array)?.first().copied();
        bound.map(Some).ok_or_else(|| Error::new("a bound of Clip has no element"))
    }
    each_number!(call.input(0)?, x => {
        let x = x.view();
        let (low, high) = (bound(&x, call.optional(1))?, bound(&x, call.optional(2))?);
        number(&x, |value| {
            let value = low.map_or(value, |low| value.larger(low));
            high.map_or(value, |high| value.smaller(high))
        })
    })
}

/// `Not`.
pub(crate) fn not(call: &Call<'_, '_>) -> Outputs {
    match call.input(0)? {
        Array::Bool(x) => number(&x.view(), |value| !value),
        _ => Err(Error::new("Not takes booleans")),
    }
}

/// `IsInf`, of either sign or of one.
pub(crate) fn is_inf(call: &Call<'_, '_>) -> Outputs {
    let found = |name: &str| call.node.int(name, 1) != 0;
    let (negative, positive) = (found("detect_negative"), found("detect_positive"));
    let infinite = |x: f64| negative && x == f64::NEG_INFINITY || positive && x == f64::INFINITY;
    Ok(vec![Item::wrap(call.input(0)?.to_f64().mapv(infinite))])
}

/// `IsNaN`.
pub(crate) fn is_nan(call: &Call<'_, '_>) -> Outputs {
    Ok(vec![match call.input(0)? {
        x @ Array::Small(..) => Item::wrap(x.to_f64().mapv(Item::is_nan)),
        x => each!(x, x => Item::wrap(x.mapv(Item::is_nan))),
    }])
}

/// `Identity`.
pub(crate) fn identity(call: &Call<'_, '_>) -> Outputs {
    Ok(vec![call.input(0)?.to_owned()])
}

/// `Cast`. Integers wrap, floats to integers truncate and saturate (and wrap in those of less than 8 bits, as in onnx's own
/// cases), everything else rounds once; floats of 8 bits as the attributes `saturate` and `round_mode` say.
pub(crate) fn cast(call: &Call<'_, '_>) -> Outputs {
    let to = match call.output_type(0) {
        Some(dtype) => dtype,
        None => from_onnx(call.node.int("to", 0))?,
    };
    let x = call.input(0)?;
    let round = match call.node.string("round_mode", "up") {
        "down" => Round::Down,
        "nearest" => Round::Nearest,
        _ => Round::Up,
    };
    if to == DType::String || x.dtype() == DType::String {
        return text_numbers::cast(call, to);
    }
    let is_float = |dtype: DType| dtype.is_float() || dtype.is_small_float();
    // Integers of less than 8 bits wrap whatever they are made of.
    let wraps = to.shares_bytes() && !is_float(to);
    if !wraps && (is_float(x.dtype()) || is_float(to)) {
        return Ok(vec![Array::cast(to, x.to_f64(), call.node.int("saturate", 1) != 0, round)]);
    }
    // By way of one integer type, so that there are 13 loops each way and not 169.
    let integers = match x {
        x if is_float(x.dtype()) || x.dtype().is_asked_for() => x.to_f64().mapv(|value| value as i128),
        _ => each!(x, x => x.mapv(Item::to_int)),
    };
    Ok(vec![of_integers(to, &integers)?])
}

/// Integers in another type, in which they wrap.
pub(super) fn of_integers(to: DType, integers: &ArrayD<i128>) -> Result<Array<'static>, Error> {
    macro_rules! to_each {
        ($($variant:ident $rust:ty),*) => {
            match to {
                $(DType::$variant => Item::wrap(integers.mapv(<$rust>::from_int)),)*
                small => Array::Small(small, integers.mapv(|value| value as u8 & u8::MAX >> (8 - small.bits())).into()),
            }
        };
    }
    Ok(to_each!(
        F32 f32, F64 f64, F16 half::f16, BF16 half::bf16, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32,
        U64 u64, Bool bool
    ))
}

/// The element type with this number in ONNX.
pub(crate) fn from_onnx(number: i64) -> Result<DType, Error> {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    use DType::{F4E2M1, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, I2, I4, U2, U4};
    let types = [F32, U8, I8, U16, I16, I32, I64, DType::String, Bool, F16, F64, U32, U64, BF16];
    let small = [F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, U4, I4, F4E2M1, F8E8M0, U2, I2];
    let types = [types.as_slice(), &small].concat();
    let numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26];
    let found = numbers.iter().position(|&known| known == number);
    found.map(|index| types[index]).ok_or_else(|| Error::new(format!("unknown ONNX element type {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_is_exact_on_both_branches() {
        let cases = [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (-1.0, -0.842_700_792_949_714_9),
            (2.9, 0.999_958_902_121_900_5),
            (3.0, 0.999_977_909_503_001_4),
            (4.0, 0.999_999_984_582_742_1),
            (f64::NEG_INFINITY, -1.0),
        ];
        for (x, expected) in cases {
            assert!((erf(x) - expected).abs() < 1e-15, "erf({x}) = {}", erf(x));
        }
        assert!(erf(f64::NAN).is_nan());
    }

    #[test]
    fn numbers_are_rounded_and_signs_told() {
        use super::super::testing::{first, tensor};
        let cases: [(&str, [f64; 4]); 4] = [
            ("Ceil", [-0.0, 1.0, 3.0, 4.0]),
            ("Floor", [-1.0, 0.0, 2.0, 3.0]),
            ("Round", [-0.0, 0.0, 2.0, 4.0]),
            ("Sign", [-1.0, 1.0, 1.0, 1.0]),
        ];
        for (op, expected) in cases {
            let found = first(op, &[], vec![tensor(&[4], &[-0.5f32, 0.5, 2.5, 3.5])]).1;
            assert_eq!(found, expected, "{op}");
            assert_eq!(found[0].is_sign_negative(), expected[0].is_sign_negative(), "{op}");
        }
        assert!(first("Sign", &[], vec![tensor(&[1], &[f32::NAN])]).1[0].is_nan());
        assert_eq!(first("Sign", &[], vec![tensor(&[3], &[7u8, 0, 255])]).1, [1.0, 0.0, 1.0]);
        assert_eq!(first("Tan", &[], vec![tensor(&[1], &[1f64])]).1, [1f64.tan()]);
    }

    #[test]
    fn infinities_are_found_by_their_sign() {
        use super::super::testing::{first, tensor};
        use byoc_plugin_api::Attribute;
        let x = || tensor(&[4], &[f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0]);
        for (name, expected) in [("detect_negative", [1.0, 0.0]), ("detect_positive", [0.0, 1.0])] {
            let found = first("IsInf", &[(name, Attribute::Int(0))], vec![x()]).1;
            assert_eq!((&found[..2], &found[2..]), (&expected[..], &[0.0; 2][..]), "{name}");
        }
    }

    #[test]
    fn sigmoid_does_not_overflow() {
        assert_eq!((sigmoid(-1000.0), sigmoid(0.0), sigmoid(1000.0)), (0.0, 0.5, 1.0));
    }
}

//! Numbers of the element types that Rust has not: floats of 8 bits and less, and integers of 4 and 2 bits. Each is a code in
//! a byte of its own ([`DType::unpack`]). The floats are those of ONNX (<https://onnx.ai/onnx/technical/float8.html>): OCP's
//! formats of 8 bits and of microscaling, and those with one zero and no infinity (`UZ`).

use crate::dtype::DType;

/// How the bits of a type with a sign are read: sign, exponent, mantissa.
struct Layout {
    mantissa: u32,
    /// The exponent of the smallest number that is not subnormal.
    least: i32,
    /// The largest finite number, without its sign.
    most: u8,
    specials: Specials,
}

/// Which codes are no finite numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// None.
    No,
    /// The one above the largest number is NaN.
    Nan,
    /// The one above the largest number is infinity, and those above it are NaN.
    InfinityAndNan,
    /// The one of minus zero is NaN.
    MinusZero,
}

/// Which neighbour a power of two that [`DType::F8E8M0`] does not have becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Round {
    /// The larger one.
    #[default]
    Up,
    /// The smaller one.
    Down,
    /// The nearer one, the larger one of two.
    Nearest,
}

const SIGN: u8 = 0x80;
const NAN_E8M0: u8 = 0xff;

fn layout(dtype: DType) -> Option<Layout> {
    let of = |mantissa, least, most, specials| Some(Layout { mantissa, least, most, specials });
    match dtype {
        DType::F8E4M3FN => of(3, -6, 0x7e, Specials::Nan),
        DType::F8E4M3FNUZ => of(3, -7, 0x7f, Specials::MinusZero),
        DType::F8E5M2 => of(2, -14, 0x7b, Specials::InfinityAndNan),
        DType::F8E5M2FNUZ => of(2, -15, 0x7f, Specials::MinusZero),
        DType::F4E2M1 => of(1, 0, 0x7, Specials::No),
        _ => None,
    }
}

/// The bit of the sign.
fn sign_of(dtype: DType) -> u8 {
    SIGN >> (8 - dtype.bits())
}

/// The number that `code` stands for, which is exact; `None` for the types that Rust has. Of the codes of types of less than
/// 8 bits the low bits count.
pub fn decode(dtype: DType, code: u8) -> Option<f64> {
    match dtype {
        DType::F8E8M0 if code == NAN_E8M0 => return Some(f64::NAN),
        DType::F8E8M0 => return Some((f64::from(code) - 127.0).exp2()),
        DType::I4 => return Some(f64::from((code << 4).cast_signed() >> 4)),
        DType::I2 => return Some(f64::from((code << 6).cast_signed() >> 6)),
        DType::U4 => return Some(f64::from(code & 0xf)),
        DType::U2 => return Some(f64::from(code & 0x3)),
        _ => {}
    }
    let Layout { mantissa, least, most, specials } = layout(dtype)?;
    let (negative, size) = (code & sign_of(dtype) != 0, code & (sign_of(dtype) - 1));
    let number = match specials {
        Specials::MinusZero if negative && size == 0 => f64::NAN,
        Specials::InfinityAndNan if size == most + 1 => f64::INFINITY,
        Specials::Nan | Specials::InfinityAndNan if size > most => f64::NAN,
        _ => {
            let (exponent, fraction) = (i32::from(size >> mantissa), f64::from(size & ((1 << mantissa) - 1)));
            let implied = if exponent > 0 { f64::from(1u8 << mantissa) } else { 0.0 };
            (implied + fraction) * f64::from(exponent.max(1) - 1 + least - mantissa as i32).exp2()
        }
    };
    Some(if negative { -number } else { number })
}

/// Least and greatest number of an integer type that Rust has not.
fn integers(dtype: DType) -> Option<(f64, f64)> {
    match dtype {
        DType::I4 => Some((-8.0, 7.0)),
        DType::U4 => Some((0.0, 15.0)),
        DType::I2 => Some((-2.0, 1.0)),
        DType::U2 => Some((0.0, 3.0)),
        _ => None,
    }
}

/// The code of a number; `None` for the types that Rust has. Integers are cut off behind the point and saturate, and NaN is 0.
///
/// Floats are the nearest number, of two the one with an even code. What is larger than the largest
/// number becomes that one where it `saturates`, else infinity, or NaN where there is none. [`DType::F4E2M1`] always
/// saturates, and has no NaN: minus zero stands for it. [`DType::F8E8M0`] leaves the sign out, rounds as `round` says and
/// keeps infinity as NaN.
pub fn encode(dtype: DType, number: f64, saturates: bool, round: Round) -> Option<u8> {
    if dtype == DType::F8E8M0 {
        return Some(encode_power(number as f32, saturates, round));
    }
    if let Some((least, most)) = integers(dtype) {
        return Some((number.clamp(least, most) as i8).cast_unsigned() & (sign_of(dtype) << 1).wrapping_sub(1));
    }
    let Layout { mantissa, least, most, specials } = layout(dtype)?;
    let nan = match specials {
        Specials::No => return Some(encode_four(number)),
        Specials::Nan | Specials::InfinityAndNan => 0x7f - u8::from(specials == Specials::InfinityAndNan),
        Specials::MinusZero => SIGN,
    };
    let sign = if number.is_sign_negative() { SIGN } else { 0 };
    if number.is_nan() {
        return Some(sign | nan);
    }
    let size = nearest(number.abs(), mantissa, least).filter(|&size| size <= most);
    let size = match (size, specials) {
        (Some(size), _) => size,
        (None, _) if saturates => most,
        (None, Specials::InfinityAndNan) => most + 1,
        (None, _) => return Some(sign | nan),
    };
    // There is one zero, and no minus, where its code is that of NaN.
    Some(if size == 0 && specials == Specials::MinusZero { 0 } else { sign | size })
}

fn encode_four(number: f64) -> u8 {
    let sign = if number.is_sign_negative() != number.is_nan() { 0x8 } else { 0 };
    let size = if number.is_nan() { 0 } else { nearest(number.abs(), 1, 0).unwrap_or(u8::MAX).min(0x7) };
    sign | size
}

/// The code without sign of the nearest number on the grid of a type, as if it had any number of exponents; `None` where
/// that is more than 8 bits.
fn nearest(size: f64, mantissa: u32, least: i32) -> Option<u8> {
    if size > f64::from(u32::MAX) {
        return None;
    }
    // Of a number in [2^e, 2^(e+1)).
    let exponent = (((size.to_bits() >> 52) as i32) - 1023).max(least);
    let steps = (size * f64::from(mantissa as i32 - exponent).exp2()).round_ties_even();
    // The steps of a full mantissa carry into the exponent.
    u8::try_from(((exponent - least) << mantissa) + steps as i32).ok()
}

/// The exponent of a `f32`, rounded. (ONNX: `to_float8e8m0`.)
fn encode_power(number: f32, saturates: bool, round: Round) -> u8 {
    let bits = number.to_bits();
    let (exponent, fraction) = ((bits >> 23 & 0xff) as u8, bits & 0x7f_ffff);
    if exponent == 0xff {
        return NAN_E8M0;
    }
    let half = 0x40_0000;
    let up = match round {
        Round::Up => fraction > 0,
        Round::Down => false,
        Round::Nearest => fraction > half || fraction == half && exponent > 0,
    };
    exponent + u8::from(up && !(saturates && exponent == 0xfe))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOATS: [DType; 5] = [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1];

    fn codes(dtype: DType) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).take(1 << dtype.bits())
    }

    #[test]
    fn every_code_comes_back() {
        for dtype in FLOATS.into_iter().chain([DType::I4, DType::U4, DType::I2, DType::U2]) {
            for code in codes(dtype) {
                let number = decode(dtype, code).expect("a number");
                let back = encode(dtype, number, false, Round::Up).expect("a number");
                let same = decode(dtype, back).expect("a number");
                assert!(back == code || number.is_nan() && same.is_nan(), "{dtype} {code:#x}: {number} {back:#x}");
            }
        }
        for code in codes(DType::F8E8M0) {
            let number = decode(DType::F8E8M0, code).expect("a float");
            // The smallest one is subnormal in `f32`, of which only the exponent counts.
            let expected = if code == 0 { 1 } else { code };
            assert_eq!(encode(DType::F8E8M0, number, true, Round::Up), Some(expected), "{code}");
        }
        assert_eq!((decode(DType::U8, 1), encode(DType::F32, 1.0, true, Round::Up)), (None, None));
    }

    /// Between two neighbours the nearer one, in the middle the even one.
    #[test]
    fn numbers_go_to_the_nearest_code() {
        for dtype in FLOATS {
            let most = layout(dtype).expect("a float").most;
            for code in 0..most {
                let number = |code| decode(dtype, code).expect("a float");
                let (low, high) = (number(code), number(code + 1));
                let middle = (low + high) / 2.0;
                let nearest = |number: f64| encode(dtype, number, false, Round::Up).expect("a float");
                assert_eq!(nearest(middle), code + code % 2, "{dtype} {middle}");
                assert_eq!(nearest(middle * (1.0 - 1e-12)), code, "{dtype} {middle}");
                assert_eq!(nearest(middle * (1.0 + 1e-12)), code + 1, "{dtype} {middle}");
            }
        }
    }

    /// The table of ONNX's page on floats of 8 bits.
    #[test]
    fn what_is_no_finite_number_of_the_type() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let cases = [
            (
                DType::F8E4M3FN,
                [inf, -inf, 465.0, nan, -0.0],
                [0x7e, 0xfe, 0x7e, 0x7f, 0x80],
                [0x7f, 0xff, 0x7f, 0x7f, 0x80],
            ),
            (
                DType::F8E4M3FNUZ,
                [inf, -inf, 249.0, nan, -0.0],
                [0x7f, 0xff, 0x7f, 0x80, 0],
                [0x80, 0x80, 0x80, 0x80, 0],
            ),
            (
                DType::F8E5M2,
                [inf, -inf, 6e4 + 2e3, nan, -0.0],
                [0x7b, 0xfb, 0x7b, 0x7e, 0x80],
                [0x7c, 0xfc, 0x7c, 0x7e, 0x80],
            ),
            (DType::F8E5M2FNUZ, [inf, -inf, 62e3, nan, -0.0], [0x7f, 0xff, 0x7f, 0x80, 0], [0x80, 0x80, 0x80, 0x80, 0]),
            (DType::F4E2M1, [inf, -inf, 7.0, nan, -0.0], [0x7, 0xf, 0x7, 0x8, 0x8], [0x7, 0xf, 0x7, 0x8, 0x8]),
        ];
        for (dtype, numbers, saturated, not) in cases {
            let all = |saturates| numbers.map(|number| encode(dtype, number, saturates, Round::Up).expect("a float"));
            assert_eq!((all(true), all(false)), (saturated, not), "{dtype}");
        }
    }

    #[test]
    fn integers_are_cut_off_and_saturate() {
        let all = |number| {
            let code = |dtype| encode(dtype, number, false, Round::Up).and_then(|code| decode(dtype, code));
            [DType::I4, DType::U4, DType::I2, DType::U2].map(code)
        };
        assert_eq!(all(-300.0), [Some(-8.0), Some(0.0), Some(-2.0), Some(0.0)]);
        assert_eq!(all(300.0), [Some(7.0), Some(15.0), Some(1.0), Some(3.0)]);
        assert_eq!(all(-1.9), [Some(-1.0), Some(0.0), Some(-1.0), Some(0.0)]);
        assert_eq!(all(f64::NAN), [Some(0.0); 4]);
        assert_eq!((decode(DType::I4, 0xf8), decode(DType::U2, 0xff)), (Some(-8.0), Some(3.0)));
    }

    #[test]
    fn powers_of_two_are_rounded_as_asked() {
        let all =
            |number| [Round::Up, Round::Down, Round::Nearest].map(|round| encode(DType::F8E8M0, number, true, round));
        assert_eq!(all(1.0), [Some(127); 3]);
        assert_eq!(all(-1.25), [Some(128), Some(127), Some(127)]);
        assert_eq!(all(1.5), [Some(128), Some(127), Some(128)]);
        assert_eq!(all(3e38), [Some(254); 3]);
        assert_eq!(encode(DType::F8E8M0, 3e38, false, Round::Up), Some(255));
        assert_eq!(all(f64::INFINITY), [Some(255); 3]);
        assert_eq!(all(0.0), [Some(0); 3]);
    }
}

//! `Cast` between numbers and texts, as onnxruntime does it: numbers have eight digits, as `printf` writes them with `%.8g`.

use byoc_plugin_api::{DType, Error};

use super::array::{Array, Item, each, shaped};
use super::call::{Call, Outputs};

/// Digits of a floating-point number.
const DIGITS: usize = 8;

/// Texts of numbers, or numbers of texts.
pub(super) fn cast(call: &Call<'_, '_>, to: DType) -> Outputs {
    let x = call.input(0)?;
    Ok(vec![match (x, to) {
        (Array::String(_), DType::String) => x.to_owned(),
        (Array::String(_), _) => numbers(call, to)?,
        _ if x.dtype().is_float() || x.dtype().is_small_float() => {
            let texts: Vec<String> = x.to_f64().iter().map(|&value| float(value)).collect();
            call.strings(x.shape(), &texts)?
        }
        (Array::Small(..), _) => {
            let texts: Vec<String> = x.to_ints().iter().map(i64::to_string).collect();
            call.strings(x.shape(), &texts)?
        }
        _ => {
            let texts: Vec<String> = each!(x, x => x.iter().map(|value| value.to_int().to_string()).collect());
            call.strings(x.shape(), &texts)?
        }
    }])
}

fn numbers(call: &Call<'_, '_>, to: DType) -> Result<Array<'static>, Error> {
    let (shape, texts) = (call.input(0)?.shape(), call.texts(0)?);
    let wrong = |text: &str| Error::new(format!("'{text}' is not a number, so it is not cast to {to}"));
    if to.is_float() || to.is_small_float() {
        let values = texts.iter().map(|text| read(text).ok_or_else(|| wrong(text))).collect::<Result<Vec<_>, _>>()?;
        return Ok(Array::cast(to, shaped(shape, values)?, call.node.int("saturate", 1) != 0, Default::default()));
    }
    let integer = |text: &str| text.trim().parse::<i128>().ok().or_else(|| Some(read(text)?.trunc() as i128));
    let values = texts.iter().map(|text| integer(text).ok_or_else(|| wrong(text))).collect::<Result<Vec<_>, _>>()?;
    super::unary::of_integers(to, &shaped(shape, values)?)
}

fn read(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// A number as `%.8g` writes it.
fn float(value: f64) -> String {
    if !value.is_finite() {
        let text = if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "INF"
        } else {
            "-INF"
        };
        return text.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let text = format!("{value:.*e}", DIGITS - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..DIGITS as i32).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", plain(digits), exponent.unsigned_abs());
    }
    let behind = (DIGITS as i32 - 1 - exponent).max(0) as usize;
    plain(&format!("{value:.behind$}")).to_owned()
}

/// Without zeros behind the last digit of a fraction.
fn plain(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts are onnxruntime's.
    #[test]
    fn numbers_are_written_as_onnxruntime_writes_them() {
        let cases = [
            (f64::from(0.1f32), "0.1"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (1e10, "1e+10"),
            (1e-7, "1e-07"),
            (123456.789, "123456.79"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "INF"),
            (f64::NEG_INFINITY, "-INF"),
            (-0.0, "-0"),
            (16777216.0, "16777216"),
            (99999999.6, "1e+08"),
            (123456789.0, "1.2345679e+08"),
            (0.00001234, "1.234e-05"),
            (0.0001234, "0.0001234"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
        assert_eq!([" 1.5", "-2e3", "+INF", "nan"].map(|text| read(text).is_some()), [true; 4]);
        assert_eq!(["", "abc", "1,5"].map(read), [None; 3]);
    }
}

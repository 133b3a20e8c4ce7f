//! Formatting of numbers.

use std::fmt::Display;

/// `1 region`, `2 regions`.
pub fn count(number: usize, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    format!("{number} {}", if number == 1 { noun } else { &plural })
}

/// `[1,3,224,224]`.
pub fn shape<T: Display>(sizes: &[T]) -> String {
    let sizes: Vec<_> = sizes.iter().map(T::to_string).collect();
    format!("[{}]", sizes.join(","))
}

/// A number in at most six digits.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    if !(1e-4..1e6).contains(&magnitude) {
        return format!("{value:.4e}");
    }
    let before = magnitude.log10().floor() as i32 + 1;
    let text = format!("{value:.*}", usize::try_from(6 - before.max(0)).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number of dB with at most three digits behind the point: what is added up has many.
pub fn db(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_shapes() {
        assert_eq!([count(0, "region"), count(1, "entry"), count(2, "entry")], ["0 regions", "1 entry", "2 entries"]);
        assert_eq!(shape(&[1, 3]), "[1,3]");
        assert_eq!(shape::<i64>(&[]), "[]");
    }

    #[test]
    fn numbers_in_at_most_six_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-0.5, "-0.5"),
            (0.123_456_789, "0.123457"),
            (123.456_789, "123.457"),
            (999_999.0, "999999"),
            (1e6, "1.0000e6"),
            (0.000_012_345, "1.2345e-5"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }
}

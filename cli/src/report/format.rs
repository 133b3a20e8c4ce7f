//! Numbers as people read them.

use std::fmt::Display;
use std::time::Duration;

/// A number of bytes, in units of 1000: `417.6 MB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    // 999.95 would round to 1000.0 of the smaller unit.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A time with three digits: `12.3 ms`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {unit}")
}

/// The same of a number of seconds; `?` for what is no time.
pub(crate) fn seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "?".into(), duration)
}

/// `1 region`, `2 regions`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    format!("{number} {}", if number == 1 { noun } else { &plural })
}

/// `[1,3,224,224]`.
pub(crate) fn shape<T: Display>(sizes: &[T]) -> String {
    let sizes: Vec<_> = sizes.iter().map(T::to_string).collect();
    format!("[{}]", sizes.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_units_of_a_thousand() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (999_949, "999.9 KB"),
            (999_950, "1.0 MB"),
            (417_649_312, "417.6 MB"),
            (2_500_000_000_000_000, "2500.0 TB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn times_with_three_digits() {
        let cases = [
            (1, "0.00 µs"),
            (12_345, "12.3 µs"),
            (1_234_567, "1.23 ms"),
            (123_456_789, "123 ms"),
            (1_500_000_000, "1.50 s"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(duration(Duration::from_nanos(nanoseconds)), text);
        }
    }

    #[test]
    fn counts_and_shapes() {
        assert_eq!([count(0, "region"), count(1, "entry"), count(2, "entry")], ["0 regions", "1 entry", "2 entries"]);
        assert_eq!(shape(&[1, 3]), "[1,3]");
        assert_eq!(shape::<i64>(&[]), "[]");
    }
}

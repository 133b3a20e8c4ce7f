//! Formatting of times.

use std::time::Duration;

pub(crate) use byoc_core::memory::readable as size;
use byoc_tools::text::count;

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

/// The same for seconds; `?` for an invalid time.
pub(crate) fn seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "?".into(), duration)
}

/// `2 elements are NaN or infinite`, as both summaries and comparisons say it.
pub(super) fn not_finite(elements: usize) -> String {
    format!("{} {} NaN or infinite", count(elements, "element"), if elements == 1 { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

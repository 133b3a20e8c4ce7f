//! Numbers on the command line with a range.

/// Parses a time in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    // A day: long enough for any measurement, short enough for every clock.
    if (0.0..=86400.0).contains(&value) { Ok(value) } else { Err("expected 0 to 86400 seconds".into()) }
}

/// Parses a percentile.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (0.0..=100.0).contains(value));
    value.ok_or_else(|| "expected a number from 0 to 100, such as 99.9".into())
}

/// Parses a tolerance.
pub(crate) fn tolerance(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if value >= 0.0 { Ok(value) } else { Err("expected a number of at least 0".into()) }
}

/// Parses the cosine of an angle.
pub(crate) fn cosine(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if (-1.0..=1.0).contains(&value) { Ok(value) } else { Err("expected a number from -1 to 1".into()) }
}

/// Parses a number.
pub(crate) fn finite(text: &str) -> Result<f32, String> {
    let number = text.trim().parse().ok().filter(|number: &f32| number.is_finite());
    number.ok_or_else(|| "expected a number, such as 0.485".into())
}

/// Parses a number above 0.
pub(crate) fn positive(text: &str) -> Result<f32, String> {
    finite(text).ok().filter(|&number| number > 0.0).ok_or_else(|| "expected a number above 0, such as 0.229".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sane() {
        assert_eq!(seconds("1.5"), Ok(1.5));
        assert_eq!(seconds("-1"), Err("expected 0 to 86400 seconds".into()));
        assert_eq!(seconds("inf"), Err("expected 0 to 86400 seconds".into()));
        assert_eq!(seconds("x"), Err("expected a number of seconds".into()));
        assert_eq!(percent("99.9"), Ok(99.9));
        for text in ["-1", "100.1", "NaN", "x"] {
            assert_eq!(percent(text), Err("expected a number from 0 to 100, such as 99.9".into()));
        }
        assert_eq!(tolerance("1e-3"), Ok(1e-3));
        assert_eq!(tolerance("NaN"), Err("expected a number of at least 0".into()));
        assert_eq!(cosine("0.99"), Ok(0.99));
        assert_eq!(cosine("1.5"), Err("expected a number from -1 to 1".into()));
        assert_eq!(finite(" -0.5"), Ok(-0.5));
        assert_eq!(positive("0"), Err("expected a number above 0, such as 0.229".into()));
    }
}

//! Comparing results with what is expected.

/// How far a result may be from what is expected: by the greater one of an absolute difference and a part of the expected
/// number. Equal numbers, infinities among them, are always near enough; NaN is so beside NaN alone, and only where that was
/// said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    /// The largest difference, however small the number.
    pub absolute: f64,
    /// The largest difference as a part of the expected number.
    pub relative: f64,
    /// Whether NaN is right where NaN is expected.
    pub nan: bool,
}

impl Limit {
    /// A part of the expected number.
    pub fn relative(relative: f64) -> Limit {
        Limit { relative, ..Limit::default() }
    }

    /// A difference, however large the number.
    pub fn absolute(absolute: f64) -> Limit {
        Limit { absolute, ..Limit::default() }
    }

    /// A part of the expected number, which counts as this large at least.
    pub fn above(relative: f64, least: f64) -> Limit {
        Limit { absolute: relative * least, relative, nan: false }
    }

    /// A part of the largest expected number that is finite, for sums that cancel.
    pub fn of_largest(part: f64, expected: &[f64]) -> Limit {
        let finite = expected.iter().filter(|number| number.is_finite());
        Limit::absolute(part * finite.fold(0.0, |most: f64, number| most.max(number.abs())))
    }

    /// The same, where NaN is right beside NaN.
    pub fn with_nan(self) -> Limit {
        Limit { nan: true, ..self }
    }

    fn allows(&self, found: f64, expected: f64) -> bool {
        let near = (found - expected).abs() <= self.absolute.max(self.relative * expected.abs());
        found == expected || near || self.nan && found.is_nan() && expected.is_nan()
    }
}

/// Compares numbers. The error names the first and the worst one that are off.
pub fn compare(found: &[f64], expected: &[f64], limit: Limit) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{} elements, not {}", found.len(), expected.len()));
    }
    let pairs = found.iter().copied().zip(expected.iter().copied()).enumerate();
    let off: Vec<_> = pairs.filter(|(_, (found, expected))| !limit.allows(*found, *expected)).collect();
    // A difference that is NaN is the greatest.
    let by = |(_, (found, expected)): &(usize, (f64, f64))| (found - expected).abs();
    let worst = off.iter().copied().max_by(|a, b| by(a).total_cmp(&by(b)));
    let (Some((first, (is, not))), Some((at, (worst_is, worst_not)))) = (off.first().copied(), worst) else {
        return Ok(());
    };
    let count = format!("{} of {} elements are off", off.len(), found.len());
    let worst = format!("the worst, element {at}, is {worst_is}, not {worst_not} ({limit:?})");
    Err(format!("{count}: the first, element {first}, is {is}, not {not}; {worst}"))
}

/// Panics where [`compare`] finds a difference.
#[track_caller]
pub fn assert_close(what: &str, found: &[f64], expected: &[f64], limit: Limit) {
    if let Err(difference) = compare(found, expected, limit) {
        panic!("{what}: {difference}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_worst_are_named() {
        let limit = Limit { absolute: 0.1, relative: 0.01, nan: false };
        assert_eq!(compare(&[1.05, 200.0, f64::INFINITY], &[1.0, 201.0, f64::INFINITY], limit), Ok(()));
        let error = compare(&[0.0, 1.2, 5.0], &[0.0, 1.0, 3.0], limit).expect_err("two are off");
        let start = "2 of 3 elements are off: the first, element 1, is 1.2, not 1; the worst, element 2, is 5, not 3 (";
        assert!(error.starts_with(start), "{error}");
        assert_eq!(compare(&[0.0], &[], limit), Err("1 elements, not 0".into()));
    }

    #[test]
    fn nan_is_near_nothing_but_nan_where_that_is_said() {
        let limit = Limit::absolute(f64::MAX);
        let nan = f64::NAN;
        for (found, expected) in [(nan, 1.0), (1.0, nan), (nan, nan)] {
            assert!(compare(&[found], &[expected], limit).is_err());
            assert_eq!(compare(&[found], &[expected], limit.with_nan()).is_ok(), found.is_nan() && expected.is_nan());
        }
    }
}

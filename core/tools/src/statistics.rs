//! Statistics of a list of times.

use std::time::Duration;

use serde::Serialize;

/// The times of the runs of one thing, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Number of runs.
    pub runs: usize,
    /// Sum over number.
    pub mean: f64,
    /// Half of the runs took at most this.
    pub median: f64,
    /// Nine in ten took at most this.
    pub p90: f64,
    /// 99 in a hundred took at most this.
    pub p99: f64,
    /// The fastest.
    pub min: f64,
    /// The slowest.
    pub max: f64,
}

impl Statistics {
    /// `None` where there was no run.
    pub fn of(times: &[Duration]) -> Option<Statistics> {
        let mut sorted: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        // The nearest rank: always a time that was measured.
        let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
        Some(Statistics {
            runs: sorted.len(),
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            median: rank(50),
            p90: rank(90),
            p99: rank(99),
            min,
            max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_times() {
        let times: Vec<_> = (1..=10).rev().map(Duration::from_secs).collect();
        let found = Statistics::of(&times).expect("runs");
        assert_eq!((found.runs, found.mean, found.median, found.p90, found.p99), (10, 5.5, 5.0, 9.0, 10.0));
        assert_eq!((found.min, found.max), (1.0, 10.0));
        let one = Statistics::of(&times[..1]).expect("a run");
        assert_eq!((one.median, one.p99), (10.0, 10.0));
        assert_eq!(Statistics::of(&[]), None);
    }
}

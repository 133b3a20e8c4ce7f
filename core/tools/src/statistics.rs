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
    /// The standard deviation of a sample: the root of the sum of squared distances from the mean over the number of runs
    /// less one; 0 for one run.
    pub stddev: f64,
    /// The middle one; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// Nine in ten took at most this.
    pub p90: f64,
    /// 95 in a hundred took at most this.
    pub p95: f64,
    /// 99 in a hundred took at most this.
    pub p99: f64,
    /// The fastest.
    pub min: f64,
    /// The slowest.
    pub max: f64,
}

/// A percentile that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// So many in a hundred took at most this.
    pub percent: f64,
    /// The time, in seconds.
    pub seconds: f64,
}

/// Times in their order, the fastest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// `None` where there is no time.
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Option<Sorted> {
        let mut sorted: Vec<f64> = times.into_iter().map(|time| time.as_secs_f64()).collect();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then_some(Sorted(sorted))
    }

    /// The nearest rank: the least time that was measured and that `percent` in a hundred runs did not exceed. The slowest
    /// above 100, the fastest at 0 and below.
    pub fn percentile(&self, percent: f64) -> Percentile {
        // Products such as 0.999 * 1000 are a little above the whole number that they are.
        let rank = (self.0.len() as f64 * percent / 100.0 - 1e-9).ceil();
        let index = (rank.max(1.0) as usize).min(self.0.len()) - 1;
        Percentile { percent, seconds: self.0[index] }
    }

    /// All that is commonly reported of them.
    pub fn statistics(&self) -> Statistics {
        let times = &self.0;
        let runs = times.len();
        let mean = times.iter().sum::<f64>() / runs as f64;
        let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        let percentile = |percent| self.percentile(percent).seconds;
        Statistics {
            runs,
            mean,
            stddev: (squares / (runs - 1).max(1) as f64).sqrt(),
            median: f64::midpoint(times[(runs - 1) / 2], times[runs / 2]),
            p90: percentile(90.0),
            p95: percentile(95.0),
            p99: percentile(99.0),
            min: times[0],
            max: times[runs - 1],
        }
    }
}

impl Statistics {
    /// `None` where there was no run.
    pub fn of(times: &[Duration]) -> Option<Statistics> {
        Sorted::of(times.iter().copied()).map(|sorted| sorted.statistics())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(times: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        times.into_iter().map(Duration::from_secs).collect()
    }

    #[test]
    fn percentiles_are_measured_times() {
        let times = seconds((1..=10).rev());
        let found = Statistics::of(&times).expect("runs");
        assert_eq!((found.runs, found.mean, found.median), (10, 5.5, 5.5));
        assert_eq!((found.p90, found.p95, found.p99), (9.0, 10.0, 10.0));
        assert_eq!((found.min, found.max), (1.0, 10.0));
        let one = Statistics::of(&times[..1]).expect("a run");
        assert_eq!((one.median, one.p99, one.stddev), (10.0, 10.0, 0.0));
        assert_eq!(Statistics::of(&[]), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let median = |times: &[u64]| Statistics::of(&seconds(times.iter().copied())).expect("runs").median;
        assert_eq!(median(&[4, 1, 3, 2]), 2.5);
        assert_eq!(median(&[4, 1, 3]), 3.0);
        assert_eq!(median(&[1, 2]), 1.5);
    }

    /// 2, 4, 4, 4, 5, 5, 7, 9 have a mean of 5 and squared distances of 32.
    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let found = Statistics::of(&seconds([2, 4, 4, 4, 5, 5, 7, 9])).expect("runs");
        assert_eq!(found.stddev, (32.0f64 / 7.0).sqrt());
    }

    #[test]
    fn percentiles_of_choice() {
        let sorted = Sorted::of(seconds(1..=1000)).expect("times");
        let cases = [(0.0, 1.0), (0.05, 1.0), (50.0, 500.0), (99.9, 999.0), (99.95, 1000.0), (100.0, 1000.0)];
        for (percent, seconds) in cases {
            assert_eq!(sorted.percentile(percent), Percentile { percent, seconds });
        }
    }
}

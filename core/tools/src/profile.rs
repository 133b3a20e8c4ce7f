//! Where the time of runs went, and its sums.

use std::time::Duration;

use byoc_core::runtime::{CopyTime, RegionTime, Span, StepTime, Work};
use serde::{Serialize, Serializer};

/// Where the time of runs went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profile {
    /// Regions, in their order.
    pub regions: Vec<RegionTime>,
    /// What was copied between memories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyTime>,
    /// What happened in the last of the runs, and when.
    #[serde(skip)]
    pub spans: Vec<Span>,
}

/// The time of all steps of one operator on one backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorTime {
    /// The operator of the first node of each step; what the backend calls the step where its nodes are not known.
    pub operator: String,
    /// The backend.
    pub backend: String,
    /// How many steps there are.
    pub steps: usize,
    /// Their time.
    #[serde(rename = "seconds", serialize_with = "in_seconds")]
    pub time: Duration,
    /// What they do in that time.
    #[serde(flatten)]
    pub work: Work,
}

/// The time of all regions of one backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackendTime {
    /// The backend.
    pub backend: String,
    /// How many regions there are.
    pub regions: usize,
    /// Their time.
    #[serde(rename = "seconds", serialize_with = "in_seconds")]
    pub time: Duration,
}

fn in_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

impl Profile {
    /// Adds the times of another run.
    pub fn add(&mut self, run: Profile) {
        if self.regions.is_empty() {
            *self = run;
            return;
        }
        for (sum, region) in self.regions.iter_mut().zip(run.regions) {
            sum.time += region.time;
            for (sum, step) in sum.steps.iter_mut().zip(region.steps) {
                sum.time += step.time;
                sum.work += step.work;
            }
        }
        self.copies.iter_mut().zip(run.copies).for_each(|(sum, time)| sum.time += time.time);
        self.spans = run.spans;
    }

    /// The sums over `runs` runs as means.
    pub fn means(mut self, runs: usize) -> Profile {
        let runs = u32::try_from(runs.max(1)).unwrap_or(u32::MAX);
        for region in &mut self.regions {
            region.time /= runs;
            for step in &mut region.steps {
                step.time /= runs;
                step.work /= runs;
            }
        }
        self.copies.iter_mut().for_each(|copy| copy.time /= runs);
        self
    }

    /// All that regions and copies took.
    pub fn total(&self) -> Duration {
        let regions = self.regions.iter().map(|region| region.time);
        regions.chain(self.copies.iter().map(|copy| copy.time)).sum()
    }

    /// Every step with its region, the longest first.
    pub fn steps(&self) -> Vec<(&RegionTime, &StepTime)> {
        let mut steps: Vec<_> =
            self.regions.iter().flat_map(|region| region.steps.iter().map(move |step| (region, step))).collect();
        steps.sort_by_key(|(_, step)| std::cmp::Reverse(step.time));
        steps
    }

    /// The sums by operator and backend, the longest first.
    pub fn operators(&self) -> Vec<OperatorTime> {
        let mut sums: Vec<OperatorTime> = Vec::new();
        for (region, step) in self.steps() {
            let (operator, backend) = (&step.operator, &region.backend);
            match sums.iter_mut().find(|sum| sum.operator == *operator && sum.backend == *backend) {
                Some(sum) => {
                    (sum.steps, sum.time) = (sum.steps + 1, sum.time + step.time);
                    sum.work += step.work;
                }
                None => sums.push(OperatorTime {
                    operator: operator.clone(),
                    backend: backend.clone(),
                    steps: 1,
                    time: step.time,
                    work: step.work,
                }),
            }
        }
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.time));
        sums
    }

    /// The sums by backend, the longest first.
    pub fn backends(&self) -> Vec<BackendTime> {
        let mut sums: Vec<BackendTime> = Vec::new();
        for region in &self.regions {
            match sums.iter_mut().find(|sum| sum.backend == region.backend) {
                Some(sum) => (sum.regions, sum.time) = (sum.regions + 1, sum.time + region.time),
                None => {
                    sums.push(BackendTime { backend: region.backend.clone(), regions: 1, time: region.time });
                }
            }
        }
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.time));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(kernel: &str, seconds: u64) -> StepTime {
        let time = Duration::from_secs(seconds);
        StepTime {
            kernel: kernel.into(),
            operator: kernel.into(),
            nodes: Vec::new(),
            time,
            work: Work { operations: 6, bytes: 10 },
        }
    }

    fn region(seconds: u64, steps: Vec<StepTime>) -> RegionTime {
        RegionTime { symbol: "r0".into(), backend: "gpu".into(), time: Duration::from_secs(seconds), steps }
    }

    #[test]
    fn profiles_of_runs_become_their_means() {
        let profile = |seconds, copied| Profile {
            regions: vec![region(seconds, vec![step("conv", seconds)])],
            copies: vec![CopyTime {
                value: "x".into(),
                from: "host".into(),
                to: "cuda:0".into(),
                bytes: 2000,
                time: Duration::from_secs(copied),
            }],
            spans: Vec::new(),
        };
        let mut sums = Profile::default();
        sums.add(profile(1, 2));
        sums.add(profile(3, 4));
        assert_eq!(sums.means(2), profile(2, 3));
    }

    #[test]
    fn sums_are_sorted_by_time() {
        let steps = vec![step("relu", 1), step("conv", 2), step("relu", 3)];
        let profile = Profile { regions: vec![region(7, steps), region(1, Vec::new())], ..Profile::default() };
        let operators = profile.operators().into_iter();
        let operators =
            operators.map(|it| (it.operator, it.steps, it.time.as_secs(), it.work.operations, it.work.bytes));
        let expected = [("relu".to_owned(), 2, 4, 12, 20), ("conv".to_owned(), 1, 2, 6, 10)];
        assert_eq!(operators.collect::<Vec<_>>(), expected);
        let longest = profile.steps().first().map(|(_, step)| step.time.as_secs());
        assert_eq!((longest, profile.backends()[0].regions, profile.total().as_secs()), (Some(3), 2, 8));
    }
}

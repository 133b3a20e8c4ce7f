//! A loaded entry with its inputs: what `run`, `bench` and `verify` begin with.

use std::time::{Duration, Instant};

use byoc_core::diagnostic::Result;
use byoc_core::runtime::{LoadOptions, Session};
use byoc_plugin_api::TensorView;
use serde::Serialize;

use crate::args::{Execution, Inputs};
use crate::report::{self, Table};
use crate::tensor::Tensor;
use crate::{artifact, inputs};

/// A loaded entry with its inputs.
pub(crate) struct Loaded {
    /// The entry.
    pub(crate) session: Session,
    /// One tensor for each of its inputs.
    pub(crate) inputs: Vec<Tensor>,
    /// How long opening and loading took, compiling not counted.
    pub(crate) load_time: Duration,
}

/// How long a region took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RegionSeconds {
    region: String,
    backend: String,
    seconds: f64,
}

/// Opens and loads the entry, and gathers its inputs, with `flags` in place of the command line's own.
pub(crate) fn load(execution: &Execution, flags: &Inputs) -> Result<Loaded> {
    let opened = artifact::open(execution)?;
    let start = Instant::now();
    let options = LoadOptions {
        entry: execution.entry.clone(),
        threads: execution.threads,
        constants_from: execution.constants_from.clone(),
    };
    let open_sizes = opened.open_sizes.clone();
    let session = opened.load(&execution.file, &options)?;
    let load_time = start.elapsed();
    let inputs = inputs::gather(&session.inputs(), flags, &open_sizes)?;
    Ok(Loaded { session, inputs, load_time })
}

impl Loaded {
    /// Runs once.
    pub(crate) fn run(&mut self) -> Result<Duration> {
        let views = views(&self.inputs)?;
        let start = Instant::now();
        self.session.run(&views)?;
        Ok(start.elapsed())
    }

    /// The times of the regions in the last run.
    pub(crate) fn region_times(&self) -> Vec<RegionSeconds> {
        let seconds = |time: byoc_core::runtime::RegionTime| RegionSeconds {
            region: time.symbol,
            backend: time.backend,
            seconds: time.time.as_secs_f64(),
        };
        self.session.times().into_iter().map(seconds).collect()
    }
}

/// The tensors as a run takes them.
pub(crate) fn views(tensors: &[Tensor]) -> Result<Vec<TensorView<'_>>> {
    tensors.iter().map(Tensor::view).collect()
}

/// Adds the times of one run to the sums.
pub(crate) fn add_times(sums: &mut Vec<RegionSeconds>, times: Vec<RegionSeconds>) {
    if sums.is_empty() {
        *sums = times;
        return;
    }
    for (sum, time) in sums.iter_mut().zip(times) {
        sum.seconds += time.seconds;
    }
}

/// The sums over `runs` runs as means.
pub(crate) fn means(mut sums: Vec<RegionSeconds>, runs: usize) -> Vec<RegionSeconds> {
    sums.iter_mut().for_each(|sum| sum.seconds /= runs.max(1) as f64);
    sums
}

/// The times of regions as a table.
pub(crate) fn profile_table(times: &[RegionSeconds]) -> String {
    let total: f64 = times.iter().map(|time| time.seconds).sum();
    let mut table = Table::new(&["region", "backend", ">time", ">share"]);
    for time in times {
        let share = if total > 0.0 { 100.0 * time.seconds / total } else { 0.0 };
        let duration = report::duration(Duration::from_secs_f64(time.seconds));
        table.row([&time.region, &time.backend, &duration, &format!("{share:.1}%")]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_shows_means_and_shares() {
        let times = |a: f64, b: f64| {
            [("r0", a), ("r1", b)].map(|(region, seconds)| RegionSeconds {
                region: region.into(),
                backend: "gpu".into(),
                seconds,
            })
        };
        let mut sums = Vec::new();
        add_times(&mut sums, times(0.001, 0.003).into());
        add_times(&mut sums, times(0.003, 0.005).into());
        let means = means(sums, 2);
        assert_eq!(means, times(0.002, 0.004));
        let expected = "region  backend     time  share\n\
                        r0      gpu      2.00 ms  33.3%\n\
                        r1      gpu      4.00 ms  66.7%\n";
        assert_eq!(profile_table(&means), expected);
    }
}

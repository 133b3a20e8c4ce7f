//! Measures runs.

use std::time::{Duration, Instant};

use byoc_core::diagnostic::{Code, Diagnostic, Result};

use crate::execution::{Loaded, Profile};
use crate::statistics::Statistics;

/// Least number of runs where no number and no time is asked for.
const RUNS: usize = 5;

/// Least time to measure for, in seconds, where no number and no time is asked for.
const SECONDS: f64 = 3.0;

/// What is measured.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Runs before the measured ones.
    pub warmup: usize,
    /// Least number of measured runs.
    pub repeat: Option<usize>,
    /// Least time to measure for, in seconds.
    pub duration: Option<f64>,
    /// Whether the time of each region is taken.
    pub profile: bool,
    /// Whether inputs and outputs stay on devices where they can.
    pub resident: bool,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The measured runs.
    pub statistics: Statistics,
    /// The first run of all: it allocates.
    pub first: Duration,
    /// Where the mean run's time went, where that was asked for.
    pub profile: Profile,
}

/// Runs the entry as often as the plan says.
pub fn measure(loaded: &mut Loaded, plan: &Plan) -> Result<Measured> {
    let runs = plan.repeat.unwrap_or(if plan.duration.is_some() { 1 } else { RUNS });
    let seconds = plan.duration.unwrap_or(if plan.repeat.is_some() { 0.0 } else { SECONDS });
    let mut first = None;
    for _ in 0..plan.warmup {
        let time = loaded.run()?;
        first.get_or_insert(time);
    }
    if plan.resident && first.is_none() {
        first = Some(loaded.run()?);
    }
    let (start, mut times, mut profile) = (Instant::now(), Vec::new(), Profile::default());
    while times.len() < runs || start.elapsed().as_secs_f64() < seconds {
        times.push(if plan.resident { loaded.run_resident()? } else { loaded.run()? });
        if plan.profile {
            profile.add(loaded.profile());
        }
    }
    let none =
        || Diagnostic::new(Code::Usage, "there are no runs to measure").hint("Give --repeat or --duration above 0");
    let statistics = Statistics::of(&times).ok_or_else(none)?;
    let first = first.or(times.first().copied()).unwrap_or_default();
    Ok(Measured { statistics, first, profile: profile.means(times.len()) })
}

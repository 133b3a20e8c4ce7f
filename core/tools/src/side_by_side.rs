//! How long the same work takes in two sessions.

use std::time::{Duration, Instant};

use byoc_core::diagnostic::Result;

use crate::execution::Loaded;
use crate::statistics::Statistics;

/// Runs before those that are timed: the first ones may record, choose and allocate.
const WARM_UP: usize = 3;
/// Runs of each that are timed at least.
const LEAST: usize = 5;

/// The times of runs of each. The two take turns until both have run for `time` together, so that what else the machine does falls on
/// both.
pub fn side_by_side(sessions: [&mut Loaded; 2], time: Duration) -> Result<[Statistics; 2]> {
    let [own, other] = sessions;
    for _ in 0..WARM_UP {
        own.run()?;
        other.run()?;
    }
    let (mut times, mut others) = (Vec::new(), Vec::new());
    let start = Instant::now();
    loop {
        times.push(own.run()?);
        others.push(other.run()?);
        if times.len() < LEAST || start.elapsed() < time {
            continue;
        }
        if let (Some(own), Some(other)) = (Statistics::of(&times), Statistics::of(&others)) {
            return Ok([own, other]);
        }
    }
}

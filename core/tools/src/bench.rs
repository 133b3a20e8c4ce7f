//! Measures runs: of one session, or of several at once.

mod samples;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use byoc_core::diagnostic::{Code, Diagnostic, Result};

use crate::execution::{Loaded, Profile};
use crate::statistics::{Sorted, Statistics};

pub use self::samples::{Format, Sample};

/// Least number of runs where no number and no time is asked for.
const RUNS: usize = 5;

/// Least time to measure for, in seconds, where no number and no time is asked for.
const SECONDS: f64 = 3.0;

/// How often an observer is called.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is measured.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Runs of each session before the measured ones.
    pub warmup: usize,
    /// Least number of measured runs of each session.
    pub repeat: Option<usize>,
    /// Least time to measure for, in seconds.
    pub duration: Option<f64>,
    /// Whether the time of each region is taken.
    pub profile: bool,
    /// Whether inputs and outputs stay on devices where they can.
    pub resident: bool,
}

impl Plan {
    /// Least number of measured runs of each session.
    pub fn runs(&self) -> usize {
        self.repeat.unwrap_or(if self.duration.is_some() { 1 } else { RUNS })
    }

    /// Least time to measure for, in seconds.
    pub fn seconds(&self) -> f64 {
        self.duration.unwrap_or(if self.repeat.is_some() { 0.0 } else { SECONDS })
    }
}

/// Watches a measurement. Its methods are called between runs, from the threads that measure.
pub trait Observer: Sync {
    /// Called several times a second at most, with the measured runs of all sessions and the time since the first began.
    fn measured(&self, runs: usize, elapsed: Duration) {
        let _ = (runs, elapsed);
    }

    /// Whether the measurement is to end after this run.
    fn stops(&self) -> bool {
        false
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Every measured run, those of a session together.
    pub samples: Vec<Sample>,
    /// The first run of all, of the first session: it allocates.
    pub first: Duration,
    /// From the start of the first measured run to the end of the last.
    pub elapsed: Duration,
    /// Where the mean run's time went, where that was asked for; of the first session.
    pub profile: Profile,
    /// Whether the observer ended the measurement.
    pub interrupted: bool,
}

impl Measured {
    /// The times of all runs; `None` where the measurement was ended before the first.
    pub fn sorted(&self) -> Option<Sorted> {
        Sorted::of(self.samples.iter().map(|sample| sample.time))
    }

    /// The runs of one session.
    pub fn of_stream(&self, stream: usize) -> Option<Statistics> {
        let own = self.samples.iter().filter(|sample| sample.stream == stream);
        Sorted::of(own.map(|sample| sample.time)).map(|sorted| sorted.statistics())
    }

    /// Runs of all sessions in a second.
    pub fn runs_per_second(&self) -> f64 {
        match self.elapsed.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.samples.len() as f64 / seconds,
        }
    }
}

/// What the sessions of a measurement have in common.
struct Shared<'a> {
    plan: &'a Plan,
    observer: &'a dyn Observer,
    /// All sessions are warm.
    warm: Barrier,
    /// A session failed, or the observer ended the measurement.
    ends: AtomicBool,
    runs: AtomicUsize,
}

/// What one session measured.
struct Stream {
    start: Instant,
    times: Vec<(Instant, Duration)>,
    first: Option<Duration>,
    profile: Profile,
}

/// Runs the sessions, each in a thread of its own where there are several, as often as the plan says. They begin to measure
/// together, and an error of one ends all.
pub fn measure(sessions: &mut [Loaded], plan: &Plan, observer: &dyn Observer) -> Result<Measured> {
    let warm = Barrier::new(sessions.len());
    let shared = Shared { plan, observer, warm, ends: AtomicBool::new(false), runs: AtomicUsize::new(0) };
    let streams: Vec<Result<Stream>> = match sessions {
        [only] => vec![shared.stream(0, only)],
        several => std::thread::scope(|scope| {
            let shared = &shared;
            let threads: Vec<_> = several
                .iter_mut()
                .enumerate()
                .map(|(index, loaded)| scope.spawn(move || shared.stream(index, loaded)))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Stream>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        }),
    };
    let streams = streams.into_iter().collect::<Result<Vec<_>>>()?;
    let interrupted = shared.ends.load(Ordering::Relaxed);
    let measured = assemble(streams, interrupted);
    if measured.samples.is_empty() && !interrupted {
        let error = Diagnostic::new(Code::Usage, "there are no runs to measure");
        return Err(error.hint("Give --repeat or --duration above 0"));
    }
    Ok(measured)
}

impl Shared<'_> {
    fn stream(&self, index: usize, loaded: &mut Loaded) -> Result<Stream> {
        let first = self.warm_up(loaded);
        if first.is_err() {
            self.ends.store(true, Ordering::Relaxed);
        }
        self.warm.wait();
        let mut stream =
            Stream { start: Instant::now(), times: Vec::new(), first: first?, profile: Profile::default() };
        let done = self.runs(index, loaded, &mut stream);
        if done.is_err() {
            self.ends.store(true, Ordering::Relaxed);
        }
        done.map(|()| stream)
    }

    /// The time of the first run, if there is one.
    fn warm_up(&self, loaded: &mut Loaded) -> Result<Option<Duration>> {
        let mut first = None;
        let runs = self.plan.warmup.max(usize::from(self.plan.resident));
        for _ in 0..runs {
            if self.ends() {
                break;
            }
            let time = loaded.run()?;
            first.get_or_insert(time);
        }
        Ok(first)
    }

    fn runs(&self, index: usize, loaded: &mut Loaded, stream: &mut Stream) -> Result<()> {
        let (runs, seconds) = (self.plan.runs(), self.plan.seconds());
        let mut told = stream.start;
        while (stream.times.len() < runs || stream.start.elapsed().as_secs_f64() < seconds) && !self.ends() {
            let start = Instant::now();
            let time = if self.plan.resident { loaded.run_resident()? } else { loaded.run()? };
            stream.times.push((start, time));
            let all = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
            if index == 0 {
                if self.plan.profile {
                    stream.profile.add(loaded.profile());
                }
                if told.elapsed() >= INTERVAL {
                    told = Instant::now();
                    self.observer.measured(all, stream.start.elapsed());
                }
            }
        }
        Ok(())
    }

    fn ends(&self) -> bool {
        if self.observer.stops() {
            self.ends.store(true, Ordering::Relaxed);
        }
        self.ends.load(Ordering::Relaxed)
    }
}

fn assemble(streams: Vec<Stream>, interrupted: bool) -> Measured {
    let start = streams.iter().map(|stream| stream.start).min().unwrap_or_else(Instant::now);
    let mut measured = Measured {
        samples: Vec::new(),
        first: Duration::ZERO,
        elapsed: Duration::ZERO,
        profile: Profile::default(),
        interrupted,
    };
    for (index, stream) in streams.into_iter().enumerate() {
        if index == 0 {
            let first = stream.times.first().map(|(_, time)| *time);
            measured.first = stream.first.or(first).unwrap_or_default();
            measured.profile = stream.profile.means(stream.times.len());
        }
        for (run, (began, time)) in stream.times.into_iter().enumerate() {
            let since = began.duration_since(start);
            measured.elapsed = measured.elapsed.max(since + time);
            measured.samples.push(Sample { stream: index, run, start: since, time });
        }
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_put_together() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let stream = |offset: u64, times: &[(u64, u64)], first: Option<u64>| Stream {
            start: start + ms(offset),
            times: times.iter().map(|&(began, time)| (start + ms(began), ms(time))).collect(),
            first: first.map(ms),
            profile: Profile::default(),
        };
        let streams = vec![stream(1, &[(1, 10), (11, 20)], Some(50)), stream(0, &[(0, 40)], None)];
        let measured = assemble(streams, true);
        let sample = |stream, run, start, time| Sample { stream, run, start: ms(start), time: ms(time) };
        assert_eq!(measured.samples, [sample(0, 0, 1, 10), sample(0, 1, 11, 20), sample(1, 0, 0, 40)]);
        assert_eq!((measured.first, measured.elapsed, measured.interrupted), (ms(50), ms(40), true));
        assert_eq!(measured.runs_per_second(), 75.0);
        assert_eq!(measured.of_stream(0).map(|own| (own.runs, own.median)), Some((2, 0.015)));
        assert_eq!(measured.of_stream(2), None);
        assert_eq!(measured.sorted().map(|all| all.statistics().max), Some(0.04));
    }

    #[test]
    fn plans_have_defaults() {
        let plan = |repeat, duration| Plan { repeat, duration, ..Plan::default() };
        let of = |plan: Plan| (plan.runs(), plan.seconds());
        assert_eq!(of(plan(None, None)), (5, 3.0));
        assert_eq!(of(plan(Some(7), None)), (7, 0.0));
        assert_eq!(of(plan(None, Some(1.5))), (1, 1.5));
        assert_eq!(of(plan(Some(7), Some(1.5))), (7, 1.5));
    }
}

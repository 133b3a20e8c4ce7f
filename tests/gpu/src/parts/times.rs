//! Benchmarks: products beside direct calls of cublasLt, an MLP, the encoder of BERT, and kernels of it alone.
//! Everything that is timed is also checked. Times are medians of wall time on the host, the wait for the device included.

pub(crate) mod bert;
pub(super) mod choices;
mod encoder;
mod mlp;
mod products;
mod regions;

use std::time::{Duration, Instant};

use byoc_conformance::tensor::Tensor;
use byoc_core::runtime::{Queueing, RegionTime, Session};

use super::Scope;
use crate::check::Check;
use crate::fixture::{self, BACKEND, Fixture, PRODUCTS, REST, with_views};
use crate::report::Result;

/// Most runs for a median.
const RUNS: usize = 200;

/// Seconds that a check has: it waits until those before it were timed.
const LIMIT: u64 = 500;

pub(super) fn checks(scope: &Scope) -> Vec<Check> {
    let mut all = products::checks(scope);
    if scope.has(PRODUCTS) && scope.has(REST) {
        all.extend(encoder::checks(scope));
        all.extend(regions::checks(scope));
    }
    if scope.has(BACKEND) && !scope.prepares {
        all.extend(mlp::checks());
        all.push(Check::several("encoder of BERT with the host", bert::run));
    }
    all.into_iter().map(|check| check.within(LIMIT)).collect()
}

/// The heading of a table.
fn title(fixture: &Fixture, what: &str) -> String {
    let kind = if fixture.is_stand_in() { " (NO GPU)" } else { "" };
    format!("{what}, {}{kind}", fixture.title)
}

/// The median of `values`, which are not none.
fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// How long one call takes.
fn once(call: &mut dyn FnMut() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    call()?;
    Ok(start.elapsed())
}

/// The medians of calls that are made in turn, for about so long all together. Each is made once before.
fn medians(seconds: f64, calls: &mut [&mut dyn FnMut() -> Result<()>]) -> Result<Vec<Duration>> {
    calls.iter_mut().try_for_each(|call| once(*call).map(drop))?;
    let mut times = vec![Vec::new(); calls.len()];
    let start = Instant::now();
    while times[0].len() < 5 || times[0].len() < RUNS && start.elapsed().as_secs_f64() < seconds {
        for (call, times) in calls.iter_mut().zip(&mut times) {
            times.push(once(*call)?);
        }
    }
    Ok(times.into_iter().map(median).collect())
}

/// Medians of whole runs, and of runs whose inputs and outputs stay on the device.
fn whole_and_resident(fixture: &Fixture, session: &mut Session, inputs: &[Tensor]) -> Result<[Duration; 2]> {
    let seconds = fixture.pick(0.5, 0.02);
    with_views(inputs, |views| {
        // The second run records.
        (0..2).try_for_each(|_| session.run(views))?;
        let whole = medians(seconds, &mut [&mut || Ok(session.run(views)?)])?;
        let resident = medians(seconds, &mut [&mut || Ok(session.run_resident(views)?)])?;
        Ok([whole[0], resident[0]])
    })
}

/// Where the time of a run goes: in copies, in regions on the device, in regions on the host.
#[derive(Clone, Default)]
struct Shares {
    copies: Duration,
    device: Duration,
    host: Duration,
    /// How many copies there are to the device, and how many from it.
    uploads: usize,
    downloads: usize,
    /// Each region by itself.
    regions: Vec<RegionTime>,
}

impl Shares {
    fn total(&self) -> Duration {
        self.copies + self.device + self.host
    }

    /// A part of the whole in percent.
    fn percent(&self, part: Duration) -> String {
        let total = self.total().as_secs_f64();
        format!("{:.1} %", if total > 0.0 { 100.0 * part.as_secs_f64() / total } else { 0.0 })
    }
}

/// The shares of the fastest of several runs in which times are taken on the device.
fn shares(fixture: &Fixture, compiled: &fixture::Compiled, inputs: &[Tensor]) -> Result<Shares> {
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Timed)?;
    let mut all = Vec::new();
    for _ in 0..fixture.pick(10, 3) {
        fixture::run(&mut session, inputs)?;
        let mut shares = Shares::default();
        for region in session.times() {
            let sum = if region.backend == fixture::BACKEND { &mut shares.device } else { &mut shares.host };
            *sum += region.time;
        }
        for copy in session.copies() {
            shares.copies += copy.time;
            let count = if copy.from == "host" { &mut shares.uploads } else { &mut shares.downloads };
            *count += 1;
        }
        shares.regions = session.times();
        all.push(shares);
    }
    Ok(all.into_iter().min_by_key(Shares::total).unwrap_or_default())
}

/// Milliseconds.
fn ms(time: Duration) -> String {
    format!("{:.4}", time.as_secs_f64() * 1e3)
}

/// The greatest difference as a part of the greatest expected value; an error where it is above `most`, and for NaN.
fn close(found: impl Iterator<Item = f64>, expected: &[f64], most: f64) -> Result<f64> {
    let scale = expected.iter().fold(0f64, |most, value| most.max(value.abs()));
    let (mut worst, mut count) = (0f64, 0);
    for (found, expected) in found.zip(expected) {
        let part = (found - expected).abs() / scale;
        // NaN is the worst.
        worst = if part.is_nan() { f64::INFINITY } else { worst.max(part) };
        count += 1;
    }
    if worst <= most && count == expected.len() {
        return Ok(worst);
    }
    let of = expected.len();
    Err(format!("{count} of {of} elements differ by up to {worst:.1e} of the greatest, allowed is {most:.1e}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_finds_differences_and_nan() {
        let found = |values: [f64; 2]| close(values.into_iter(), &[1.0, -4.0], 1e-3).map_err(|error| error.to_string());
        assert_eq!(found([1.0, -4.0]), Ok(0.0));
        assert!(found([1.003, -4.0]).is_ok());
        assert!(found([1.005, -4.0]).is_err());
        assert!(found([f64::NAN, -4.0]).is_err());
        assert!(close([1.0].into_iter(), &[1.0, -4.0], 1e-3).is_err());
    }

    #[test]
    fn medians_are_of_calls_in_turn() {
        let order = std::cell::RefCell::new(Vec::new());
        let call = |name: &'static str| {
            order.borrow_mut().push(name);
            Ok(())
        };
        let times = medians(0.0, &mut [&mut || call("a"), &mut || call("b")]);
        assert_eq!(times.map(|times| times.len()).ok(), Some(2));
        assert_eq!(order.into_inner(), ["a", "b"].repeat(6));
    }
}

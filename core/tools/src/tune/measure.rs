//! Measures every candidate for a region: runs it, compares its results with those of the region's own code, and times it
//! on the device.

use byoc_core::artifact::manifest::Region;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::runtime::{Session, SingleRegion};
use byoc_plugin_api::{Candidate, TensorView};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::compare::{Comparison, Tolerance};
use crate::outputs;
use crate::statistics::Statistics;
use crate::tensor::Tensor;

/// Runs between two marks take at least so many seconds together, so that what is measured is not the marks.
const LEAST: f64 = 1e-3;

/// Most runs between two marks.
const MOST: f64 = 100.0;

/// A smaller relative gain does not count: clocks are not that steady.
const NOISE: f64 = 0.02;

/// What was found for a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the region's own code is called.
    pub own: String,
    /// What the fastest is called.
    pub candidate: String,
    /// How many there are.
    pub candidates: usize,
    /// Seconds that a run of the region's own code takes.
    pub before: f64,
    /// Seconds that a run of the fastest takes.
    pub after: f64,
    /// Those that do not run, or compute something else.
    pub left_out: Vec<LeftOut>,
    /// The fastest, unless it is the region's own code.
    #[serde(skip)]
    pub code: Option<Bytes>,
}

/// A rejected candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What it is called.
    pub candidate: String,
    /// One line.
    pub reason: String,
}

impl Outcome {
    /// What is known of the code that was chosen: nothing is faster.
    pub(super) fn of_chosen(&self) -> Outcome {
        Outcome { own: self.candidate.clone(), before: self.after, code: None, ..self.clone() }
    }
}

/// A region whose own code has run.
struct Reference<'a> {
    session: Session,
    inputs: Vec<TensorView<'a>>,
    outputs: Vec<(String, Tensor)>,
}

/// Tries the candidates for a region, the first of which is its own code, with these inputs; the time of each is taken
/// `repeat` times.
pub(super) fn measure(
    single_region: &SingleRegion<'_>,
    region: &Region,
    candidates: Vec<Candidate>,
    inputs: &[Tensor],
    repeat: u32,
) -> Result<Option<Outcome>> {
    let count = candidates.len();
    let mut candidates = candidates.into_iter();
    let Some(own) = candidates.next() else { return Ok(None) };
    let mut session = single_region.load(region, own.code.into(), None)?;
    let inputs = inputs.iter().map(Tensor::view).collect::<Result<Vec<_>>>()?;
    session.run(&inputs)?;
    let outputs = outputs::collect(&session)?;
    let before = time(&mut session, repeat)?;
    let mut reference = Reference { session, inputs, outputs };
    let mut outcome = Outcome {
        candidate: own.name.clone(),
        own: own.name,
        candidates: count,
        before,
        after: before,
        left_out: Vec::new(),
        code: None,
    };
    for Candidate { name, code } in candidates {
        let code = Bytes::from(code);
        match reference.try_code(single_region, region, code.clone(), repeat) {
            Ok(time) if time < outcome.after && time < before * (1.0 - NOISE) => {
                outcome = Outcome { candidate: name, after: time, code: Some(code), ..outcome };
            }
            Ok(_) => {}
            Err(error) => {
                reference.still_runs(single_region, region, &name, &error)?;
                outcome.left_out.push(LeftOut { candidate: name, reason: error.message });
            }
        }
    }
    Ok(Some(outcome))
}

impl Reference<'_> {
    /// Seconds that a run of other code takes; an error where it does not run, or computes something else.
    fn try_code(&self, single_region: &SingleRegion<'_>, region: &Region, code: Bytes, repeat: u32) -> Result<f64> {
        let mut session = single_region.load(region, code, Some(&self.session))?;
        session.run(&self.inputs)?;
        for ((name, expected), (_, found)) in self.outputs.iter().zip(&outputs::collect(&session)?) {
            if let Some(problem) = Comparison::of(name, found, expected, Tolerance::default()).problem {
                return Err(Diagnostic::new(Code::RunFailed, format!("output '{name}': {problem}")));
            }
        }
        time(&mut session, repeat)
    }

    /// Whether the device is as good as before, after a candidate failed.
    fn still_runs(
        &mut self,
        single_region: &SingleRegion<'_>,
        region: &Region,
        name: &str,
        error: &Diagnostic,
    ) -> Result<()> {
        self.session.run(&self.inputs).map_err(|_| {
            let (device, symbol) = (single_region.device.name(), &region.symbol);
            let message = format!("{device} is lost after the kernel '{name}' of region {symbol}: {}", error.message);
            Diagnostic::new(Code::Device, message)
                .hint("Report this to the backend's maker; what was found before is kept")
        })
    }
}

/// The median of the seconds that a run takes, of as many times as `repeat` says, each of several runs in a row.
fn time(session: &mut Session, repeat: u32) -> Result<f64> {
    let once = session.time_region(1)?.as_secs_f64();
    let runs = (LEAST / once).ceil().clamp(1.0, MOST);
    let measure = |session: &mut Session| session.time_region(runs as usize);
    // The first one warms up.
    measure(session)?;
    let times = (0..repeat).map(|_| measure(session)).collect::<Result<Vec<_>>>()?;
    Ok(Statistics::of(&times).map_or(once, |times| times.median / runs))
}

//! The time that each step of a run took, for profiles.

use std::time::{Duration, Instant};

use byoc_plugin_api::{Error, StepTime};

use super::work::Work;
use crate::program::{Op, Program, Step};

/// What the copy of outputs that no step writes to directly is called.
const COPY: &str = "copy";

/// Takes the times of a run.
#[derive(Default)]
pub(super) struct Clock {
    begun: Option<Instant>,
    /// When each step began, from the beginning of the run, and how long it took.
    times: Vec<(Duration, Duration)>,
}

impl Clock {
    /// A run begins.
    pub(super) fn begin(&mut self) {
        self.times.clear();
        self.begun = Some(Instant::now());
    }

    /// Does a step.
    pub(super) fn time(&mut self, step: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let start = Instant::now();
        let done = step();
        let began = self.begun.map_or(Duration::ZERO, |begun| start.duration_since(begun));
        self.times.push((began, start.elapsed()));
        done
    }

    /// The steps of the last run of a program, with their work as far as it is known.
    pub(super) fn steps(&self, program: &Program, work: Vec<Work>) -> Vec<StepTime> {
        // Views are no work, and have no step when the program is prepared.
        let steps = program.steps.iter().filter(|step| step.op != Op::View);
        let named = steps.map(|step| (kernel(step), vec![step.name.clone()]));
        let named = named.chain([(COPY.to_owned(), Vec::new())]);
        let work = work.into_iter().chain(std::iter::repeat(Work::default()));
        let step = |(((kernel, nodes), (start, time)), work): (((String, _), &(Duration, Duration)), Work)| StepTime {
            kernel: work.computed_as.map_or_else(|| kernel.clone(), |how| format!("{kernel} {how}")),
            nodes,
            indices: Vec::new(),
            start: start.as_secs_f64(),
            seconds: time.as_secs_f64(),
            operations: work.operations,
            bytes: work.bytes,
        };
        named.zip(&self.times).zip(work).map(step).collect()
    }
}

/// The name of a step's kernel as the code has it; of a reference kernel its operator's.
fn kernel(step: &Step) -> String {
    if let Op::Reference { op, .. } = &step.op {
        return op.clone();
    }
    // A word, or a word and its parameters.
    let written = serde_json::to_value(&step.op).unwrap_or_default();
    let of_parameters = || written.as_object()?.keys().next().map(String::as_str);
    written.as_str().or_else(of_parameters).unwrap_or_default().to_owned()
}

//! What a session keeps of the regions that it has run, where times are taken: when each ran, and what it consisted of.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use byoc_plugin_api::{Error, Executable};

use super::introspect::{Span, SpanKind, StepTime};
use super::{LoadedCall, LoadedRegion, Queueing};
use crate::artifact::manifest::NodeSummary;
use crate::diagnostic::{Code, Diagnostic, Result};

/// A region in a body may run very often: more of its executions are added up and not kept one by one.
const MOST_EXECUTIONS: usize = 4096;

/// What is kept of a region in one run of its entry.
pub(super) struct Watch {
    /// The operator of each node.
    operators: HashMap<String, String>,
    /// The steps of all executions, added up.
    steps: Vec<StepTime>,
    executions: Vec<Execution>,
}

struct Execution {
    start: Instant,
    time: Duration,
    steps: Vec<byoc_plugin_api::StepTime>,
}

impl LoadedCall {
    /// The same, with its steps watched where times are taken. The nodes are those of its region.
    pub(super) fn watched(mut self, nodes: &[NodeSummary], queueing: Queueing) -> Result<LoadedCall> {
        if queueing != Queueing::Timed {
            return Ok(self);
        }
        if let LoadedRegion::Host(bound) = &mut self.region {
            bound.executable().time_steps(true).map_err(|error| {
                let message = format!("backend '{}' cannot time {}: {}", self.backend, self.title, error.message);
                Diagnostic { code: Code::RunFailed, message, hint: error.hint }
            })?;
        }
        let operators = nodes.iter().map(|node| (node.name.clone(), node.op.clone())).collect();
        self.watch = Some(Watch { operators, steps: Vec::new(), executions: Vec::new() });
        Ok(self)
    }

    /// Nothing has run yet.
    pub(super) fn forget(&mut self) {
        self.time = Duration::ZERO;
        if let Some(watch) = &mut self.watch {
            watch.steps.clear();
            watch.executions.clear();
        }
    }

    /// The steps of the last run of the entry.
    pub(super) fn steps(&self) -> Vec<StepTime> {
        self.watch.as_ref().map_or_else(Vec::new, |watch| watch.steps.clone())
    }

    /// What it did in the last run of the entry, in the memory that is called so.
    pub(super) fn spans(&self, place: &str) -> Vec<Span> {
        let Some(watch) = &self.watch else { return Vec::new() };
        let mut spans = Vec::new();
        for Execution { start, time, steps } in &watch.executions {
            let details = vec![("backend", self.backend.clone())];
            let (place, kind, name) = (place.to_owned(), SpanKind::Region, self.symbol.clone());
            spans.push(Span { place: place.clone(), kind, name, details, start: *start, time: *time });
            for step in steps {
                // Whatever a backend says, a step is within its region.
                let begin = Duration::try_from_secs_f64(step.start).unwrap_or_default().min(*time);
                let took = Duration::try_from_secs_f64(step.seconds).unwrap_or_default().min(*time - begin);
                let details = vec![("backend", self.backend.clone()), ("nodes", step.nodes.join(", "))];
                let (place, kind, name) = (place.clone(), SpanKind::Step, step.kernel.clone());
                spans.push(Span { place, kind, name, details, start: *start + begin, time: took });
            }
        }
        spans
    }
}

impl Watch {
    /// The region has run on the host.
    pub(super) fn ran(
        &mut self,
        start: Instant,
        time: Duration,
        executable: &mut dyn Executable,
    ) -> std::result::Result<(), Error> {
        let steps = executable.steps()?;
        for (index, step) in steps.iter().enumerate() {
            let time = Duration::try_from_secs_f64(step.seconds).unwrap_or_default();
            match self.steps.get_mut(index).filter(|sum| sum.kernel == step.kernel && sum.nodes == step.nodes) {
                Some(sum) => sum.time += time,
                None => {
                    let operator = step.nodes.iter().find_map(|node| self.operators.get(node));
                    let operator = operator.unwrap_or(&step.kernel).clone();
                    self.steps.push(StepTime {
                        kernel: step.kernel.clone(),
                        operator,
                        nodes: step.nodes.clone(),
                        time,
                    });
                }
            }
        }
        self.keep(Execution { start, time, steps });
        Ok(())
    }

    /// The region has run on a device.
    pub(super) fn ran_on_device(&mut self, start: Instant, time: Duration) {
        self.keep(Execution { start, time, steps: Vec::new() });
    }

    fn keep(&mut self, execution: Execution) {
        if self.executions.len() < MOST_EXECUTIONS {
            self.executions.push(execution);
        }
    }
}

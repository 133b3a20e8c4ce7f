//! What a session keeps of the regions that it has run, where times are taken: when each ran, and what it consisted of.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use byoc_plugin_api::Error;

use super::introspect::{Span, SpanKind, StepTime, Work};
use super::{LoadedCall, LoadedRegion, Queueing};
use crate::artifact::NodeSummary;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin;

/// A region in a body may run very often: more of its executions are added up and not kept one by one.
const MOST_EXECUTIONS: usize = 4096;

/// What is kept of a region in one run of its entry.
pub(super) struct Watch {
    /// The nodes of the region, in its order; none where they are not known.
    nodes: Vec<NodeSummary>,
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
    /// The same, with its steps watched where times are taken; `nodes` gives those of its region.
    pub(super) fn watched<'a>(
        mut self,
        nodes: impl FnOnce() -> Result<&'a [NodeSummary]>,
        queueing: Queueing,
    ) -> Result<LoadedCall> {
        if queueing != Queueing::Timed {
            return Ok(self);
        }
        let timed = match &mut self.region {
            LoadedRegion::Host(bound) => bound.executable().time_steps(true),
            LoadedRegion::Device(bound) => bound.executable().time_steps(true),
        };
        timed.map_err(|error| {
            if error.crashed {
                return plugin::crashed(&self.title, &self.backend, &error, "it was timed");
            }
            let message = format!("backend '{}' cannot time {}: {}", self.backend, self.title, error.message);
            Diagnostic { code: Code::RunFailed, message, hint: error.hint }
        })?;
        let nodes = nodes()?;
        let operators = nodes.iter().map(|node| (node.name.clone(), node.op.clone())).collect();
        self.watch = Some(Watch { nodes: nodes.to_vec(), operators, steps: Vec::new(), executions: Vec::new() });
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
    /// The region has run, and these were its steps.
    pub(super) fn ran(
        &mut self,
        start: Instant,
        time: Duration,
        steps: Vec<byoc_plugin_api::StepTime>,
    ) -> std::result::Result<(), Error> {
        let steps = steps.into_iter().map(|step| self.named(step)).collect::<std::result::Result<Vec<_>, Error>>()?;
        for (index, step) in steps.iter().enumerate() {
            let work = Work { operations: step.operations, bytes: step.bytes };
            let time = Duration::try_from_secs_f64(step.seconds).unwrap_or_default();
            match self.steps.get_mut(index).filter(|sum| sum.kernel == step.kernel && sum.nodes == step.nodes) {
                Some(sum) => {
                    sum.time += time;
                    sum.work += work;
                }
                None => {
                    let operator = step.nodes.iter().find_map(|node| self.operators.get(node));
                    let operator = operator.unwrap_or(&step.kernel).clone();
                    self.steps.push(StepTime {
                        kernel: step.kernel.clone(),
                        operator,
                        nodes: step.nodes.clone(),
                        time,
                        work,
                    });
                }
            }
        }
        if self.executions.len() < MOST_EXECUTIONS {
            self.executions.push(Execution { start, time, steps });
        }
        Ok(())
    }

    /// The step with the names of the nodes that it tells by their positions.
    fn named(&self, mut step: byoc_plugin_api::StepTime) -> std::result::Result<byoc_plugin_api::StepTime, Error> {
        for index in std::mem::take(&mut step.indices) {
            match self.nodes.get(index) {
                Some(node) => step.nodes.push(node.name.clone()),
                None if self.nodes.is_empty() => {}
                None => {
                    let (kernel, count) = (&step.kernel, self.nodes.len());
                    return Err(Error::new(format!("its step '{kernel}' is of node {index}, and there are {count}")));
                }
            }
        }
        Ok(step)
    }
}

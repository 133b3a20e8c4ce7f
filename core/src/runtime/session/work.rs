//! Executes a run: calls on the host, copies, and queued work on devices.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use byoc_plugin_api::{Domain, Error, TensorView};
use bytes::Bytes;

use super::pieces::Piece;
use super::state::{Filled, State};
use super::{LoadedCall, LoadedRegion, Queueing};
use crate::artifact::manifest::Entry;
use crate::crash;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin;
use crate::runtime::device::Device;
use crate::runtime::steps::{Crossing, HOST, Steps};

/// How much of a run is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// All of it.
    Full,
    /// All but sending inputs to devices and fetching outputs.
    Resident,
    /// All but fetching outputs.
    Kept,
    /// Fetching outputs.
    Outputs,
}

impl Run {
    /// Whether inputs are sent to devices.
    fn sends(self) -> bool {
        matches!(self, Run::Full | Run::Kept)
    }

    /// Whether outputs are fetched.
    fn fetches(self) -> bool {
        matches!(self, Run::Full | Run::Outputs)
    }
}

/// A session at work.
pub(super) struct Worker<'a> {
    pub(super) state: &'a mut State,
    pub(super) calls: &'a mut [LoadedCall],
    pub(super) devices: &'a [Device],
    pub(super) entry: &'a Entry,
    pub(super) steps: &'a Steps,
    pub(super) memories: &'a [usize],
    pub(super) constants: &'a HashMap<usize, Bytes>,
    pub(super) names: &'a [String],
    pub(super) queueing: Queueing,
    /// Where inputs are that are on their device already.
    pub(super) arrived: &'a [Option<u64>],
}

impl Worker<'_> {
    /// Does the work, and waits for it: when this returns, no device accesses the caller's memory.
    pub(super) fn work(&mut self, inputs: &[TensorView<'_>], run: Run) -> Result<()> {
        self.state.filled = Filled::default();
        self.state.origins.fill(None);
        let done = self.queue(inputs, run);
        // All of them, also after an error: none may access the caller's memory afterwards.
        let mut waited = Ok(());
        for memory in 1..=self.devices.len() {
            waited = waited.and(self.wait(memory));
        }
        let done = match (done, waited) {
            // A device reports a fault at any later call, such as a region's run; waiting for it gives the cause.
            (Err(error), Err(cause)) if error.code == Code::RunFailed => Err(cause),
            (done, waited) => done.and(waited),
        };
        done.map_err(|error| self.advise(error))?;
        if self.queueing == Queueing::Timed && run != Run::Outputs {
            self.read_times(run)?;
        }
        self.state.has_run |= run != Run::Outputs;
        self.state.filled = Filled { inputs: true, outputs: run.fetches() || self.steps.outputs.is_empty() };
        Ok(())
    }

    /// Devices report faults of queued work at any later call: adds how to find the region.
    fn advise(&self, error: Diagnostic) -> Diagnostic {
        let advice = "Run again with --sync-each to learn which region it was";
        let queued = self.memories.iter().filter(|memory| **memory != HOST).count();
        if self.queueing == Queueing::Waiting || queued < 2 || error.code != Code::Device {
            return error;
        }
        let hint = error.hint.as_ref().map_or(advice.to_owned(), |hint| format!("{hint}. {advice}"));
        error.hint(hint)
    }

    fn queue(&mut self, inputs: &[TensorView<'_>], run: Run) -> Result<()> {
        if run != Run::Outputs {
            self.state.stage(self.entry, inputs, self.arrived)?;
            self.compute(inputs, run)?;
        }
        let first = self.steps.crossings().count() - self.steps.outputs.len();
        if !run.fetches() {
            return Ok(());
        }
        let outputs = self.steps.outputs.iter().enumerate();
        outputs
            .map(|(index, crossing)| (first + index, *crossing))
            .try_for_each(|(index, crossing)| self.copy(index, crossing, &[]))
    }

    fn compute(&mut self, inputs: &[TensorView<'_>], run: Run) -> Result<()> {
        for (index, crossing) in self.steps.inputs.iter().enumerate() {
            if run.sends() {
                self.copy(index, *crossing, inputs)?;
            }
        }
        let mut copies = self.steps.inputs.len();
        for index in 0..self.state.pieces.len() {
            match self.state.pieces[index] {
                Piece::Host(call) => self.host(call, inputs)?,
                Piece::Wait(memory) => self.wait(memory)?,
                Piece::Copy(crossing) => {
                    self.copy(copies, crossing, inputs)?;
                    copies += 1;
                }
                Piece::Device(_) => self.device(index)?,
            }
        }
        Ok(())
    }

    fn host(&mut self, call: usize, inputs: &[TensorView<'_>]) -> Result<()> {
        let loaded = &mut self.calls[call];
        let LoadedRegion::Host(bound) = &mut loaded.region else { return Ok(()) };
        let start = Instant::now();
        // SAFETY: the views are used up below. Inputs come from the caller, the arena or a constant, all alive now, and
        // what a device was to write has been waited for; the planner keeps values that are alive together apart, so an
        // output of this call overlaps none of its inputs and no other output.
        unsafe { self.state.views(self.entry, self.constants, &self.entry.calls[call], inputs) };
        let result = {
            let _running = crash::enter(loaded.place);
            bound.executable().run(&self.state.inputs, &mut self.state.outputs)
        };
        self.state.inputs.clear();
        self.state.outputs.clear();
        let time = start.elapsed();
        loaded.time += time;
        let result = result.and_then(|()| match &mut loaded.watch {
            Some(watch) => bound.executable().steps().and_then(|steps| watch.ran(start, time, steps)),
            None => Ok(()),
        });
        result.map_err(|error| run_failed(loaded, error))
    }

    /// Where an input is that is on its device already.
    fn arrived(&self, value: usize) -> Option<u64> {
        *self.arrived.get(self.state.position(value)?)?
    }

    /// Whether what crosses is in its place already.
    fn is_in_place(&self, Crossing { value, from, to }: Crossing) -> bool {
        from == HOST && self.arrived(value).is_some_and(|address| address == self.state.on_device(value, to))
    }

    /// Queues the copy of that index.
    fn copy(&mut self, index: usize, crossing: Crossing, inputs: &[TensorView<'_>]) -> Result<()> {
        let Crossing { value, from, to } = crossing;
        let bytes = self.state.bytes(self.entry, value);
        if bytes == 0 {
            return Ok(());
        }
        let memory = from.max(to);
        let device = &self.devices[memory - 1];
        let there = self.state.on_device(value, memory);
        let arrived = self.arrived(value);
        if self.is_in_place(crossing) {
            return Ok(());
        }
        let mut domain = device.domain();
        let timed = self.queueing == Queueing::Timed;
        if timed {
            self.state.origins[memory].get_or_insert((self.calls.len() + index, Instant::now()));
        }
        // SAFETY: the value has a place of its size in both memories. What the host reads or writes stays as it is until
        // the queue is waited for: places in the arena are planned so, constants stay, and the caller's inputs stay until
        // the run returns, which waits. So does an input that is on the device already, and is not in the place of another one.
        let queued = timing(domain.as_mut(), timed.then_some(self.calls.len() + index), |domain| unsafe {
            match (from, arrived) {
                (HOST, Some(address)) => domain.copy(there, address, bytes),
                (HOST, None) => domain.upload(there, self.state.source(self.constants, value, inputs), bytes),
                _ => domain.download(self.state.on_host_mut(value), there, bytes),
            }
        });
        drop(domain);
        queued.map_err(|error| device.failed(&format!("copy '{}'", self.names[value]), error))?;
        if self.queueing == Queueing::Waiting {
            let waited = device.domain().synchronize();
            waited.map_err(|error| device.failed(&format!("copy '{}'", self.names[value]), error))?;
        }
        Ok(())
    }

    /// Queues the calls of a piece, or replays them.
    fn device(&mut self, index: usize) -> Result<()> {
        let Piece::Device(queued) = &mut self.state.pieces[index] else { return Ok(()) };
        let device = &self.devices[queued.memory - 1];
        if let Some(number) = queued.recorded() {
            let replayed = device.domain().replay(number);
            return replayed.map_err(|error| device.failed("replay a recording", error));
        }
        let now = self.queueing == Queueing::Recorded && self.state.has_run;
        if now && queued.is_wanted() {
            queued.record(device, self.calls);
            return self.device(index);
        }
        let (memory, queueing) = (queued.memory, self.queueing);
        for &call in &queued.calls {
            if queueing == Queueing::Timed {
                self.state.origins[memory].get_or_insert((call, Instant::now()));
            }
            let loaded = &mut self.calls[call];
            let LoadedRegion::Device(bound) = &mut loaded.region else { continue };
            let timed = (self.queueing == Queueing::Timed).then_some(call);
            mark(device, timed, 0)?;
            let queued = {
                let _running = crash::enter(loaded.place);
                bound.executable().run()
            };
            queued.map_err(|error| run_failed(loaded, error))?;
            mark(device, timed, 1)?;
            if self.queueing == Queueing::Waiting {
                let waited = device.domain().synchronize();
                waited.map_err(|error| work_failed(device, &[loaded.title.as_str()], error))?;
            }
        }
        Ok(())
    }

    /// Waits for all that is queued on a device.
    fn wait(&mut self, memory: usize) -> Result<()> {
        let device = &self.devices[memory - 1];
        let waited = device.domain().synchronize();
        waited.map_err(|error| {
            let here = self.calls.iter().zip(self.memories).filter(|(_, of)| **of == memory);
            let titles: Vec<_> = here.map(|(call, _)| call.title.as_str()).collect();
            work_failed(device, &titles, error)
        })
    }

    /// Reads the marks that the run left on the devices.
    fn read_times(&mut self, run: Run) -> Result<()> {
        for (call, &memory) in self.memories.iter().enumerate().filter(|(_, memory)| **memory != HOST) {
            let time = elapsed(&self.devices[memory - 1], call)?;
            let start = self.began(memory, call)?;
            self.calls[call].time += time;
            let loaded = &mut self.calls[call];
            if let (Some(watch), Some(start), LoadedRegion::Device(bound)) =
                (&mut loaded.watch, start, &mut loaded.region)
            {
                let told = bound.executable().steps().and_then(|steps| watch.ran(start, time, steps));
                told.map_err(|error| run_failed(loaded, error))?;
            }
        }
        let (total, inputs, outputs) = (self.state.copy_times.len(), self.steps.inputs.len(), self.steps.outputs.len());
        for (index, crossing) in self.steps.crossings().enumerate() {
            let skipped = if index < inputs { !run.sends() } else { index >= total - outputs && !run.fetches() };
            let placed = index < inputs && self.is_in_place(*crossing);
            let empty = self.state.bytes(self.entry, crossing.value) == 0;
            let memory = crossing.from.max(crossing.to);
            (self.state.copy_times[index], self.state.copy_starts[index]) = match skipped || placed || empty {
                true => (Duration::ZERO, None),
                false => {
                    let number = self.calls.len() + index;
                    (elapsed(&self.devices[memory - 1], number)?, self.began(memory, number)?)
                }
            };
        }
        Ok(())
    }

    /// When what has that number began on a device, by the clock of the host: the first thing of a run begins when it is queued.
    fn began(&self, memory: usize, number: usize) -> Result<Option<Instant>> {
        let Some((first, queued)) = self.state.origins[memory] else { return Ok(None) };
        if first == number {
            return Ok(Some(queued));
        }
        let device = &self.devices[memory - 1];
        let seconds = device.domain().elapsed(first as u32 * 2, number as u32 * 2);
        let seconds = seconds.map_err(|error| device.failed("take times", error))?;
        Ok(queued.checked_add(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)))
    }
}

/// Marks the beginning (0) or the end (1) of what has that number.
pub(super) fn mark(device: &Device, number: Option<usize>, end: u32) -> Result<()> {
    let Some(number) = number else { return Ok(()) };
    let marked = device.domain().mark(number as u32 * 2 + end);
    marked.map_err(|error| device.failed("take times", error))
}

/// Queues something between two marks.
fn timing(
    domain: &mut dyn Domain,
    number: Option<usize>,
    queue: impl FnOnce(&mut dyn Domain) -> std::result::Result<(), Error>,
) -> std::result::Result<(), Error> {
    let Some(number) = number else { return queue(domain) };
    domain.mark(number as u32 * 2)?;
    queue(domain)?;
    domain.mark(number as u32 * 2 + 1)
}

pub(super) fn elapsed(device: &Device, number: usize) -> Result<Duration> {
    let seconds = device.domain().elapsed(number as u32 * 2, number as u32 * 2 + 1);
    let seconds = seconds.map_err(|error| device.failed("take times", error))?;
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO))
}

pub(super) fn run_failed(call: &LoadedCall, error: Error) -> Diagnostic {
    if error.crashed {
        return plugin::crashed(&call.title, &call.backend, &error, "it ran");
    }
    let node = error.node.map(|node| format!(", node '{node}'")).unwrap_or_default();
    let message = format!("{}{node} failed on backend '{}': {}", call.title, call.backend, error.message);
    Diagnostic { code: Code::RunFailed, message, hint: error.hint }
}

/// Work that went wrong after it was queued; `titles` are the regions that it may be of.
pub(super) fn work_failed(device: &Device, titles: &[&str], error: Error) -> Diagnostic {
    /// How many regions are named.
    const NAMED: usize = 3;
    let name = device.name();
    let Error { message, hint, .. } = error;
    match titles {
        [] => Diagnostic { hint, ..Diagnostic::new(Code::Device, format!("work on {name} failed: {message}")) },
        [title] => Diagnostic { hint, ..Diagnostic::new(Code::Device, format!("{title} failed on {name}: {message}")) },
        [.., last] => {
            let named = titles[..titles.len().min(NAMED)].join(", ");
            let rest = if titles.len() > NAMED { format!(" ... {last}") } else { String::new() };
            let message = format!("one of {named}{rest} failed on {name}: {message}");
            Diagnostic { hint, ..Diagnostic::new(Code::Device, message) }
        }
    }
}

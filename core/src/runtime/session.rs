//! A loaded entry: takes inputs, runs the regions in order, returns the outputs. For inputs of the same shapes a
//! run allocates nothing, where the inputs tell all sizes; for told sizes of the same numbers no memory for values. Nor for
//! shapes of a few runs ago (`kept`).

mod arenas;
mod control;
mod file;
mod filling;
mod given_lists;
mod held;
mod into;
mod introspect;
mod iterations;
mod kept;
mod later;
mod lists;
mod load;
mod on_device;
mod pieces;
mod single_call;
mod single_region;
mod sized;
mod state;
mod tables;
mod trial;
mod watch;
mod work;

use std::collections::HashMap;
use std::time::Duration;

use byoc_plugin_api::{DeviceExecutable, Executable, TensorView};
use bytes::Bytes;

use super::bind::Bound;
use super::device::Device;
use super::resident::Resident;
use super::steps::Steps;
use super::variants::PassedOver;
use crate::artifact::Artifact;
use crate::artifact::manifest::{Entry, Port};
use crate::diagnostic::{Code, Diagnostic, Result};
pub use given_lists::{ListView, MadeList};
pub use into::OutputBuffer;
pub use introspect::{CopyTime, DeviceUse, PortIndex, PortInfo, RegionTime, Span, SpanKind, StepTime, Work};
use kept::Kept;
use later::Later;
pub use load::{LoadOptions, Queueing, select_entry};
pub use on_device::{DeviceArray, Input};
pub use single_call::SingleCalls;
pub use single_region::SingleRegion;
use state::State;
use tables::Tables;
pub use trial::Trial;
use work::Run;

/// A loaded entry.
///
/// A session may be moved to another thread, also between two runs: executables, domains and the memory that they work in are
/// `Send`, and calls for one session come one at a time, because [`Session::run`] takes it by `&mut`. It is not `Sync`, for nothing of
/// it could be done by two threads at once. Threads that run the same entry load a session each, from clones of one
/// [`Artifact`]: the file is mapped once and no constant is copied; an artifact, the [`crate::plugin::Registry`] and a
/// [`Device`] may be shared. Sessions on one device take turns, run by run.
pub struct Session {
    // Fields are dropped in this order: each may look into those below it. All work is done between runs.
    /// What follows where sizes become known while it runs; the other fields are the first stage then.
    later: Option<Box<Later>>,
    /// What runs of other shapes left. Dropped before the memory that recordings work in, which `state` has.
    kept: Kept,
    /// For the shapes of the last run.
    state: Option<State>,
    calls: Vec<LoadedCall>,
    /// The bytes of each value that is a constant, row-major.
    constants: HashMap<usize, Bytes>,
    /// The constants on each device.
    residents: Vec<Resident>,
    devices: Vec<Device>,
    entry: Entry,
    steps: Steps,
    /// The memory of each call: the host's, or that of a device at its index plus 1.
    memories: Vec<usize>,
    /// The name of each value.
    names: Vec<String>,
    /// Sizes that are known beside those that the inputs tell.
    told: HashMap<String, usize>,
    queueing: Queueing,
    /// What its values are handles of.
    tables: Tables,
    /// The outputs that the last run wrote to memory of the caller's.
    elsewhere: Vec<usize>,
    _artifact: Option<Artifact>,
    pub(super) passed_over: Vec<PassedOver>,
}

struct LoadedCall {
    symbol: String,
    /// What it is, in messages.
    title: String,
    /// What it is, and whose, for who tells of a crash.
    place: &'static String,
    backend: String,
    region: LoadedRegion,
    time: Duration,
    /// Where times are taken.
    watch: Option<watch::Watch>,
}

/// A region where it runs.
enum LoadedRegion {
    Host(Bound<dyn Executable>),
    Device(Bound<dyn DeviceExecutable>),
}

impl Session {
    /// Computes the outputs from the inputs, given in the order of [`Session::inputs`]. The outputs stay readable
    /// until the next run.
    pub fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.tables.begin_run();
        self.check_lists(inputs)?;
        self.run_within(inputs)
    }

    /// The same within a run: what it has made so far stays.
    fn run_within(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        if let Some(later) = &mut self.later {
            later.has_run = false;
        }
        if !self.entry.body {
            self.forget_last_run();
        }
        self.in_turn(0, &mut |session| {
            session.ready(inputs)?;
            session.work(inputs, Run::Full)
        })?;
        let Some(mut later) = self.later.take() else { return Ok(()) };
        let done = later.run(self, inputs);
        self.later = Some(later);
        done
    }

    /// As [`Session::run`], but what the last run sent to devices as inputs is used as it is there, and outputs stay on
    /// the device that computed them until [`Session::fetch`]. Inputs are of the same shapes as in that run. An entry with sizes
    /// that are known only at run time is run as by [`Session::run`].
    pub fn run_resident(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        if self.later.is_some() {
            return self.run(inputs);
        }
        self.check_inputs(inputs)?;
        self.tables.begin_run();
        self.forget_last_run();
        if !self.state.as_ref().is_some_and(|state| state.fits(inputs) && state.filled.inputs) {
            let message = "there are no inputs of these shapes on the device";
            return Err(Diagnostic::new(Code::BadInput, message).hint("Run once with them before"));
        }
        self.in_turn(0, &mut |session| session.work(inputs, Run::Resident))
    }

    /// Copies the outputs of the last run from the devices, for [`Session::output`].
    pub fn fetch(&mut self) -> Result<()> {
        let here = match &self.later {
            Some(later) => later.has_run,
            None => self.state.as_ref().is_some_and(|state| state.filled.inputs),
        };
        if !here {
            return Err(Diagnostic::new(Code::RunFailed, "there is no run whose outputs could be fetched"));
        }
        if self.later.is_some() {
            return Ok(());
        }
        self.in_turn(0, &mut |session| session.work(&[], Run::Outputs))
    }

    /// Makes an output of the last run the input of the next [`Session::run_resident`], within the device that has both: for
    /// models that are fed what they gave. Regions on the host read the input that the run is given.
    pub fn carry(&mut self, output: usize, input: usize) -> Result<()> {
        if self.later.is_some() {
            let message = "cannot carry an output: the entry has sizes that are known only at run time";
            return Err(Diagnostic::new(Code::BadInput, message).hint("Give the output to the next run as its input"));
        }
        let ports = (self.entry.outputs.get(output), self.entry.inputs.get(input));
        let (Some(from), Some(to)) = ports else {
            return Err(Diagnostic::new(Code::UnknownName, format!("there is no output {output} or no input {input}")));
        };
        let (from, to, what) = (from.value, to.value, format!("'{}' to '{}'", from.name, to.name));
        let Some(state) = self.state.as_ref().filter(|state| state.filled.inputs) else {
            return Err(Diagnostic::new(Code::RunFailed, format!("cannot carry {what}: the entry did not run yet")));
        };
        let types = &self.entry.values;
        if types[from].dtype != types[to].dtype || state.plan.shapes[from] != state.plan.shapes[to] {
            let message = format!("cannot carry {what}: they are of different types or shapes");
            return Err(Diagnostic::new(Code::BadInput, message));
        }
        let Some(memory) = (1..=self.devices.len()).find(|&at| state.is_on(from, at) && state.is_on(to, at)) else {
            let message = format!("cannot carry {what}: no device has both");
            return Err(Diagnostic::new(Code::BadInput, message).hint("Give the output to the next run as its input"));
        };
        let (from, to, bytes) =
            (state.on_device(from, memory), state.on_device(to, memory), state.bytes(&self.entry, to));
        self.in_turn(0, &mut |session| {
            let device = &session.devices[memory - 1];
            let mut domain = device.domain();
            // SAFETY: both are places of that many bytes, and inputs and outputs that stay overlap nothing.
            let copied = if bytes > 0 && from != to { unsafe { domain.copy(to, from, bytes) } } else { Ok(()) };
            let waited = domain.synchronize();
            drop(domain);
            copied.and(waited).map_err(|error| device.failed(&format!("carry {what}"), error))
        })
    }

    /// Does some work when no other session does any on the devices, from that index on. Devices are in the order of their
    /// kinds, so two sessions never wait for each other.
    fn in_turn(&mut self, index: usize, work: &mut dyn FnMut(&mut Session) -> Result<()>) -> Result<()> {
        let Some(device) = self.devices.get(index) else { return work(self) };
        let queue = device.queue_lock();
        let _guard = queue.lock();
        self.in_turn(index + 1, work)
    }

    fn work(&mut self, inputs: &[TensorView<'_>], run: Run) -> Result<()> {
        self.work_on(inputs, &[], run)
    }

    /// The same with the addresses of inputs that are on their device already.
    fn work_on(&mut self, inputs: &[TensorView<'_>], arrived: &[Option<u64>], run: Run) -> Result<()> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let mut worker = work::Worker {
            state,
            calls: &mut self.calls,
            devices: &self.devices,
            entry: &self.entry,
            steps: &self.steps,
            memories: &self.memories,
            constants: &self.constants,
            names: &self.names,
            queueing: self.queueing,
            arrived,
        };
        worker.work(inputs, run)
    }

    /// Makes ready for inputs of these shapes, unless the last ones had the same.
    fn ready(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.check_inputs(inputs)?;
        if self.state.as_ref().is_some_and(|state| state.fits(inputs) && state.told == self.told) {
            return Ok(());
        }
        if let Some(state) = self.state.take() {
            self.kept.leave(state, &self.devices, &mut self.calls, self.queueing == Queueing::Recorded);
        }
        let place = state::StateBuilder {
            entry: &self.entry,
            steps: &self.steps,
            memories: &self.memories,
            devices: &self.devices,
            names: &self.names,
            told: &self.told,
        };
        let state = match self.kept.take(inputs, &self.told) {
            Some(state) => place.state_again(state, &mut self.kept)?,
            None => place.state(inputs, &mut self.calls, &mut self.kept)?,
        };
        self.state = Some(state);
        Ok(())
    }

    /// An output of the last run. Errors when there was none, or when it was written to memory of the caller's.
    pub fn output(&self, index: usize) -> Result<TensorView<'_>> {
        if self.elsewhere.contains(&index) {
            let message = format!("output '{}' was written to memory of the caller's", self.outputs()[index].name);
            return Err(Diagnostic::new(Code::RunFailed, message).hint("Read it there"));
        }
        self.output_here(index)
    }

    fn output_here(&self, index: usize) -> Result<TensorView<'_>> {
        match &self.later {
            Some(later) => later.output(self, index),
            None => self.own_output(index),
        }
    }

    /// An output of this stage.
    fn own_output(&self, index: usize) -> Result<TensorView<'_>> {
        let (port, state) = (self.output_port(index)?, self.finished()?);
        if !state.filled.outputs && self.steps.outputs.iter().any(|crossing| crossing.value == port.value) {
            let message = "the outputs are on the device that computed them";
            return Err(Diagnostic::new(Code::RunFailed, message).hint("Fetch them first"));
        }
        let data = match self.constants.get(&port.value) {
            Some(constant) => constant.as_ptr(),
            None => state.on_host(port.value),
        };
        let (shape, strides) = (&state.plan.shapes[port.value], &state.plan.strides[port.value]);
        // SAFETY: the value is in the arena or in the constant's bytes at its planned size, and `&self` keeps the
        // next run from writing while the view lives.
        Ok(unsafe { TensorView::from_raw(data, self.entry.values[port.value].dtype, shape, strides) })
    }

    fn output_port(&self, index: usize) -> Result<&Port> {
        let none = || Diagnostic::new(Code::UnknownName, format!("there is no output {index}"));
        self.entry.outputs.get(index).ok_or_else(none)
    }

    /// What the last run has left. Errors when there was none.
    fn finished(&self) -> Result<&State> {
        let none = || Diagnostic::new(Code::RunFailed, "the entry did not run yet");
        self.state.as_ref().filter(|state| state.filled.inputs).ok_or_else(none)
    }

    fn check_inputs(&self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.check_count(inputs.len())?;
        for (port, input) in self.entry.inputs.iter().zip(inputs) {
            let dtype = self.entry.values[port.value].dtype;
            if input.dtype() != dtype {
                let message = format!("input '{}' is {}, the entry takes {dtype}", port.name, input.dtype());
                return Err(Diagnostic::new(Code::BadInput, message));
            }
        }
        Ok(())
    }

    fn check_count(&self, given: usize) -> Result<()> {
        let Entry { name, inputs, .. } = &self.entry;
        if given == inputs.len() {
            return Ok(());
        }
        let message = format!("the entry '{name}' takes {} inputs, got {given}", inputs.len());
        Err(Diagnostic::new(Code::BadInput, message))
    }
}

impl Drop for Session {
    /// Memory is released between the runs of other sessions.
    fn drop(&mut self) {
        // Each stage takes its own turn.
        self.later = None;
        let _ = self.in_turn(0, &mut |session| {
            session.kept.states.clear();
            session.state = None;
            session.calls.clear();
            session.residents.clear();
            Ok(())
        });
    }
}

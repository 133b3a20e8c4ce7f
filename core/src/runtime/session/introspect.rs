//! Introspection of a session: ports, times, copies, memory of devices.

use std::collections::BTreeMap;
use std::ops::{AddAssign, DivAssign};
use std::time::{Duration, Instant};

use byoc_plugin_api::{Allowance, DType, Dim};
use serde::{Serialize, Serializer};

use super::sized::{SizedCall, What};
use super::{LoadedCall, Session};
use crate::artifact::Artifact;
use crate::artifact::manifest::{ListType, Port, ValueType};
use crate::runtime::device::{Device, DeviceName};
use crate::runtime::stages::Place;
use crate::runtime::steps::{Crossing, HOST};
use crate::runtime::variants::PassedOver;

/// An input or an output of the entry.
#[derive(Clone, Debug, PartialEq)]
pub struct PortInfo {
    /// The name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
    /// What it holds, if it is a sequence or an optional: the tensor of the port is one handle then.
    pub list: Option<ListType>,
}

/// Which input or output of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortIndex {
    /// The input of that index.
    Input(usize),
    /// The output of that index.
    Output(usize),
}

/// How long a region took in the last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegionTime {
    /// The region's symbol, or the file that is code by itself.
    #[serde(rename = "region")]
    pub symbol: String,
    /// The backend it ran on.
    pub backend: String,
    /// Wall time on the host. On a device, its own time where that is taken ([`Queueing::Timed`](super::Queueing::Timed)), else 0.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub time: Duration,
    /// What it consisted of, where times were taken ([`Queueing::Timed`](super::Queueing::Timed)) and its backend tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepTime>,
}

/// A part of a region, such as a call of a kernel; the sum where the region has run more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepTime {
    /// What its backend calls it.
    pub kernel: String,
    /// The operator of the first of its nodes; the same as `kernel` where none is known.
    pub operator: String,
    /// The names of the nodes that it computes, as far as they are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Wall time.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub time: Duration,
    /// What it does in that time.
    #[serde(flatten)]
    pub work: Work,
}

/// What steps do, as far as their backends tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Multiplications and additions; 0: not told.
    #[serde(skip_serializing_if = "is_zero")]
    pub operations: u64,
    /// Bytes that are read and written; 0: not told.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.operations = self.operations.saturating_add(other.operations);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl DivAssign<u32> for Work {
    fn div_assign(&mut self, count: u32) {
        self.operations /= u64::from(count);
        self.bytes /= u64::from(count);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where: `host`, or a device.
    pub place: String,
    /// What kind of thing it is.
    pub kind: SpanKind,
    /// What it is called.
    pub name: String,
    /// What else is known of it.
    pub details: Vec<(&'static str, String)>,
    /// When it began.
    pub start: Instant,
    /// How long it took.
    pub time: Duration,
}

/// Kinds of things that take time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A stage of a compile.
    Stage,
    /// A region.
    Region,
    /// A part of a region.
    Step,
    /// A copy between memories.
    Copy,
}

/// A value that was copied from one memory to another in the last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopyTime {
    /// The value's name in the model.
    pub value: String,
    /// The memory that had it: `host`, or a device.
    pub from: String,
    /// The memory that got it.
    pub to: String,
    /// Bytes.
    pub bytes: u64,
    /// The device's own time where that is taken ([`Queueing::Timed`](super::Queueing::Timed)), else 0.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub time: Duration,
}

/// An entry's use of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceUse {
    /// The device.
    #[serde(serialize_with = "text")]
    pub device: DeviceName,
    /// Bytes of constants: each is there once.
    pub constant_bytes: usize,
    /// Bytes for values and scratch; 0 before the first run.
    pub arena_bytes: usize,
    /// How many sequences of regions are replayed as they were recorded.
    pub recordings: usize,
    /// Why sequences of regions are not replayed, though that was requested.
    pub unrecorded: Vec<String>,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn text<S: Serializer>(device: &DeviceName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(device)
}

impl Session {
    /// The variant that was loaded; none where the file has no variants.
    pub fn variant(&self) -> Option<&str> {
        self._artifact.as_ref()?.variant()
    }

    /// How far each output may be off, by name, where backends of regions that it depends on compute with fewer bits than the
    /// model has.
    pub fn allowances(&self) -> BTreeMap<String, Allowance> {
        let manifest = self._artifact.as_ref().map(Artifact::manifest);
        let entry = manifest.and_then(|manifest| Some((manifest, manifest.entry(&self.entry.name)?)));
        let of_entry = entry.into_iter().flat_map(|(manifest, entry)| {
            let of = |port: &Port| Some((port.name.clone(), manifest.allowance(entry, port.value)?));
            entry.outputs.iter().filter_map(of).collect::<Vec<_>>()
        });
        of_entry.collect()
    }

    /// Better variants of the file that cannot be loaded here, the most wanted first.
    pub fn passed_over(&self) -> &[PassedOver] {
        &self.passed_over
    }

    /// The inputs, in the order in which [`Session::run`] takes them.
    pub fn inputs(&self) -> Vec<PortInfo> {
        self.ports(&self.entry.inputs)
    }

    /// The outputs, in the order of [`Session::output`].
    pub fn outputs(&self) -> Vec<PortInfo> {
        match &self.later {
            Some(later) => later.outputs.iter().map(|(port, _)| port.clone()).collect(),
            None => self.ports(&self.entry.outputs),
        }
    }

    fn ports(&self, ports: &[Port]) -> Vec<PortInfo> {
        let info = |port: &Port| {
            let value = &self.entry.values[port.value];
            let ValueType { dtype, shape, list } = value.clone();
            PortInfo { name: port.name.clone(), dtype, shape, list }
        };
        ports.iter().map(info).collect()
    }

    /// The device address of an input or an output, for callers that use the device's own API: the address that
    /// runs with inputs of the shapes of the last run use ([`Session::run_resident`]). `None` where it is on no device, and
    /// before the first run.
    pub fn address(&self, port: PortIndex) -> Option<(&DeviceName, u64)> {
        let port = match (&self.later, port) {
            (Some(later), PortIndex::Output(index)) => match later.outputs.get(index)?.1 {
                Place::Made { stage: 0, output } => PortIndex::Output(output),
                Place::Made { stage, output } => {
                    return later.stages.get(stage - 1)?.session.address(PortIndex::Output(output));
                }
                _ => return None,
            },
            // Each run sends what it is given.
            (Some(_), PortIndex::Input(_)) => return None,
            (None, _) => port,
        };
        let (ports, index) = match port {
            PortIndex::Input(index) => (&self.entry.inputs, index),
            PortIndex::Output(index) => (&self.entry.outputs, index),
        };
        let (state, value) = (self.state.as_ref()?, ports.get(index)?.value);
        let device = (0..self.devices.len()).find(|device| state.is_on(value, device + 1))?;
        Some((self.devices[device].name(), state.on_device(value, device + 1)))
    }

    /// What is added up over a run is none: times, and iterations. No output is elsewhere.
    pub(super) fn forget_last_run(&mut self) {
        self.elsewhere.clear();
        self.calls.iter_mut().for_each(LoadedCall::forget);
        let Some(later) = &mut self.later else { return };
        later.iterations.reset();
        later.stages.iter_mut().for_each(|stage| stage.session.forget_last_run());
        for sized in &mut later.sized {
            match &mut sized.what {
                What::Region(call) => call.forget(),
                What::Control(control) => control.bodies.iter_mut().for_each(Session::forget_last_run),
                What::List(_) => {}
            }
        }
    }

    /// How long each region took in the last run, in running order; one of a body in all iterations.
    pub fn times(&self) -> Vec<RegionTime> {
        let time = |call: &LoadedCall| RegionTime {
            symbol: call.symbol.clone(),
            backend: call.backend.clone(),
            time: call.time,
            steps: call.steps(),
        };
        let own = self.calls.iter().map(time);
        let later = self.later.iter().flat_map(|later| later.sized.iter().zip(&later.stages));
        let behind = |sized: &SizedCall| match &sized.what {
            What::Region(call) => vec![time(call)],
            What::Control(_) | What::List(_) => sized.bodies().iter().flat_map(Session::times).collect(),
        };
        own.chain(later.flat_map(|(sized, stage)| behind(sized).into_iter().chain(stage.session.times()))).collect()
    }

    /// What each run copies between memories, in order, and how long that took in the last run. Sizes are those of the last
    /// run, and 0 before.
    pub fn copies(&self) -> Vec<CopyTime> {
        let memory = |memory: usize| match memory {
            HOST => "host".to_owned(),
            device => self.devices[device - 1].name().to_string(),
        };
        let copy = |(index, crossing): (usize, &Crossing)| CopyTime {
            value: self.names[crossing.value].clone(),
            from: memory(crossing.from),
            to: memory(crossing.to),
            bytes: self.state.as_ref().map_or(0, |state| state.bytes(&self.entry, crossing.value) as u64),
            time: self.state.as_ref().map_or(Duration::ZERO, |state| state.copy_times[index]),
        };
        let own = self.steps.crossings().enumerate().map(copy);
        own.chain(self.stages().flat_map(Session::copies)).collect()
    }

    /// What happened in the last run, where times were taken ([`Queueing::Timed`](super::Queueing::Timed)): regions with their steps, and copies. Of a region in
    /// a body the first 4,096 executions are there.
    pub fn spans(&self) -> Vec<Span> {
        let memory = |memory: usize| match memory {
            HOST => "host".to_owned(),
            device => self.devices[device - 1].name().to_string(),
        };
        let calls = self.calls.iter().zip(&self.memories).flat_map(|(call, &at)| call.spans(&memory(at)));
        let copy = |(index, crossing): (usize, &Crossing)| {
            let state = self.state.as_ref()?;
            let (from, to) = (memory(crossing.from), memory(crossing.to));
            Some(Span {
                place: memory(crossing.from.max(crossing.to)),
                kind: SpanKind::Copy,
                name: self.names[crossing.value].clone(),
                details: vec![("from", from), ("to", to)],
                start: state.copy_starts[index]?,
                time: state.copy_times[index],
            })
        };
        let copies = self.steps.crossings().enumerate().filter_map(copy);
        let sized = self.later.iter().flat_map(|later| &later.sized).flat_map(|sized| match &sized.what {
            What::Region(call) => call.spans("host"),
            What::Control(_) | What::List(_) => Vec::new(),
        });
        calls.chain(copies).chain(sized).chain(self.stages().flat_map(Session::spans)).collect()
    }

    /// Bytes of the host's memory that values take between regions; 0 before the first run.
    pub fn arena_bytes(&self) -> usize {
        let own = self.state.as_ref().map_or(0, |state| state.arenas.host_bytes());
        let sized = self.later.iter().flat_map(|later| &later.sized).map(SizedCall::room);
        own + sized.sum::<usize>() + self.stages().map(Session::arena_bytes).sum::<usize>()
    }

    /// The stages behind this one, and the bodies of control flow.
    fn stages(&self) -> impl Iterator<Item = &Session> {
        let bodies = self.later.iter().flat_map(|later| &later.sized).flat_map(SizedCall::bodies);
        self.later.iter().flat_map(|later| later.stages.iter().map(|stage| &stage.session)).chain(bodies)
    }

    /// The entry's use of each device.
    pub fn devices(&self) -> Vec<DeviceUse> {
        let device_use = |(index, device): (usize, &Device)| DeviceUse {
            device: device.name().clone(),
            constant_bytes: self.residents[index].bytes,
            arena_bytes: self.state.as_ref().map_or(0, |state| state.arenas.device_bytes(index)),
            recordings: self.state.as_ref().map_or(0, |state| state.recordings(index + 1)),
            unrecorded: self.state.as_ref().map_or(Vec::new(), |state| state.unrecorded(index + 1)),
        };
        let mut uses: Vec<_> = self.devices.iter().enumerate().map(device_use).collect();
        for more in self.stages().flat_map(Session::devices) {
            match uses.iter_mut().find(|known| known.device == more.device) {
                None => uses.push(more),
                Some(known) => {
                    // Constants are on a device once, whichever stages read them.
                    known.constant_bytes = known.constant_bytes.max(more.constant_bytes);
                    known.arena_bytes += more.arena_bytes;
                    known.recordings += more.recordings;
                    known.unrecorded.extend(more.unrecorded);
                }
            }
        }
        uses
    }
}

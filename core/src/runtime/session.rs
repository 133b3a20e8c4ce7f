//! A loaded entry: takes inputs, runs the regions in order, hands out the outputs. For inputs of the same shapes a
//! run allocates nothing.

mod file;
mod state;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use byoc_plugin_api::{DType, DeviceExecutable, Dim, Executable, TensorView};
use bytes::Bytes;

use super::bind::{Bound, Loader, backend};
use super::copies::{memories, names};
use super::device::{Device, DeviceName};
use super::resident::Resident;
use super::steps::{HOST, Steps};
use crate::artifact::Artifact;
use crate::artifact::manifest::{Entry, Port, Region};
use crate::cpu;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin::{Registry, Settings};
use state::State;
use work::Run;

/// How to load an artifact, or a file of a backend's own.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The entry; the only one where none is named.
    pub entry: Option<String>,
    /// Most threads a run may use; 0 for one a core.
    pub threads: usize,
    /// The folder of the files that the artifact takes constants from; where they lay at the compile if absent.
    pub constants_from: Option<PathBuf>,
    /// The devices to use, at most one of each kind; the first of its kind for kinds that are not named.
    pub devices: Vec<DeviceName>,
    /// Settings of backends' options of running.
    pub run_options: Settings,
    /// How work on devices is done.
    pub queueing: Queueing,
}

/// How work on devices is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queueing {
    /// Regions that follow one another are recorded in the second run of the same shapes and replayed from then on.
    #[default]
    Recorded,
    /// Every region is queued in every run.
    Direct,
    /// The same, with the time of each region and of each copy taken on the device ([`Session::times`]).
    Timed,
    /// Each region is waited for, so that an error names the region that made it.
    Waiting,
}

/// An input or an output of the entry.
#[derive(Clone, Debug, PartialEq)]
pub struct PortInfo {
    /// The name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionTime {
    /// The region's symbol, or the file that is code by itself.
    pub symbol: String,
    /// The backend it ran on.
    pub backend: String,
    /// Wall time on the host. On a device, its own time where that is taken ([`Queueing::Timed`]), else 0.
    pub time: Duration,
}

/// A value that was copied from one memory to another in the last run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyTime {
    /// The value's name in the model.
    pub value: String,
    /// The memory that had it: `host`, or a device.
    pub from: String,
    /// The memory that got it.
    pub to: String,
    /// Bytes.
    pub bytes: u64,
    /// The device's own time where that is taken ([`Queueing::Timed`]), else 0.
    pub time: Duration,
}

/// What an entry takes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUse {
    /// The device.
    pub device: DeviceName,
    /// Bytes of constants: each stands there once.
    pub constant_bytes: usize,
    /// Bytes for values and scratch; 0 before the first run.
    pub arena_bytes: usize,
    /// How many sequences of regions are replayed as they were recorded.
    pub recordings: usize,
    /// Why sequences of regions are not, though they were to be.
    pub unrecorded: Vec<String>,
}

/// A loaded entry.
pub struct Session {
    // Fields are dropped in this order: each may look into those below it. All work is done between runs.
    state: Option<State>,
    calls: Vec<LoadedCall>,
    constants: Vec<EntryConstant>,
    /// The constants on each device.
    residents: Vec<Resident>,
    devices: Vec<Device>,
    entry: Entry,
    steps: Steps,
    /// The memory of each call: the host's, or that of a device at its index plus 1.
    memories: Vec<usize>,
    /// The name of each value.
    names: Vec<String>,
    queueing: Queueing,
    _artifact: Option<Artifact>,
}

struct LoadedCall {
    symbol: String,
    /// What it is, in messages.
    title: String,
    backend: String,
    region: LoadedRegion,
    time: Duration,
}

/// A region where it runs.
enum LoadedRegion {
    Host(Bound<dyn Executable>),
    Device(Bound<dyn DeviceExecutable>),
}

/// A value that is a constant, row-major.
struct EntryConstant {
    value: usize,
    bytes: Bytes,
}

impl Session {
    /// Opens the artifact at `path` and loads one of its entries.
    pub fn open(path: &Path, registry: &Registry, options: &LoadOptions) -> Result<Session> {
        Session::load(Artifact::open(path)?, registry, options)
    }

    /// Loads an entry of an artifact, whose other files are attached first where that is still to be done
    /// ([`Artifact::attach`]). No constant of the artifact itself is copied, but to the devices whose regions read it.
    pub fn load(artifact: Artifact, registry: &Registry, options: &LoadOptions) -> Result<Session> {
        Session::load_with(artifact, registry, options, None)
    }

    /// Loads another entry of the same artifact, on the devices of this session where they are those that the options name:
    /// constants that both read stand on a device once. Runs of the two take turns there.
    pub fn load_beside(&self, registry: &Registry, options: &LoadOptions) -> Result<Session> {
        match &self._artifact {
            Some(artifact) => Session::load_with(artifact.clone(), registry, options, Some(self)),
            None => Err(Diagnostic::new(Code::UnknownName, "a file that is code by itself has one entry")),
        }
    }

    fn load_with(
        mut artifact: Artifact,
        registry: &Registry,
        options: &LoadOptions,
        beside: Option<&Session>,
    ) -> Result<Session> {
        check_processor(&artifact)?;
        let entry = select_entry(&artifact, options.entry.as_deref())?.clone();
        artifact.attach(options.constants_from.as_deref())?;
        let all = &artifact.manifest().regions;
        let regions: Vec<&Region> = entry.calls.iter().map(|call| &all[call.region]).collect();
        let (kinds, memories) = memories(&regions);
        let there = beside.map_or(&[][..], |session| &session.devices);
        let devices = open_devices(&regions, &kinds, registry, options, there)?;
        let of_memory = |memory: usize| regions.iter().zip(&memories).filter(move |(_, of)| **of == memory);
        let residents = devices.iter().enumerate().map(|(index, device)| {
            let there = beside.and_then(|session| session.resident(device));
            Resident::send(&artifact, of_memory(index + 1).map(|(region, _)| *region), device, there)
        });
        let residents = residents.collect::<Result<Vec<_>>>()?;
        let loader =
            Loader { artifact: &artifact, registry, threads: options.threads(), settings: &options.run_options };
        let call = |(region, &memory): (&&Region, &usize)| -> Result<LoadedCall> {
            let loaded = match memory {
                HOST => LoadedRegion::Host(loader.host(region)?),
                device => LoadedRegion::Device(loader.device(region, &devices[device - 1], &residents[device - 1])?),
            };
            let (symbol, backend) = (region.symbol.clone(), region.backend.clone());
            Ok(LoadedCall { title: format!("region {symbol}"), symbol, backend, region: loaded, time: Duration::ZERO })
        };
        let calls = regions.iter().zip(&memories).map(call).collect::<Result<_>>()?;
        let constants = entry
            .constants
            .iter()
            .map(|constant| Ok(EntryConstant { value: constant.value, bytes: artifact.constant(&constant.used)? }))
            .collect::<Result<_>>()?;
        let names = names(&entry, &regions);
        let steps = Steps::new(&entry, &memories);
        let queueing = options.queueing;
        Ok(Session {
            state: None,
            calls,
            constants,
            residents,
            devices,
            entry,
            steps,
            memories,
            names,
            queueing,
            _artifact: Some(artifact),
        })
    }

    /// The constants on a device of this session.
    fn resident(&self, device: &Device) -> Option<&Resident> {
        let index = self.devices.iter().position(|own| own.name() == device.name())?;
        self.residents.get(index)
    }

    /// The inputs, in the order in which [`Session::run`] takes them.
    pub fn inputs(&self) -> Vec<PortInfo> {
        self.ports(&self.entry.inputs)
    }

    /// The outputs, in the order of [`Session::output`].
    pub fn outputs(&self) -> Vec<PortInfo> {
        self.ports(&self.entry.outputs)
    }

    fn ports(&self, ports: &[Port]) -> Vec<PortInfo> {
        let info = |port: &Port| {
            let value = &self.entry.values[port.value];
            PortInfo { name: port.name.clone(), dtype: value.dtype, shape: value.shape.clone() }
        };
        ports.iter().map(info).collect()
    }

    /// Computes the outputs from the inputs, given in the order of [`Session::inputs`]. The outputs stay readable
    /// until the next run.
    pub fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.in_turn(0, &mut |session| {
            session.ready(inputs)?;
            session.work(inputs, Run::Whole)
        })
    }

    /// As [`Session::run`], but what the last run sent to devices as inputs is used as it lies there, and outputs stay on
    /// the device that computed them until [`Session::fetch`]. Inputs are of the same shapes as in that run.
    pub fn run_resident(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.check_inputs(inputs)?;
        if !self.state.as_ref().is_some_and(|state| state.fits(inputs)) {
            let message = "there are no inputs of these shapes on the device";
            return Err(Diagnostic::new(Code::BadInput, message).hint("Run once with them before"));
        }
        self.in_turn(0, &mut |session| session.work(inputs, Run::Resident))
    }

    /// Copies the outputs of the last run from the devices, for [`Session::output`].
    pub fn fetch(&mut self) -> Result<()> {
        self.in_turn(0, &mut |session| session.work(&[], Run::Outputs))
    }

    /// Does some work when no other session does any on the devices, from that index on. Devices stand in the order of their
    /// kinds, so two sessions never wait for each other.
    fn in_turn(&mut self, index: usize, work: &mut dyn FnMut(&mut Session) -> Result<()>) -> Result<()> {
        let Some(device) = self.devices.get(index) else { return work(self) };
        let turns = device.turns();
        let _held = turns.take();
        self.in_turn(index + 1, work)
    }

    fn work(&mut self, inputs: &[TensorView<'_>], run: Run) -> Result<()> {
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
        };
        worker.work(inputs, run)
    }

    /// Makes memory for inputs of these shapes, unless the last ones had the same.
    fn ready(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.check_inputs(inputs)?;
        if self.state.as_ref().is_some_and(|state| state.fits(inputs)) {
            return Ok(());
        }
        // The old memory goes first: both together may not fit.
        self.state = None;
        let place = state::Place {
            entry: &self.entry,
            steps: &self.steps,
            memories: &self.memories,
            devices: &self.devices,
            constants: &self.constants,
        };
        self.state = Some(place.state(inputs, &mut self.calls)?);
        Ok(())
    }

    /// An output of the last run. Errors when there was none.
    pub fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let port = self
            .entry
            .outputs
            .get(index)
            .ok_or_else(|| Diagnostic::new(Code::UnknownName, format!("there is no output {index}")))?;
        let state = self.state.as_ref().ok_or_else(|| Diagnostic::new(Code::RunFailed, "the entry did not run yet"))?;
        let constant = self.constants.iter().find(|constant| constant.value == port.value);
        let data = match constant {
            Some(constant) => constant.bytes.as_ptr(),
            None => state.on_host(port.value),
        };
        let (shape, strides) = (&state.plan.shapes[port.value], &state.plan.strides[port.value]);
        // SAFETY: the value lies in the arena or in the constant's bytes at its planned size, and `&self` keeps the
        // next run from writing while the view lives.
        Ok(unsafe { TensorView::from_raw(data, self.entry.values[port.value].dtype, shape, strides) })
    }

    /// Where an input or an output is on a device, for whoever works there with calls of the device's own: the address that
    /// runs with inputs of the shapes of the last run use ([`Session::run_resident`]). `None` where it is on no device, and
    /// before the first run.
    pub fn address(&self, port: PortIndex) -> Option<(&DeviceName, u64)> {
        let (ports, index) = match port {
            PortIndex::Input(index) => (&self.entry.inputs, index),
            PortIndex::Output(index) => (&self.entry.outputs, index),
        };
        let (state, value) = (self.state.as_ref()?, ports.get(index)?.value);
        let device = (0..self.devices.len()).find(|device| state.plan.arenas[device + 1].values[value].is_some())?;
        Some((self.devices[device].name(), state.on_device(value, device + 1)))
    }

    /// How long each region took in the last run, in running order.
    pub fn times(&self) -> Vec<RegionTime> {
        let time = |call: &LoadedCall| RegionTime {
            symbol: call.symbol.clone(),
            backend: call.backend.clone(),
            time: call.time,
        };
        self.calls.iter().map(time).collect()
    }

    /// What each run copies between memories, in order, and how long that took in the last run. Sizes are those of the last
    /// run, and 0 before.
    pub fn copies(&self) -> Vec<CopyTime> {
        let memory = |memory: usize| match memory {
            HOST => "host".to_owned(),
            device => self.devices[device - 1].name().to_string(),
        };
        let copy = |(index, crossing): (usize, &super::steps::Crossing)| CopyTime {
            value: self.names[crossing.value].clone(),
            from: memory(crossing.from),
            to: memory(crossing.to),
            bytes: self.state.as_ref().map_or(0, |state| state.bytes(&self.entry, crossing.value) as u64),
            time: self.state.as_ref().map_or(Duration::ZERO, |state| state.copy_times[index]),
        };
        self.steps.crossings().enumerate().map(copy).collect()
    }

    /// Bytes of the host's memory that values take between regions; 0 before the first run.
    pub fn arena_bytes(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.plan.arenas[HOST].size)
    }

    /// What the entry takes of each device.
    pub fn devices(&self) -> Vec<DeviceUse> {
        let device_use = |(index, device): (usize, &Device)| DeviceUse {
            device: device.name().clone(),
            constant_bytes: self.residents[index].bytes,
            arena_bytes: self.state.as_ref().map_or(0, |state| state.plan.arenas[index + 1].size),
            recordings: self.state.as_ref().map_or(0, |state| state.recordings(index + 1)),
            unrecorded: self.state.as_ref().map_or(Vec::new(), |state| state.unrecorded(index + 1)),
        };
        self.devices.iter().enumerate().map(device_use).collect()
    }

    fn check_inputs(&self, inputs: &[TensorView<'_>]) -> Result<()> {
        let expected = &self.entry.inputs;
        if inputs.len() != expected.len() {
            let message =
                format!("the entry '{}' takes {} inputs, got {}", self.entry.name, expected.len(), inputs.len());
            return Err(Diagnostic::new(Code::BadInput, message));
        }
        for (port, input) in expected.iter().zip(inputs) {
            let dtype = self.entry.values[port.value].dtype;
            if input.dtype() != dtype {
                let message = format!("input '{}' is {}, the entry takes {dtype}", port.name, input.dtype());
                return Err(Diagnostic::new(Code::BadInput, message));
            }
        }
        Ok(())
    }
}

impl Drop for Session {
    /// What is given back is given back between the runs of others.
    fn drop(&mut self) {
        let _ = self.in_turn(0, &mut |session| {
            session.state = None;
            session.calls.clear();
            session.residents.clear();
            Ok(())
        });
    }
}

impl LoadOptions {
    /// At least one.
    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        }
    }
}

/// The devices that the regions run on, one of each kind: those of `there`, or newly opened ones.
fn open_devices(
    regions: &[&Region],
    kinds: &[String],
    registry: &Registry,
    options: &LoadOptions,
    there: &[Device],
) -> Result<Vec<Device>> {
    if let Some(unused) = options.devices.iter().find(|name| !kinds.contains(&name.kind)) {
        let message = format!("no region runs on {unused}");
        return Err(Diagnostic::new(Code::UnknownName, message).hint("Leave out --device; see byoc inspect --regions"));
    }
    // A backend that is not there is what to tell of, before a device that nobody opens.
    regions.iter().try_for_each(|region| backend(region, registry).map(drop))?;
    let open = |kind: &String| {
        let mut named = options.devices.iter().filter(|name| name.kind == *kind);
        let name = named.next().cloned().unwrap_or(DeviceName { kind: kind.clone(), ordinal: 0 });
        if let Some(second) = named.next() {
            let message = format!("{name} and {second} are two devices of one kind");
            return Err(Diagnostic::new(Code::Usage, message).hint("Name one of them with --device"));
        }
        match there.iter().find(|device| *device.name() == name) {
            Some(device) => Ok(device.clone()),
            None => Device::open(&name, registry, &|backend| backend.run_options(&options.run_options)),
        }
    };
    kinds.iter().map(open).collect()
}

/// Packed constants may be of use to some processors only.
fn check_processor(artifact: &Artifact) -> Result<()> {
    let needed = &artifact.manifest().requirements.cpu_features;
    let missing: Vec<_> = needed.iter().map(String::as_str).filter(|name| !cpu::has(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (path, missing) = (artifact.path().display(), missing.join(", "));
    let message = format!("'{path}' has constants packed for processors with {missing}, which this one lacks");
    Err(Diagnostic::new(Code::MissingRequirement, message).hint("Compile the model again on this machine"))
}

fn select_entry<'a>(artifact: &'a Artifact, name: Option<&str>) -> Result<&'a Entry> {
    let entries = &artifact.manifest().entries;
    let found = match name {
        Some(name) => entries.iter().find(|entry| entry.name == name),
        None if entries.len() == 1 => entries.first(),
        None => None,
    };
    found.ok_or_else(|| {
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let names = names.join(", ");
        match name {
            Some(name) => Diagnostic::new(Code::UnknownName, format!("there is no entry '{name}'"))
                .hint(format!("The file has {names}")),
            None => Diagnostic::new(Code::UnknownName, "the file has several entries")
                .hint(format!("Choose one with --entry: {names}")),
        }
    })
}

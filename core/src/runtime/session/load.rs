//! Loads an entry: opens the devices that its regions run on, sends their constants there, and binds every region to its
//! backend.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::control::ControlFlow;
use super::introspect::PortInfo;
use super::iterations::Iterations;
use super::kept::Kept;
use super::later::{Constant, Later, LaterStage};
use super::lists::ListCall;
use super::sized::{SizedCall, What};
use super::tables::Tables;
use super::{LoadedCall, LoadedRegion, Session};
use crate::artifact::Artifact;
use crate::artifact::manifest::{ConstantValue, Control, ControlKind, Entry, Manifest, Region, ValueType};
use crate::cpu;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;
use crate::plugin::{Registry, Settings};
use crate::runtime::bind::{Loader, backend};
use crate::runtime::copies::{memories, memory_of, names};
use crate::runtime::device::{Device, DeviceName};
use crate::runtime::resident::Resident;
use crate::runtime::stages::{self, Behind, Place, Stage, Staged};
use crate::runtime::steps::{HOST, Steps};

/// How to load an artifact, or a file of a backend's own.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The entry; the only one where none is named.
    pub entry: Option<String>,
    /// Most threads a run may use; 0 for one a core.
    pub threads: usize,
    /// The folder of the files that the artifact takes constants from; their recorded paths if absent.
    pub constants_from: Option<PathBuf>,
    /// The devices to use, at most one of each kind; the first of its kind for kinds that are not named.
    pub devices: Vec<DeviceName>,
    /// Settings of backends' options of running.
    pub run_options: Settings,
    /// How work on devices is done.
    pub queueing: Queueing,
    /// Most iterations of control flow in a run, those of all loops and scans added up; as many as the model wants where there is none.
    pub max_iterations: Option<u64>,
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

impl LoadedCall {
    pub(super) fn new(region: &Region, loaded: LoadedRegion) -> LoadedCall {
        let title = format!("region {}", region.symbol);
        let place = crate::runtime::bind::place(region);
        let (symbol, backend) = (region.symbol.clone(), region.backend.clone());
        LoadedCall { symbol, title, place, backend, region: loaded, time: Duration::ZERO, watch: None }
    }
}

impl LoadOptions {
    /// At least one.
    pub(super) fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        }
    }
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
    /// constants that both read are on a device once. Runs of the two take turns there.
    pub fn load_beside(&self, registry: &Registry, options: &LoadOptions) -> Result<Session> {
        match &self._artifact {
            Some(artifact) => Session::load_with(artifact.clone(), registry, options, Some(self)),
            None => Err(Diagnostic::new(Code::UnknownName, "a file of a backend's own format has one entry")),
        }
    }

    fn load_with(
        mut artifact: Artifact,
        registry: &Registry,
        options: &LoadOptions,
        beside: Option<&Session>,
    ) -> Result<Session> {
        check_processor(&artifact)?;
        artifact.attach(options.constants_from.as_deref())?;
        let entry = select_entry(artifact.manifest(), options.entry.as_deref())?;
        let there = beside.map_or(&[][..], |session| &session.devices);
        Session::load_entry((&artifact, entry), registry, options, there, beside)
    }

    /// Loads an entry of regions of the artifact, whose other files are attached, on devices of `there` where they are those that
    /// the options name.
    pub(super) fn load_entry(
        (artifact, entry): (&Artifact, &Entry),
        registry: &Registry,
        options: &LoadOptions,
        there: &[Device],
        beside: Option<&Session>,
    ) -> Result<Session> {
        let manifest = artifact.manifest();
        let all: Vec<&Region> =
            manifest.with_bodies(entry).into_iter().flat_map(|entry| regions_of(manifest, entry)).collect();
        let (kinds, _) = memories(&all);
        let devices = open_devices(&all, &kinds, registry, options, there)?;
        let iterations = &Iterations::new(options.max_iterations);
        let (kinds, devices, tables) = (kinds.as_slice(), devices.as_slice(), &Tables::default());
        let common = Common { artifact, all: &all, kinds, registry, options, devices, iterations, tables };
        common.load(entry, beside)
    }

    /// The constants on a device of this session.
    pub(super) fn resident(&self, device: &Device) -> Option<&Resident> {
        let index = self.devices.iter().position(|own| own.name() == device.name())?;
        self.residents.get(index)
    }
}

/// More stages than any sane entry has: each has memory of its own.
const MOST_STAGES: usize = 4096;

/// What an entry and its bodies are loaded from.
#[derive(Clone, Copy)]
struct Common<'a> {
    artifact: &'a Artifact,
    /// The regions of all of them.
    all: &'a [&'a Region],
    /// The kinds of devices that those run on.
    kinds: &'a [String],
    registry: &'a Registry,
    options: &'a LoadOptions,
    /// One of each kind.
    devices: &'a [Device],
    iterations: &'a Iterations,
    tables: &'a Tables,
}

impl Common<'_> {
    /// Loads an entry or a body.
    fn load(&self, entry: &Entry, beside: Option<&Session>) -> Result<Session> {
        let regions = regions_of(self.artifact.manifest(), entry);
        let memories: Vec<_> = regions.iter().map(|region| memory_of(region, self.kinds)).collect();
        let loading = Loading { common: *self, regions: &regions, memories: &memories };
        match stages::split(entry, &names(entry, &regions)) {
            None => loading.stage(entry.clone(), 0..regions.len(), beside),
            Some(staged) => loading.staged(entry, staged, beside),
        }
    }
}

/// The region of each call of an entry.
fn regions_of<'a>(manifest: &'a Manifest, entry: &Entry) -> Vec<&'a Region> {
    entry.calls.iter().map(|call| &manifest.regions[call.region]).collect()
}

/// What the stages of an entry are loaded from.
struct Loading<'a> {
    common: Common<'a>,
    /// The region of each call of the entry.
    regions: &'a [&'a Region],
    /// The memory of each.
    memories: &'a [usize],
}

impl Loading<'_> {
    fn loader(&self) -> Loader<'_> {
        let Common { artifact, registry, options, .. } = self.common;
        Loader { artifact, registry, threads: options.threads(), settings: &options.run_options }
    }

    /// A session of these calls, as an entry of their own. Every stage has all constants of the regions of the entry and its bodies
    /// on the devices: they are there once.
    fn stage(&self, entry: Entry, calls: Range<usize>, beside: Option<&Session>) -> Result<Session> {
        let Common { artifact, options, devices, all, tables, .. } = self.common;
        let (regions, memories) = (&self.regions[calls.clone()], &self.memories[calls]);
        let names = names(&entry, regions);
        let constant = |constant: &ConstantValue| {
            let bytes = artifact.constant(&constant.used, &names[constant.value])?;
            Ok((constant.value, bytes))
        };
        let constants = entry.constants.iter().map(constant).collect::<Result<_>>()?;
        // From here on an error releases everything in order, as `Session` does when it is dropped.
        let mut session = Session {
            elsewhere: Vec::new(),
            later: None,
            told: HashMap::new(),
            kept: Kept::default(),
            state: None,
            calls: Vec::new(),
            constants,
            residents: Vec::new(),
            devices: devices.to_vec(),
            steps: Steps::new(&entry, memories),
            memories: memories.to_vec(),
            names,
            queueing: options.queueing,
            tables: tables.clone(),
            _artifact: Some(artifact.clone()),
            passed_over: Vec::new(),
            entry,
        };
        for device in devices {
            let on_it = |region: &&&Region| region.domain.as_ref() == Some(&device.name().kind);
            let here = all.iter().filter(on_it).copied();
            let there = beside.and_then(|session| session.resident(device));
            session.residents.push(Resident::send(artifact, here, device, there)?);
        }
        let loader = self.loader();
        for (region, &memory) in regions.iter().zip(memories) {
            let loaded = match memory {
                HOST => LoadedRegion::Host(loader.host(region, &self.common.tables.texts)?),
                at => {
                    let (code, at) = (artifact.code(region)?, at - 1);
                    LoadedRegion::Device(loader.device(region, code, &devices[at], &session.residents[at])?)
                }
            };
            let call = LoadedCall::new(region, loaded).watched(|| artifact.nodes_of(region), options.queueing)?;
            session.calls.push(call);
        }
        Ok(session)
    }

    /// A session with sizes that are known only at run time, or with control flow.
    fn staged(&self, entry: &Entry, staged: Staged, beside: Option<&Session>) -> Result<Session> {
        let ports = entry.outputs.iter().map(|port| {
            let ValueType { dtype, shape, list } = entry.values[port.value].clone();
            PortInfo { name: port.name.clone(), dtype, shape, list }
        });
        let mut later = Later {
            outputs: ports.zip(staged.outputs).collect(),
            sized: Vec::new(),
            stages: Vec::new(),
            constants: HashMap::new(),
            has_run: false,
            iterations: self.common.iterations.clone(),
        };
        for constant in &entry.constants {
            let bytes = self.common.artifact.constant(&constant.used, &format!("value {}", constant.value))?;
            later.constants.insert(constant.value, Constant::new(bytes, &entry.values[constant.value]));
        }
        if staged.stages.len() > MOST_STAGES {
            let (name, most) = (&entry.name, MOST_STAGES);
            let message = format!("entry '{name}' has more than {most} regions that tell sizes");
            return Err(Diagnostic::new(Code::RunFailed, message));
        }
        let mut head: Option<Session> = None;
        for Stage { entry: own, feeds, calls, behind } in staged.stages {
            let symbols = own.values.iter().flat_map(|value| dim::symbols(&value.shape)).collect();
            let session = self.stage(own, calls, head.as_ref().or(beside))?;
            match head {
                None => head = Some(session),
                Some(_) => later.stages.push(LaterStage { session, feeds, symbols }),
            }
            later.sized.extend(match behind {
                Some((Behind::Call(call), feeds)) => Some(self.sized(entry, call, feeds)?),
                Some((Behind::Control(index), feeds)) => {
                    Some(self.control(entry, &entry.control[index], feeds, head.as_ref())?)
                }
                None => None,
            });
        }
        let none = || Diagnostic::new(Code::RunFailed, "an entry has no stage");
        let mut head = head.ok_or_else(none)?;
        head.later = Some(Box::new(later));
        Ok(head)
    }

    fn sized(&self, entry: &Entry, call: usize, feeds: Vec<Place>) -> Result<SizedCall> {
        let region = self.regions[call];
        if let Some(kind) = &region.domain {
            let symbol = &region.symbol;
            let message = format!("region {symbol} has sizes that are known only at run time, and runs on {kind}");
            return Err(Diagnostic::new(Code::MissingRequirement, message).hint("Compile the model again"));
        }
        let bound = self.loader().host(region, &self.common.tables.texts)?;
        let loaded = LoadedCall::new(region, LoadedRegion::Host(bound));
        let loaded = loaded.watched(|| self.common.artifact.nodes_of(region), self.common.options.queueing)?;
        let outputs = entry.calls[call].outputs.iter().zip(&region.outputs);
        let outputs = outputs.map(|(&value, info)| Some((info.name.clone(), entry.values[value].clone()))).collect();
        Ok(SizedCall::new(What::Region(loaded), feeds, outputs))
    }

    fn control(
        &self,
        entry: &Entry,
        control: &Control,
        feeds: Vec<Place>,
        beside: Option<&Session>,
    ) -> Result<SizedCall> {
        let entries = &self.common.artifact.manifest().entries;
        let bodies = control.kind.bodies().into_iter().map(|body| self.common.load(&entries[body], beside));
        let what = match &control.kind {
            ControlKind::List(op) => {
                let of_list = control.inputs.first().is_some_and(|&value| entry.values[value].list.is_some());
                What::List(ListCall::new(control.name.clone(), op.clone(), of_list, self.common.tables.clone()))
            }
            kind => What::Control(ControlFlow::new(
                control.name.clone(),
                kind.clone(),
                bodies.collect::<Result<_>>()?,
                self.common.iterations.clone(),
            )),
        };
        let output = |(index, value): (usize, &Option<usize>)| {
            value.map(|value| (format!("{}, output {index}", control.name), entry.values[value].clone()))
        };
        let outputs = control.outputs.iter().enumerate().map(output).collect();
        Ok(SizedCall::new(what, feeds, outputs))
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
    // A missing backend is reported before a device that cannot be opened.
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
pub(super) fn check_processor(artifact: &Artifact) -> Result<()> {
    let needed = &artifact.manifest().requirements.cpu_features;
    let missing: Vec<_> = needed.iter().map(String::as_str).filter(|name| !cpu::has(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (path, missing) = (artifact.path().display(), missing.join(", "));
    let message = format!("'{path}' has constants packed for processors with {missing}, which this one lacks");
    Err(Diagnostic::new(Code::MissingRequirement, message).hint("Compile the model again on this machine"))
}

/// The entry of that name; where the user names none, the only one.
pub fn select_entry<'a>(manifest: &'a Manifest, name: Option<&str>) -> Result<&'a Entry> {
    let entries: Vec<&Entry> = manifest.callable().collect();
    let found = match name {
        Some(name) => entries.iter().copied().find(|entry| entry.name == name),
        None if entries.len() == 1 => entries.first().copied(),
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

//! Regions of a backend that runs in memory of a device: every byte that they could reach is put there before a run and
//! looked at after it. The first run is queued, those after it are recorded and replayed where that can be done. Where recordings are to
//! last, the region is prepared anew before that.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use byoc_core::plugin::{Registered, Selected};
use byoc_core::runtime::open_domain;
use byoc_plugin_api::{
    Backend, BoundConstant, DeviceConstant, DeviceConstants, DeviceExecutable, DeviceTensor, Domain, Environment,
    Error, Options,
};

use crate::memory::{GUARD_BYTE, Placed};
use crate::region::Bound;
use crate::report::{Step, Verdict};

/// Bytes before and after each tensor that nobody may write: as many as tensors are aligned to.
const GUARD: usize = 256;

/// What scratch memory holds before a run.
const LOST: u8 = 0xFF;

/// An open domain that cases share. Calls for it come one at a time.
type Shared = Arc<Mutex<Box<dyn Domain>>>;

/// The device that a backend's regions run on: opened by the first case that needs it.
pub(crate) struct Device {
    /// `None` where the regions run on the host.
    kind: Option<String>,
    /// Who may open it, the backend under test first.
    openers: Vec<(Registered, Options)>,
    open: OnceLock<Result<Shared, String>>,
}

fn lock(domain: &Shared) -> MutexGuard<'_, Box<dyn Domain>> {
    domain.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// The device of a backend's description.
    pub(crate) fn new(kind: Option<String>, openers: Vec<(Registered, Options)>) -> Device {
        Device { kind, openers, open: OnceLock::new() }
    }

    /// The backends that may open it.
    pub(crate) fn openers(&self) -> impl Iterator<Item = &Registered> {
        self.openers.iter().map(|(registered, _)| registered)
    }

    /// The open domain; `None` where the regions run on the host.
    pub(crate) fn domain(&self) -> Step<Option<&Shared>> {
        let Some(kind) = &self.kind else { return Ok(None) };
        match self.open.get_or_init(|| self.opened()) {
            Ok(domain) => Ok(Some(domain)),
            Err(reason) => Err(Verdict::Unsupported(format!("cannot open {kind}:0: {reason}"))),
        }
    }

    /// Opens it as core does.
    fn opened(&self) -> Result<Shared, String> {
        let openers = self.openers.iter().map(|(registered, options)| (registered, options.clone()));
        match open_domain(0, openers) {
            Ok((_, domain)) => Ok(Arc::new(Mutex::new(domain))),
            Err(Some((_, error))) => Err(error.message),
            Err(None) => Err("there is no backend of that kind".into()),
        }
    }
}

/// Memory of the device, given back at the end.
struct Memory {
    domain: Shared,
    addresses: Vec<u64>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut domain = lock(&self.domain);
        for &address in &self.addresses {
            // SAFETY: it came from this domain, and what uses it is gone.
            unsafe { domain.release(address) };
        }
    }
}

/// A tensor on the device with guard bytes around it.
struct Area {
    what: String,
    /// Of the first guard byte.
    address: u64,
    /// What all of it holds before a run.
    before: Vec<u8>,
    /// Where the tensor begins in that, and how many bytes it has.
    start: usize,
    len: usize,
    /// Whether a run may write to the tensor.
    writable: bool,
}

impl Area {
    /// Of the tensor.
    fn tensor(&self) -> u64 {
        self.address + self.start as u64
    }

    fn fill(&mut self, bytes: &[u8]) {
        self.before[self.start..self.start + self.len].copy_from_slice(bytes);
    }

    /// What is wrong with all of it as it is after a run.
    fn judge(&self, after: &[u8]) -> Result<(), Error> {
        let end = self.start + self.len;
        if after[..self.start] != self.before[..self.start] || after[end..] != self.before[end..] {
            return Err(Error::new(format!("it writes outside of {}", self.what)));
        }
        match self.writable || after[self.start..end] == self.before[self.start..end] {
            true => Ok(()),
            false => Err(Error::new(format!("it writes to {}", self.what))),
        }
    }
}

impl Memory {
    /// Memory for a tensor of `len` bytes that begins `offset` bytes behind an aligned address.
    fn area(
        &mut self,
        domain: &mut dyn Domain,
        what: String,
        len: usize,
        offset: usize,
        writable: bool,
    ) -> Result<Area, Error> {
        /// What no region of the kit has use for.
        const MOST: usize = 1 << 40;
        if len > MOST {
            return Err(Error::new(format!("{len} bytes are asked for")));
        }
        let bytes = GUARD + offset + len + GUARD;
        let address = domain.allocate(bytes as u64)?;
        self.addresses.push(address);
        Ok(Area { what, address, before: vec![GUARD_BYTE; bytes], start: GUARD + offset, len, writable })
    }
}

/// What stands between `plan` and the runs.
struct Prepared {
    inputs: Vec<Area>,
    outputs: Vec<Area>,
    scratch: Option<Area>,
    /// Whether runs may be recorded, and the recording.
    records: bool,
    /// Whether a recording is to last when the region is prepared anew.
    lasts: bool,
    recording: Option<u64>,
    runs: usize,
}

/// A loaded region. Its calls are calls for the domain too, so they are made while nobody else has it.
pub(crate) struct OnDevice<'a> {
    /// Gone when the rest goes.
    executable: Option<Box<dyn DeviceExecutable + 'a>>,
    constants: Vec<Area>,
    prepared: Option<Prepared>,
    memory: Memory,
}

/// Loads code with these constants, which are sent to the device.
pub(crate) fn load<'a>(
    selected: &Selected,
    options: &Options,
    domain: &Shared,
    code: &'a [u8],
    bound: &'a [Bound],
) -> Result<OnDevice<'a>, Error> {
    let mut memory = Memory { domain: domain.clone(), addresses: Vec::new() };
    let mut constants = Vec::new();
    let mut open = lock(domain);
    for bound in bound {
        // As far behind an aligned address as on the host: a part of a larger constant.
        let offset = bound.placed.view().as_ptr().addr() % 64;
        let bytes = bound.placed.bytes();
        let mut area = memory.area(&mut **open, format!("constant {}", bound.id), bytes.len(), offset, false)?;
        area.fill(bytes);
        constants.push(area);
    }
    let sent = send(&mut **open, constants.iter());
    open.synchronize()?;
    sent?;
    let on_device = bound.iter().zip(&constants).map(|(bound, area)| DeviceConstant {
        bound: BoundConstant { id: bound.id, layout: bound.layout.as_deref(), view: bound.placed.view() },
        address: area.tensor(),
    });
    let (on_device, handles) = (DeviceConstants::new(on_device.collect()), open.handles());
    let environment = Environment { threads: 2, options: options.clone() };
    let executable = selected.registered.backend.runtime().device()?.load(code, &on_device, &environment, &handles)?;
    Ok(OnDevice { executable: Some(executable), constants, prepared: None, memory })
}

/// Queues what is to be in memory before a run. It stays as it is until the domain has been waited for.
fn send<'a>(domain: &mut dyn Domain, areas: impl Iterator<Item = &'a Area>) -> Result<(), Error> {
    for area in areas {
        // SAFETY: both are of as many bytes, and whoever owns the area waits before it changes or goes.
        unsafe { domain.upload(area.address, area.before.as_ptr(), area.before.len())? };
    }
    Ok(())
}

fn tensors<'a>(areas: &[Area], placed: &'a [Placed], planned: bool) -> Vec<DeviceTensor<'a>> {
    let tensor = |(area, placed): (&Area, &'a Placed)| {
        let view = placed.view();
        DeviceTensor { address: if planned { area.tensor() } else { 0 }, dtype: view.dtype(), shape: view.shape() }
    };
    areas.iter().zip(placed).map(tensor).collect()
}

/// An error of a call, with its name.
fn named<T>(call: &str, result: Result<T, Error>) -> Result<T, Error> {
    result.map_err(|error| Error { message: format!("{call}: {}", error.message), ..error })
}

impl OnDevice<'_> {
    /// The region itself.
    fn region(&mut self) -> Result<&mut (dyn DeviceExecutable + '_), Error> {
        match &mut self.executable {
            Some(executable) => Ok(executable.as_mut()),
            None => Err(Error::new("the region is gone")),
        }
    }

    fn prepare(&mut self, domain: &mut dyn Domain, inputs: &[Placed], outputs: &[Placed]) -> Result<Prepared, Error> {
        let memory = &mut self.memory;
        let mut areas = |what: &str, placed: &[Placed], writable| {
            let area = |(index, placed): (usize, &Placed)| {
                memory.area(domain, format!("{what} {index}"), placed.bytes().len(), 0, writable)
            };
            placed.iter().enumerate().map(area).collect::<Result<Vec<_>, _>>()
        };
        let (ins, outs) = (areas("input", inputs, false)?, areas("output", outputs, true)?);
        let plan = self.region()?.plan(&tensors(&ins, inputs, false), &tensors(&outs, outputs, false));
        let plan = named("plan", plan)?;
        let scratch = match usize::try_from(plan.scratch) {
            Ok(0) => None,
            Ok(bytes) => Some(self.memory.area(domain, "scratch memory".into(), bytes, 0, true)?),
            Err(_) => return Err(Error::new(format!("it plans {} bytes of scratch memory", plan.scratch))),
        };
        let address = scratch.as_ref().map_or(0, Area::tensor);
        let prepared = self.region()?.prepare(&tensors(&ins, inputs, true), &tensors(&outs, outputs, true), address);
        named("prepare", prepared)?;
        let (records, lasts) = (plan.records && domain.info().records, plan.recordings_last);
        Ok(Prepared { inputs: ins, outputs: outs, scratch, records, lasts, recording: None, runs: 0 })
    }

    /// Runs once. How long the device was at it.
    pub(crate) fn run(&mut self, inputs: &[Placed], outputs: &mut [Placed]) -> Result<Duration, Error> {
        let domain = self.memory.domain.clone();
        let mut domain = lock(&domain);
        let mut prepared = match self.prepared.take() {
            Some(prepared) => prepared,
            None => self.prepare(&mut **domain, inputs, outputs)?,
        };
        let done = self.once(&mut **domain, &mut prepared, inputs, outputs);
        // What was queued before something failed must be done before its memory goes.
        let waited = domain.synchronize();
        self.prepared = Some(prepared);
        let time = done?;
        waited?;
        Ok(time)
    }

    fn once(
        &mut self,
        domain: &mut dyn Domain,
        prepared: &mut Prepared,
        inputs: &[Placed],
        outputs: &mut [Placed],
    ) -> Result<Duration, Error> {
        prepared.inputs.iter_mut().zip(inputs).for_each(|(area, placed)| area.fill(placed.bytes()));
        prepared.outputs.iter_mut().zip(&*outputs).for_each(|(area, placed)| area.fill(placed.bytes()));
        prepared.scratch.iter_mut().for_each(|area| area.fill(&vec![LOST; area.len]));
        send(domain, prepared.areas())?;
        if prepared.records && prepared.runs == 1 {
            prepared.recording = Some(self.record(domain)?);
            if prepared.lasts {
                // Elsewhere, where nothing is ever run: the replays are of what was recorded here.
                self.prepare(domain, inputs, outputs)?;
            }
        }
        domain.mark(0)?;
        match prepared.recording {
            Some(recording) => named("replay", domain.replay(recording))?,
            None => self.region()?.run()?,
        }
        domain.mark(1)?;
        prepared.runs += 1;
        let areas: Vec<&Area> = prepared.areas().chain(&self.constants).collect();
        let mut after: Vec<Vec<u8>> = areas.iter().map(|area| vec![0; area.before.len()]).collect();
        let mut queued = Ok(());
        for (area, after) in areas.iter().zip(&mut after) {
            // SAFETY: both are of as many bytes, which nobody looks at before the domain has been waited for.
            queued = queued.and_then(|()| unsafe { domain.download(after.as_mut_ptr(), area.address, after.len()) });
        }
        domain.synchronize()?;
        queued?;
        areas.iter().zip(&after).try_for_each(|(area, after)| area.judge(after))?;
        for (placed, (area, after)) in outputs.iter_mut().zip(areas.iter().zip(&after).skip(prepared.inputs.len())) {
            placed.bytes_mut().copy_from_slice(&after[area.start..area.start + area.len]);
        }
        let seconds = domain.elapsed(0, 1)?;
        Duration::try_from_secs_f64(seconds).map_err(|_| Error::new(format!("elapsed tells {seconds} seconds")))
    }

    /// Records a run.
    fn record(&mut self, domain: &mut dyn Domain) -> Result<u64, Error> {
        named("begin_recording", domain.begin_recording())?;
        let run = self.region().and_then(|region| region.run());
        let recording = domain.end_recording();
        named("run, while it is recorded", run)?;
        named("end_recording", recording)
    }
}

impl Prepared {
    /// All memory but that of constants: inputs, outputs, scratch memory.
    fn areas(&self) -> impl Iterator<Item = &Area> {
        self.inputs.iter().chain(&self.outputs).chain(&self.scratch)
    }
}

impl Drop for OnDevice<'_> {
    fn drop(&mut self) {
        let mut domain = lock(&self.memory.domain);
        if let Some(recording) = self.prepared.as_ref().and_then(|prepared| prepared.recording) {
            domain.forget(recording);
        }
        drop(self.executable.take());
    }
}

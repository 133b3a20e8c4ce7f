//! The state of an open domain: what is queued, what is recorded, and what time it is there. Nothing that is queued is
//! done before somebody waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use byoc_plugin_api::dlpack::DLDevice;
use byoc_plugin_api::{DomainHandles, Error};

use crate::host::{HostPlace, PageLocked};
use crate::log::Log;
use crate::memory::Memory;
use crate::run::Prepared;

/// DLPack's type of a device that it has no number for.
const EXTENSION_DEVICE: i32 = 12;

/// Seconds that a copy takes.
const COPY: f64 = 1e-3;

/// Seconds that a region takes for each byte of its outputs: a millisecond for a MiB.
const PER_BYTE: f64 = 1e-3 / (1 << 20) as f64;

/// What is queued.
pub(crate) enum Work {
    Upload { to: u64, from: HostPlace, bytes: usize },
    Download { to: HostPlace, from: u64, bytes: usize },
    Copy { to: u64, from: u64, bytes: usize },
    Run(Arc<Prepared>),
    Mark(u32),
}

/// A recording that is under way.
#[derive(Default)]
struct Recording {
    work: Vec<Arc<Prepared>>,
    /// What was called that may not be.
    broken: Option<String>,
}

/// An open domain.
pub(crate) struct Sim {
    pub(crate) log: Log,
    pub(crate) memory: Memory,
    pub(crate) host: PageLocked,
    /// The operator whose kernel faults.
    fault: String,
    queue: Vec<Work>,
    recording: Option<Recording>,
    recordings: BTreeMap<u64, Vec<Arc<Prepared>>>,
    recorded: u64,
    clock: f64,
    marks: BTreeMap<u32, f64>,
    /// The regions that are loaded, by number.
    regions: BTreeSet<usize>,
    loaded: usize,
    /// Why nothing can be done any more.
    lost: Option<String>,
}

/// The domains that are open, by the number that their handles have for a context.
static OPEN: Mutex<BTreeMap<usize, Arc<Mutex<Sim>>>> = Mutex::new(BTreeMap::new());

/// Puts a domain among those that are open; its number.
pub(crate) fn enter(sim: Sim) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(Mutex::new(sim)));
    number
}

/// Takes a domain from those that are open.
pub(crate) fn leave(number: usize) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
}

/// The handles of a domain.
pub(crate) fn handles(number: usize, ordinal: u32) -> DomainHandles {
    let device = DLDevice { device_type: EXTENSION_DEVICE, device_id: ordinal as i32 };
    DomainHandles { device, context: std::ptr::without_provenance_mut(number), queue: std::ptr::null_mut() }
}

/// The number of the domain that these handles are of.
pub(crate) fn number_of(handles: &DomainHandles) -> Result<usize, Error> {
    match handles.device.device_type {
        EXTENSION_DEVICE => Ok(handles.context.addr()),
        other => Err(Error::new(format!("the domain is one of devices of type {other}, and not of the simulator"))),
    }
}

/// Calls for an open domain. One call at a time is all that the contract allows.
pub(crate) fn with<T>(number: usize, call: impl FnOnce(&mut Sim) -> Result<T, Error>) -> Result<T, Error> {
    let found = OPEN.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
    let sim = found.ok_or_else(|| Error::new("the domain is closed"))?;
    match sim.try_lock() {
        Ok(mut sim) => call(&mut sim),
        Err(TryLockError::Poisoned(sim)) => call(&mut sim.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Error::new("there are two calls for the domain at a time")),
    }
}

impl Sim {
    pub(crate) fn new(log: Log, memory: Memory, fault: &str) -> Sim {
        Sim {
            log,
            memory,
            host: PageLocked::default(),
            fault: fault.to_owned(),
            queue: Vec::new(),
            recording: None,
            recordings: BTreeMap::new(),
            recorded: 0,
            clock: 0.0,
            marks: BTreeMap::new(),
            regions: BTreeSet::new(),
            loaded: 0,
            lost: None,
        }
    }

    /// Whether the device is there, for whatever is called.
    pub(crate) fn there(&self) -> Result<(), Error> {
        match &self.lost {
            Some(cause) => Err(Error::new(format!("the device is lost: {cause}"))),
            None => Ok(()),
        }
    }

    /// Whether the device is there and records nothing, for what cannot be recorded.
    pub(crate) fn idle(&mut self, what: &str) -> Result<(), Error> {
        self.there()?;
        let Some(recording) = &mut self.recording else { return Ok(()) };
        let text = format!("{what} was called during a recording");
        recording.broken.get_or_insert_with(|| text.clone());
        Err(Error::new(text))
    }

    /// Queues what is not recorded.
    pub(crate) fn queue(&mut self, work: Work) {
        self.queue.push(work);
    }

    /// Queues or records the run of a region.
    pub(crate) fn run(&mut self, prepared: &Arc<Prepared>) {
        match &mut self.recording {
            Some(recording) => recording.work.push(prepared.clone()),
            None => self.queue.push(Work::Run(prepared.clone())),
        }
    }

    /// Runs a region out of turn, as no device should.
    pub(crate) fn run_now(&mut self, prepared: &Arc<Prepared>) -> Result<(), Error> {
        self.work(Work::Run(prepared.clone()))
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    pub(crate) fn begin_recording(&mut self) -> Result<(), Error> {
        self.idle("begin_recording")?;
        self.recording = Some(Recording::default());
        Ok(())
    }

    pub(crate) fn end_recording(&mut self) -> Result<u64, Error> {
        self.there()?;
        let recording = self.recording.take().ok_or_else(|| Error::new("no recording has begun"))?;
        if let Some(broken) = recording.broken {
            return Err(Error::new(format!("the recording is lost: {broken}")));
        }
        self.recorded += 1;
        self.recordings.insert(self.recorded, recording.work);
        Ok(self.recorded)
    }

    pub(crate) fn replay(&mut self, recording: u64) -> Result<(), Error> {
        self.idle("replay")?;
        let work =
            self.recordings.get(&recording).ok_or_else(|| Error::new(format!("there is no recording {recording}")))?;
        self.queue.extend(work.iter().cloned().map(Work::Run));
        Ok(())
    }

    pub(crate) fn forget(&mut self, recording: u64) {
        self.recordings.remove(&recording);
    }

    pub(crate) fn elapsed(&self, from: u32, to: u32) -> Result<f64, Error> {
        self.there()?;
        let time =
            |mark| self.marks.get(&mark).ok_or_else(|| Error::new(format!("the queue has not passed mark {mark}")));
        Ok(time(to)? - time(from)?)
    }

    /// Does all that is queued, up to the first error, after which the device is lost.
    pub(crate) fn synchronize(&mut self) -> Result<(), Error> {
        let queue = std::mem::take(&mut self.queue);
        let done = queue.into_iter().try_for_each(|work| self.work(work));
        if let Err(error) = &done {
            self.lost = Some(error.message.clone());
        }
        done
    }

    fn work(&mut self, work: Work) -> Result<(), Error> {
        match work {
            // SAFETY: the host keeps what is queued to be copied as it is until it has synchronized.
            Work::Upload { to, from, bytes } => unsafe { from.read(self.memory.bytes_mut(to, bytes)?) },
            // SAFETY: as above.
            Work::Download { to, from, bytes } => unsafe { to.write(self.memory.bytes(from, bytes)?) },
            Work::Copy { to, from, bytes } => {
                let copied = self.memory.bytes(from, bytes)?.to_vec();
                self.memory.bytes_mut(to, bytes)?.copy_from_slice(&copied);
            }
            Work::Run(prepared) => {
                if !self.regions.contains(&prepared.region) {
                    return Err(Error::new(format!("{} is replayed, and was freed before", prepared.symbol)));
                }
                prepared.run(&mut self.memory, &self.fault)?;
                self.clock += prepared.output_bytes() as f64 * PER_BYTE * prepared.kernel.time;
                return Ok(());
            }
            Work::Mark(number) => {
                self.marks.insert(number, self.clock);
                return Ok(());
            }
        }
        self.clock += COPY;
        Ok(())
    }

    /// Takes a region in; its number.
    pub(crate) fn take_in(&mut self) -> usize {
        self.loaded += 1;
        self.regions.insert(self.loaded);
        self.loaded
    }

    /// Lets a region go. Its work must be done.
    pub(crate) fn let_go(&mut self, region: usize) -> Result<(), Error> {
        self.regions.remove(&region);
        let waiting = |work: &Work| matches!(work, Work::Run(prepared) if prepared.region == region);
        match self.queue.iter().any(waiting) {
            true => Err(Error::new("its work is still queued")),
            false => Ok(()),
        }
    }

    /// How many regions are loaded.
    pub(crate) fn regions(&self) -> usize {
        self.regions.len()
    }
}

//! Devices: the memory domains that backends open, with memory that is given back when it is no longer needed.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byoc_plugin_api::dlpack::CPU;
use byoc_plugin_api::{Backend, Domain, DomainHandles, DomainInfo, Error, OPENS_NO_DOMAIN, Options};

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin::{Registered, Registry};

/// The name of a device, such as `cuda:0`: a kind of memory, and which one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceName {
    /// The kind, as backends' descriptions have it.
    pub kind: String,
    /// Which one of that kind.
    pub ordinal: u32,
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.ordinal)
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<DeviceName, String> {
        let (kind, ordinal) = text.split_once(':').unwrap_or((text, "0"));
        match ordinal.parse() {
            Ok(ordinal) if !kind.is_empty() => Ok(DeviceName { kind: kind.into(), ordinal }),
            _ => Err("expected a kind of device and its number, such as cuda:0".into()),
        }
    }
}

/// An open device. Clones are the same one.
#[derive(Clone)]
pub struct Device {
    name: DeviceName,
    domain: Arc<Mutex<Box<dyn Domain>>>,
    queue_lock: QueueLock,
}

/// Lock of a device's queue: one session holds it for a run, so that a recording holds work of one session only.
#[derive(Clone, Default)]
pub(super) struct QueueLock(Arc<Mutex<()>>);

impl QueueLock {
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    /// Opens a device by the first backend of its kind that does; `options` are the settings of a backend's options.
    pub fn open(
        name: &DeviceName,
        registry: &Registry,
        options: &dyn Fn(&Registered) -> Result<Options>,
    ) -> Result<Device> {
        let of_kind = registry.backends.iter().filter(|it| it.description.domain.as_ref() == Some(&name.kind));
        let openers = of_kind.map(|it| Ok((it, options(it)?))).collect::<Result<Vec<_>>>()?;
        let (backend, error) = match open_domain(name.ordinal, openers) {
            Ok((_, domain)) if is_of(domain.handles(), name) => {
                let domain = Arc::new(Mutex::new(domain));
                return Ok(Device { name: name.clone(), domain, queue_lock: QueueLock::default() });
            }
            Ok((backend, _)) => {
                let backend = &backend.description.name;
                let message = format!("backend '{backend}' opened {name} and gave the handles of another device");
                return Err(Diagnostic::new(Code::PluginContract, message).hint("Report this to the plugin's maker"));
            }
            Err(Some(failed)) => failed,
            Err(None) => {
                let message = format!("no backend that was found opens {name}");
                return Err(Diagnostic::new(Code::MissingRequirement, message).hint(kinds(registry)));
            }
        };
        let message = format!("backend '{}' cannot open {name}: {}", backend.description.name, error.message);
        let joins_only = error.message == OPENS_NO_DOMAIN;
        let hint = joins_only.then(|| format!("Name the plugin of a backend that opens {} with --plugin", name.kind));
        Err(Diagnostic { code: Code::MissingRequirement, message, hint: hint.or(error.hint) })
    }

    /// Its name.
    pub fn name(&self) -> &DeviceName {
        &self.name
    }

    /// What it is.
    pub fn info(&self) -> DomainInfo {
        self.domain().info()
    }

    /// How backends join it.
    pub(super) fn handles(&self) -> DomainHandles {
        self.domain().handles()
    }

    /// The domain, for calls: one at a time.
    pub(super) fn domain(&self) -> MutexGuard<'_, Box<dyn Domain>> {
        // A panic while it was held cannot have left anything half done: every call is one of the domain's own.
        self.domain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock of the device's queue.
    pub(super) fn queue_lock(&self) -> QueueLock {
        self.queue_lock.clone()
    }

    /// Memory of the device; none for 0 bytes. `what` it is for is in the error.
    pub(super) fn allocate(&self, bytes: usize, what: &str) -> Result<DeviceMemory> {
        let address = match bytes {
            0 => 0,
            _ => self.domain().allocate(bytes as u64).map_err(|error| self.short(bytes, what, error))?,
        };
        Ok(DeviceMemory { device: self.clone(), address })
    }

    /// Host memory that the device reaches by itself.
    pub(super) fn allocate_host(&self, bytes: usize) -> Result<HostMemory> {
        let address = match bytes {
            0 => std::ptr::null_mut(),
            _ => self.domain().allocate_host(bytes).map_err(|error| self.short(bytes, "host memory", error))?,
        };
        if bytes > 0 {
            // Backends are given it as numbers, and it may hold anything.
            // SAFETY: the memory has that many bytes and is new.
            unsafe { address.write_bytes(0, bytes) };
        }
        Ok(HostMemory { device: self.clone(), address })
    }

    fn short(&self, bytes: usize, what: &str, error: Error) -> Diagnostic {
        let message = format!("{} has no {bytes} bytes for {what}: {}", self.name, error.message);
        Diagnostic { code: Code::Device, message, hint: error.hint }
    }

    /// An error of a call that is about no region.
    pub(super) fn failed(&self, doing: &str, error: Error) -> Diagnostic {
        let message = format!("{} cannot {doing}: {}", self.name, error.message);
        Diagnostic { code: Code::Device, message, hint: error.hint }
    }
}

/// A domain, and the backend that opened it.
pub type OpenedDomain<'a> = (&'a Registered, Box<dyn Domain>);

/// A backend that did not open a domain, and why.
pub type UnopenedDomain<'a> = (&'a Registered, Error);

/// Opens the device of that number by the first of these backends of its kind that does, each given with its options of
/// running. If all fail, the error is the first one of a backend that supports it, and `None` without backends.
pub fn open_domain<'a>(
    ordinal: u32,
    openers: impl IntoIterator<Item = (&'a Registered, Options)>,
) -> std::result::Result<OpenedDomain<'a>, Option<UnopenedDomain<'a>>> {
    let mut failed: Option<UnopenedDomain<'a>> = None;
    for (backend, options) in openers {
        match backend.backend.runtime().device().and_then(|device| device.open_domain(ordinal, &options)) {
            Ok(domain) => return Ok((backend, domain)),
            Err(error) => match &failed {
                Some((_, first)) if first.message != OPENS_NO_DOMAIN => {}
                _ => failed = Some((backend, error)),
            },
        }
    }
    Err(failed)
}

/// Whether handles are those of a device of that number, and not the host's.
fn is_of(handles: DomainHandles, name: &DeviceName) -> bool {
    handles.device.device_type != CPU.device_type && u32::try_from(handles.device.device_id) == Ok(name.ordinal)
}

fn kinds(registry: &Registry) -> String {
    let mut kinds: Vec<_> = registry.backends.iter().filter_map(|backend| backend.description.domain.clone()).collect();
    kinds.sort();
    kinds.dedup();
    match kinds.as_slice() {
        [] => "Name the plugin of such a backend with --plugin".into(),
        kinds => format!("There are backends for {}", kinds.join(", ")),
    }
}

/// Memory of a device, given back when it is dropped.
pub(super) struct DeviceMemory {
    device: Device,
    /// The first byte; 0 where there is none.
    pub(super) address: u64,
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.address != 0 {
            // SAFETY: it came from this domain, and its holder has waited for the work that uses it.
            unsafe { self.device.domain().release(self.address) };
        }
    }
}

/// Host memory that a device reaches by itself, given back when it is dropped.
pub(super) struct HostMemory {
    device: Device,
    address: *mut u8,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for HostMemory {}

impl HostMemory {
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.address
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.address
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if !self.address.is_null() {
            // SAFETY: it came from this domain, and its holder has waited for the work that uses it.
            unsafe { self.device.domain().release_host(self.address) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_kind_and_a_number() {
        let name = |text: &str| text.parse::<DeviceName>();
        assert_eq!(name("cuda:1"), Ok(DeviceName { kind: "cuda".into(), ordinal: 1 }));
        assert_eq!(name("cuda").map(|name| name.to_string()), Ok("cuda:0".into()));
        for wrong in ["", ":0", "cuda:", "cuda:x", "cuda:-1"] {
            let message = "expected a kind of device and its number, such as cuda:0";
            assert_eq!(name(wrong), Err(message.into()), "{wrong}");
        }
    }
}

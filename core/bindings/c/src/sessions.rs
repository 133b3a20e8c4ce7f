//! The sessions that are open, by number.

use std::collections::HashMap;
use std::ffi::CString;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::runtime::Session;
use byoc_plugin_api::DomainHandles;

use crate::port::Port;

/// An open session.
pub(crate) struct Open {
    /// What it takes.
    pub(crate) inputs: Vec<Port>,
    /// What it gives.
    pub(crate) outputs: Vec<Port>,
    /// The variant that it is, of a file that has some.
    pub(crate) variant: Option<CString>,
    /// The names and the handles of the devices that it uses.
    pub(crate) devices: Vec<(CString, DomainHandles)>,
    /// What runs.
    pub(crate) running: Mutex<Running>,
}

/// The part of a session that one call at a time may use.
pub(crate) struct Running {
    /// The entry.
    pub(crate) session: Session,
    /// What is known of each output of the last run.
    pub(crate) outputs: Vec<Output>,
    /// Whether outputs of devices are on the host, too.
    pub(crate) fetched: bool,
    /// Where the elements of the last run's outputs lie, as addresses: what a program may give back as an input.
    pub(crate) given: Vec<Range<usize>>,
}

/// An output of the last run.
#[derive(Clone, Default)]
pub(crate) struct Output {
    /// Whether it was looked at.
    pub(crate) is_there: bool,
    /// A copy, where it does not lie as C has it.
    pub(crate) copy: Vec<u8>,
}

static OPEN: LazyLock<RwLock<HashMap<u64, Arc<Open>>>> = LazyLock::new(RwLock::default);

/// Gives a session a number, which no other has or had.
pub(crate) fn add(open: Open) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    OPEN.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(open));
    number
}

/// The session of that number.
pub(crate) fn find(number: u64) -> Result<Arc<Open>> {
    OPEN.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned().ok_or_else(|| none(number))
}

/// Forgets a session. It is gone when the last call for it has ended.
pub(crate) fn remove(number: u64) -> Result<()> {
    let removed = OPEN.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    removed.map(drop).ok_or_else(|| none(number))
}

fn none(number: u64) -> Diagnostic {
    Diagnostic::new(Code::Usage, format!("there is no session {number}"))
        .hint("It was closed, or byoc_open never gave it")
}

impl Open {
    /// Waits until no other call uses the session. Errors where one of them ended by a panic.
    pub(crate) fn lock(&self) -> Result<std::sync::MutexGuard<'_, Running>> {
        let broken = |_| Diagnostic::new(Code::RunFailed, "an earlier call for this session ended by a defect of byoc");
        self.running.lock().map_err(broken)
    }
}

//! Passes on what backends tell while their regions are loaded and run.

use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock};

use super::answer::in_lines;
use crate::abi::{self, Slice};
use crate::events::keep;
use crate::events_table::EventSink;
use crate::job::Event;

/// Who listens, in this process.
type Listener = Arc<dyn Fn(Event) + Send + Sync>;
static LISTENER: RwLock<Option<Listener>> = RwLock::new(None);

/// From here on, what backends tell while their regions are loaded and run goes to `listener`, in place of the one before. It is called in the
/// thread that tells it, in the middle of a call of the backend: it must not use sessions of it, nor panic.
pub fn on_events(listener: impl Fn(Event) + Send + Sync + 'static) {
    // Those that are linked into this program.
    keep(SINK);
    *LISTENER.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(listener));
}

/// Passes on an event, as JSON. One that cannot be read is one of a later version.
pub fn pass_event(json: &[u8]) {
    let listener = LISTENER.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let (Some(listener), Ok(event)) = (listener, serde_json::from_slice(json)) {
        listener(in_lines(event));
    }
}

/// What is lent to plugins.
pub(super) const SINK: EventSink = EventSink { context: std::ptr::null_mut(), event };

extern "C" fn event(_: *mut c_void, json: Slice) -> i32 {
    // SAFETY: the plugin lends the bytes for this call.
    let json = unsafe { json.bytes() };
    // Nothing unwinds across the border.
    match std::panic::catch_unwind(|| pass_event(json)) {
        Ok(()) => abi::OK,
        Err(_) => abi::FAILED,
    }
}

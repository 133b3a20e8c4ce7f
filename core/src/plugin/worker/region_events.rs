//! Sends the host what a backend tells while a region is loaded or run here.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byoc_plugin_api::host;

use super::protocol::send_event;

/// The wire, and whether events may go over it: at other times an answer does, and a thread of the plugin must not write into it.
struct Wire {
    stream: UnixStream,
    is_open: bool,
}

/// Passes events on.
pub(super) struct Events(Arc<Mutex<Wire>>);

impl Events {
    /// Over that wire, while they are [open](Events::open).
    pub(super) fn over(stream: UnixStream) -> Events {
        let wire = Arc::new(Mutex::new(Wire { stream, is_open: false }));
        let events = Events(Arc::clone(&wire));
        host::on_events(move |event| {
            let mut wire = locked(&wire);
            if let (true, Ok(json)) = (wire.is_open, serde_json::to_vec(&event)) {
                // A host that is gone ends this process by itself.
                let _ = send_event(&mut wire.stream, &json);
            }
        });
        events
    }

    /// Lets them through for as long as the answer is there.
    pub(super) fn open(&self) -> Open<'_> {
        locked(&self.0).is_open = true;
        Open(self)
    }
}

/// While it is there, events go over the wire.
pub(super) struct Open<'a>(&'a Events);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        locked(&self.0.0).is_open = false;
    }
}

fn locked(wire: &Mutex<Wire>) -> MutexGuard<'_, Wire> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

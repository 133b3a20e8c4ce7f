//! What backends tell while their regions are loaded and run, with the region that it is about.

use byoc_plugin_api::{Event, host};

use crate::crash;

/// From here on, that goes to `listener`, in place of the one before, with the names of region and backend where they are known: what a thread
/// of a backend's own tells may be about any region that runs. It is called in the thread that tells it, in the middle of a run: it must not
/// use sessions, nor panic.
pub fn on_events(listener: impl Fn(Option<&str>, Event) + Send + Sync + 'static) {
    host::on_events(move |event| listener(crash::running(), event));
}

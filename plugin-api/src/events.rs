//! What a backend tells while its regions are loaded and run. While it compiles, [`Job`](crate::Job) has the same.

use std::sync::OnceLock;

use crate::abi::Slice;
use crate::events_table::EventSink;
use crate::job::Event;

/// The host's place for events.
struct Place(EventSink);

// SAFETY: by contract the function may be called from any thread.
unsafe impl Send for Place {}
// SAFETY: see above.
unsafe impl Sync for Place {}

static SINK: OnceLock<Place> = OnceLock::new();

/// Keeps the first place that is lent: every host of a process is the same one.
pub(crate) fn keep(sink: EventSink) {
    let _ = SINK.set(Place(sink));
}

/// Logs a line, from `load` or `run` or a thread of theirs: `byoc run --verbose` shows it with the names of backend and region. Where
/// nobody listens, nothing happens.
pub fn log(line: impl Into<String>) {
    tell(&Event::Log(line.into()));
}

/// Tells how far `load` or `run` is. In a worker process, any event is a sign of life: the time that a region has counts from the last
/// one.
pub fn progress(done: usize, total: usize, next: impl Into<String>) {
    tell(&Event::Progress { done: done as u64, total: total as u64, next: next.into() });
}

fn tell(event: &Event) {
    let (Some(Place(sink)), Ok(json)) = (SINK.get(), serde_json::to_vec(event)) else { return };
    // Whoever listens to a log has no say in the work.
    let _ = (sink.event)(sink.context, Slice::new(&json));
}

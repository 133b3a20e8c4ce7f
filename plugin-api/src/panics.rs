//! Calls of backends whose panics are caught, in plugins and in hosts, and where in the sources a panic was, which only a
//! panic hook is told. A plugin has a standard library of its own, and so a hook of its own.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use crate::error::{Error, panic_text};

/// Calls under way, in all threads.
static CALLS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Calls under way in this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The text and the place of panics that nobody has asked about. A backend may panic in a thread of its own and pass it on to
/// the one that called, so they are told apart by their text.
static PLACES: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// More panics than that at a time are not told apart.
const MOST: usize = 64;

/// Keeps panics of embedded backends from being printed: their text and their place stand in the error that they become. For
/// a program's start; other panics go to the hook that was there before. Panics of other threads while a backend is
/// being called count as the backend's: they may be its own.
#[cfg(feature = "host")]
pub fn quiet_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| match CALLS.load(Ordering::Relaxed) {
        0 => before(info),
        _ => note(info),
    }));
}

/// The same in a plugin, once; where the user wants to see where a panic came from, it is printed as well.
pub(crate) fn note_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_caught = DEPTH.get() > 0;
            if is_caught {
                note(info);
            }
            // A thread of the plugin's own may pass its panic on or not: what it says is printed.
            if !is_caught || std::env::var_os("RUST_BACKTRACE").is_some_and(|wish| wish != "0") {
                before(info);
            }
        }));
    });
}

fn note(info: &std::panic::PanicHookInfo<'_>) {
    // One without a text cannot be told from others.
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let Some(text) = text.or_else(|| payload.downcast_ref::<String>().cloned()) else { return };
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    if places.len() < MOST {
        places.push((text, place));
    }
}

/// The place of a panic of that text.
fn place_of(text: &str) -> Option<String> {
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let at = places.iter().position(|(known, _)| known == text)?;
    Some(places.swap_remove(at).1)
}

/// What the call gives; where it panics, an error of one line that says where, if that is known.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, Error> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    DEPTH.set(DEPTH.get() + 1);
    let answer = catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let text = panic_text(payload);
        let place = place_of(&text).map(|place| format!(" ({place})")).unwrap_or_default();
        let line = text.split(char::is_control).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
        Error { panicked: true, ..Error::new(format!("backend panicked: {}{place}", line.join(" "))) }
    });
    DEPTH.set(DEPTH.get() - 1);
    if CALLS.fetch_sub(1, Ordering::Relaxed) == 1 && answer.is_err() {
        // Of other threads of the backend, whose panics it did not pass on.
        PLACES.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
    answer
}

/// Runs what gives no answer; a panic ends here.
pub(crate) fn quietly(call: impl FnOnce()) {
    // There is nobody to tell.
    let _ = caught(call);
}

/// What a call gives that may fail by itself, too.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    caught(call)?
}

/// Something of a backend that lasts. Once a call of it has panicked it may be half done, so it is not called again.
pub(crate) struct Guard<T: ?Sized> {
    /// Taken when this is dropped.
    held: Option<Box<T>>,
    panicked: Option<Error>,
}

impl<T: ?Sized> Guard<T> {
    pub(crate) fn new(held: Box<T>) -> Guard<T> {
        Guard { held: Some(held), panicked: None }
    }

    /// What the call gives, unless it panics, or one before it has.
    pub(crate) fn call<R>(&mut self, call: impl FnOnce(&mut T) -> Result<R, Error>) -> Result<R, Error> {
        let (Some(held), None) = (&mut self.held, &self.panicked) else {
            let before = self.panicked.as_ref().map_or("", |error| error.message.as_str());
            return Err(Error::new(format!("it failed before and is not called again: {before}")));
        };
        caught(|| call(held)).map_err(|error| self.panicked.insert(error).clone())?
    }
}

impl<T: ?Sized> Drop for Guard<T> {
    fn drop(&mut self) {
        let held = self.held.take();
        quietly(|| drop(held));
    }
}

//! Code of a backend that ends the process while it runs a region: a fault, an abort, an `exit`. An opt-in handler finds out
//! which region it was.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{c_int, c_void, siginfo_t};

use crate::signals;

/// What the process ends by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A signal of that number.
    Signal(i32),
    /// A call of `exit`.
    Exit,
}

/// What says it, and gives the exit code.
static REPORT: OnceLock<fn(Ending, &str) -> i32> = OnceLock::new();

/// Faults, and what `abort` raises. The signal of files that are cut short has a handler of its own.
const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// What was done about each of the signals before.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

thread_local! {
    /// What this thread runs. Reading it takes no memory and no lock.
    static RUNNING: Cell<*mut String> = const { Cell::new(null_mut()) };
}

/// What some thread runs: a backend may have threads of its own.
static LAST: AtomicPtr<String> = AtomicPtr::new(null_mut());

/// While it is there, the thread runs what has that name.
pub(crate) struct Running {
    own: *mut String,
    before: *mut String,
}

/// The name for as long as the process lives: a handler may look at it whenever it is called. Equal names are one.
pub(crate) fn name(text: String) -> &'static String {
    static NAMES: Mutex<BTreeMap<String, &'static String>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(text).or_insert_with_key(|text| Box::leak(Box::new(text.clone())))
}

/// Says what the thread runs from here on.
pub(crate) fn enter(name: &'static String) -> Running {
    let own = std::ptr::from_ref(name).cast_mut();
    let before = RUNNING.replace(own);
    LAST.store(own, Ordering::Release);
    Running { own, before }
}

/// What this thread runs, or else what some thread runs.
pub(crate) fn running() -> Option<&'static str> {
    let own = RUNNING.get();
    let name = if own.is_null() { LAST.load(Ordering::Acquire) } else { own };
    // SAFETY: null, or a name of `name`, which is never freed.
    unsafe { name.as_ref() }.map(String::as_str)
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(self.before);
        // Where another thread has begun something since, that stays.
        let _ = LAST.compare_exchange(self.own, self.before, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// From here on, a region of a backend that ends the process in this one is told of: `report` is given how, with the names of
/// backend and region, and answers with the exit code. It may be called in a signal handler, so it may write to a descriptor, and may neither
/// allocate nor take a lock. What ends the process elsewhere goes to the handler that was there before. Off unless a program asks
/// for it, and under a sanitizer; a second call does nothing.
pub fn on_crashes(report: fn(Ending, &str) -> i32) {
    if signals::is_sanitized() || REPORT.set(report).is_err() {
        return;
    }
    // SAFETY: a `sigaction` of zeros is a valid one, and is filled before it is used; the handlers have the signatures that
    // are asked for.
    unsafe {
        let mut before: [libc::sigaction; SIGNALS.len()] = std::mem::zeroed();
        for (signal, before) in SIGNALS.iter().zip(&mut before) {
            libc::sigaction(*signal, std::ptr::null(), before);
        }
        // What was there has to be known before the first signal comes.
        if BEFORE.set(before).is_err() {
            return;
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
        // On the stack for signals, as the one of the language, to which stack overflows go.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for signal in SIGNALS {
            libc::sigaction(signal, &raw const action, null_mut());
        }
        libc::atexit(on_exit);
    }
}

/// Reports what is being run, if something is, and ends the process. Returns where nothing is.
fn told(ending: Ending) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let (Some(name), Some(report)) = (running(), REPORT.get()) else { return };
    if TOLD.swap(true, Ordering::Relaxed) {
        // Another thread reports it already, and ends the process.
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }
    let code = report(ending, name);
    // SAFETY: ends the process, with all of its threads.
    unsafe { libc::_exit(code) }
}

extern "C" fn on_exit() {
    told(Ending::Exit);
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    told(Ending::Signal(signal));
    let at = SIGNALS.iter().position(|known| *known == signal);
    // SAFETY: as this handler was called.
    unsafe { signals::pass_on(BEFORE.get().zip(at).map(|(before, at)| &before[at]), signal, info, context) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_runs_is_known_while_it_does() {
        let (outer, inner) = (name("outer".into()), name("inner".into()));
        // SAFETY: null, or one of the two names.
        let running = || unsafe { RUNNING.get().as_ref() }.map(String::as_str);
        assert_eq!(running(), None);
        let first = enter(outer);
        {
            let _second = enter(inner);
            assert_eq!(running(), Some("inner"));
            std::thread::scope(|scope| scope.spawn(|| assert_eq!(running(), None)).join()).expect("as it says");
        }
        assert_eq!(running(), Some("outer"));
        drop(first);
        assert_eq!(running(), None);
    }
}

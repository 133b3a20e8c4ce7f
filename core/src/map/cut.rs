//! Files that are truncated while they are mapped. Reading past the end raises SIGBUS; an opt-in handler finds out which
//! file it was.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};

use crate::signals;

/// A mapping, as the handler sees it. Slots are never freed, but used again; they are written under one lock.
struct Slot {
    /// The first address; 0 where the slot is free.
    start: AtomicUsize,
    end: AtomicUsize,
    /// The file's name, which is leaked while the slot is in use.
    name: AtomicPtr<u8>,
    name_length: AtomicUsize,
    next: AtomicPtr<Slot>,
}

static FIRST: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

/// What says it, and gives the exit code.
static REPORT: OnceLock<fn(&[u8]) -> i32> = OnceLock::new();

/// What was done about the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// From here on, a file that is cut short while it is in use ends the process with an exit code in place of a signal: where a
/// mapped file is read and its bytes are gone, `report` is given its name and answers with the code. It is called in a
/// signal handler, so it may write to a descriptor, and may neither allocate nor take a lock. Any other fault goes to the handler that
/// was there before. Off unless a program asks for it, once, at its start; a second call does nothing.
pub fn on_cut_files(report: fn(&[u8]) -> i32) {
    if REPORT.set(report).is_err() {
        return;
    }
    // SAFETY: a `sigaction` of zeros is a valid one, and is filled before it is used; the handler has the signature that
    // SA_SIGINFO asks for.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
        // On the stack for signals, as the one of the language, to which stack overflows go.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // What was there has to be known before the first signal comes.
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) == 0 && BEFORE.set(before).is_ok() {
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Lists a mapping of so many bytes. One call at a time.
pub(super) fn add(start: usize, bytes: usize, name: &[u8]) {
    let name: &'static mut [u8] = Box::leak(name.into());
    let slot = slots().find(|slot| slot.start.load(Ordering::Relaxed) == 0).unwrap_or_else(|| {
        let next = AtomicPtr::new(FIRST.load(Ordering::Relaxed));
        let [start, end, name_length] = [const { AtomicUsize::new(0) }; 3];
        let slot = Box::leak(Box::new(Slot { start, end, name: AtomicPtr::default(), name_length, next }));
        FIRST.store(slot, Ordering::Release);
        slot
    });
    slot.end.store(start + bytes, Ordering::Relaxed);
    slot.name_length.store(name.len(), Ordering::Relaxed);
    slot.name.store(name.as_mut_ptr(), Ordering::Relaxed);
    slot.start.store(start, Ordering::Release);
}

/// Takes a mapping off the list. One call at a time, and none of [`add`] meanwhile.
pub(super) fn remove(start: usize) {
    if let Some(slot) = slots().find(|slot| slot.start.load(Ordering::Relaxed) == start) {
        slot.start.store(0, Ordering::Release);
        let name = slot.name.swap(std::ptr::null_mut(), Ordering::Relaxed);
        let name = std::ptr::slice_from_raw_parts_mut(name, slot.name_length.load(Ordering::Relaxed));
        // SAFETY: `add` leaked it with this length. A handler looks at the name only where the fault was in this mapping,
        // which is not read any more.
        drop(unsafe { Box::from_raw(name) });
    }
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    // SAFETY: null, or a slot that was leaked.
    let at = |slot: *mut Slot| unsafe { slot.as_ref() };
    std::iter::successors(at(FIRST.load(Ordering::Acquire)), move |slot| at(slot.next.load(Ordering::Relaxed)))
}

/// The name of the file that is mapped at an address.
fn name_at(address: usize) -> Option<&'static [u8]> {
    let slot = slots().find(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        start != 0 && (start..slot.end.load(Ordering::Relaxed)).contains(&address)
    })?;
    let (name, length) = (slot.name.load(Ordering::Relaxed), slot.name_length.load(Ordering::Relaxed));
    // SAFETY: the faulting thread reads the mapping, so it is still listed.
    (!name.is_null()).then(|| unsafe { std::slice::from_raw_parts(name, length) })
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    // SAFETY: the system gives a valid description; only one of a fault has an address.
    let address = unsafe { if (*info).si_code > 0 { (*info).si_addr().addr() } else { 0 } };
    match (name_at(address), REPORT.get()) {
        (Some(name), Some(report)) if !TOLD.swap(true, Ordering::Relaxed) => {
            let code = report(name);
            // SAFETY: ends the process, with all of its threads.
            unsafe { libc::_exit(code) }
        }
        // Another thread reports it already, and ends the process.
        (Some(_), Some(_)) => loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        },
        // SAFETY: as this handler was called.
        _ => unsafe { signals::pass_on(BEFORE.get(), signal, info, context) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_mappings_that_are_there() {
        // Addresses at which no mapping of another test can be.
        let at = |index: usize| 1 + index * 16;
        for index in 0..3 {
            add(at(index), 8, format!("file {index}").as_bytes());
        }
        assert_eq!(name_at(at(1) + 7), Some(&b"file 1"[..]));
        assert_eq!(name_at(at(1) + 8), None);
        remove(at(1));
        assert_eq!(name_at(at(1)), None);
        assert_eq!((name_at(at(0)), name_at(at(2))), (Some(&b"file 0"[..]), Some(&b"file 2"[..])));
        add(at(5), 8, b"another");
        assert_eq!(name_at(at(5)), Some(&b"another"[..]));
        [0, 2, 5].into_iter().for_each(|index| remove(at(index)));
        assert_eq!(name_at(at(5)), None);
    }
}

//! Handlers of signals: what was there before, and whether a sanitizer has its own.

use libc::{c_int, c_void, siginfo_t};

/// Does what was done about a signal before a handler of ours was installed.
///
/// # Safety
///
/// It is called by that handler, with what that was given.
pub(crate) unsafe fn pass_on(
    before: Option<&libc::sigaction>,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    let handler = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: ends the process as if there were no handler: a fault comes again by itself once this returns, and what was
        // raised is raised again.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            if (*info).si_code <= 0 {
                libc::raise(signal);
            }
        }
        return;
    }
    // SAFETY: a handler that was installed before, with the signature that its flags say.
    unsafe {
        if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}

/// Whether this process has loaded the runtime of a sanitizer: it has handlers of its own, which say more than ours, and reserves
/// more addresses than there is memory.
pub(crate) fn is_sanitized() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let files = maps.lines().filter_map(|line| line.rsplit_once('/').map(|(_, file)| file));
    let runtimes = ["libasan.", "libtsan.", "libubsan.", "libclang_rt."];
    files.into_iter().any(|file| runtimes.iter().any(|name| file.starts_with(name)))
}

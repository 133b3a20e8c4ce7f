//! Errors that are told in a signal handler: one system call, no memory, no lock.

use std::io::{IoSlice, IsTerminal};
use std::sync::OnceLock;

use byoc_core::diagnostic::Code;

/// What is written before the line: a terminal may show a progress bar.
static BEFORE: OnceLock<&str> = OnceLock::new();

/// For before a handler is installed: what it may not find out by itself.
pub(crate) fn prepare() {
    let _ = BEFORE.set(if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" });
}

/// Writes an error in the form of all others, its message in parts. The exit code of its kind.
pub(crate) fn error(code: Code, message: [&[u8]; 4], hint: &str) -> i32 {
    let before = BEFORE.get().unwrap_or(&"").as_bytes();
    let [first, second, third, last] = message;
    let (code_id, hint) = (code.id().as_bytes(), hint.as_bytes());
    let line: [&[u8]; 11] =
        [before, b"error: [", code_id, b"] ", first, second, third, last, b"\n  hint: ", hint, b"\n"];
    // Bypasses the lock of `std`'s stderr.
    let _ = rustix::io::writev(std::io::stderr(), &line.map(IoSlice::new));
    code.exit().into()
}

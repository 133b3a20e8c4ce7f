//! Reports a file that another program truncates while it is mapped: one line as for any other error, in place of the end
//! by a signal.

use std::io::{IoSlice, IsTerminal};
use std::sync::OnceLock;

use byoc_core::diagnostic::Code;

/// What is written before the line: a terminal may show a progress bar.
static BEFORE: OnceLock<&str> = OnceLock::new();

/// From here on, such a file is reported.
pub(crate) fn watch() {
    let _ = BEFORE.set(if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" });
    byoc_core::on_cut_files(report);
}

/// Runs in a signal handler: one system call, no memory, no lock.
fn report(file: &[u8]) -> i32 {
    const HINT: &str =
        "Put the whole file back and try again; where files are replaced, rename the new one into its place";
    let code = Code::DamagedArtifact;
    let line = [
        BEFORE.get().unwrap_or(&"").as_bytes(),
        b"error: [",
        code.id().as_bytes(),
        b"] '",
        file,
        b"' was cut short while it was in use\n  hint: ",
        HINT.as_bytes(),
        b"\n",
    ];
    // Bypasses the lock of `std`'s stderr.
    let _ = rustix::io::writev(std::io::stderr(), &line.map(IoSlice::new));
    code.exit().into()
}

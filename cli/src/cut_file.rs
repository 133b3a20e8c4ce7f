//! What is said of a file that another program cuts short while it is in use: in place of the end by a signal, one line as of
//! any other error.

use std::fs::File;
use std::io::{IoSlice, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use byoc_core::diagnostic::Code;

/// The error output, without the lock and the buffers that the language puts before it.
static OUT: OnceLock<File> = OnceLock::new();

/// What is written before the line: a terminal may show a progress bar.
static BEFORE: OnceLock<&str> = OnceLock::new();

/// From here on, such a file is told of.
pub(crate) fn watch() {
    let error = std::io::stderr();
    if let Ok(out) = error.as_fd().try_clone_to_owned() {
        let _ = BEFORE.set(if error.is_terminal() { "\r\x1b[K" } else { "" });
        let _ = OUT.set(File::from(out));
        byoc_core::on_cut_files(report);
    }
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
    if let Some(mut out) = OUT.get() {
        let _ = out.write_vectored(&line.map(IoSlice::new));
    }
    code.exit().into()
}

//! What was called, a line each, in the order of the calls.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// The file that the environment names.
pub(crate) struct Log(Option<PathBuf>);

impl Log {
    pub(crate) fn of_environment() -> Log {
        Log(std::env::var_os("BYOC_SIMDEV_LOG").map(PathBuf::from))
    }

    /// Appends a line. Whoever reads it finds that it is missing, so failures are not told.
    pub(crate) fn line(&self, text: &str) {
        let Some(path) = &self.0 else { return };
        if let Ok(mut file) = File::options().append(true).create(true).open(path) {
            let _ = file.write_all(format!("{text}\n").as_bytes());
        }
    }
}

/// Panics where a test asks for it, in the call of that name.
pub(crate) fn panic_if(asked: &str, call: &str) {
    assert!(asked != call, "as asked in {call}");
}

/// Ends the process: only a mistake of the host leads here, in a call that gives no answer.
pub(crate) fn bug(text: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "the simulator ends this process: {text}");
    std::process::abort()
}

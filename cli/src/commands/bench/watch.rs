//! What a user sees and does while runs are measured: a progress line on a terminal, and Ctrl-C, which ends the measurement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_tools::bench::Observer;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use super::INTERRUPTED;
use crate::progress::Progress;
use crate::report::count;

/// Watches a measurement.
pub(super) struct Watch {
    interrupted: Arc<AtomicBool>,
    progress: Mutex<Progress>,
    /// The least time to measure for.
    seconds: f64,
}

impl Watch {
    /// From here on, Ctrl-C ends the measurement after the run that it is in, and a second one ends the program.
    pub(super) fn new(seconds: f64) -> Result<Watch> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // The order counts: the first signal finds the flag unset and passes the one that ends the program.
        flag::register_conditional_shutdown(SIGINT, INTERRUPTED.into(), interrupted.clone())
            .and_then(|_| flag::register(SIGINT, interrupted.clone()))
            .map_err(|error| Diagnostic::new(Code::Io, format!("cannot watch for Ctrl-C: {error}")))?;
        Ok(Watch { interrupted, progress: Mutex::new(Progress::new(None)), seconds })
    }
}

impl Observer for Watch {
    fn measured(&self, runs: usize, elapsed: Duration) {
        let runs = count(runs, "run");
        let (elapsed, seconds) = (elapsed.as_secs_f64(), self.seconds);
        let of = if seconds > 0.0 { format!(" of {seconds:.1}") } else { String::new() };
        let text = format!("measured {runs}, {elapsed:.1}{of} s; Ctrl-C ends it");
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).message(text);
    }

    fn stops(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

//! How often control flow may run its bodies in one run of an entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::diagnostic::{Code, Diagnostic, Result};

/// Counts the iterations of all loops and scans of an entry, nested ones included.
#[derive(Clone, Debug)]
pub(super) struct Iterations {
    most: Option<u64>,
    /// Of this run. A session is used by one thread at a time: nothing has to be ordered.
    done: Arc<AtomicU64>,
}

impl Iterations {
    /// None done, of at most so many in a run.
    pub(super) fn new(most: Option<u64>) -> Iterations {
        Iterations { most, done: Arc::default() }
    }

    /// A new run begins.
    pub(super) fn reset(&self) {
        self.done.store(0, Ordering::Relaxed);
    }

    /// One more; errors where that is one too many.
    pub(super) fn count(&self) -> Result<()> {
        let Some(most) = self.most else { return Ok(()) };
        if self.done.fetch_add(1, Ordering::Relaxed) >= most {
            let message = format!("the run takes more than {most} iterations");
            return Err(Diagnostic::new(Code::RunFailed, message)
                .hint("Raise --max-iterations, if the model is to run so long"));
        }
        Ok(())
    }
}

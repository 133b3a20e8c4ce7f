//! A progress line on stderr: only on a terminal, and only once it takes over half a second.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use byoc_core::atomic_file;
use byoc_core::compile::{Observer, Stage};
use byoc_core::diagnostic::Diagnostic;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::kept::Kept;
use crate::report;

/// Shorter work shows no progress line.
const PATIENCE: Duration = Duration::from_millis(500);

/// Shows progress and warnings, and writes or keeps the text form of stages.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Dropping it ends the wait for the moment to show the bar.
    done: Option<Sender<()>>,
    waiter: Option<JoinHandle<()>>,
    dump: Option<PathBuf>,
    /// The first error of writing text forms.
    failed: Option<Diagnostic>,
    kept: Option<String>,
    keep_text_of: Option<Stage>,
    warns: bool,
    logged: Kept<Logged>,
}

/// A line that a backend logged.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Logged {
    backend: String,
    /// With the region that it is about in front.
    text: String,
}

/// The files in `folder` that hold the text forms of the stages.
pub(crate) fn dump_files(dir: &Path) -> Vec<PathBuf> {
    Stage::ALL.iter().map(|&stage| dump_file(dir, stage)).collect()
}

fn dump_file(dir: &Path, stage: Stage) -> PathBuf {
    let number = Stage::ALL.iter().position(|&other| other == stage).unwrap_or(0) + 1;
    dir.join(format!("{number}-{}.txt", stage.name()))
}

impl Progress {
    /// Starts the clock. Text forms of stages go to the folder `dump`.
    pub(crate) fn new(dump: Option<PathBuf>) -> Progress {
        let bar = ProgressBar::hidden();
        let (done, waiter) = match report::shows_progress() {
            true => {
                let (bar, (done, wait)) = (bar.clone(), mpsc::channel());
                let show = move || {
                    if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                        bar.set_draw_target(ProgressDrawTarget::stderr());
                        bar.enable_steady_tick(Duration::from_millis(100));
                    }
                };
                (Some(done), Some(std::thread::spawn(show)))
            }
            false => (None, None),
        };
        Progress {
            bar,
            done,
            waiter,
            dump,
            failed: None,
            kept: None,
            keep_text_of: None,
            warns: true,
            logged: Kept::none(),
        }
    }

    /// Keeps the text form of `stage` for [`Progress::text`].
    pub(crate) fn keep_text(mut self, stage: Option<Stage>) -> Progress {
        self.keep_text_of = stage;
        self
    }

    /// Shows progress only: for repeated work.
    pub(crate) fn without_warnings(mut self) -> Progress {
        self.warns = false;
        self
    }

    /// What backends logged so far, the first lines of it.
    pub(crate) fn take_logged(&mut self) -> Kept<Logged> {
        std::mem::replace(&mut self.logged, Kept::none())
    }

    /// Shows a text in place of a bar.
    pub(crate) fn message(&mut self, text: String) {
        self.bar.set_style(ProgressStyle::default_spinner());
        self.bar.set_message(text);
    }

    /// The text form that was kept.
    pub(crate) fn text(&self) -> Option<&str> {
        self.kept.as_deref()
    }

    /// The error of writing a text form, if there was one.
    pub(crate) fn check(&mut self) -> Result<(), Diagnostic> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn write_dump(&self, stage: Stage, text: &str) -> Result<(), Diagnostic> {
        let Some(dir) = &self.dump else { return Ok(()) };
        std::fs::create_dir_all(dir).map_err(|error| Diagnostic::io(dir, "make the folder", &error))?;
        atomic_file::write(&dump_file(dir, stage), text.as_bytes())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done = None;
        if let Some(waiter) = self.waiter.take() {
            // The thread only waits and draws; a panic there does not affect the work.
            let _ = waiter.join();
        }
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn stage(&mut self, stage: Stage) {
        self.bar.set_style(ProgressStyle::default_spinner());
        self.bar.set_message(stage.name());
    }

    fn progress(&mut self, done: usize, total: usize, next: &str) {
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} {wide_msg}") {
            self.bar.set_style(style);
        }
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(next.to_owned());
    }

    fn log(&mut self, backend: &str, line: &str) {
        self.logged.push(Logged { backend: backend.to_owned(), text: line.to_owned() });
        if report::verbose() {
            self.bar.suspend(|| report::note(&format!("{backend}: {line}")));
        }
    }

    fn dump(&mut self, stage: Stage, text: &dyn Fn() -> String) {
        let keep = self.keep_text_of == Some(stage);
        if !keep && self.dump.is_none() {
            return;
        }
        let text = text();
        if let Err(error) = self.write_dump(stage, &text) {
            self.failed.get_or_insert(error);
        }
        if keep {
            self.kept = Some(text);
        }
    }

    fn warning(&mut self, warning: &Diagnostic) {
        if self.warns {
            self.bar.suspend(|| report::warning(warning));
        }
    }
}

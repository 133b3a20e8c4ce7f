//! What backends tell while regions are loaded and run: notes with `--verbose`, and a list for reports.

use std::sync::{Mutex, PoisonError};

use byoc_plugin_api::Event;
use serde::Serialize;

use crate::kept::Kept;
use crate::report;

/// A line that was told.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    /// The region, and whose it is, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    text: String,
}

static LINES: Mutex<Kept<Line>> = Mutex::new(Kept::none());

/// From here on, what is told is shown and kept.
pub(crate) fn watch() {
    byoc_core::on_events(|about, event| {
        let (text, is_kept) = match event {
            Event::Log(text) => (text, true),
            Event::Progress { done, total, next } => (format!("{done} of {total}: {next}"), false),
            // What a later version tells.
            _ => return,
        };
        if report::verbose() {
            let about = about.map(|about| format!("{about}: ")).unwrap_or_default();
            report::note(&format!("{about}{text}"));
        }
        if is_kept {
            let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(Line { about: about.map(str::to_owned), text });
        }
    });
}

/// The lines that were told so far.
pub(crate) fn take() -> Kept<Line> {
    std::mem::replace(&mut LINES.lock().unwrap_or_else(PoisonError::into_inner), Kept::none())
}

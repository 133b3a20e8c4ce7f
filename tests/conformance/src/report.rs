//! What came of the cases: one tag each, with a reason and a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tag {
    /// As it should be.
    Pass,
    /// Not as it should be; the reason says what was found.
    Fail,
    /// The backend refuses what the case is about, or there is nothing to compare with; the reason says so.
    Unsupported,
    /// It failed, and the vendor's file says that it would.
    ExpectedFailure,
}

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Tag::Pass => "pass",
            Tag::Fail => "fail",
            Tag::Unsupported => "unsupported",
            Tag::ExpectedFailure => "expected failure",
        })
    }
}

/// A case that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The backend; empty for cases of the whole plugin.
    pub backend: String,
    /// The name, unique within the backend.
    pub name: String,
    /// How it ended.
    pub result: Tag,
    /// What is no failure and worth knowing, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why, where it did not simply pass. One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The model that it failed on, as small as one was found, in a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Wall time of the case, in seconds.
    pub seconds: f64,
    /// Shortest wall time of one `run`, in seconds, where the case measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_per_call: Option<f64>,
    /// The least ratio of signal to noise of an output of 32 elements or more, in dB, where noise is what is asked of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_db: Option<f64>,
    /// How far the resident memory of the process grew at most while the case ran, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
}

/// All cases, in the order in which they ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The plugin file.
    pub plugin: String,
    /// Whether the plugin was refused at the handshake; nothing else was tried then.
    pub refused: bool,
    /// The cases.
    pub cases: Vec<Case>,
    /// What is no failure and worth knowing, a line each.
    pub notes: Vec<String>,
    /// Backend and name of cases that had nothing to say.
    #[serde(skip)]
    pub(crate) skipped: Vec<(String, String)>,
}

impl Case {
    /// A case without times.
    pub(crate) fn of(backend: &str, name: &str, result: Tag, reason: String) -> Case {
        let (backend, name) = (backend.to_owned(), name.to_owned());
        let (notes, reason) = (Vec::new(), Some(one_line(&reason)));
        Case {
            backend,
            name,
            result,
            notes,
            reason,
            model: None,
            seconds: 0.0,
            seconds_per_call: None,
            noise_db: None,
            peak_bytes: None,
        }
    }
}

impl Report {
    /// Number of cases that ended that way.
    pub fn count(&self, tag: Tag) -> usize {
        self.cases.iter().filter(|case| case.result == tag).count()
    }

    /// Cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| case.result == Tag::Fail)
    }
}

/// How a case ended, as the code of the case says it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It passed; the shortest time of one `run`, if it was measured.
    Pass(Option<Duration>),
    /// It failed.
    Fail(String),
    /// It failed, on a model that is given as a text.
    FailOn { reason: String, model: String },
    /// It cannot be asked of this backend.
    Unsupported(String),
    /// It says nothing that an earlier case has not said.
    Skip,
}

/// What is no failure and worth knowing, from where it is found to the case that is run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Noted>>);

/// What was noted in a case.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// A line each.
    pub(crate) texts: Vec<String>,
    /// The least ratio of signal to noise that was measured, in dB.
    pub(crate) noise_db: Option<f64>,
}

impl Notes {
    /// Notes it.
    pub(crate) fn add(&self, text: String) {
        self.noted().texts.push(text);
    }

    /// Notes a ratio of signal to noise, in dB.
    pub(crate) fn measured(&self, noise_db: f64) {
        let least = &mut self.noted().noise_db;
        *least = Some(least.map_or(noise_db, |least| least.min(noise_db)));
    }

    /// All of it, which is forgotten here.
    pub(crate) fn take(&self) -> Noted {
        std::mem::take(&mut self.noted())
    }

    /// As it was when that was taken.
    pub(crate) fn restore(&self, noted: Noted) {
        *self.noted() = noted;
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a part of a case: an error ends the case.
pub(crate) type Step<T = ()> = Result<T, Verdict>;

/// A failure that ends a case.
pub(crate) fn fail<T>(reason: impl std::fmt::Display) -> Step<T> {
    Err(Verdict::Fail(reason.to_string()))
}

/// Text that a person wrote, or a plugin, as one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

//! What a backend is asked to compile, and how it tells how far it is.

use serde::{Deserialize, Serialize};

use crate::constants::Constants;
use crate::error::Error;
use crate::options::Options;
use crate::region::Region;

/// A region to be compiled.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Job<'a> {
    /// The region.
    pub region: &'a Region,
    /// Its constants, as the backend has asked for them ([`crate::Description::constant_access`]).
    pub constants: &'a Constants<'a>,
    /// The backend's options.
    pub options: &'a Options,
    events: Option<&'a dyn Fn(Event)>,
}

/// What code generation gives beside the code. End a literal with `..Generated::default()`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generated {
    /// What the user should know about this code, a line each. Shown as warnings.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What [`crate::Backend::constant_updater`] wants to know of how the code was made, in the backend's own form; at most
    /// 64 MiB. It is not kept in the artifact.
    #[serde(skip)]
    pub learnt: Vec<u8>,
}

impl Generated {
    /// With something for [`crate::Backend::constant_updater`], as JSON.
    pub fn learnt(learnt: &impl Serialize) -> Result<Generated, Error> {
        Ok(Generated { learnt: serde_json::to_vec(learnt)?, ..Generated::default() })
    }
}

/// Something that happens while a backend compiles. A host ignores what it does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Event {
    /// A line for who wants to know what the backend does: `byoc compile --verbose` shows it.
    Log(String),
    /// How far the work is.
    Progress {
        /// Steps that are done.
        done: u64,
        /// All steps.
        total: u64,
        /// What comes next, in a few words.
        next: String,
    },
}

impl<'a> Job<'a> {
    /// A job whose events nobody hears.
    pub fn new(region: &'a Region, constants: &'a Constants<'a>, options: &'a Options) -> Job<'a> {
        Job { region, constants, options, events: None }
    }

    /// The same, with `events` called for each event.
    pub fn with_events(self, events: &'a dyn Fn(Event)) -> Job<'a> {
        Job { events: Some(events), ..self }
    }

    /// Logs a line.
    pub fn log(&self, line: impl Into<String>) {
        self.emit(Event::Log(line.into()));
    }

    /// Tells how far the work is. In a worker process, any event is a sign of life: the time that a backend has to answer
    /// counts from the last one.
    pub fn progress(&self, done: usize, total: usize, next: impl Into<String>) {
        self.emit(Event::Progress { done: done as u64, total: total as u64, next: next.into() });
    }

    /// Passes an event on.
    pub(crate) fn emit(&self, event: Event) {
        if let Some(events) = self.events {
            events(event);
        }
    }
}

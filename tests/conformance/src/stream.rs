//! How a child process tells its parent of cases: one JSON line an event, on its standard output.

use serde::{Deserialize, Serialize};

use crate::report::Case;

/// What stands before an event, so that nothing that a plugin prints is taken for one.
const MARK: &str = "\u{1}byoc-conformance ";

/// Something that happened in the child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A case begins. Should the process end within it, the next one goes on with case number `after`.
    Start { after: usize, backend: String, name: String },
    /// The case ended.
    End(Case),
    /// The case says nothing new.
    Skip { backend: String, name: String },
    /// The plugin was refused; nothing follows.
    Refused,
    /// The settings do not fit the plugin.
    Stopped { code: String, message: String, hint: Option<String> },
    /// Every case ended.
    Done,
}

impl Event {
    /// The event as a line of its own, whatever was printed before.
    pub(crate) fn line(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("\n{MARK}{json}\n")
    }

    /// The event that a line holds, if it is one.
    pub(crate) fn parse(line: &str) -> Option<Event> {
        serde_json::from_str(line.strip_prefix(MARK)?).ok()
    }
}

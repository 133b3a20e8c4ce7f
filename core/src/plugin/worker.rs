//! Workers: plugins describe, check and compile in processes of their own, so that a crash does not end
//! this one. Each plugin has one worker, the same program started once more; constants reach it as ranges of files that
//! both sides map. Where the host asks for it, its regions run there as well.

mod apart;
mod budget;
mod client;
mod ending;
mod protocol;
mod region_events;
mod regions;
mod server;
mod shared;
mod wait;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use self::budget::OutputBudget;
pub(super) use self::client::open;
pub use self::ending::{Group, end_process, end_with_parent};
pub use self::server::limit as limit_memory;

/// The argument that makes a program a worker. No user writes it.
const WORKER: &str = "__worker";

/// How workers are started, and what they may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// The program: one that calls [`serve_where_asked`].
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Timeout of a call without any output.
    pub time: Duration,
    /// Most bytes of memory of its own; 0 for what the machine has.
    pub memory: u64,
    /// Most bytes of code, and of packed constants, that it may write for a region; 0 for the default of [`OutputBudget`].
    pub output: u64,
    /// Whether regions run there as well, one at a time: a crash, a hang or too much memory ends a run, and this process goes on.
    /// Regions on devices, with texts or with sizes that only a run tells do not.
    pub runs: bool,
}

impl Isolation {
    /// Workers of `program`, which may be silent for five minutes and use what the machine has.
    pub fn by(program: PathBuf) -> Isolation {
        let time = Duration::from_secs(300);
        Isolation { program, arguments: vec![WORKER.into()], time, memory: 0, output: 0, runs: false }
    }
}

/// Serves the host that started this process as a worker, and does not come back then. The `main` of a program whose plugins compile in
/// workers of its own begins with it.
pub fn serve_where_asked() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == WORKER) {
        server::serve();
    }
}

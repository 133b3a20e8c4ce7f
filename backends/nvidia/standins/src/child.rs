//! Processes that the cases of a test start.

use std::path::Path;
use std::process::Command;

use crate::libraries::{both, shield, temporary};

/// Names what a child process does.
pub const ACTION: &str = "STANDIN_ACTION";

/// The folder that a child is given as the user's.
pub const FOLDER: &str = "STANDIN_FOLDER";

/// A child process to be.
pub struct Child(Command);

impl Child {
    /// A process that will do `action`, in an environment without any of CUDA.
    pub fn new(action: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("the running program has a path"));
        command.env(ACTION, action);
        for name in ["BYOC_CUDA_PATH", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"] {
            command.env_remove(name);
        }
        Child(command)
    }

    /// Sets a variable of its environment.
    pub fn with(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Child {
        self.0.env(name, value);
        self
    }

    /// What it prints, with `DIR` for that folder. It must end well.
    #[track_caller]
    pub fn output(mut self, folder: &Path) -> String {
        let output = self.0.output().expect("the running program can be started again");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*folder.to_string_lossy(), "DIR");
        assert!(output.status.success(), "{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
        text(&output.stdout).trim_end().to_owned()
    }
}

/// What a child of that action prints, and the log of what the stand-ins did.
pub fn tried(action: &str, settings: &[(&str, &str)]) -> (String, String) {
    let scratch = temporary();
    let log = scratch.path().join("log");
    let child = Child::new(action).with(FOLDER, both()).with("LD_LIBRARY_PATH", shield(scratch.path()));
    let child = settings.iter().fold(child, |child, (name, value)| child.with(name, value));
    let output = child.with("STANDIN_LOG", &log).output(both());
    (output, std::fs::read_to_string(log).expect("something was logged").trim_end().to_owned())
}

/// Prints a line for the process that started this one.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
pub fn say(line: &str) {
    println!("{line}");
}

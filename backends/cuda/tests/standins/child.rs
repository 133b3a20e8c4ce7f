//! What the processes do that the cases start, and how they are started.

use std::path::Path;
use std::process::Command;

use byoc_cuda::device;
use byoc_cuda::locate::{self, Place, Places};
use byoc_plugin_api::Error;

use crate::{domain, driver, join, products, recordings};

/// Names what a child process does.
pub(crate) const ACTION: &str = "STANDIN_ACTION";

/// The folder that a child is given as the user's.
pub(crate) const FOLDER: &str = "STANDIN_FOLDER";

/// A child process to be.
pub(crate) struct Child(Command);

impl Child {
    /// A process that will do `action`, in an environment without any of CUDA.
    pub(crate) fn new(action: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("the running program has a path"));
        command.env(ACTION, action);
        for name in ["BYOC_CUDA_PATH", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"] {
            command.env_remove(name);
        }
        Child(command)
    }

    /// Sets a variable of its environment.
    pub(crate) fn with(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Child {
        self.0.env(name, value);
        self
    }

    /// What it prints, with `DIR` for that folder. It must end well.
    #[track_caller]
    pub(crate) fn output(mut self, folder: &Path) -> String {
        let output = self.0.output().expect("the running program can be started again");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*folder.to_string_lossy(), "DIR");
        assert!(output.status.success(), "{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
        text(&output.stdout).trim_end().to_owned()
    }
}

/// Does what the process was started for.
pub(crate) fn act(action: &str) {
    let said = match action {
        "open" => open(&places()),
        "open-only" => open(&only()),
        "nvrtc" => nvrtc(&places()),
        "third-device" => locate::driver(&places()).and_then(|driver| device::one(&driver, 2)).map(|_| Vec::new()),
        "products" => products::act(),
        _ if action.starts_with("domain-") => domain::act(action),
        _ if action.starts_with("join-") => join::act(action),
        _ if action.starts_with("recordings-") => recordings::act(action),
        _ => driver::act(action),
    };
    match said {
        Ok(lines) => lines.iter().for_each(|line| say(line)),
        Err(error) => say(&told(error)),
    }
}

/// An error in one line.
pub(crate) fn told(error: Error) -> String {
    format!("{} ({})", error.message, error.hint.unwrap_or_default())
}

/// The error of a call that must fail, in one line.
pub(crate) fn refused<T>(result: Result<T, Error>) -> String {
    result.map_or_else(told, |_| "done".into())
}

/// The places of this process, and the user's folder before them.
pub(crate) fn places() -> Places {
    Places::of_process(std::env::var_os(FOLDER).as_deref().map(Path::new))
}

fn only() -> Places {
    let folders = std::env::var_os(FOLDER).expect("the case sets it");
    Places::only(std::env::split_paths(&folders).map(Place::Folder).collect())
}

/// Opens the driver and cublasLt, and tells what was found.
fn open(places: &Places) -> Result<Vec<String>, Error> {
    let driver = locate::driver(places)?;
    let mut lines = vec![driver.to_string(), locate::cublaslt(places, &driver)?.to_string()];
    lines.extend(device::all(&driver)?.iter().map(ToString::to_string));
    Ok(lines)
}

fn nvrtc(places: &Places) -> Result<Vec<String>, Error> {
    Ok(vec![locate::nvrtc(places)?.to_string()])
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn say(line: &str) {
    println!("{line}");
}

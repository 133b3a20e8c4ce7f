//! The `byoc` program as its users run it: a child process, its outputs and its exit code.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::places;

/// How long a program that was just written may be busy.
const BUSY: Duration = Duration::from_secs(10);

/// What a run of the program came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Results.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
}

/// The program. Cargo builds it with the tests of its own package (`cli/tests`); where only others are run it is built
/// here, once, and what is up to date stays. With `lto = "off"` cargo compiles a crate that only macros use otherwise than one that programs
/// use as well, and so all that uses those macros. `abi` uses `syn`: with it, each crate is what it is in a build of all tests.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = places::profile().join(format!("byoc{}", std::env::consts::EXE_SUFFIX));
        // Tests that are run without cargo use what is there.
        if let Some(cargo) = std::env::var_os("CARGO") {
            let release = places::profile().ends_with("release");
            let status = Command::new(cargo)
                .current_dir(places::checkout())
                .args(["test", "--quiet", "--no-run", "--workspace", "--test", "program", "--test", "abi"])
                .args(release.then_some("--release"))
                .arg("--target-dir")
                .arg(places::target())
                .status();
            assert!(status.is_ok_and(|status| status.success()), "the program does not build");
        }
        assert!(path.is_file(), "there is no {}", path.display());
        path
    })
}

/// A command that runs the program away from the user's own plugins and settings.
pub fn byoc(arguments: &[&str]) -> Command {
    let mut command = Command::new(path());
    command.args(arguments);
    isolate(&mut command);
    command
}

/// Keeps a command from finding the user's plugins, and from printing backtraces where the environment asks for them.
pub fn isolate(command: &mut Command) -> &mut Command {
    command.env_remove("BYOC_PLUGIN_PATH").env_remove("BYOC_PLUGIN_ALLOW");
    command.env("XDG_DATA_HOME", "/nonexistent").env("NO_COLOR", "1").env("RUST_BACKTRACE", "0")
}

/// Runs a command to its end. A program that this process has just written is busy for as long as another thread's child, which was
/// started meanwhile, has the file open for writing too: until it becomes the program that it runs.
pub fn outcome(command: &mut Command) -> Outcome {
    let start = Instant::now();
    let output = loop {
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && start.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(10));
            }
            ended => break ended,
        }
    };
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("stdout is text"),
        stderr: String::from_utf8(output.stderr).expect("stderr is text"),
    }
}

impl Outcome {
    /// The results of a run that must have gone well.
    #[track_caller]
    pub fn success(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        &self.stdout
    }

    /// Asserts that the run failed with this exit code and printed this and nothing else to stderr.
    #[track_caller]
    pub fn fails(&self, code: i32, stderr: &str) {
        assert_eq!((self.code, self.stderr.trim_end()), (Some(code), stderr));
        assert_eq!(self.stdout, "", "a failed run has no results");
    }
}

/// The text without the places in sources, ` (src/lib.rs:12:5)`, where panics were.
pub fn without_places(text: &str) -> String {
    let mut parts = text.split(" (");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((place, rest)) if place.contains(".rs:") => kept += rest,
            _ => kept += &format!(" ({part}"),
        }
    }
    kept
}

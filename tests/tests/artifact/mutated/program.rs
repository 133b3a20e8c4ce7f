//! Mutated files, through the program as users have it: whatever a verb is given, it ends in time, with an exit code that
//! `docs/cli.md` lists, and within its memory.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use byoc_tests::program::{isolate, path};

use super::sweep::LONGEST;

/// Most memory of a process, in KiB.
const MEMORY: u64 = 4 << 20;

/// What a verb is called with for a file; the first is shown as it is.
pub(crate) type Call<'a> = &'a [&'a str];

/// Runs the program on files of a folder. What must not happen is told.
pub(crate) fn ends_well(folder: &Path, call: Call<'_>, settings: &[(&str, &str)]) -> Result<i32, String> {
    let script = format!("ulimit -c 0; ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    isolate(&mut command).args(["-c", &script]).arg(path()).args(call).current_dir(folder);
    command.envs(settings.iter().copied()).stdin(Stdio::null());
    let errors = folder.join("stderr");
    let file = std::fs::File::create(&errors).expect("the folder is ours");
    let mut child = command.stdout(Stdio::null()).stderr(file).spawn().expect("there is a shell");
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("the child is ours") {
            Some(status) => break status,
            None if start.elapsed() > LONGEST => {
                child.kill().expect("the child is ours");
                child.wait().expect("the child is ours");
                return Err(format!("{call:?}: no end within {} s", LONGEST.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    match (status.code(), status.signal()) {
        // A panic that was caught is an error like any other, but nothing that a file may bring about.
        (Some(code @ 0..=6), _) => match std::fs::read_to_string(&errors) {
            Ok(text) if text.contains("panicked") => Err(format!("{call:?}: {}", text.replace('\n', " "))),
            _ => Ok(code),
        },
        (code, signal) => {
            let text = std::fs::read_to_string(&errors).unwrap_or_default().replace('\n', " ");
            Err(format!("{call:?}: exit code {code:?}, signal {signal:?}: {text}"))
        }
    }
}

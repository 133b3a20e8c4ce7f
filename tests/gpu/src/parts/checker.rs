//! The parts `correctness` and `kernels` once more, in a process under NVIDIA's memory checker, where the machine has it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use crate::args::Part;
use crate::bed::{Bed, PRODUCTS};
use crate::report::{Report, Result, failure};

/// The program. It comes with CUDA's toolkit.
const CHECKER: &str = "compute-sanitizer";

/// What it exits with where it found something.
const FOUND: &str = "86";

/// How many seconds it may take.
const LIMIT: u64 = 15 * 60;

/// What `timeout` of coreutils exits with when the time is over.
const OVER: i32 = 124;

pub(super) fn run(bed: &Bed, report: &mut Report) {
    let Some(checker) = find() else {
        return report.note(&format!("note  there is no {CHECKER} in PATH or CUDA_HOME/bin: memory was not checked"));
    };
    let begin = Instant::now();
    match start(bed, &checker) {
        // What does not end when it is told to is killed, and then the code is another one.
        Ok(output) if output.status.code() == Some(OVER) || begin.elapsed().as_secs() >= LIMIT => {
            report.note(&format!("note  {CHECKER} was not done after {LIMIT} s: memory was checked in part"));
        }
        found => report.check("memory checker", found.and_then(|output| verdict(&checker, output))),
    }
}

/// Where it is.
fn find() -> Option<PathBuf> {
    let folders = |name: &str| -> Vec<PathBuf> {
        std::env::var_os(name).map(|value| std::env::split_paths(&value).collect()).unwrap_or_default()
    };
    let homes = folders("CUDA_HOME").into_iter().map(|home| home.join("bin"));
    let usual = PathBuf::from("/usr/local/cuda/bin");
    let mut all = folders("PATH").into_iter().chain(homes).chain([usual]);
    all.find_map(|folder| Some(folder.join(CHECKER)).filter(|file| file.is_file()))
}

/// Small sizes, for it slows every access down. `timeout` ends the checker with all that it started.
fn start(bed: &Bed, checker: &Path) -> Result<Output> {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=10").arg(LIMIT.to_string()).arg(checker);
    // Calls that the driver refuses are not memory errors: libraries make some to find out what there is.
    command.args(["--tool", "memcheck", "--error-exitcode", FOUND, "--report-api-errors", "no"]);
    command.arg(std::env::current_exe()?);
    command.args(bed.plugin_arguments());
    command.args(["--device", &bed.device.to_string(), "--seed", &bed.seed.to_string()]);
    command.args(["--quick", "--only", &Part::Correctness.name()]);
    if bed.needs(PRODUCTS).is_ok() {
        command.args(["--only", &Part::Kernels.name()]);
    }
    Ok(command.output().map_err(|error| format!("cannot start {CHECKER} by timeout: {error}"))?)
}

/// What it says at its end.
fn verdict(checker: &Path, output: Output) -> Result<String> {
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let summary = text.lines().rev().find(|line| line.contains("ERROR SUMMARY")).unwrap_or("it gave no summary");
    let summary = summary.trim_start_matches(['=', ' ']);
    if output.status.success() && summary.ends_with(" 0 errors") {
        return Ok(format!("{summary} ({})", checker.display()));
    }
    let failed = text.lines().filter(|line| line.starts_with("FAIL") || line.starts_with("=========")).take(12);
    failure(format!("{summary}; {}\n{}", output.status, failed.collect::<Vec<_>>().join("\n")))
}

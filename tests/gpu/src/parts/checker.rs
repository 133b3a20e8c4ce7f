//! The part `correctness` once more, in a process under NVIDIA's memory checker, where the machine has it.

use std::path::PathBuf;
use std::process::Command;

use crate::args::Part;
use crate::bed::Bed;
use crate::report::{Report, Result, failure};

/// The program. It comes with CUDA's toolkit.
const CHECKER: &str = "compute-sanitizer";

/// What it exits with where it found something.
const FOUND: &str = "86";

pub(super) fn run(bed: &Bed, report: &mut Report) {
    match find() {
        Some(checker) => report.check("memory checker", check(bed, &checker)),
        None => report.note(&format!("note  there is no {CHECKER} in PATH or CUDA_HOME/bin: memory was not checked")),
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

/// Small sizes, for it slows every access down.
fn check(bed: &Bed, checker: &PathBuf) -> Result<String> {
    let mut command = Command::new(checker);
    command.args(["--tool", "memcheck", "--error-exitcode", FOUND]);
    command.arg(std::env::current_exe()?).arg("--plugin").arg(&bed.plugin);
    command.args(["--device", &bed.device.to_string(), "--seed", &bed.seed.to_string()]);
    command.args(["--quick", "--only", &Part::Correctness.name()]);
    let output = command.output()?;
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

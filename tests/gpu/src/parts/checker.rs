//! Some checks of each kind once more, each in a process under a tool of NVIDIA's, where the machine has it: memcheck finds
//! accesses to what is not allocated, racecheck threads of a block that use shared memory without a barrier between them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::Scope;
use crate::args::{Args, Part};
use crate::check::Check;
use crate::fixture::{BACKEND, Fixture, PRODUCTS};
use crate::report::{Report, Result, failure};

/// The program. It comes with CUDA's toolkit.
const CHECKER: &str = "compute-sanitizer";

/// What it exits with where it found something.
const FOUND: &str = "86";

/// How many seconds one check may take: the tools slow every access down.
const LIMIT: u64 = 150;

/// What is checked: the tool, the part and the beginning of the names of the checks.
const ALL: &[(&str, Part, &str)] = &[
    ("memcheck", Part::Probes, "a launch"),
    ("memcheck", Part::Correctness, "residual and bias f16"),
    ("memcheck", Part::Kernels, "compiled bias and GELU of erf f16"),
    ("memcheck", Part::Kernels, "compiled residual tf32"),
    ("memcheck", Part::Kernels, "compiled convolution f16"),
    ("memcheck", Part::Tiles, "64x64x64_12 wgmma f16 transposed short"),
    ("memcheck", Part::Tiles, "128x128x64_6 wgmma f16 batches"),
    ("memcheck", Part::Tiles, "128x256x64_4 wgmma f16 ring"),
    ("memcheck", Part::Tiles, "128x128x64_6 wgmma ping-pong f16 transposed ring"),
    ("memcheck", Part::Tiles, "64x128x64_6 wgmma split-4 f16 ring"),
    ("memcheck", Part::Tiles, "128x64x32_5 mma f16 transposed rows"),
    ("memcheck", Part::Attention, "attention, head sizes 4,"),
    ("memcheck", Part::Attention, "attention, head sizes 18,"),
    ("memcheck", Part::Attention, "attention, masks 3,"),
    ("memcheck", Part::Attention, "attention, warpgroups 3,"),
    ("racecheck", Part::Kernels, "compiled bias and GELU of erf f16"),
    ("racecheck", Part::Tiles, "32x64x64_5 mma f16 edges"),
    ("racecheck", Part::Tiles, "64x64x64_12 wgmma f16 transposed short"),
    ("racecheck", Part::Tiles, "64x64x64_8 wgmma split-2 f16 batches"),
    ("racecheck", Part::Tiles, "64x128x64_8 wgmma ping-pong f16 transposed short"),
    ("racecheck", Part::Attention, "attention, head sizes 4,"),
    ("racecheck", Part::Attention, "attention, warpgroups 1,"),
    ("racecheck", Part::Attention, "attention, head sizes 18,"),
    ("racecheck", Part::Attention, "attention, lengths, heads and scores 1,"),
];

/// Errors where a part has no check that begins so.
pub(super) fn checks(scope: &Scope, args: &Args) -> Result<Vec<Check>> {
    let fits = |part: Part| match part {
        Part::Correctness => scope.has(BACKEND),
        Part::Kernels | Part::Tiles => scope.has(PRODUCTS),
        _ => true,
    };
    let takes = |&&(_, part, name): &&(&str, Part, &str)| fits(part) && !(scope.quick && name.contains("wgmma"));
    let mut parts: Vec<(Part, Vec<String>)> = Vec::new();
    let mut named = |&(tool, part, begin): &(&'static str, Part, &'static str)| {
        if parts.iter().all(|(known, _)| *known != part) {
            parts.push((part, super::checks(part, args)?.into_iter().map(|check| check.name).collect()));
        }
        let mut names = parts.iter().filter(|(known, _)| *known == part).flat_map(|(_, names)| names);
        let name = names.find(|name| name.starts_with(begin)).cloned();
        let none = || format!("{} has no check '{begin}'", part.name());
        Ok((tool, part, begin, name.ok_or_else(none)?))
    };
    let all = ALL.iter().filter(takes).map(&mut named).collect::<Result<Vec<_>>>()?;
    let Some(checker) = find() else {
        let note = format!("note  there is no {CHECKER} in PATH or CUDA_HOME/bin: memory was not checked");
        return Ok(vec![Check::several(CHECKER, move |_, report| report.note(&note))]);
    };
    let check = |(tool, part, begin, name): (&'static str, Part, &str, String)| {
        let title = format!("{tool} of {}: {begin}", part.name());
        let told = title.clone();
        let checker = checker.clone();
        let work = move |fixture: &Fixture, report: &mut Report| {
            let found = start(fixture, &checker, tool, part, &name);
            report.check(&told, found.and_then(|output| verdict(tool, output)));
        };
        Check::several(title, work).within(LIMIT)
    };
    Ok(all.into_iter().map(check).collect())
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

/// Small sizes, where a part has such.
fn start(fixture: &Fixture, checker: &Path, tool: &str, part: Part, name: &str) -> Result<Output> {
    let mut command = Command::new(checker);
    // Calls that the driver refuses are not memory errors: libraries make some to find out what there is.
    command.args(["--tool", tool, "--error-exitcode", FOUND]);
    command.args(if tool == "memcheck" { &["--report-api-errors", "no"][..] } else { &[] });
    command.arg(std::env::current_exe()?);
    command.args(fixture.plugin_arguments());
    command.args(["--device", &fixture.device.to_string(), "--seed", &fixture.seed.to_string()]);
    command.args(["--only", &part.name(), "--alone", name, "--json"]);
    command.args((fixture.quick || matches!(part, Part::Kernels | Part::Correctness)).then_some("--quick"));
    Ok(command.output().map_err(|error| format!("cannot start {CHECKER}: {error}"))?)
}

/// What it says at its end.
fn verdict(tool: &str, output: Output) -> Result<String> {
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let summary = text.lines().rev().find(|line| line.contains("SUMMARY")).unwrap_or("it gave no summary");
    let summary = summary.trim_start_matches(['=', ' ']);
    let is_right = text.contains("\"ok\":true") && !text.contains("\"ok\":false");
    if output.status.success() && is_right && (summary.ends_with(" 0 errors") || summary.contains(": 0 hazards")) {
        return Ok(format!("{tool}: {summary}"));
    }
    let lines = text.lines().filter(|line| line.contains("\"ok\":false") || line.starts_with("=========")).take(12);
    failure(format!("{summary}; {}; {}", output.status, lines.collect::<Vec<_>>().join(" / ")))
}

//! The GPU suite: a program and plugins that are copied to a machine with a GPU, for the tests that need one. `docs/gpu.md`
//! says how, and describes each part. It makes its own models, with random weights and inputs.

mod args;
mod check;
mod direct;
mod fixture;
mod gpu;
mod kernel;
mod net;
mod parts;
mod processes;
mod random;
mod reopen;
mod report;
mod watch;
mod wrong;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use fastrand::Rng;

use crate::args::{Args, Part};
use crate::check::Check;
use crate::fixture::Fixture;
use crate::parts::times::bert::model::{LARGE, TINY, encoder};
use crate::processes::Job;
use crate::report::{Report, Result, failure};

/// The most checks at once, where the user does not say how many.
const AT_ONCE: usize = 12;

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(time);
    let done = match (&args.reopen, &args.write_model, &args.alone) {
        (Some(artifact), ..) => reopen::child(&args, artifact, seed),
        (_, Some(file), _) => {
            let onnx = encoder(&mut Rng::with_seed(seed), if args.quick { &TINY } else { &LARGE });
            std::fs::write(file, onnx).map_err(|error| format!("cannot write '{}': {error}", file.display()).into())
        }
        (.., Some(name)) => alone(&args, name, seed),
        _ => return suite(&args, seed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Does one check, in this process.
fn alone(args: &Args, name: &str, seed: u64) -> Result<()> {
    let &[part] = args.parts().as_slice() else { return failure("a check is of one part") };
    let check = parts::checks(part, args)?.into_iter().find(|check| check.name == name);
    let Some(check) = check else { return failure(format!("{} has no check '{name}'", part.name())) };
    let mut report = Report::new(args.json);
    match Fixture::new(args, seed, part.needs_cublaslt()) {
        Ok(fixture) => report.guard(name, |report| (check.work)(&fixture, report)),
        Err(error) if part == Part::Environment => report.check("plugin and device", Err(error)),
        Err(error) => report.check(name, Err(error)),
    }
    Ok(())
}

/// Does all checks that are asked for, each in a process of its own.
fn suite(args: &Args, seed: u64) -> ExitCode {
    let (mut report, start) = (Report::new(args.json), Instant::now());
    report.note(&format!("byoc GPU suite {}, seed {seed}", env!("CARGO_PKG_VERSION")));
    report.figure("seed", seed);
    if let Err(error) = all(args, seed, &mut report) {
        report.check("suite", Err(error));
    }
    report.end(start.elapsed());
    if report.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn all(args: &Args, seed: u64, report: &mut Report) -> Result<()> {
    // Where there is no device, this says so once.
    if args.prepare.is_none() && !args.list {
        part(Part::Environment, args, seed, report)?;
        if report.failures() > 0 {
            return Ok(());
        }
    }
    let mut count = 0;
    for one in args.parts().into_iter().filter(|part| args.list || *part != Part::Environment) {
        let start = Instant::now();
        report.note(&format!("\n{}", one.name()));
        count += part(one, args, seed, report)?;
        report.note(&format!("{:.1} s", start.elapsed().as_secs_f64()));
    }
    if count == 0 && !args.case.is_empty() {
        return failure(format!("no check has '{}' in its name; --list names them", args.case.join("' or '")));
    }
    Ok(())
}

/// The checks of a part that are asked for; how many there are.
fn part(part: Part, args: &Args, seed: u64, report: &mut Report) -> Result<usize> {
    let mut checks = match parts::checks(part, args) {
        Ok(checks) => checks,
        Err(error) => {
            report.check(&part.name(), Err(error));
            return Ok(1);
        }
    };
    if part != Part::Environment && !args.case.is_empty() {
        checks.retain(|check| args.case.iter().any(|text| check.name.contains(text.as_str())));
    }
    let count = checks.len();
    if args.list {
        checks.iter().for_each(|check| report.note(&format!("      {}", check.name)));
        return Ok(count);
    }
    let needs_cublaslt = args.prepare.is_none() && part.needs_cublaslt() && !checks.is_empty();
    if let Some(Err(error)) = needs_cublaslt.then(gpu::cublaslt) {
        report.check(&part.name(), Err(error));
        return Ok(count);
    }
    let turn = tempfile::NamedTempFile::new()?;
    let job = |check: Check| Job {
        arguments: arguments(args, part, &check.name, seed, turn.path().as_os_str().to_owned()),
        limit: args.limit.map_or(check.limit, Duration::from_secs),
        name: check.name,
    };
    let at_once = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE));
    processes::run(checks.into_iter().map(job).collect(), at_once, report);
    Ok(count)
}

/// The arguments of the process of a check.
fn arguments(args: &Args, part: Part, name: &str, seed: u64, turn: OsString) -> Vec<OsString> {
    let device = args.device.to_string();
    let texts = ["--json", "--only", &part.name(), "--alone", name, "--seed", &seed.to_string(), "--device", &device];
    let mut all: Vec<OsString> = texts.iter().map(OsString::from).collect();
    all.extend(["--turn".into(), turn]);
    all.extend(args.quick.then(|| "--quick".into()));
    all.extend(args.prepare.iter().flat_map(|arch| ["--prepare".into(), arch.into()]));
    all.extend(args.plugin.iter().flat_map(|file| ["--plugin".into(), file.into()]));
    all
}

/// A seed that is another one each time.
fn time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1000 + u64::from(since.subsec_millis())
}

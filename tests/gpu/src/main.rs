//! The GPU suite: a program and plugins that are copied to a machine with a GPU, for the tests that need one. `docs/gpu.md`
//! says how, and describes each part. It makes its own models, with random weights and inputs.

mod args;
mod direct;
mod fixture;
mod gpu;
mod net;
mod parts;
mod random;
mod reopen;
mod report;
mod watch;

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use fastrand::Rng;

use crate::args::Args;
use crate::fixture::Fixture;
use crate::parts::times::bert::model::{LARGE, TINY, encoder};
use crate::report::Report;

fn main() -> ExitCode {
    let args = Args::parse();
    let (mut report, start) = (Report::new(args.json), Instant::now());
    let seed = args.seed.unwrap_or_else(time);
    if let Some(artifact) = &args.reopen {
        return match reopen::child(&args, artifact, seed) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                Report::new(true).note(&error.to_string());
                ExitCode::FAILURE
            }
        };
    }
    if let Some(file) = &args.write_model {
        let onnx = encoder(&mut Rng::with_seed(seed), if args.quick { &TINY } else { &LARGE });
        return match std::fs::write(file, onnx) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                Report::new(true).note(&format!("cannot write '{}': {error}", file.display()));
                ExitCode::FAILURE
            }
        };
    }
    report.note(&format!("byoc GPU suite {}, seed {seed}", env!("CARGO_PKG_VERSION")));
    report.figure("seed", seed);
    match Fixture::new(&args, seed) {
        Ok(fixture) => parts(&fixture, &mut report),
        Err(error) => report.check("plugin and device", Err(error)),
    }
    report.end(start.elapsed());
    if report.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parts(fixture: &Fixture, report: &mut Report) {
    let name = &fixture.title;
    report.figure("device", name.as_str());
    report.figure("stand_in", fixture.is_stand_in());
    if fixture.is_stand_in() {
        report.note(&format!(
            "'{name}' is not a GPU: it computes on the CPU, and its times and sizes say nothing of one"
        ));
    }
    for part in fixture.args.parts() {
        let start = Instant::now();
        report.note(&format!("\n{}", part.name()));
        report.guard(&part.name(), |report| parts::run(part, fixture, report));
        report.note(&format!("{:.1} s", start.elapsed().as_secs_f64()));
    }
}

/// A seed that is another one each time.
fn time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1000 + u64::from(since.subsec_millis())
}

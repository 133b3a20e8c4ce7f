//! The GPU suite: one program and one plugin, which are carried to a machine with a GPU and show there what only a GPU
//! can. `docs/gpu.md` says how, and what each part shows. It makes its own models, of random weights and inputs.

mod args;
mod bed;
mod direct;
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
use crate::bed::Bed;
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
    match Bed::new(&args, seed) {
        Ok(bed) => parts(&bed, &mut report),
        Err(error) => report.check("plugin and device", Err(error)),
    }
    report.end(start.elapsed());
    if report.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parts(bed: &Bed, report: &mut Report) {
    let name = &bed.title;
    report.figure("device", name.as_str());
    report.figure("stand_in", bed.is_stand_in());
    if bed.is_stand_in() {
        report.note(&format!(
            "'{name}' is not a GPU: it computes on the CPU, and its times and sizes say nothing of one"
        ));
    }
    for part in bed.args.parts() {
        let start = Instant::now();
        report.note(&format!("\n{}", part.name()));
        report.guard(&part.name(), |report| parts::run(part, bed, report));
        report.note(&format!("{:.1} s", start.elapsed().as_secs_f64()));
    }
}

/// A seed that is another one each time.
fn time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1000 + u64::from(since.subsec_millis())
}

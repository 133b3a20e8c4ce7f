//! `byoc bench`: how long runs take.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use serde_json::json;

use crate::args::{Bench, FillMode, Inputs};
use crate::artifact::Digests;
use crate::execution::{self, Loaded, Profile};
use crate::report::{self, Table, duration, size};
use crate::statistics::Statistics;

/// Least number of runs where the user says nothing.
const RUNS: usize = 5;

/// Least time to measure for where the user says nothing.
const SECONDS: f64 = 3.0;

/// What was measured.
struct Measured {
    statistics: Statistics,
    /// The first run of all: it allocates.
    first: Duration,
    profile: Profile,
}

/// Runs the verb.
pub(crate) fn run(args: &Bench) -> Result<ExitCode> {
    let given = &args.execution.inputs;
    let inputs = Inputs { fill: Some(given.fill.unwrap_or(FillMode::Random)), ..given.clone() };
    let mut loaded = execution::load(&args.execution, &inputs, args.profile, Digests::AsAsked)?;
    let measured = measure(args, &mut loaded)?;
    let buffers = loaded.session.arena_bytes() as u64;
    let Measured { statistics, first, profile } = measured;
    let devices = loaded.devices();
    if args.json {
        let (regions, copies) = args.profile.then_some((profile.regions, profile.copies)).unzip();
        let mut answer = json!({
            "load_seconds": loaded.load_time.as_secs_f64(),
            "first_run_seconds": first.as_secs_f64(),
            "seconds": statistics,
            "buffer_bytes": buffers,
            "regions": regions,
        });
        if !devices.is_empty() {
            answer["copies"] = json!(copies);
            answer["devices"] = json!(devices);
        }
        report::print_json(&answer)?;
    } else {
        let mut text = table(&statistics);
        let load = duration(loaded.load_time);
        text += &format!("load {load}, first run {}, buffers {}\n", duration(first), size(buffers));
        text += &execution::devices_text(&devices);
        if args.profile {
            text += &format!("\n{}", profile.table());
        }
        report::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Bench, loaded: &mut Loaded) -> Result<Measured> {
    let runs = args.repeat.unwrap_or(if args.duration.is_some() { 1 } else { RUNS });
    let seconds = args.duration.unwrap_or(if args.repeat.is_some() { 0.0 } else { SECONDS });
    let mut first = None;
    for _ in 0..args.warmup {
        let time = loaded.run()?;
        first.get_or_insert(time);
    }
    if args.resident && first.is_none() {
        first = Some(loaded.run()?);
    }
    let (start, mut times, mut profile) = (Instant::now(), Vec::new(), Profile::default());
    while times.len() < runs || start.elapsed().as_secs_f64() < seconds {
        times.push(if args.resident { loaded.run_resident()? } else { loaded.run()? });
        if args.profile {
            profile.add(loaded.profile());
        }
    }
    let none = || Diagnostic::new(Code::Usage, "nothing is to be measured").hint("Give --repeat or --duration above 0");
    let statistics = Statistics::of(&times).ok_or_else(none)?;
    let first = first.or(times.first().copied()).unwrap_or_default();
    Ok(Measured { statistics, first, profile: profile.means(times.len()) })
}

fn table(statistics: &Statistics) -> String {
    let mut table = Table::new(&[">runs", ">mean", ">median", ">p90", ">p99", ">min", ">max"]);
    let Statistics { runs, mean, median, p90, p99, min, max } = *statistics;
    let times = [mean, median, p90, p99, min, max].map(|seconds| duration(Duration::from_secs_f64(seconds)));
    table.row([runs.to_string()].into_iter().chain(times));
    table.text()
}

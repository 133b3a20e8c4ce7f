//! `byoc bench`: how long runs take.

mod record;
mod tables;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::diagnostic::Result;
use byoc_tools::bench::{Format, Plan, measure};
use byoc_tools::ceilings::Ceilings;
use byoc_tools::fill::Fill;
use byoc_tools::process_memory::PeakMemory;
use byoc_tools::trace;

use self::record::Record;
use self::watch::Watch;
use crate::args::{Execution, SECOND, number};
use crate::artifact::Digests;
use crate::execution::{self, Need, Ready};
use crate::guard::{Guard, Written};
use crate::report;
use crate::threads::cores;

/// Exit code of a measurement that Ctrl-C ended, as shells have it.
const INTERRUPTED: u8 = 130;

/// Measure how long an artifact, or a model, takes
#[derive(clap::Args, Debug)]
#[command(next_display_order = SECOND, after_help = "Examples:\n  byoc bench model.byoc --duration 1 --threads 1\n  byoc bench model.byoc -i inputs.npz --profile")]
#[command(mut_arg("threads", |arg| arg.help("Threads of each session; 0: the cores, shared evenly among the sessions")))]
pub(crate) struct Args {
    /// Runs before the measured ones
    #[arg(long, value_name = "N", default_value_t = 3)]
    warmup: usize,
    /// Least number of measured runs of each session [default: 5, or 1 with --duration]
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Least time to measure for, in seconds; Ctrl-C ends it sooner, and what was measured is printed [default: 3, or 0 with
    /// --repeat]
    #[arg(long, value_name = "SECONDS", value_parser = number::seconds)]
    duration: Option<f64>,
    /// Sessions that run at once, each in a thread of its own, on one mapped file; without --threads they share the cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    streams: u16,
    /// Print that percentile as well (repeatable), such as 99.9: the least measured time that so many in a hundred runs did not
    /// exceed
    #[arg(long, value_name = "P", value_parser = number::percent)]
    percentile: Vec<f64>,
    /// Write the time of every measured run into this file: .csv or .json
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Print the mean time of each region, and of the steps in it where its backend tells them, with sums by operator and
    /// backend; regions on a device are then queued one by one and not replayed
    #[arg(long, conflicts_with = "sync_each")]
    profile: bool,
    /// Write what happened when in the last run into this file, for Perfetto and chrome://tracing: regions, the steps in them,
    /// copies. Runs are as with --profile
    #[arg(long, value_name = "TRACE.json", conflicts_with = "sync_each")]
    trace: Option<PathBuf>,
    /// Leave inputs on the devices that read them and outputs on those that compute them, and measure runs without those
    /// copies
    #[arg(long)]
    resident: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// What to run. Inputs that no file gives are filled at random.
    #[command(flatten)]
    execution: Execution,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let guard = Guard::of(Written::Text, args.samples.iter().chain(&args.trace)).execution(&args.execution);
    guard.check()?;
    let streams = usize::from(args.streams);
    let timed = args.profile || args.trace.is_some();
    let need = Need { fill: Some(Fill::Random), profile: timed, digests: Digests::AsAsked, streams };
    let Ready { loaded, beside, load_time, found, threads, variant } = execution::load(&args.execution, need)?;
    let guard = guard.reads_all(found);
    guard.check()?;
    let format = args.samples.as_deref().map(Format::of).transpose()?;
    let plan = Plan {
        warmup: args.warmup,
        repeat: args.repeat,
        duration: args.duration,
        profile: timed,
        resident: args.resident,
    };
    let mut sessions = vec![loaded];
    sessions.extend(beside);
    let measured = measure(&mut sessions, &plan, &Watch::new(plan.seconds())?)?;
    if let (Some(path), Some(format)) = (&args.samples, format) {
        guard.check()?;
        format.write(path, &measured.samples)?;
    }
    if let Some(path) = &args.trace {
        guard.check()?;
        trace::write(path, &measured.profile.spans)?;
    }
    let arena: usize = sessions.iter().map(|loaded| loaded.session.arena_bytes()).sum();
    let record = Record {
        args,
        plan: &plan,
        measured: &measured,
        load_time,
        threads,
        arena: arena as u64,
        memory: PeakMemory::now(arena as u64),
        ceilings: args.profile.then(|| Ceilings::measure(if threads == 0 { cores() } else { threads })),
        made_up: sessions[0].made_up.clone(),
        variant,
        devices: sessions.iter().flat_map(|loaded| loaded.session.devices()).collect(),
    };
    if args.json {
        report::print_json(&record.json()?)?;
    } else {
        report::print(&tables::text(&record))?;
    }
    Ok(if measured.interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

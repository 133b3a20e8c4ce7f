//! `byoc bench`: how long runs take.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use byoc_core::diagnostic::Result;
use byoc_tools::bench::{Measured, Plan, measure};
use byoc_tools::fill::Fill;
use byoc_tools::statistics::Statistics;
use byoc_tools::trace;
use serde_json::json;

use crate::args::{Execution, number};
use crate::artifact::Digests;
use crate::execution::{self, Need, Ready};
use crate::guard::Guard;
use crate::report::{self, Table, duration, size};

/// Measure how long an artifact, or a model, takes
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Runs before the measured ones
    #[arg(long, value_name = "N", default_value_t = 3)]
    warmup: usize,
    /// Least number of measured runs [default: 5]
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Least time to measure for, in seconds [default: 3 without --repeat, 0 with it]
    #[arg(long, value_name = "S", value_parser = number::seconds)]
    duration: Option<f64>,
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
    let guard = Guard::of(&args.trace).execution(&args.execution);
    guard.check()?;
    let timed = args.profile || args.trace.is_some();
    let need = Need { fill: Some(Fill::Random), profile: timed, digests: Digests::AsAsked };
    let Ready { mut loaded, load_time, found } = execution::load(&args.execution, need)?;
    let guard = guard.reads_all(found);
    guard.check()?;
    let plan = Plan {
        warmup: args.warmup,
        repeat: args.repeat,
        duration: args.duration,
        profile: timed,
        resident: args.resident,
    };
    let Measured { statistics, first, profile } = measure(&mut loaded, &plan)?;
    if let Some(path) = &args.trace {
        guard.check()?;
        trace::write(path, &profile.spans)?;
    }
    let buffers = loaded.session.arena_bytes() as u64;
    let devices = loaded.session.devices();
    if args.json {
        let sums = args.profile.then(|| (profile.operators(), profile.backends()));
        let (regions, copies) = args.profile.then_some((profile.regions, profile.copies)).unzip();
        let mut answer = json!({
            "load_seconds": load_time.as_secs_f64(),
            "first_run_seconds": first.as_secs_f64(),
            "seconds": statistics,
            "buffer_bytes": buffers,
            "regions": regions,
        });
        if let Some((operators, backends)) = sums {
            (answer["operators"], answer["backends"]) = (json!(operators), json!(backends));
        }
        if !devices.is_empty() {
            answer["copies"] = json!(copies);
            answer["devices"] = json!(devices);
        }
        report::print_json(&answer)?;
    } else {
        let mut text = table(&statistics);
        let load = duration(load_time);
        text += &format!("load {load}, first run {}, buffers {}\n", duration(first), size(buffers));
        text += &report::devices(&devices);
        if args.profile {
            text += &format!("\n{}", report::profile(&profile));
        }
        report::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(statistics: &Statistics) -> String {
    let mut table = Table::new(&[">runs", ">mean", ">median", ">p90", ">p99", ">min", ">max"]);
    let Statistics { runs, mean, median, p90, p99, min, max } = *statistics;
    let times = [mean, median, p90, p99, min, max].map(|seconds| duration(Duration::from_secs_f64(seconds)));
    table.row([runs.to_string()].into_iter().chain(times));
    table.text()
}

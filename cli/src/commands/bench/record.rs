//! A measurement with all that it takes to compare it with another: what was measured, by which program, and where.

use std::time::Duration;

use byoc_core::diagnostic::Result;
use byoc_core::runtime::DeviceUse;
use byoc_tools::bench::{Measured, Plan};
use byoc_tools::ceilings::Ceilings;
use byoc_tools::file;
use byoc_tools::process_memory::PeakMemory;
use byoc_tools::statistics::{Percentile, Sorted};
use serde_json::{Value, json};

use super::Args;
use crate::execution::Variant;
use crate::threads;

/// A measurement.
pub(super) struct Record<'a> {
    pub(super) args: &'a Args,
    pub(super) plan: &'a Plan,
    pub(super) measured: &'a Measured,
    pub(super) load_time: Duration,
    /// Of each session; 0 where the session chooses.
    pub(super) threads: usize,
    /// Bytes that all sessions have planned for values between regions.
    ///
    /// `buffer_bytes` of the report; `memory.arena_bytes` is the same number where the system tells how much memory was used.
    pub(super) arena: u64,
    pub(super) memory: Option<PeakMemory>,
    /// What the processor can do at most, beside a profile.
    pub(super) ceilings: Option<Ceilings>,
    pub(super) devices: Vec<DeviceUse>,
    /// Inputs that no file gives.
    pub(super) made_up: Vec<String>,
    /// Which variant it is, of a file that has some.
    pub(super) variant: Option<Variant>,
}

impl Record<'_> {
    /// The percentiles that were asked for.
    pub(super) fn percentiles(&self, sorted: &Sorted) -> Vec<Percentile> {
        self.args.percentile.iter().map(|&percent| sorted.percentile(percent)).collect()
    }

    pub(super) fn json(&self) -> Result<Value> {
        let Record { args, plan, measured, .. } = self;
        let execution = &args.execution;
        let sorted = measured.sorted();
        let (regions, copies) =
            args.profile.then(|| (measured.profile.regions.clone(), measured.profile.copies.clone())).unzip();
        let streams: Vec<_> = (0..usize::from(args.streams)).map(|stream| measured.of_stream(stream)).collect();
        let pairs =
            |pairs: &[(String, String)]| pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
        let mut answer = json!({
            "byoc": env!("CARGO_PKG_VERSION"),
            "file": execution.file.display().to_string(),
            "file_blake3": file::digest(&execution.file)?,
            "processor": threads::processor(),
            "cores": threads::cores(),
            "threads": if self.threads == 0 { threads::cores() } else { self.threads },
            "streams": args.streams,
            "options": {
                "entry": execution.entry,
                "warmup": plan.warmup,
                "repeat": plan.runs(),
                "duration_seconds": plan.seconds(),
                "resident": plan.resident,
                "profile": plan.profile,
                "backends": execution.backends.backend,
                "backend_options": pairs(&execution.backends.backend_opt),
                "devices": execution.devices.device.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "shapes": execution.shapes.shape,
                "dims": execution.shapes.dim,
                "inputs": execution.inputs.input.iter().flat_map(byoc_tools::inputs::Source::files).collect::<Vec<_>>(),
                "made_up_inputs": self.made_up,
                "seed": execution.inputs.seed,
            },
            "interrupted": measured.interrupted,
            "load_seconds": self.load_time.as_secs_f64(),
            "first_run_seconds": measured.first.as_secs_f64(),
            "seconds": sorted.as_ref().map(Sorted::statistics),
            "percentiles": sorted.as_ref().map(|sorted| self.percentiles(sorted)),
            "elapsed_seconds": measured.elapsed.as_secs_f64(),
            "runs_per_second": measured.runs_per_second(),
            "stream_seconds": streams,
            "buffer_bytes": self.arena,
            "memory": self.memory,
            "regions": regions,
        });
        Variant::add_to(self.variant.as_ref(), &mut answer);
        if args.profile {
            answer["operators"] = json!(measured.profile.operators());
            answer["backends"] = json!(measured.profile.backends());
            answer["ceilings"] = json!(self.ceilings);
        }
        if !self.devices.is_empty() {
            answer["copies"] = json!(copies);
            answer["devices"] = json!(self.devices);
        }
        Ok(answer)
    }
}

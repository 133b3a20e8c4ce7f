//! A loaded entry with its inputs: what `run`, `bench` and `verify` begin with.

use std::time::{Duration, Instant};

use byoc_core::diagnostic::Result;
use byoc_core::overwrite::Input;
use byoc_core::runtime::{CopyTime, LoadOptions, RegionTime, Session};
use byoc_plugin_api::TensorView;
use byoc_tools::tensor::Tensor;
use serde::Serialize;

use crate::args::{Execution, Inputs};
use crate::artifact::Digests;
use crate::report::{self, Table};
use crate::{artifact, inputs};

/// A loaded entry with its inputs.
pub(crate) struct Loaded {
    /// The entry.
    pub(crate) session: Session,
    /// One tensor for each of its inputs.
    pub(crate) inputs: Vec<Tensor>,
    /// How long opening and loading took, compiling not counted.
    pub(crate) load_time: Duration,
    /// Files that were read though the command line does not name them.
    pub(crate) found: Vec<Input>,
}

/// How long a region took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RegionSeconds {
    region: String,
    backend: String,
    seconds: f64,
}

/// A value that was copied between memories.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CopySeconds {
    value: String,
    from: String,
    to: String,
    bytes: u64,
    seconds: f64,
}

/// Where the time of runs went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Profile {
    pub(crate) regions: Vec<RegionSeconds>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) copies: Vec<CopySeconds>,
}

/// What an entry takes of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DeviceBytes {
    device: String,
    constant_bytes: usize,
    arena_bytes: usize,
    recordings: usize,
    unrecorded: Vec<String>,
}

/// Opens and loads the entry, and gathers its inputs, with `flags` in place of the command line's own. With `profile` the
/// time of each region is taken, which keeps those on a device from being replayed together.
pub(crate) fn load(execution: &Execution, flags: &Inputs, profile: bool, digests: Digests) -> Result<Loaded> {
    let mut opened = artifact::open(execution, digests)?;
    let start = Instant::now();
    let options = LoadOptions {
        entry: execution.entry.clone(),
        threads: execution.threads,
        constants_from: execution.constants_from.clone(),
        devices: execution.devices.device.clone(),
        run_options: opened.run_options.clone(),
        queueing: execution.devices.queueing(profile),
    };
    let (open_sizes, found) = (opened.open_sizes.clone(), std::mem::take(&mut opened.found));
    let session = opened.load(&execution.file, &options)?;
    let load_time = start.elapsed();
    let inputs = inputs::gather(&session.inputs(), flags, &open_sizes)?;
    Ok(Loaded { session, inputs, load_time, found })
}

impl Loaded {
    /// Runs once.
    pub(crate) fn run(&mut self) -> Result<Duration> {
        let views = views(&self.inputs)?;
        let start = Instant::now();
        self.session.run(&views)?;
        Ok(start.elapsed())
    }

    /// Runs once, with inputs and outputs that stay on devices where they can.
    pub(crate) fn run_resident(&mut self) -> Result<Duration> {
        let views = views(&self.inputs)?;
        let start = Instant::now();
        self.session.run_resident(&views)?;
        Ok(start.elapsed())
    }

    /// Where the time of the last run went.
    pub(crate) fn profile(&self) -> Profile {
        let region = |time: RegionTime| RegionSeconds {
            region: time.symbol,
            backend: time.backend,
            seconds: time.time.as_secs_f64(),
        };
        let copy = |copy: CopyTime| CopySeconds {
            value: copy.value,
            from: copy.from,
            to: copy.to,
            bytes: copy.bytes,
            seconds: copy.time.as_secs_f64(),
        };
        let (regions, copies) = (self.session.times(), self.session.copies());
        Profile { regions: regions.into_iter().map(region).collect(), copies: copies.into_iter().map(copy).collect() }
    }

    /// What the entry takes of each device.
    pub(crate) fn devices(&self) -> Vec<DeviceBytes> {
        let device = |it: byoc_core::runtime::DeviceUse| DeviceBytes {
            device: it.device.to_string(),
            constant_bytes: it.constant_bytes,
            arena_bytes: it.arena_bytes,
            recordings: it.recordings,
            unrecorded: it.unrecorded,
        };
        self.session.devices().into_iter().map(device).collect()
    }
}

/// The tensors as a run takes them.
pub(crate) fn views(tensors: &[Tensor]) -> Result<Vec<TensorView<'_>>> {
    tensors.iter().map(Tensor::view).collect()
}

impl Profile {
    /// Adds the times of another run.
    pub(crate) fn add(&mut self, run: Profile) {
        if self.regions.is_empty() {
            *self = run;
            return;
        }
        self.regions.iter_mut().zip(run.regions).for_each(|(sum, time)| sum.seconds += time.seconds);
        self.copies.iter_mut().zip(run.copies).for_each(|(sum, time)| sum.seconds += time.seconds);
    }

    /// The sums over `runs` runs as means.
    pub(crate) fn means(mut self, runs: usize) -> Profile {
        let seconds = self.regions.iter_mut().map(|time| &mut time.seconds);
        seconds.chain(self.copies.iter_mut().map(|time| &mut time.seconds)).for_each(|sum| *sum /= runs.max(1) as f64);
        self
    }

    /// The times as a table: regions in their order, then what was copied between memories.
    pub(crate) fn table(&self) -> String {
        let times = self.regions.iter().map(|time| time.seconds);
        let total: f64 = times.chain(self.copies.iter().map(|time| time.seconds)).sum();
        let cells = |seconds: f64| {
            let share = if total > 0.0 { 100.0 * seconds / total } else { 0.0 };
            [report::duration(Duration::from_secs_f64(seconds)), format!("{share:.1}%")]
        };
        let mut table = Table::new(&["region", "backend", ">time", ">share"]);
        for time in &self.regions {
            let [duration, share] = cells(time.seconds);
            table.row([&time.region, &time.backend, &duration, &share]);
        }
        let mut text = table.text();
        if !self.copies.is_empty() {
            let mut table = Table::new(&["copy of", "from", "to", ">size", ">time", ">share"]);
            for copy in &self.copies {
                let [duration, share] = cells(copy.seconds);
                table.row([&copy.value, &copy.from, &copy.to, &report::size(copy.bytes), &duration, &share]);
            }
            text += &format!("\n{}", table.text());
        }
        text
    }
}

/// What an entry takes of its devices, a line each.
pub(crate) fn devices_text(devices: &[DeviceBytes]) -> String {
    let line = |it: &DeviceBytes| {
        let (constants, arena) = (report::size(it.constant_bytes as u64), report::size(it.arena_bytes as u64));
        let recordings = match it.recordings {
            0 => String::new(),
            number => format!(", {} replayed", report::count(number, "recording")),
        };
        let unrecorded: String =
            it.unrecorded.iter().map(|why| format!("{}: not recorded: {why}\n", it.device)).collect();
        format!("{}: constants {constants}, values and scratch {arena}{recordings}\n{unrecorded}", it.device)
    };
    devices.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(a: f64, b: f64, copied: f64) -> Profile {
        let region =
            |(region, seconds): (&str, f64)| RegionSeconds { region: region.into(), backend: "gpu".into(), seconds };
        let (value, from, to) = ("x".into(), "host".into(), "cuda:0".into());
        Profile {
            regions: [("r0", a), ("r1", b)].map(region).into(),
            copies: vec![CopySeconds { value, from, to, bytes: 2000, seconds: copied }],
        }
    }

    #[test]
    fn the_profile_shows_means_and_shares() {
        let mut sums = Profile::default();
        sums.add(profile(0.001, 0.003, 0.001));
        sums.add(profile(0.003, 0.005, 0.003));
        let means = sums.means(2);
        assert_eq!(means, profile(0.002, 0.004, 0.002));
        let expected = "region  backend     time  share\n\
                        r0      gpu      2.00 ms  25.0%\n\
                        r1      gpu      4.00 ms  50.0%\n\
                        \n\
                        copy of  from  to        size     time  share\n\
                        x        host  cuda:0  2.0 KB  2.00 ms  25.0%\n";
        assert_eq!(means.table(), expected);
        let on_host = Profile { copies: Vec::new(), ..profile(0.0, 0.0, 0.0) };
        let expected = "region  backend     time  share\n\
                        r0      gpu      0.00 µs   0.0%\n\
                        r1      gpu      0.00 µs   0.0%\n";
        assert_eq!(on_host.table(), expected);
    }

    #[test]
    fn devices_are_a_line_each_with_why_nothing_is_replayed() {
        let mut device = DeviceBytes {
            device: "cuda:0".into(),
            constant_bytes: 1_000_000,
            arena_bytes: 4096,
            recordings: 1,
            unrecorded: Vec::new(),
        };
        let line = "cuda:0: constants 1.0 MB, values and scratch 4.1 KB";
        assert_eq!(devices_text(std::slice::from_ref(&device)), format!("{line}, 1 recording replayed\n"));
        device.recordings = 0;
        device.unrecorded.push("the queue is busy".into());
        let expected = format!("{line}\ncuda:0: not recorded: the queue is busy\n");
        assert_eq!(devices_text(&[device]), expected);
    }
}

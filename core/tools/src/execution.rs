//! A loaded entry with its inputs: what runs, is measured and is compared.

use std::time::{Duration, Instant};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::runtime::{CopyTime, PortInfo, RegionTime, Session};
use byoc_plugin_api::TensorView;
use serde::Serialize;

use crate::inputs::{self, Inputs, OpenSizes};
use crate::tensor::Tensor;

/// A loaded entry with its inputs.
pub struct Loaded {
    /// The entry.
    pub session: Session,
    /// One tensor for each of its inputs.
    pub inputs: Vec<Tensor>,
}

/// How long a region took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionSeconds {
    /// The region, by its symbol.
    pub region: String,
    /// Whose it is.
    pub backend: String,
    /// The time.
    pub seconds: f64,
}

/// A value that was copied between memories.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CopySeconds {
    /// The value.
    pub value: String,
    /// The memory it was in.
    pub from: String,
    /// The memory it was needed in.
    pub to: String,
    /// Its size.
    pub bytes: u64,
    /// The time.
    pub seconds: f64,
}

/// Where the time of runs went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profile {
    /// Regions, in their order.
    pub regions: Vec<RegionSeconds>,
    /// What was copied between memories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopySeconds>,
}

/// What an entry takes of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceBytes {
    /// The device, such as `cuda:0`.
    pub device: String,
    /// Constants.
    pub constant_bytes: usize,
    /// Values and scratch memory.
    pub arena_bytes: usize,
    /// Rows of regions that are replayed.
    pub recordings: usize,
    /// Why others are not.
    pub unrecorded: Vec<String>,
}

impl Loaded {
    /// Gathers the inputs of a session.
    pub fn new(session: Session, given: &Inputs, open_sizes: &OpenSizes) -> Result<Loaded> {
        let inputs = inputs::gather(&session.inputs(), given, open_sizes)?;
        Ok(Loaded { session, inputs })
    }

    /// The inputs in the order of these ports: those of the model that the entry was compiled from.
    pub fn inputs_for(&self, ports: &[PortInfo]) -> Result<Vec<TensorView<'_>>> {
        let own = self.session.inputs();
        let find = |port: &PortInfo| {
            let at = own.iter().position(|other| other.name == port.name).ok_or_else(|| {
                let message = format!("the model has an input '{}', which the artifact does not have", port.name);
                Diagnostic::new(Code::BadInput, message).hint("Is it the model that the artifact was compiled from?")
            })?;
            self.inputs[at].view()
        };
        ports.iter().map(find).collect()
    }

    /// Runs once.
    pub fn run(&mut self) -> Result<Duration> {
        let views = views(&self.inputs)?;
        let start = Instant::now();
        self.session.run(&views)?;
        Ok(start.elapsed())
    }

    /// Runs once, with inputs and outputs that stay on devices where they can.
    pub fn run_resident(&mut self) -> Result<Duration> {
        let views = views(&self.inputs)?;
        let start = Instant::now();
        self.session.run_resident(&views)?;
        Ok(start.elapsed())
    }

    /// Where the time of the last run went.
    pub fn profile(&self) -> Profile {
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
    pub fn devices(&self) -> Vec<DeviceBytes> {
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
pub fn views(tensors: &[Tensor]) -> Result<Vec<TensorView<'_>>> {
    tensors.iter().map(Tensor::view).collect()
}

impl Profile {
    /// Adds the times of another run.
    pub fn add(&mut self, run: Profile) {
        if self.regions.is_empty() {
            *self = run;
            return;
        }
        self.regions.iter_mut().zip(run.regions).for_each(|(sum, time)| sum.seconds += time.seconds);
        self.copies.iter_mut().zip(run.copies).for_each(|(sum, time)| sum.seconds += time.seconds);
    }

    /// The sums over `runs` runs as means.
    pub fn means(mut self, runs: usize) -> Profile {
        let seconds = self.regions.iter_mut().map(|time| &mut time.seconds);
        seconds.chain(self.copies.iter_mut().map(|time| &mut time.seconds)).for_each(|sum| *sum /= runs.max(1) as f64);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_runs_become_their_means() {
        let profile = |region: f64, copied: f64| Profile {
            regions: vec![RegionSeconds { region: "r0".into(), backend: "gpu".into(), seconds: region }],
            copies: vec![CopySeconds {
                value: "x".into(),
                from: "host".into(),
                to: "cuda:0".into(),
                bytes: 2000,
                seconds: copied,
            }],
        };
        let mut sums = Profile::default();
        sums.add(profile(1.0, 0.5));
        sums.add(profile(3.0, 1.5));
        assert_eq!(sums.means(2), profile(2.0, 1.0));
    }
}

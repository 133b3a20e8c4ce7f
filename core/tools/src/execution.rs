//! A loaded entry with its inputs: what runs, is measured and is compared.

use std::time::{Duration, Instant};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::runtime::{CopyTime, PortInfo, RegionTime, Session};
use byoc_plugin_api::TensorView;
use serde::Serialize;

use crate::inputs::{self, Inputs, OpenSizes};
use crate::lists::{Given, Handles};

/// A loaded entry with its inputs.
pub struct Loaded {
    /// The entry.
    pub session: Session,
    /// A value for each of its inputs.
    inputs: Vec<Given>,
    /// What the session has given for those that are not tensors of numbers.
    handles: Vec<Handles>,
}

/// Where the time of runs went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profile {
    /// Regions, in their order.
    pub regions: Vec<RegionTime>,
    /// What was copied between memories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyTime>,
}

impl Loaded {
    /// Gathers the inputs of a session. `warn` is called with what a user should know of them.
    pub fn new(
        session: Session,
        given: &Inputs,
        open_sizes: &OpenSizes,
        warn: &mut dyn FnMut(Diagnostic),
    ) -> Result<Loaded> {
        let inputs = inputs::gather(&session.inputs(), given, open_sizes, warn)?;
        Loaded::with(session, inputs)
    }

    /// Another session of the same entry on the same inputs, which are copied.
    pub fn beside(&self, session: Session) -> Result<Loaded> {
        Loaded::with(session, self.inputs.clone())
    }

    fn with(mut session: Session, inputs: Vec<Given>) -> Result<Loaded> {
        let handles = inputs.iter().map(|given| given.give(&mut session)).collect::<Result<_>>()?;
        Ok(Loaded { session, inputs, handles })
    }

    /// The shapes of the inputs that are tensors, by name.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let shape = |(port, given): (PortInfo, &Given)| match given {
            Given::Tensor(tensor) => {
                let sizes = tensor.shape().iter().map(|&size| usize::try_from(size).unwrap_or(0));
                Some((port.name, sizes.collect()))
            }
            Given::Nothing | Given::Optional(_) | Given::Sequence(_) => None,
        };
        self.session.inputs().into_iter().zip(&self.inputs).filter_map(shape).collect()
    }

    /// Runs another session of the model that the entry was compiled from on the same inputs.
    pub fn run_on(&self, other: &mut Session) -> Result<()> {
        let own = self.session.inputs();
        let find = |port: &PortInfo| {
            let at = own.iter().position(|other| other.name == port.name).ok_or_else(|| {
                let message = format!("the model has an input '{}', which the artifact does not have", port.name);
                Diagnostic::new(Code::BadInput, message).hint("Is it the model that the artifact was compiled from?")
            })?;
            Ok(&self.inputs[at])
        };
        let inputs = other.inputs().iter().map(find).collect::<Result<Vec<_>>>()?;
        let handles = inputs.iter().map(|given| given.give(other)).collect::<Result<Vec<_>>>()?;
        other.run(&views(inputs.into_iter(), &handles)?)
    }

    /// Runs once.
    pub fn run(&mut self) -> Result<Duration> {
        let views = views(self.inputs.iter(), &self.handles)?;
        let start = Instant::now();
        self.session.run(&views)?;
        Ok(start.elapsed())
    }

    /// Runs once, with inputs and outputs that stay on devices where they can.
    pub fn run_resident(&mut self) -> Result<Duration> {
        let views = views(self.inputs.iter(), &self.handles)?;
        let start = Instant::now();
        self.session.run_resident(&views)?;
        Ok(start.elapsed())
    }

    /// Where the time of the last run went.
    pub fn profile(&self) -> Profile {
        Profile { regions: self.session.times(), copies: self.session.copies() }
    }
}

/// The values as a run takes them.
fn views<'a>(inputs: impl Iterator<Item = &'a Given>, handles: &'a [Handles]) -> Result<Vec<TensorView<'a>>> {
    inputs.zip(handles).map(|(given, handles)| given.view(handles)).collect()
}

impl Profile {
    /// Adds the times of another run.
    pub fn add(&mut self, run: Profile) {
        if self.regions.is_empty() {
            *self = run;
            return;
        }
        self.regions.iter_mut().zip(run.regions).for_each(|(sum, time)| sum.time += time.time);
        self.copies.iter_mut().zip(run.copies).for_each(|(sum, time)| sum.time += time.time);
    }

    /// The sums over `runs` runs as means.
    pub fn means(mut self, runs: usize) -> Profile {
        let times = self.regions.iter_mut().map(|region| &mut region.time);
        let runs = u32::try_from(runs.max(1)).unwrap_or(u32::MAX);
        times.chain(self.copies.iter_mut().map(|copy| &mut copy.time)).for_each(|sum| *sum /= runs);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_runs_become_their_means() {
        let profile = |region, copied| Profile {
            regions: vec![RegionTime { symbol: "r0".into(), backend: "gpu".into(), time: Duration::from_secs(region) }],
            copies: vec![CopyTime {
                value: "x".into(),
                from: "host".into(),
                to: "cuda:0".into(),
                bytes: 2000,
                time: Duration::from_secs(copied),
            }],
        };
        let mut sums = Profile::default();
        sums.add(profile(1, 2));
        sums.add(profile(3, 4));
        assert_eq!(sums.means(2), profile(2, 3));
    }
}

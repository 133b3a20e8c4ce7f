//! Runs a single region of an artifact on a device, with its own code or with candidate code, for the tuner.

use std::collections::HashMap;
use std::iter::once;
use std::time::Duration;

use byoc_plugin_api::Value;
use bytes::Bytes;

use super::file::entry_of;
use super::kept::Kept;
use super::tables::Tables;
use super::work::{elapsed, mark, run_failed, work_failed};
use super::{LoadOptions, LoadedCall, LoadedRegion, Queueing, Session};
use crate::artifact::Artifact;
use crate::artifact::manifest::{Region, ValueInfo};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin::Registry;
use crate::runtime::bind::Loader;
use crate::runtime::copies::{memories, names};
use crate::runtime::device::Device;
use crate::runtime::resident::Resident;
use crate::runtime::steps::Steps;

/// Loads single regions of an artifact on a device.
pub struct SingleRegion<'a> {
    /// The artifact that has them, with its other files attached.
    pub artifact: &'a Artifact,
    /// The backends.
    pub registry: &'a Registry,
    /// How to load; entry, devices and queueing do not matter.
    pub options: &'a LoadOptions,
    /// The device, of the kind that the regions run on.
    pub device: &'a Device,
}

impl SingleRegion<'_> {
    /// Loads a region with this code. The session takes and gives what the region does. Constants that `beside` has on
    /// the device are not sent there again.
    pub fn load(&self, region: &Region, code: Bytes, beside: Option<&Session>) -> Result<Session> {
        if region.domain.as_ref() != Some(&self.device.name().kind) {
            let message = format!("region {} does not run on {}", region.symbol, self.device.name());
            return Err(Diagnostic::new(Code::UnknownName, message).hint("See byoc inspect --regions"));
        }
        let value = |info: &ValueInfo| Value { name: info.name.clone(), dtype: info.dtype, shape: info.shape.clone() };
        let [inputs, outputs] = [&region.inputs, &region.outputs].map(|of| of.iter().map(value).collect::<Vec<_>>());
        let entry = entry_of(&inputs, &outputs);
        let (_, memories) = memories(&[region]);
        let mut session = Session {
            elsewhere: Vec::new(),
            later: None,
            told: HashMap::new(),
            kept: Kept::default(),
            state: None,
            calls: Vec::new(),
            constants: HashMap::new(),
            residents: Vec::new(),
            devices: vec![self.device.clone()],
            steps: Steps::new(&entry, &memories),
            memories,
            names: names(&entry, &[region]),
            queueing: Queueing::Direct,
            tables: Tables::default(),
            _artifact: Some(self.artifact.clone()),
            passed_over: Vec::new(),
            entry,
        };
        let there = beside.and_then(|session| session.resident(self.device));
        let resident = Resident::send(self.artifact, once(region), self.device, there)?;
        let (threads, settings) = (self.options.threads(), &self.options.run_options);
        let loader = Loader { artifact: self.artifact, registry: self.registry, threads, settings };
        let loaded = loader.device(region, code, self.device, &resident);
        session.residents.push(resident);
        session.calls.push(LoadedCall::new(region, LoadedRegion::Device(loaded?)));
        Ok(session)
    }
}

impl Session {
    /// The device's own time for that many runs of the one region that a [`SingleRegion`] session has, queued one behind the other,
    /// on what the last run was given.
    pub fn time_region(&mut self, runs: usize) -> Result<Duration> {
        let mut time = Duration::ZERO;
        self.in_turn(0, &mut |session| {
            time = session.timed(runs)?;
            Ok(())
        })?;
        Ok(time)
    }

    fn timed(&mut self, runs: usize) -> Result<Duration> {
        let (Some(device), [call], true) = (self.devices.first(), self.calls.as_mut_slice(), self.state.is_some())
        else {
            return Err(Diagnostic::new(Code::RunFailed, "there is no region on a device that has run"));
        };
        let queued = queue(device, call, runs);
        // Whatever went wrong, what is queued must be done before its memory goes.
        let waited = device.domain().synchronize();
        queued?;
        waited.map_err(|error| work_failed(device, &[call.title.as_str()], error))?;
        elapsed(device, 0)
    }
}

/// Queues runs of a region between two marks.
fn queue(device: &Device, call: &mut LoadedCall, runs: usize) -> Result<()> {
    mark(device, Some(0), 0)?;
    for _ in 0..runs {
        if let LoadedRegion::Device(bound) = &mut call.region {
            bound.executable().run().map_err(|error| run_failed(call, error))?;
        }
    }
    mark(device, Some(0), 1)
}

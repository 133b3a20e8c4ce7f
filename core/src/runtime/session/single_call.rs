//! Runs one call of an entry by itself, on values that the caller gives: what a region computes, whatever those before it do.

use std::collections::HashMap;

use super::load::check_processor;
use super::{LoadOptions, Session};
use crate::artifact::Artifact;
use crate::artifact::manifest::{Call, Entry, Port, ValueInfo};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;
use crate::plugin::Registry;
use crate::runtime::device::Device;

/// Loads single calls of an artifact's entries.
pub struct SingleCalls<'a> {
    artifact: Artifact,
    registry: &'a Registry,
    options: &'a LoadOptions,
    /// Those that were opened so far.
    devices: Vec<Device>,
}

impl<'a> SingleCalls<'a> {
    /// For an artifact, whose other files are attached where that is still to be done. Of the options, the entry does not matter,
    /// nor do devices that a call does not run on.
    pub fn new(artifact: &Artifact, registry: &'a Registry, options: &'a LoadOptions) -> Result<SingleCalls<'a>> {
        check_processor(artifact)?;
        let mut artifact = artifact.clone();
        artifact.attach(options.constants_from.as_deref())?;
        Ok(SingleCalls { artifact, registry, options, devices: Vec::new() })
    }

    /// Loads the call of that index. The session takes and gives what its region does, in that order. `sizes` are those of symbols that
    /// the inputs need not tell.
    pub fn load(&mut self, entry: &Entry, index: usize, sizes: &HashMap<String, usize>) -> Result<Session> {
        let none = || Diagnostic::new(Code::UnknownName, format!("entry '{}' has no call {index}", entry.name));
        let call = entry.calls.get(index).ok_or_else(none)?;
        let region = self.artifact.manifest().regions.get(call.region).ok_or_else(none)?;
        let ports = |infos: &[ValueInfo], first: usize| -> Vec<Port> {
            let port = |(index, info): (usize, &ValueInfo)| Port { name: info.name.clone(), value: first + index };
            infos.iter().enumerate().map(port).collect()
        };
        let (first, end) = (call.inputs.len(), call.inputs.len() + call.outputs.len());
        let own = Entry {
            name: entry.name.clone(),
            inputs: ports(&region.inputs, 0),
            outputs: ports(&region.outputs, first),
            values: call.inputs.iter().chain(&call.outputs).map(|&value| entry.values[value].clone()).collect(),
            calls: vec![Call { region: call.region, inputs: (0..first).collect(), outputs: (first..end).collect() }],
            ..Entry::default()
        };
        let on_it = |device: &&crate::runtime::DeviceName| region.domain.as_ref() == Some(&device.kind);
        let devices = self.options.devices.iter().filter(on_it).cloned().collect();
        let options = LoadOptions { entry: None, devices, ..self.options.clone() };
        let loaded = Session::load_entry((&self.artifact, &own), self.registry, &options, &self.devices, None);
        let mut session = loaded.map_err(|error| error.within(format!("region {}", region.symbol)))?;
        for device in &session.devices {
            if !self.devices.iter().any(|known| known.name() == device.name()) {
                self.devices.push(device.clone());
            }
        }
        let symbols = own.values.iter().flat_map(|value| dim::symbols(&value.shape));
        session.told = symbols.filter_map(|name| sizes.get(&name).map(|&size| (name, size))).collect();
        Ok(session)
    }
}

//! Copies between memories in a run of an entry, known from the artifact before any device is opened.

use std::collections::BTreeSet;
use std::ops::Range;

use byoc_plugin_api::{DType, Dim};

use super::stages;
use super::steps::{Crossing, HOST, Steps};
use crate::artifact::manifest::{Entry, Manifest, Region};

/// A value that each run copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCopy {
    /// The value's name in the model.
    pub value: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
    /// The memory that has it: `host`, or a kind of device.
    pub from: String,
    /// The memory that gets it.
    pub to: String,
}

/// What each run of an entry copies, in order.
pub fn planned_copies(manifest: &Manifest, entry: &Entry) -> Vec<PlannedCopy> {
    let regions: Vec<_> = entry.calls.iter().filter_map(|call| manifest.regions.get(call.region)).collect();
    let (kinds, memories) = memories(&regions);
    let memory = |memory: usize| match memory {
        HOST => "host".to_owned(),
        device => kinds[device - 1].clone(),
    };
    let copies = |entry: &Entry, calls: Range<usize>| -> Vec<PlannedCopy> {
        let names = names(entry, &regions[calls.clone()]);
        let copy = |crossing: &Crossing| PlannedCopy {
            value: names[crossing.value].clone(),
            dtype: entry.values[crossing.value].dtype,
            shape: entry.values[crossing.value].shape.clone(),
            from: memory(crossing.from),
            to: memory(crossing.to),
        };
        Steps::new(entry, &memories[calls]).crossings().map(copy).collect()
    };
    match stages::split(entry, &names(entry, &regions)) {
        None => copies(entry, 0..regions.len()),
        Some(staged) => staged.stages.iter().flat_map(|stage| copies(&stage.entry, stage.calls.clone())).collect(),
    }
}

/// The kinds of devices that regions run on, in the order of their names, and the memory of each region: the host's, or that of a kind at its index
/// plus 1.
pub(super) fn memories(regions: &[&Region]) -> (Vec<String>, Vec<usize>) {
    let kinds: BTreeSet<_> = regions.iter().filter_map(|region| region.domain.as_deref()).collect();
    let kinds: Vec<String> = kinds.into_iter().map(str::to_owned).collect();
    let memories = regions.iter().map(|region| memory_of(region, &kinds)).collect();
    (kinds, memories)
}

/// The memory of a region: the host's, or that of a kind at its index plus 1.
pub(super) fn memory_of(region: &Region, kinds: &[String]) -> usize {
    let kind = region.domain.as_deref();
    kind.and_then(|kind| kinds.iter().position(|known| known == kind)).map_or(HOST, |index| index + 1)
}

/// The name of each value: that of a port, or the one that its region has for it.
pub(super) fn names(entry: &Entry, regions: &[&Region]) -> Vec<String> {
    let mut names = vec![String::new(); entry.values.len()];
    for (call, region) in entry.calls.iter().zip(regions) {
        for (&value, info) in call.outputs.iter().zip(&region.outputs) {
            names[value].clone_from(&info.name);
        }
    }
    for control in &entry.control {
        for (index, value) in control.outputs.iter().enumerate() {
            if let Some(value) = *value {
                names[value] = format!("{}, output {index}", control.name);
            }
        }
    }
    for port in entry.inputs.iter().chain(&entry.outputs) {
        names[port.value].clone_from(&port.name);
    }
    names
}

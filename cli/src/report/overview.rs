//! Overview of an artifact: entries, regions by backend, and bytes.

use std::collections::{BTreeSet, HashMap};

use byoc_core::artifact::manifest::ValueType;
use byoc_core::artifact::{Artifact, Manifest, Totals};
use byoc_core::diagnostic::Result;
use byoc_core::runtime::planned_copies;
use serde::Serialize;

use super::{Table, count, shape, size};

/// The numbers, as `--json` gives them.
#[derive(Debug, Serialize)]
pub(crate) struct Overview {
    entries: Vec<Entry>,
    backends: Vec<BackendShare>,
    code: CodeShare,
    bytes: Bytes,
}

/// The code of the regions: where it is the same, it is stored once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct CodeShare {
    regions: usize,
    distinct: usize,
    /// In the file.
    bytes: u64,
    /// Bytes saved by storing equal code once.
    saved: u64,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    regions: usize,
    /// Values that each run copies between memories.
    #[serde(skip_serializing_if = "is_zero")]
    copies: usize,
}

#[derive(Debug, Serialize)]
struct Port {
    name: String,
    /// The element type, or all of a sequence's or an optional's.
    dtype: String,
    shape: Vec<byoc_plugin_api::Dim>,
    #[serde(skip)]
    is_list: bool,
}

/// A backend's share of the artifact.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct BackendShare {
    name: String,
    version: String,
    regions: usize,
    nodes: usize,
}

/// Bytes of the file and of its parts.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Bytes {
    /// The file.
    file: u64,
    /// Distinct constants that are used, each once, as the model has them.
    weights: u64,
    /// Constants as the file has them.
    stored: u64,
    /// Constants that it refers to in other files.
    external: u64,
    packed: u64,
    embedded: u64,
    folded: u64,
    dropped: u64,
    /// Bytes saved by storing each constant once.
    saved: u64,
    /// The size without deduplication.
    without_deduplication: u64,
}

impl Overview {
    /// Of that artifact.
    pub(crate) fn of(artifact: &Artifact) -> Result<Overview> {
        let manifest = artifact.manifest();
        let code = CodeShare::of(artifact);
        Ok(Overview { entries: entries(manifest), backends: shares(artifact)?, code, bytes: Bytes::of(artifact)? })
    }

    /// How large file and weights are.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Backends with their nodes and regions.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.backends.iter().map(|share| (share.name.as_str(), share.nodes, share.regions))
    }

    /// What each entry takes and gives, a line each.
    pub(crate) fn ports(&self) -> Vec<String> {
        let of_entry = |entry: &Entry| entry.ports().map(|port| format!("{}: {port}", entry.name)).collect::<Vec<_>>();
        self.entries.iter().flat_map(of_entry).collect()
    }

    /// The lines for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            text += &format!("entry {}: {}{}\n", entry.name, count(entry.regions, "region"), copies(entry.copies));
            entry.ports().for_each(|port| text += &format!("  {port}\n"));
        }
        let mut table = Table::new(&["backend", "version", ">regions", ">nodes"]);
        for share in &self.backends {
            let numbers = [share.regions.to_string(), share.nodes.to_string()];
            table.row([share.name.clone(), share.version.clone()].into_iter().chain(numbers));
        }
        text + &table.text() + &self.code.sentence() + &self.bytes.sentence() + "\n" + &self.bytes.details()
    }
}

impl Entry {
    /// `input  x: f32[1,3]`, for each input and output.
    fn ports(&self) -> impl Iterator<Item = String> {
        let kinds = [("input", &self.inputs), ("output", &self.outputs)];
        let line = |kind: &str, port: &Port| {
            let shape = if port.is_list { String::new() } else { shape(&port.shape) };
            format!("{kind:6} {}: {}{shape}", port.name, port.dtype)
        };
        kinds.into_iter().flat_map(move |(kind, ports)| ports.iter().map(move |port| line(kind, port)))
    }
}

impl CodeShare {
    /// Of that artifact.
    fn of(artifact: &Artifact) -> CodeShare {
        let regions = &artifact.manifest().regions;
        let sizes: HashMap<&str, u64> = artifact.sections().map(|section| (section.name, section.bytes)).collect();
        let sum = |names: &mut dyn Iterator<Item = &str>| {
            names.fold(0u64, |sum, name| sum.saturating_add(sizes.get(name).copied().unwrap_or(0)))
        };
        let distinct: BTreeSet<&str> = regions.iter().map(|region| region.code.as_str()).collect();
        let bytes = sum(&mut distinct.iter().copied());
        let all = sum(&mut regions.iter().map(|region| region.code.as_str()));
        CodeShare { regions: regions.len(), distinct: distinct.len(), bytes, saved: all - bytes }
    }

    /// `code of 24 regions, 3 distinct, 1.2 MiB`; empty where nothing is shared.
    fn sentence(&self) -> String {
        if self.distinct == self.regions {
            return String::new();
        }
        format!("code of {}, {} distinct, {}\n", count(self.regions, "region"), self.distinct, size(self.bytes))
    }
}

impl Bytes {
    /// Of that artifact.
    pub(crate) fn of(artifact: &Artifact) -> Result<Bytes> {
        let totals = Totals::of(artifact.manifest(), artifact.ledger()?);
        let Totals { unique, stored, external, packed, embedded, folded, dropped, .. } = totals;
        let (file, saved) = (artifact.size(), totals.saved());
        let without_deduplication = file.saturating_add(saved).saturating_add(CodeShare::of(artifact).saved);
        let weights = unique;
        Ok(Bytes { file, weights, stored, external, packed, embedded, folded, dropped, saved, without_deduplication })
    }

    /// Constants as the file has them.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// `weights 398.3 MiB, file 398.5 MiB (1.001x); 621.9 MiB without deduplication`. Weights are as the model has them; what they
    /// take where backends packed them follows in brackets, unless it is the same to a hundredth. A saving of nothing is left out.
    pub(crate) fn sentence(&self) -> String {
        let kept = self.stored.saturating_add(self.external).saturating_add(self.embedded);
        let differs = self.packed > 0 && kept.abs_diff(self.weights) > self.weights / 100;
        let packed = if differs { format!(" ({} as packed)", size(kept)) } else { String::new() };
        let weights = size(self.weights);
        let ratio = match self.weights {
            0 => String::new(),
            weights => format!(" ({:.3}x)", self.file as f64 / weights as f64),
        };
        let without = match self.without_deduplication > self.file {
            true => format!("; {} without deduplication", size(self.without_deduplication)),
            false => String::new(),
        };
        format!("weights {weights}{packed}, file {}{ratio}{without}", size(self.file))
    }

    /// Bytes that are not stored as the model has them, by fate, in one line; empty where there are none.
    pub(crate) fn details(&self) -> String {
        let details = [
            (self.external, "in other files"),
            (self.packed, "as packed by backends"),
            (self.embedded, "inside code"),
            (self.folded, "computed into others"),
            (self.dropped, "dropped"),
        ];
        let told = details.into_iter().filter(|&(bytes, _)| bytes > 0);
        let told: Vec<_> = told.map(|(bytes, what)| format!("{} {what}", size(bytes))).collect();
        if told.is_empty() { String::new() } else { format!("{}\n", told.join(", ")) }
    }
}

/// What each run copies between memories, where there are several.
pub(crate) fn copies(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => ", 1 copy between memories in each run".into(),
        copies => format!(", {copies} copies between memories in each run"),
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn entries(manifest: &Manifest) -> Vec<Entry> {
    let entry = |entry: &byoc_core::artifact::manifest::Entry| {
        let ports = |ports: &[byoc_core::artifact::manifest::Port]| {
            let port = |port: &byoc_core::artifact::manifest::Port| {
                let ValueType { dtype, shape, list } = &entry.values[port.value];
                let dtype = list.as_ref().map_or_else(|| dtype.to_string(), ToString::to_string);
                Port { name: port.name.clone(), dtype, shape: shape.clone(), is_list: list.is_some() }
            };
            ports.iter().map(port).collect()
        };
        let (inputs, outputs) = (ports(&entry.inputs), ports(&entry.outputs));
        let copies = planned_copies(manifest, entry).len();
        // Those of the bodies of its control flow are its own.
        let regions = manifest.with_bodies(entry).iter().map(|entry| entry.calls.len()).sum();
        Entry { name: entry.name.clone(), inputs, outputs, regions, copies }
    };
    manifest.callable().map(entry).collect()
}

/// In the order in which the user named the backends.
fn shares(artifact: &Artifact) -> Result<Vec<BackendShare>> {
    let (manifest, nodes) = (artifact.manifest(), artifact.nodes()?);
    let share = |needed: &byoc_core::artifact::manifest::BackendRequirement| {
        let own = || manifest.regions.iter().zip(nodes).filter(|(region, _)| region.backend == needed.name);
        BackendShare {
            name: needed.name.clone(),
            version: needed.version.clone(),
            regions: own().count(),
            nodes: own().map(|(_, nodes)| nodes.len()).sum(),
        }
    };
    Ok(manifest.requirements.backends.iter().map(share).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_tells_what_there_is_to_tell() {
        let none = Bytes {
            file: 900,
            weights: 0,
            stored: 0,
            external: 0,
            packed: 0,
            embedded: 0,
            folded: 0,
            dropped: 0,
            saved: 0,
            without_deduplication: 900,
        };
        assert_eq!(none.sentence(), "weights 0 B, file 900 B");
        assert_eq!(none.details(), "");
        let all = Bytes {
            file: 417_900_000,
            weights: 417_600_000,
            external: 6000,
            packed: 2000,
            embedded: 3000,
            folded: 4000,
            dropped: 5000,
            without_deduplication: 652_100_000,
            ..none
        };
        assert_eq!(
            Bytes { weights: 450, packed: 400, stored: 700, ..none }.sentence(),
            "weights 450 B (700 B as packed), file 900 B (2.000x)"
        );
        assert_eq!(
            Bytes { weights: 450, packed: 400, stored: 450, ..none }.sentence(),
            "weights 450 B, file 900 B (2.000x)"
        );
        let sentence =
            "weights 398.3 MiB (8.8 KiB as packed), file 398.5 MiB (1.001x); 621.9 MiB without deduplication";
        assert_eq!(all.sentence(), sentence);
        let details = "5.9 KiB in other files, 2.0 KiB as packed by backends, 2.9 KiB inside code, 3.9 KiB computed into others, 4.9 KiB dropped\n";
        assert_eq!(all.details(), details);
    }
}

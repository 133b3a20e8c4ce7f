//! The other parts of an artifact as tables: regions, sections, and the backends that it needs.

use std::collections::BTreeMap;

use byoc_core::artifact::manifest::{Chosen, ClaimKind, Entry, Region, ValueInfo};
use byoc_core::artifact::{Artifact, ArtifactFile, NodeSummary};
use byoc_core::diagnostic::Result;
use byoc_core::runtime::{PlannedCopy, planned_copies};
use serde_json::{Value, json};

use crate::report::{self, Table, count, size};

/// How much of a section's digest is shown.
const DIGEST_SHOWN: usize = 16;

/// Each region with what it computes, reads and claims.
pub(crate) fn regions(artifact: &Artifact) -> Result<String> {
    let regions = artifact.manifest().regions.iter();
    let mut parts = regions.map(|one| region(artifact, one)).collect::<Result<Vec<_>>>()?;
    parts.extend(artifact.manifest().entries.iter().filter_map(|entry| copies(artifact, entry)));
    Ok(parts.join("\n"))
}

/// A region with what it computes, reads and claims.
pub(super) fn region(artifact: &Artifact, region: &Region) -> Result<String> {
    let code = artifact.section(&region.code)?.len() as u64;
    let readers = artifact.manifest().regions.iter().filter(|other| other.code == region.code).count();
    Ok(region_text(region, artifact.nodes_of(region)?, code, readers))
}

/// What an artifact says of a region, with its nodes.
pub(super) fn region_json(region: &Region, nodes: &[NodeSummary]) -> Value {
    let mut told = json!(region);
    told["nodes"] = json!(nodes);
    told
}

/// The same of all of them.
pub(super) fn regions_json(artifact: &Artifact) -> Result<Value> {
    let regions = artifact.manifest().regions.iter().zip(artifact.nodes()?);
    Ok(regions.map(|(region, nodes)| region_json(region, nodes)).collect())
}

/// What each run of an entry copies between memories, if anything.
fn copies(artifact: &Artifact, entry: &Entry) -> Option<String> {
    let copies = planned_copies(artifact.manifest(), entry);
    let line = |copy: &PlannedCopy| {
        let PlannedCopy { value, dtype, shape, from, to } = copy;
        format!("  {from} to {to}  {value}: {dtype}{}\n", report::shape(shape))
    };
    let lines: String = copies.iter().map(line).collect();
    (!copies.is_empty()).then(|| format!("entry {}{}\n{lines}", entry.name, report::copies(copies.len())))
}

/// `readers` regions have this code.
fn region_text(region: &Region, nodes: &[NodeSummary], code: u64, readers: usize) -> String {
    let Region { symbol, backend, backend_version, code_version, .. } = region;
    let mut text = format!("region {symbol}\n  backend  {backend} {backend_version}\n");
    if let Some(domain) = &region.domain {
        text += &format!("  memory   {domain}\n");
    }
    let shared = if readers > 1 { format!(", shared by {}", count(readers, "region")) } else { String::new() };
    text += &format!("  code     {}, version {code_version}, {}{shared}\n", size(code), region.code);
    if let Some(chosen) = &region.chosen {
        text += &format!("  kernels  {}\n", choice(chosen));
    }
    if let Some(precision) = &region.precision {
        text += &format!("  precise  {precision}\n");
    }
    let values = [("input", &region.inputs), ("output", &region.outputs)];
    for (kind, value) in values.into_iter().flat_map(|(kind, values)| values.iter().map(move |value| (kind, value))) {
        let ValueInfo { name, dtype, shape } = value;
        text += &format!("  {kind:8} {name}: {dtype}{}\n", report::shape(shape));
    }
    text += &format!("  nodes    {}\n", operators(nodes));
    text + &format!("  reads    {}\n", claims(region))
}

/// `by the table`, or `tuned on NVIDIA H100: 128x128, 12.0 µs instead of 20.0 µs`.
fn choice(chosen: &Chosen) -> String {
    match chosen {
        Chosen::Table => "by the table".into(),
        Chosen::Tuned { device, candidate, seconds, before } => {
            let [seconds, before] = [*seconds, *before].map(report::seconds);
            format!("tuned on {device}: {candidate}, {seconds} instead of {before}")
        }
    }
}

/// `13 nodes: 6 Conv, 5 Relu, 2 Add`.
fn operators(nodes: &[NodeSummary]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    nodes.iter().for_each(|node| *counts.entry(&node.op).or_default() += 1);
    format!("{}: {}", count(nodes.len(), "node"), by_count(&counts))
}

/// The most frequent first.
pub(crate) fn by_count(counts: &BTreeMap<impl std::fmt::Display, usize>) -> String {
    let mut sorted: Vec<_> = counts.iter().collect();
    // Of equal counts the names stay in order.
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    sorted.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

fn claims(region: &Region) -> String {
    let kinds = [
        (ClaimKind::Host, "host"),
        (ClaimKind::Packed, "packed"),
        (ClaimKind::Embedded, "embedded"),
        (ClaimKind::Unused, "unused"),
    ];
    let number = |kind| region.constants.iter().filter(|binding| binding.claim == kind).count();
    let told = kinds.into_iter().map(|(kind, name)| (number(kind), name)).filter(|(number, _)| *number > 0);
    let told: Vec<_> = told.map(|(number, name)| format!("{number} {name}")).collect();
    match region.constants.len() {
        0 => "no constants".into(),
        all => format!("{}: {}", count(all, "constant"), told.join(", ")),
    }
}

/// Every section with its place.
pub(crate) fn sections(file: &ArtifactFile) -> String {
    let mut table = Table::new(&["section", "type", "shape", ">bytes", ">offset", "?blake3"]);
    for section in file.sections() {
        let digest = section.digest.map_or("-", |digest| digest.get(..DIGEST_SHOWN).unwrap_or(digest));
        table.row([
            section.name.to_owned(),
            section.dtype.to_string(),
            report::shape(section.shape),
            section.bytes.to_string(),
            section.offset.to_string(),
            digest.to_owned(),
        ]);
    }
    table.text()
}

/// The same as JSON, with whole digests.
pub(crate) fn sections_json(file: &ArtifactFile) -> Value {
    let section = |section: byoc_core::artifact::SectionInfo<'_>| {
        json!({
            "name": section.name, "dtype": section.dtype, "shape": section.shape,
            "bytes": section.bytes, "offset": section.offset, "blake3": section.digest,
        })
    };
    file.sections().map(section).collect()
}

/// The backends that the artifact needs.
pub(crate) fn backends(artifact: &Artifact) -> String {
    let requirements = &artifact.manifest().requirements;
    let mut table = Table::new(&["backend", "version", ">code", ">ABI"]);
    for needed in &requirements.backends {
        let (code, abi) = (needed.code_version.to_string(), needed.abi_version.to_string());
        table.row([&needed.name, &needed.version, &code, &abi]);
    }
    let mut text = table.text();
    if !requirements.cpu_features.is_empty() {
        text += &format!("processor features: {}\n", requirements.cpu_features.join(", "));
    }
    text
}

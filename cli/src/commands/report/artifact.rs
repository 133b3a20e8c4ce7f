//! What a page shows of an artifact: its regions, and where its bytes are.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use byoc_core::artifact::Artifact;
use byoc_core::artifact::manifest::{self, Manifest, ValueInfo};

use super::layout::places;
use super::page::{Backend, Constant, Node, Page};
use super::treemap::{Tile, squarified};
use crate::commands::explain::Region;
use crate::commands::inspect::by_count;
use crate::report::{self, Overview, size};

/// The page.
pub(super) fn page(path: &Path, artifact: &Artifact) -> Page {
    let manifest = artifact.manifest();
    let mut page = Page::of(path);
    let (bytes, producer) = (size(artifact.size()), &manifest.producer);
    let overview = Overview::of(artifact);
    let (sentence, details) = (overview.bytes().sentence(), overview.bytes().details());
    page.facts = vec![format!("artifact, {bytes}, written by {producer}"), sentence, details.trim_end().to_owned()];
    page.facts.retain(|fact| !fact.is_empty());
    page.ports = overview.ports();
    let backend = |(name, nodes, regions): (&str, usize, usize)| Backend { name: name.to_owned(), nodes, regions };
    page.backends = overview.counts().map(backend).collect();
    page.regions = manifest.regions.iter().map(region).collect();
    (page.nodes, page.edges) = graph(manifest);
    page.tiles = squarified(tiles(artifact));
    page.constants = manifest.ledger.iter().map(constant).collect();
    page
}

fn operators(region: &manifest::Region) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    region.nodes.iter().for_each(|node| *counts.entry(node.op.clone()).or_default() += 1);
    counts
}

fn region(region: &manifest::Region) -> Region {
    let (symbol, backend) = (region.symbol.clone(), region.backend.clone());
    Region { region: symbol, backend, nodes: region.nodes.len(), operators: operators(region) }
}

/// A box for each region that an entry calls, in the order of the calls, and an edge where one reads what another writes.
fn graph(manifest: &Manifest) -> (Vec<Node>, Vec<(usize, usize)>) {
    let (mut nodes, mut edges): (Vec<Node>, Vec<(usize, usize)>) = Default::default();
    for entry in &manifest.entries {
        let mut writers: HashMap<usize, usize> = HashMap::new();
        for call in &entry.calls {
            let mut from: Vec<_> = call.inputs.iter().filter_map(|value| writers.get(value).copied()).collect();
            from.sort_unstable();
            from.dedup();
            edges.extend(from.into_iter().map(|from| (from, nodes.len())));
            writers.extend(call.outputs.iter().map(|&value| (value, nodes.len())));
            nodes.push(node(&manifest.regions[call.region]));
        }
    }
    let at = places(nodes.len(), &edges);
    nodes.iter_mut().zip(at).for_each(|(node, at)| node.at = at);
    (nodes, edges)
}

fn node(region: &manifest::Region) -> Node {
    let values = |values: &[ValueInfo]| {
        let value = |ValueInfo { name, dtype, shape }: &ValueInfo| format!("{name}: {dtype}{}", report::shape(shape));
        values.iter().map(value).collect::<Vec<_>>().join(", ")
    };
    let inner: Vec<_> = region.nodes.iter().map(|node| format!("{} ({})", node.name, node.op)).collect();
    let details = [("reads", values(&region.inputs)), ("writes", values(&region.outputs)), ("nodes", inner.join(", "))];
    Node {
        name: region.symbol.clone(),
        op: by_count(&operators(region)),
        backend: region.backend.clone(),
        region: region.symbol.clone(),
        refused: Vec::new(),
        details: details.map(|(what, text)| (what.to_owned(), text)).into(),
        at: Default::default(),
    }
}

/// Each section of the file, padding and the header as one each.
fn tiles(artifact: &Artifact) -> Vec<Tile> {
    let manifest = artifact.manifest();
    let mut tiles = Vec::new();
    let mut padding = 0;
    for section in artifact.sections() {
        let tile =
            |kind, label: String, text: String| Tile { label, kind, bytes: section.bytes, text, ..Tile::default() };
        let stored =
            manifest.constants.iter().position(|stored| stored.external.is_none() && stored.section == section.name);
        if section.name.starts_with("__pad__") {
            padding += section.bytes;
        } else if let Some(stored) = stored {
            let rows = || manifest.ledger.iter().filter(move |row| row.stored == Some(stored));
            let names: Vec<_> = rows().flat_map(|row| row.names.clone()).collect();
            let readers: Vec<_> = rows().flat_map(|row| row.readers.clone()).collect();
            let layout = manifest.constants[stored].layout.as_ref();
            let kind = if layout.is_some() { "packed" } else { "stored" };
            let as_what = layout.map(|layout| format!(", packed as {layout}")).unwrap_or_default();
            let text = format!("{}{as_what}; read by {}", names.join(", "), readers.join(", "));
            tiles.push(tile(kind, names.into_iter().next().unwrap_or_else(|| section.name.to_owned()), text));
        } else {
            let kind = if section.name.starts_with("code/") { "code" } else { "other" };
            tiles.push(tile(kind, section.name.to_owned(), String::new()));
        }
    }
    let sections: u64 = artifact.sections().map(|section| section.bytes).sum();
    let rest = [
        ("padding", padding, "so that constants begin at pages"),
        ("header", artifact.size() - sections, "names, places and digests"),
    ];
    tiles.extend(rest.map(|(label, bytes, text)| Tile {
        label: label.into(),
        kind: "other",
        bytes,
        text: text.into(),
        ..Tile::default()
    }));
    tiles
}

fn constant(row: &manifest::LedgerRow) -> Constant {
    Constant {
        names: row.names.clone(),
        ty: format!("{}{}", row.dtype, report::shape(&row.shape)),
        bytes: row.bytes,
        readers: row.readers.clone(),
        owner: row.owner.clone().unwrap_or_else(|| "-".into()),
        fate: crate::commands::inspect::fate(row.fate).to_owned(),
    }
}

//! What a page shows of an artifact: its regions, and where its bytes are.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use byoc_core::artifact::manifest::{self, Manifest, ValueInfo};
use byoc_core::artifact::{Artifact, LedgerRow, NodeSummary};
use byoc_core::diagnostic::Result;

use super::layout::blocks;
use super::page::{Backend, Constant, Group, Node, Page};
use super::treemap::{Tile, squarified};
use crate::commands::explain::Region;
use crate::commands::inspect::by_count;
use crate::report::{self, Overview, size};

/// The page.
pub(super) fn page(path: &Path, artifact: &Artifact) -> Result<Page> {
    let (manifest, ledger) = (artifact.manifest(), artifact.ledger()?);
    let mut page = Page::of(path);
    let (bytes, producer) = (size(artifact.size()), &manifest.producer);
    let overview = Overview::of(artifact)?;
    let (sentence, details) = (overview.bytes().sentence(), overview.bytes().details());
    page.facts = vec![format!("artifact, {bytes}, written by {producer}"), sentence, details.trim_end().to_owned()];
    page.facts.retain(|fact| !fact.is_empty());
    page.ports = overview.ports();
    let backend = |(name, nodes, regions): (&str, usize, usize)| Backend { name: name.to_owned(), nodes, regions };
    page.backends = overview.counts().map(backend).collect();
    let nodes = artifact.nodes()?;
    page.regions = manifest.regions.iter().zip(nodes).map(|(one, nodes)| region(one, nodes)).collect();
    Graph { nodes: page.nodes, edges: page.edges, groups: page.groups } = graph(manifest, nodes);
    page.tiles = squarified(tiles(artifact, ledger));
    page.constants = ledger.iter().map(constant).collect();
    Ok(page)
}

fn operators(nodes: &[NodeSummary]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    nodes.iter().for_each(|node| *counts.entry(node.op.clone()).or_default() += 1);
    counts
}

fn region(region: &manifest::Region, nodes: &[NodeSummary]) -> Region {
    let (symbol, backend) = (region.symbol.clone(), region.backend.clone());
    Region { region: symbol, backend, nodes: nodes.len(), operators: operators(nodes) }
}

/// A frame for each region that an entry calls, with a box for each of its nodes, and an edge where one reads what another writes. An
/// artifact does not say what the nodes of a region read of one another.
fn graph(manifest: &Manifest, of_regions: &[Vec<NodeSummary>]) -> Graph {
    let calls = || manifest.entries.iter().flat_map(|entry| entry.calls.iter().map(move |call| (entry, call)));
    let mut edges = Vec::new();
    let mut writers: HashMap<(&str, usize), usize> = HashMap::new();
    for (index, (entry, call)) in calls().enumerate() {
        let mut from: Vec<_> =
            call.inputs.iter().filter_map(|&value| writers.get(&(entry.name.as_str(), value)).copied()).collect();
        from.sort_unstable();
        from.dedup();
        edges.extend(from.into_iter().map(|from| (from, index)));
        writers.extend(call.outputs.iter().map(|&value| ((entry.name.as_str(), value), index)));
    }
    let regions: Vec<_> =
        calls().map(|(_, call)| (&manifest.regions[call.region], of_regions[call.region].as_slice())).collect();
    let counts: Vec<_> = regions.iter().map(|(_, nodes)| nodes.len().max(1)).collect();
    let mut graph = Graph::default();
    let mut ends = Vec::new();
    for ((region, inner), block) in regions.into_iter().zip(blocks(&counts, &edges)) {
        let first = graph.nodes.len();
        graph.nodes.extend(nodes(region, inner).into_iter().zip(block.places).map(|(node, at)| Node { at, ..node }));
        ends.push((first, graph.nodes.len() - 1));
        let label = format!("{}: {}", report::count(inner.len(), "node"), region.symbol);
        graph.groups.push(Group { label, backend: region.backend.clone(), from: block.from, to: block.to });
    }
    graph.edges = edges.into_iter().map(|(from, to)| (ends[from].1, ends[to].0)).collect();
    graph
}

/// What is drawn.
#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    edges: Vec<(usize, usize)>,
    groups: Vec<Group>,
}

/// The boxes of a region: its nodes, or one for all of it where they are not known.
fn nodes(region: &manifest::Region, inner: &[NodeSummary]) -> Vec<Node> {
    let values = |values: &[ValueInfo]| {
        let value = |ValueInfo { name, dtype, shape }: &ValueInfo| format!("{name}: {dtype}{}", report::shape(shape));
        values.iter().map(value).collect::<Vec<_>>().join(", ")
    };
    let (reads, writes) = (values(&region.inputs), values(&region.outputs));
    let node = |name: &str, op: String| Node {
        name: name.to_owned(),
        op,
        backend: region.backend.clone(),
        region: region.symbol.clone(),
        refused: Vec::new(),
        details: vec![("the region reads".into(), reads.clone()), ("the region writes".into(), writes.clone())],
        at: Default::default(),
    };
    match inner {
        [] => vec![node(&region.symbol, by_count(&operators(inner)))],
        inner => inner.iter().map(|inner| node(&inner.name, inner.op.clone())).collect(),
    }
}

/// Each section of the file, padding and the header as one each.
fn tiles(artifact: &Artifact, ledger: &[LedgerRow]) -> Vec<Tile> {
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
            let rows = || ledger.iter().filter(move |row| row.stored == Some(stored));
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

fn constant(row: &LedgerRow) -> Constant {
    Constant {
        names: row.names.clone(),
        ty: format!("{}{}", row.dtype, report::shape(&row.shape)),
        bytes: row.bytes,
        readers: row.readers.clone(),
        owner: row.owner.clone().unwrap_or_else(|| "-".into()),
        fate: crate::commands::inspect::fate(row.fate).to_owned(),
    }
}

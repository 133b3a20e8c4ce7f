//! The ledger: for every constant of the model who reads it, who owns it and what became of it, and what that sums up
//! to. It is part of the artifact, so what `compile` reports and what `inspect` shows is the same.

use std::collections::{BTreeMap, BTreeSet};

use byoc_plugin_api::{Claim, to_hex};

use super::audit::size;
use super::homes::Homes;
use super::settle::BackendIdentity;
use crate::artifact::Manifest;
use crate::artifact::manifest::{ConstantUse, Fate, LedgerRow, Stored};
use crate::codegen::Generated;
use crate::constants::{Base, BaseId};

/// The owner of what the file stores unchanged.
const CORE: &str = "byoc";

/// What became of every constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The rows, in the order in which the model has the constants.
    pub rows: Vec<LedgerRow>,
    /// The sums.
    pub totals: Totals,
}

/// Sums over a ledger, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Different constants that somebody needs: each counted once, in its original form.
    pub unique: u64,
    /// What the file stores in constants' sections.
    pub stored: u64,
    /// How much of that is packed forms.
    pub packed: u64,
    /// Constants that are in code and in no section.
    pub embedded: u64,
    /// Constants that were computed into others.
    pub folded: u64,
    /// Constants that nobody needs.
    pub dropped: u64,
    /// What the sections would take if every region kept its own copy of what it reads, and every name of the model its
    /// own bytes.
    pub unshared: u64,
}

impl Totals {
    /// What storing each constant once has saved.
    pub fn saved(&self) -> u64 {
        self.unshared.saturating_sub(self.stored)
    }
}

impl Ledger {
    /// The ledger of an artifact.
    pub fn of(manifest: &Manifest) -> Ledger {
        Ledger { rows: manifest.ledger.clone(), totals: totals(manifest) }
    }
}

fn totals(manifest: &Manifest) -> Totals {
    let mut totals = Totals::default();
    let mut seen = BTreeSet::new();
    let mut names = vec![1u64; manifest.constants.len()];
    for row in &manifest.ledger {
        let first = seen.insert(row.id);
        match row.fate {
            Fate::Folded => totals.folded += row.bytes,
            Fate::Dropped => totals.dropped += row.bytes,
            _ if first => totals.unique += row.bytes,
            _ => {}
        }
        match (row.fate, row.stored) {
            (Fate::Embedded, _) => totals.embedded += row.bytes,
            (Fate::Stored, Some(stored)) => names[stored] = row.names.len().max(1) as u64,
            _ => {}
        }
    }
    let bindings = manifest.regions.iter().flat_map(|region| &region.constants);
    let outputs = manifest.entries.iter().flat_map(|entry| &entry.constants);
    let mut read = vec![0; manifest.constants.len()];
    for used in bindings.filter_map(|binding| binding.used.as_ref()).chain(outputs.map(|constant| &constant.used)) {
        read[used.constant] += used_bytes(manifest, used);
    }
    for (index, stored) in manifest.constants.iter().enumerate() {
        let bytes = stored_bytes(stored);
        totals.stored += bytes;
        totals.packed += if stored.layout.is_some() { bytes } else { 0 };
        totals.unshared += read[index].max(names[index] * bytes);
    }
    totals
}

fn stored_bytes(stored: &Stored) -> u64 {
    stored.shape.iter().map(|&size| size as u64).product::<u64>() * stored.dtype.size() as u64
}

fn used_bytes(manifest: &Manifest, used: &ConstantUse) -> u64 {
    used.view.elements().unwrap_or(0) * manifest.constants[used.constant].dtype.size() as u64
}

/// Who reads one constant, by claim. Symbols stand in the order of the regions.
#[derive(Default)]
struct Readers {
    original: Vec<String>,
    /// By the home of the packed bytes: the backend, and the symbols.
    packed: BTreeMap<usize, (String, Vec<String>)>,
    embedded: Vec<String>,
    embedders: Vec<String>,
    unused: Vec<String>,
}

/// One row for each constant and form, for the manifest.
pub(super) fn rows(generated: &Generated, backends: &[BackendIdentity], homes: &Homes) -> Vec<LedgerRow> {
    let mut readers: BTreeMap<BaseId, Readers> = BTreeMap::new();
    for (region, uses) in generated.regions.iter().zip(&homes.regions) {
        let (symbol, backend) = (&region.plan.region.symbol, &backends[region.plan.backend].name);
        for ((constant, recorded), used) in region.plan.constants.iter().zip(&region.claims).zip(uses) {
            let readers = readers.entry(constant.base).or_default();
            match (&recorded.claim, used) {
                (Claim::Packed(_), Some(used)) => {
                    let packed = readers.packed.entry(used.constant);
                    add(&mut packed.or_insert((backend.clone(), Vec::new())).1, symbol);
                }
                (Claim::Embedded, _) => {
                    add(&mut readers.embedded, symbol);
                    add(&mut readers.embedders, backend);
                }
                (Claim::Unused, _) => add(&mut readers.unused, symbol),
                _ => add(&mut readers.original, symbol),
            }
        }
    }
    for (graph, uses) in generated.model.entries.iter().zip(&homes.outputs) {
        for (position, used) in uses {
            let output = format!("{}/{}", graph.name, graph.value(graph.outputs[*position]).name);
            if let Some(base) = homes.homes[used.constant].base {
                add(&mut readers.entry(base).or_default().original, &output);
            }
        }
    }
    let mut homed = BTreeSet::new();
    let mut rows = Vec::new();
    for (id, base) in generated.model.constants.iter() {
        rows_of(id, base, readers.remove(&id).unwrap_or_default(), homes, &mut homed, &mut rows);
    }
    rows
}

fn add(list: &mut Vec<String>, name: &str) {
    if list.last().is_none_or(|last| last != name) && !list.iter().any(|known| known == name) {
        list.push(name.to_owned());
    }
}

/// The rows of one constant. `homed` holds the packed homes that have a row.
fn rows_of(
    id: BaseId,
    base: &Base,
    mut readers: Readers,
    homes: &Homes,
    homed: &mut BTreeSet<usize>,
    rows: &mut Vec<LedgerRow>,
) {
    let before = rows.len();
    let row = |fate, stored, readers, owner| LedgerRow { fate, stored, readers, owner, ..row(id, base) };
    let own = homes.of_base(id);
    if let Some((_, symbols)) = own.and_then(|home| readers.packed.remove(&home)) {
        // Packed bytes that equal the original are the original.
        symbols.iter().for_each(|symbol| add(&mut readers.original, symbol));
    }
    if own.is_some() {
        rows.push(row(Fate::Stored, own, readers.original, Some(CORE.to_owned())));
    }
    for (home, (backend, symbols)) in readers.packed {
        let found = &homes.homes[home];
        let first = found.base.is_none() && homed.insert(home);
        let fate = if first { Fate::Packed } else { Fate::Viewed };
        let owner = if found.base.is_some() { CORE.to_owned() } else { backend };
        let mut packed = row(fate, Some(home), symbols, Some(owner));
        // The layout stands with the stored constant.
        packed.note = match first {
            true if own.is_some() => Some(format!("{} more than the original alone", size(found.bytes.len()))),
            true if rows.len() > before => Some(format!("{} more than one form alone", size(found.bytes.len()))),
            true => None,
            false => Some("packed it has the bytes of another constant".to_owned()),
        };
        rows.push(packed);
    }
    let embedded = readers.embedded.join(", ");
    if rows.len() == before && !embedded.is_empty() {
        rows.push(row(Fate::Embedded, None, readers.embedded, Some(readers.embedders.join(", "))));
    } else if rows.len() == before {
        let mut dropped = row(Fate::Dropped, None, Vec::new(), None);
        dropped.note =
            (!readers.unused.is_empty()).then(|| format!("claimed as unused by {}", readers.unused.join(", ")));
        rows.push(dropped);
    } else if !embedded.is_empty() {
        let note = rows[before].note.take().map(|note| format!("{note}; ")).unwrap_or_default();
        rows[before].note = Some(format!("{note}also embedded in the code of {embedded}"));
    }
}

/// A row with what is known of the constant itself.
fn row(id: BaseId, base: &Base) -> LedgerRow {
    LedgerRow {
        id: id.0,
        names: base.names.clone(),
        transposed: base.transposed.clone(),
        dtype: base.dtype,
        shape: base.shape.clone(),
        bytes: base.bytes.len() as u64,
        digest: to_hex(&base.digest[..16]),
        readers: Vec::new(),
        owner: None,
        fate: Fate::Dropped,
        stored: None,
        note: None,
    }
}

//! Sums over a ledger: bytes of each kind, and the bytes without any sharing.

use std::collections::BTreeSet;

use super::Manifest;
use super::ledger::{Fate, LedgerRow};
use super::manifest::{ConstantUse, Stored};

/// Sums over a ledger, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Distinct constants that have readers, each counted once in its original form.
    pub unique: u64,
    /// What the file stores in constants' sections.
    pub stored: u64,
    /// Constants that the file refers to in other files.
    pub external: u64,
    /// How much of `stored` is packed forms.
    pub packed: u64,
    /// Constants that are in code and in no section.
    pub embedded: u64,
    /// Constants that were computed into others.
    pub folded: u64,
    /// Constants without readers.
    pub dropped: u64,
    /// What `stored` and `external` would be without deduplication: if every region and every output kept a copy of its own of what it
    /// reads, in the form in which it reads it, and every name of the model had bytes of its own. In detail:
    ///
    /// - A stored constant counts the larger of two sums. By reader: the elements of each view, all of them, so a slice
    ///   counts what is read and a broadcast what is seen. By name: what the model has under the names
    ///   ([`LedgerRow::model_bytes`]), so that one stored element counts for all the elements that it stands for.
    /// - A packed form counts likewise, with the size of the packed form for each name.
    /// - A constant in several forms counts its readers in each, and its names with the first.
    /// - A constant that is both embedded and stored counts in its section as above. Code is not counted:
    ///   it would be there all the same. Where a constant is embedded only, one copy in code stands for each region, and
    ///   names beyond that count with their share of the model's bytes.
    pub unshared: u64,
}

impl Totals {
    /// The sums over an artifact's ledger.
    pub fn of(manifest: &Manifest, ledger: &[LedgerRow]) -> Totals {
        let mut totals = Totals::default();
        let mut seen = BTreeSet::new();
        let mut named = vec![0; manifest.constants.len()];
        for row in ledger {
            let first = seen.insert(row.id);
            match row.fate {
                Fate::Folded => add(&mut totals.folded, row.bytes),
                Fate::Dropped => add(&mut totals.dropped, row.bytes),
                _ if first => add(&mut totals.unique, row.bytes),
                _ => {}
            }
            match (row.fate, row.stored) {
                (Fate::Embedded, _) => {
                    add(&mut totals.embedded, row.bytes);
                    add(&mut totals.unshared, beyond_readers(row));
                }
                (Fate::Stored, Some(stored)) => add(&mut named[stored], row.model_bytes),
                (_, Some(stored)) if first => {
                    let each = stored_bytes(&manifest.constants[stored]);
                    add(&mut named[stored], each.saturating_mul(row.names.len() as u64));
                }
                _ => {}
            }
        }
        let bindings = manifest.regions.iter().flat_map(|region| &region.constants);
        let outputs = manifest.entries.iter().flat_map(|entry| &entry.constants);
        let mut read = vec![0; manifest.constants.len()];
        for used in bindings.filter_map(|binding| binding.used.as_ref()).chain(outputs.map(|constant| &constant.used)) {
            add(&mut read[used.constant], used_bytes(manifest, used));
        }
        for (stored, (read, named)) in manifest.constants.iter().zip(read.into_iter().zip(named)) {
            let bytes = stored_bytes(stored);
            add(if stored.external.is_some() { &mut totals.external } else { &mut totals.stored }, bytes);
            add(&mut totals.packed, if stored.layout.is_some() { bytes } else { 0 });
            // Nothing is smaller without deduplication, not even a constant of which only a part is read.
            add(&mut totals.unshared, bytes.max(read).max(named));
        }
        totals
    }

    /// Bytes saved by storing each constant once.
    pub fn saved(&self) -> u64 {
        self.unshared.saturating_sub(self.stored.saturating_add(self.external))
    }
}

/// What the names of an embedded constant would add to the copies that its readers have in their code.
fn beyond_readers(row: &LedgerRow) -> u64 {
    let names = row.names.len() as u64;
    let more = names.saturating_sub(row.readers.len() as u64);
    row.model_bytes.saturating_mul(more).checked_div(names).unwrap_or(0)
}

/// Saturating: the numbers come from an untrusted file.
fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}

fn stored_bytes(stored: &Stored) -> u64 {
    stored.bytes().unwrap_or(u64::MAX)
}

fn used_bytes(manifest: &Manifest, used: &ConstantUse) -> u64 {
    let elements = used.view.checked_elements().and_then(|elements| usize::try_from(elements).ok());
    let dtype = manifest.constants[used.constant].dtype;
    elements.map_or(0, |elements| dtype.bytes_for(elements).unwrap_or(usize::MAX) as u64)
}

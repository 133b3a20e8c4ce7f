//! The artifact's contents with other bytes: everything as it was, but constants that became equal are one.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::new_model::{Content, NewModel};
use crate::artifact::manifest::{ConstantUse, Manifest};
use crate::artifact::{Artifact, Contents, Fate, LedgerRow, Section, code_sections, constant_section};
use crate::diagnostic::Result;

/// The contents with new elements for these constants, by their numbers in the ledger; and how many of them are one
/// with another constant now.
pub(super) fn contents(
    artifact: &Artifact,
    replaced: &[(usize, Content)],
    new: &NewModel,
) -> Result<(Contents, usize)> {
    let (mut manifest, mut ledger) = (artifact.manifest().clone(), artifact.ledger()?.to_vec());
    let sections = manifest.constants.iter().map(|stored| artifact.section(&stored.section));
    let mut bytes: Vec<Bytes> = sections.collect::<Result<_>>()?;
    // Kept sections keep their digests: a new one would vouch for a damaged section.
    let known = |section: &str| artifact.digest_of(section);
    let mut digests: Vec<Option<[u8; 32]>> = manifest.constants.iter().map(|stored| known(&stored.section)).collect();
    let mut changed = BTreeSet::new();
    for (id, content) in replaced {
        for row in ledger.iter_mut().filter(|row| row.id == *id) {
            row.digest.clone_from(&content.digest);
            if let Some(stored) = row.stored {
                bytes[stored] = content.bytes.clone();
                digests[stored] = None;
                changed.insert(stored);
            }
        }
    }
    let twins = twins(&manifest, &bytes, &changed);
    for &(kept, gone) in &twins {
        merge((&mut manifest, &mut ledger), (kept, gone), new);
    }
    let gone: BTreeSet<usize> = twins.iter().map(|&(_, gone)| gone).collect();
    drop_stored((&mut manifest, &mut ledger), &mut bytes, &gone);
    for &index in gone.iter().rev() {
        digests.remove(index);
    }
    let mut sections =
        code_sections(&mut manifest, |_, region| Ok((artifact.section(&region.code)?, known(&region.code))))?;
    let constants = manifest.constants.iter().zip(bytes).zip(digests);
    sections.extend(constants.map(|((stored, bytes), digest)| Section::of_stored(stored, bytes, digest)));
    let nodes = artifact.nodes()?.to_vec();
    Ok((Contents { manifest, ledger, nodes, sections }, gone.len()))
}

/// Pairs of stored constants that are equal now, as (the one that stays, the one that goes). What did not change is
/// not compared: it was stored once before.
fn twins(manifest: &Manifest, bytes: &[Bytes], changed: &BTreeSet<usize>) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for gone in 0..bytes.len() {
        let equal = |kept: &usize| {
            let fresh = changed.contains(kept) || changed.contains(&gone);
            fresh && manifest.constants[*kept].dtype == manifest.constants[gone].dtype && bytes[*kept] == bytes[gone]
        };
        if let Some(kept) = (0..gone).find(equal) {
            pairs.push((kept, gone));
        }
    }
    pairs
}

/// Redirects all readers of `gone` to the equal constant `kept`, and merges their rows of the ledger.
fn merge((manifest, ledger): (&mut Manifest, &mut Vec<LedgerRow>), (kept, gone): (usize, usize), new: &NewModel) {
    uses(manifest).filter(|used| used.constant == gone).for_each(|used| used.constant = kept);
    let alignment = manifest.constants[gone].alignment;
    let stored = &mut manifest.constants[kept];
    stored.alignment = stored.alignment.max(alignment);
    let owning_row =
        |index| move |row: &LedgerRow| row.stored == Some(index) && matches!(row.fate, Fate::Stored | Fate::Packed);
    let rows = [kept, gone].map(|index| ledger.iter().position(owning_row(index)));
    ledger.iter_mut().filter(|row| row.stored == Some(gone)).for_each(|row| row.stored = Some(kept));
    let [Some(one), Some(other)] = rows else { return };
    let packed = [one, other].into_iter().find(|&row| ledger[row].fate == Fate::Packed);
    if let Some(packed) = packed {
        // The packed form equals an original now, which owns it.
        let original = if packed == one { other } else { one };
        let (owner, shape) = (ledger[original].owner.clone(), ledger[original].shape.clone());
        let row = &mut ledger[packed];
        (row.fate, row.owner) = (Fate::Viewed, owner);
        (manifest.constants[kept].layout, manifest.constants[kept].shape) = (None, shape);
        return;
    }
    let (first, second) = (one.min(other), one.max(other));
    let removed = ledger.remove(second);
    let order = readers_in_order(manifest);
    let row = &mut ledger[first];
    row.names.extend(removed.names);
    row.names.sort_by_key(|name| new.position(name));
    row.names.dedup();
    row.transposed.extend(removed.transposed);
    row.model_bytes = row.model_bytes.saturating_add(removed.model_bytes);
    row.readers.extend(removed.readers);
    row.readers.sort_by_key(|reader| order.iter().position(|known| known == reader));
    row.readers.dedup();
    row.compiled_in.extend(removed.compiled_in);
    row.note = [row.note.take(), removed.note].into_iter().flatten().reduce(|one, other| format!("{one}; {other}"));
    manifest.constants[kept].shape.clone_from(&row.shape);
    let id = row.id;
    for row in ledger.iter_mut() {
        // Other forms of the constant that went are forms of this one now.
        row.id = if row.id == removed.id { id } else { row.id - usize::from(row.id > removed.id) };
    }
    ledger.sort_by_key(|row| row.id);
}

/// Who can read a constant, in the order in which ledgers list them.
fn readers_in_order(manifest: &Manifest) -> Vec<String> {
    let regions = manifest.regions.iter().map(|region| region.symbol.clone());
    let outputs = |entry: &crate::artifact::manifest::Entry| {
        entry.outputs.iter().map(|port| format!("{}/{}", entry.name, port.name)).collect::<Vec<_>>()
    };
    regions.chain(manifest.entries.iter().flat_map(outputs)).collect()
}

/// Removes stored constants without references, and renumbers the others.
fn drop_stored((manifest, ledger): (&mut Manifest, &mut [LedgerRow]), bytes: &mut Vec<Bytes>, gone: &BTreeSet<usize>) {
    let number = |old: usize| old - gone.range(..old).count();
    uses(manifest).for_each(|used| used.constant = number(used.constant));
    ledger.iter_mut().filter_map(|row| row.stored.as_mut()).for_each(|stored| *stored = number(*stored));
    for &index in gone.iter().rev() {
        manifest.constants.remove(index);
        bytes.remove(index);
    }
    for (index, stored) in manifest.constants.iter_mut().enumerate() {
        stored.section = constant_section(index);
    }
}

/// All references to a stored constant.
fn uses(manifest: &mut Manifest) -> impl Iterator<Item = &mut ConstantUse> {
    let bindings = manifest.regions.iter_mut().flat_map(|region| &mut region.constants);
    let outputs = manifest.entries.iter_mut().flat_map(|entry| &mut entry.constants);
    bindings.filter_map(|binding| binding.used.as_mut()).chain(outputs.map(|constant| &mut constant.used))
}

//! Searches the code of each variant for constants that the file stores for another one: an undeclared copy would be in the file
//! twice, though each variant by itself is in order.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;

use super::search::{PART, search};
use crate::artifact::manifest::{Fate, LedgerRow, Manifest, Region};
use crate::artifact::{Contents, Section};
use crate::diagnostic::{Code, Diagnostic};
use crate::memory::readable;

/// What the file stores for a variant.
struct Target<'a> {
    /// The constant that it is, or is a form of.
    row: &'a LedgerRow,
    layout: Option<&'a str>,
    bytes: &'a Bytes,
    variant: &'a str,
}

/// One error for each region and constant, none where all copies are claimed.
pub(crate) fn audit_across(variants: &[(String, Contents)]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (index, (name, contents)) in variants.iter().enumerate() {
        let targets = targets_for(index, variants);
        let bytes: Vec<Bytes> = targets.iter().map(|target| target.bytes.clone()).collect();
        let code: Vec<(&Region, Bytes)> = contents
            .manifest
            .regions
            .iter()
            .filter_map(|region| Some((region, section(contents, &region.code)?.bytes.clone())))
            .collect();
        let blobs: Vec<Bytes> = code.iter().map(|(_, bytes)| bytes.clone()).collect();
        let mut copies: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for hit in search(&blobs, &bytes) {
            copies.entry((hit.blob, hit.target)).or_insert(hit.offset);
        }
        for ((blob, target), offset) in copies {
            let (region, target) = (code[blob].0, &targets[target]);
            if !is_declared(&contents.manifest, region, target.row) {
                found.push(duplicate(name, region, target, offset));
            }
        }
    }
    found
}

/// What others than the variant of that index have stored, and it has not.
fn targets_for<'a>(index: usize, variants: &'a [(String, Contents)]) -> Vec<Target<'a>> {
    let mut known: HashSet<&[u8; 32]> =
        constants(&variants[index].1).filter_map(|(_, section)| section.digest.as_ref()).collect();
    let others = variants.iter().enumerate().filter(|(other, _)| *other != index);
    let mut targets = Vec::new();
    for (_, (variant, contents)) in others {
        for (stored, section) in constants(contents) {
            let new = section.digest.as_ref().is_none_or(|digest| known.insert(digest));
            let owns = |row: &&LedgerRow| row.stored == Some(stored) && row.fate != Fate::Viewed;
            let row = contents.manifest.ledger.iter().find(owns);
            if let Some(row) = row.filter(|_| new && section.bytes.len() >= PART) {
                let layout = contents.manifest.constants[stored].layout.as_deref();
                targets.push(Target { row, layout, bytes: &section.bytes, variant });
            }
        }
    }
    targets
}

/// The stored constants with their sections.
fn constants(contents: &Contents) -> impl Iterator<Item = (usize, &Section)> {
    let stored = contents.manifest.constants.iter().enumerate();
    stored.filter_map(|(index, stored)| Some((index, section(contents, &stored.section)?)))
}

fn section<'a>(contents: &'a Contents, name: &str) -> Option<&'a Section> {
    contents.sections.iter().find(|section| section.name == name)
}

/// Whether the region has said that its code holds the constant.
fn is_declared(manifest: &Manifest, region: &Region, constant: &LedgerRow) -> bool {
    let same = |row: &&LedgerRow| row.dtype == constant.dtype && row.digest == constant.digest;
    manifest.ledger.iter().filter(same).any(|row| {
        let embedded = if row.fate == Fate::Embedded { row.readers.as_slice() } else { &[] };
        let declared: BTreeSet<&String> = embedded.iter().chain(&row.compiled_in).collect();
        declared.contains(&region.symbol)
    })
}

fn duplicate(variant: &str, region: &Region, target: &Target<'_>, offset: usize) -> Diagnostic {
    let name = target.row.names.first().map_or("a constant", String::as_str);
    let size = readable(target.bytes.len() as u64);
    let form = target.layout.map(|layout| format!(" packed as '{layout}'")).unwrap_or_default();
    let (backend, symbol, other) = (&region.backend, &region.symbol, target.variant);
    let message = format!(
        "{backend}: region {symbol} of variant '{variant}' embeds `{name}` ({size}){form} verbatim at offset {offset}, and variant '{other}' has it stored"
    );
    Diagnostic::new(Code::DuplicateConstant, message)
        .hint("The backend should claim Embedded, or read the bytes at load; --allow-duplicates makes this a warning")
}

//! Searches the code of each variant for constants that the file stores for another one: an undeclared copy would be in the file
//! twice, though each variant by itself is in order.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;

use super::search::{Hit, PART, search};
use crate::artifact::manifest::{Manifest, Region};
use crate::artifact::{Contents, Fate, LedgerRow, Section};
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

/// What a variant consists of, to be looked up.
struct Variant<'a> {
    name: &'a str,
    manifest: &'a Manifest,
    ledger: &'a [LedgerRow],
    sections: HashMap<&'a str, &'a Section>,
    /// The row of each stored constant that owns it.
    rows: HashMap<usize, &'a LedgerRow>,
}

impl<'a> Variant<'a> {
    fn of((name, contents): &'a (String, Contents)) -> Variant<'a> {
        let rows = contents.ledger.iter().filter(|row| row.fate != Fate::Viewed);
        Variant {
            name,
            manifest: &contents.manifest,
            ledger: &contents.ledger,
            sections: contents.sections.iter().map(|section| (section.name.as_str(), section)).collect(),
            rows: rows.filter_map(|row| Some((row.stored?, row))).collect(),
        }
    }

    /// The stored constants with their sections.
    fn constants(&self) -> impl Iterator<Item = (usize, &'a Section)> {
        let stored = self.manifest.constants.iter().enumerate();
        stored.filter_map(|(index, stored)| Some((index, *self.sections.get(stored.section.as_str())?)))
    }
}

/// What code holds of a constant.
struct Copies {
    offset: usize,
    bytes: usize,
}

/// One error for each region and constant, none where all copies are claimed.
pub(crate) fn audit_across(variants: &[(String, Contents)]) -> Vec<Diagnostic> {
    let variants: Vec<Variant<'_>> = variants.iter().map(Variant::of).collect();
    let mut found = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        let targets = targets_for(index, &variants);
        let bytes: Vec<Bytes> = targets.iter().map(|target| target.bytes.clone()).collect();
        let regions = variant.manifest.regions.iter();
        let code: Vec<(&Region, Bytes)> = regions
            .filter_map(|region| Some((region, variant.sections.get(region.code.as_str())?.bytes.clone())))
            .collect();
        let blobs: Vec<Bytes> = code.iter().map(|(_, bytes)| bytes.clone()).collect();
        let mut copies: BTreeMap<(usize, usize), Copies> = BTreeMap::new();
        for Hit { blob, target, offset, len, .. } in search(&blobs, &bytes) {
            copies.entry((blob, target)).or_insert(Copies { offset, bytes: 0 }).bytes += len;
        }
        for ((blob, target), copies) in copies {
            let (region, target) = (code[blob].0, &targets[target]);
            if !is_declared(variant.ledger, region, target.row) {
                found.push(duplicate(variant.name, region, target, &copies));
            }
        }
    }
    found
}

/// What others than the variant of that index have stored, and it has not.
fn targets_for<'a>(index: usize, variants: &[Variant<'a>]) -> Vec<Target<'a>> {
    let own = variants[index].constants().filter_map(|(_, section)| section.digest.as_ref());
    let mut known: HashSet<&[u8; 32]> = own.collect();
    let others = variants.iter().enumerate().filter(|(other, _)| *other != index);
    let mut targets = Vec::new();
    for (_, other) in others {
        for (stored, section) in other.constants().filter(|(_, section)| section.bytes.len() >= PART) {
            let new = section.digest.as_ref().is_none_or(|digest| known.insert(digest));
            if let (true, Some(row)) = (new, other.rows.get(&stored)) {
                let layout = other.manifest.constants[stored].layout.as_deref();
                targets.push(Target { row, layout, bytes: &section.bytes, variant: other.name });
            }
        }
    }
    targets
}

/// Whether the region has said that its code holds the constant. What is only claimed as unused is in `compiled_in` as well, where it has
/// no reader.
fn is_declared(ledger: &[LedgerRow], region: &Region, constant: &LedgerRow) -> bool {
    let declared = |row: &LedgerRow| match row.fate {
        Fate::Embedded => row.readers.contains(&region.symbol),
        Fate::Stored | Fate::Packed | Fate::Viewed => row.compiled_in.contains(&region.symbol),
        Fate::Folded | Fate::Dropped => false,
    };
    ledger.iter().any(|row| row.digest == constant.digest && declared(row))
}

fn duplicate(variant: &str, region: &Region, target: &Target<'_>, copies: &Copies) -> Diagnostic {
    let name = target.row.names.first().map_or("a constant", String::as_str);
    let size = readable(target.bytes.len() as u64);
    let part = match copies.bytes < target.bytes.len() {
        true => format!("{} of ", readable(copies.bytes as u64)),
        false => String::new(),
    };
    let offset = copies.offset;
    let form = target.layout.map(|layout| format!(" packed as '{layout}'")).unwrap_or_default();
    let (backend, symbol, other) = (&region.backend, &region.symbol, target.variant);
    let message = format!(
        "{backend}: region {symbol} of variant '{variant}' embeds {part}`{name}` ({size}){form} verbatim at offset {offset}, and variant '{other}' has it stored"
    );
    Diagnostic::new(Code::DuplicateConstant, message)
        .hint("The backend should claim Embedded, or read the bytes at load; --allow-duplicates makes this a warning")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::artifact::manifest::Manifest;

    /// A variant of one region with that code, and a weight that became what is said; `stored` is whether the file has it.
    fn variant(name: &str, code: &[u8], weight: &[u8], fate: &str, stored: bool) -> (String, Contents) {
        let section = json!({ "section": "const/0", "dtype": "u8", "shape": [weight.len()] });
        let ledger = serde_json::from_value(json!([{
            "id": 0, "names": ["w"], "dtype": "u8", "shape": [weight.len()], "bytes": weight.len(), "digest": "d", "fate": fate,
            "readers": if fate == "dropped" { json!([]) } else { json!(["r"]) },
            "compiled_in": if fate == "dropped" { json!(["r"]) } else { json!([]) },
            "stored": if stored { json!(0) } else { json!(null) },
        }]))
        .expect("a ledger");
        let manifest: Manifest = serde_json::from_value(json!({
            "format": 1, "producer": "test", "requirements": { "backends": [] }, "entries": [],
            "regions": [{
                "symbol": "r", "backend": "acme", "backend_version": "1", "code_version": 1, "abi_version": 1, "code": "code/r",
                "constants": [], "inputs": [], "outputs": [],
            }],
            "constants": if stored { json!([section]) } else { json!([]) },
        }))
        .expect("a graph");
        let bytes = |name: &str, bytes: &[u8]| Section::of_bytes(name, Bytes::copy_from_slice(bytes));
        let mut sections = vec![bytes("code/r", code)];
        sections.extend(stored.then(|| bytes("const/0", weight)));
        (name.to_owned(), Contents { manifest, ledger, nodes: vec![vec![]], sections })
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(5);
        (0..len).map(|_| random.u8(..)).collect()
    }

    /// What one variant embeds without saying so while another stores it is found, whole or in part; what it says is not.
    #[test]
    fn undeclared_copies_across_variants_are_found() {
        let weight = noise(8192);
        let said = |code: &[u8], fate: &str| -> Vec<String> {
            let variants = [variant("npu", code, &weight, fate, false), variant("cpu", b"", &weight, "stored", true)];
            audit_across(&variants).into_iter().map(|found| found.to_string()).collect()
        };
        let code = [b"head".as_slice(), &weight].concat();
        let hint =
            "The backend should claim Embedded, or read the bytes at load; --allow-duplicates makes this a warning";
        let expected = |part: &str| {
            format!(
                "[B502] acme: region r of variant 'npu' embeds {part}`w` (8.0 KiB) verbatim at offset 4, and variant 'cpu' has it stored. {hint}"
            )
        };
        assert_eq!(said(&code, "dropped"), [expected("")]);
        assert_eq!(said(&code[..4 + 4096], "dropped"), [expected("4.0 KiB of ")]);
        assert_eq!(said(&code, "embedded"), Vec::<String>::new());
        assert_eq!(said(b"other code", "dropped"), Vec::<String>::new());
        // What it stores itself, its own audit has looked at.
        let both = [variant("npu", &code, &weight, "stored", true), variant("cpu", b"", &weight, "stored", true)];
        let with_digests = both.map(|(name, mut contents)| {
            contents.sections.iter_mut().for_each(|it| it.digest = Some(*blake3::hash(&it.bytes).as_bytes()));
            (name, contents)
        });
        assert_eq!(audit_across(&with_digests).len(), 0);
    }
}

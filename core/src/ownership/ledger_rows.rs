//! The rows of the ledger: readers, owner and fate of every constant of the model.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use byoc_plugin_api::to_hex;
use indexmap::IndexSet;

use super::storage::Storage;
use crate::artifact::{Fate, LedgerRow};
use crate::codegen::{Generated, RecordedClaim};
use crate::constants::{Base, BaseId};
use crate::diagnostic::Result;
use crate::ir::Model;
use crate::memory::readable;
use crate::passes;
use crate::plugin::BackendIdentity;

/// The owner of constants that are stored unchanged.
const CORE: &str = "byoc";

/// The readers of one constant, by claim. Symbols are in the order of the regions.
#[derive(Default)]
struct Readers {
    original: IndexSet<String>,
    /// By the stored constant that has the packed bytes: the backend, and the symbols.
    packed: BTreeMap<usize, (String, IndexSet<String>)>,
    embedded: IndexSet<String>,
    embedders: IndexSet<String>,
    unused: IndexSet<String>,
}

/// One row for each constant and form, for the manifest. `notes` are what the audit found.
pub(super) fn rows(
    generated: &Generated,
    backends: &[BackendIdentity],
    storage: &Storage,
    notes: Vec<(BaseId, String)>,
) -> Result<Vec<LedgerRow>> {
    let mut readers = readers(generated, backends, storage);
    let named = bytes_by_name(&generated.model);
    let mut packed = BTreeSet::new();
    let mut rows = Vec::new();
    for (id, base) in generated.model.constants.iter() {
        let constant = row(id, base, &named);
        rows_of(id, constant, readers.remove(&id).unwrap_or_default(), storage, &mut packed, &mut rows);
    }
    for (base, note) in notes {
        first_row(&mut rows, base).into_iter().for_each(|row| add_note(row, &note));
    }
    for &base in &generated.model.folded {
        let Some(row) = first_row(&mut rows, base) else { continue };
        if row.fate == Fate::Dropped {
            row.fate = Fate::Folded;
        }
        row.compiled_in.push("other constants".into());
    }
    for base in passes::shaping(&generated.model)? {
        first_row(&mut rows, base).into_iter().for_each(|row| row.compiled_in.push("the shapes of the model".into()));
    }
    Ok(rows)
}

/// The first row of a constant, with what applies to all of its forms.
fn first_row(rows: &mut [LedgerRow], base: BaseId) -> Option<&mut LedgerRow> {
    let place = rows.partition_point(|row| row.id < base.0);
    rows.get_mut(place).filter(|row| row.id == base.0)
}

/// The readers of each constant.
fn readers(generated: &Generated, backends: &[BackendIdentity], storage: &Storage) -> BTreeMap<BaseId, Readers> {
    let mut readers: BTreeMap<BaseId, Readers> = BTreeMap::new();
    for (index, constant, used) in storage.of_regions(generated) {
        let plan = &generated.regions[index].plan;
        let (symbol, backend) = (&plan.region.symbol, &backends[plan.backend].name);
        let readers = readers.entry(constant.source.base).or_default();
        match (&constant.claim, used) {
            (RecordedClaim::Packed(_), Some(used)) => {
                let packed = readers.packed.entry(used.constant);
                add(&mut packed.or_insert((backend.clone(), IndexSet::new())).1, symbol);
            }
            (RecordedClaim::Embedded, _) => {
                add(&mut readers.embedded, symbol);
                add(&mut readers.embedders, backend);
            }
            (RecordedClaim::Unused, _) => add(&mut readers.unused, symbol),
            _ => add(&mut readers.original, symbol),
        }
    }
    for outside in storage.outside.iter().flatten() {
        if let Some(base) = storage.constants[outside.used.constant].base {
            add(&mut readers.entry(base).or_default().original, &outside.reader);
        }
    }
    readers
}

/// For each constant and name what the model has under it, all entries together. A view that was folded has a name of
/// its own, which is none of the constant's; a body that reads a constant around it has it under the same name.
fn bytes_by_name(model: &Model) -> HashMap<(BaseId, &str), u64> {
    let (mut bytes, mut seen) = (HashMap::new(), HashSet::new());
    for graph in &model.entries {
        for value in &graph.values {
            let Some(constant) = &value.constant else { continue };
            let (base, name) = (constant.base, value.name.as_str());
            if seen.insert((graph.entry(), base, name)) {
                let size = constant.view.bytes(model.constants.get(base).dtype);
                *bytes.entry((base, name)).or_default() += size as u64;
            }
        }
    }
    bytes
}

fn add(list: &mut IndexSet<String>, name: &str) {
    if !list.contains(name) {
        list.insert(name.to_owned());
    }
}

fn joined(names: &IndexSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The rows of one constant. `listed` are the packed forms that have a row.
fn rows_of(
    id: BaseId,
    constant: LedgerRow,
    mut readers: Readers,
    storage: &Storage,
    listed: &mut BTreeSet<usize>,
    rows: &mut Vec<LedgerRow>,
) {
    let before = rows.len();
    let row = |fate, stored, readers: IndexSet<String>, owner| {
        let readers = readers.into_iter().collect();
        LedgerRow { fate, stored, readers, owner, ..constant.clone() }
    };
    let own = storage.of_base(id);
    if let Some((_, symbols)) = own.and_then(|stored| readers.packed.remove(&stored)) {
        // Packed bytes that equal the original are the original.
        symbols.iter().for_each(|symbol| add(&mut readers.original, symbol));
    }
    if own.is_some() {
        rows.push(row(Fate::Stored, own, readers.original, Some(CORE.to_owned())));
    }
    for (index, (backend, symbols)) in readers.packed {
        let found = &storage.constants[index];
        let first = found.base.is_none() && listed.insert(index);
        let fate = if first { Fate::Packed } else { Fate::Viewed };
        let owner = if found.base.is_some() { CORE.to_owned() } else { backend };
        let mut packed = row(fate, Some(index), symbols, Some(owner));
        // The layout is recorded with the stored constant.
        packed.note = match first {
            true if own.is_some() => {
                Some(format!("{} more than the original alone", readable(found.bytes.len() as u64)))
            }
            true if rows.len() > before => {
                Some(format!("{} more than one form alone", readable(found.bytes.len() as u64)))
            }
            true => None,
            false => Some("packed it has the bytes of another constant".to_owned()),
        };
        rows.push(packed);
    }
    let embedded = joined(&readers.embedded);
    if rows.len() == before && !embedded.is_empty() {
        rows.push(row(Fate::Embedded, None, readers.embedded, Some(joined(&readers.embedders))));
    } else if rows.len() == before {
        let mut dropped = row(Fate::Dropped, None, IndexSet::new(), None);
        dropped.note =
            (!readers.unused.is_empty()).then(|| format!("claimed as unused by {}", joined(&readers.unused)));
        rows.push(dropped);
    } else if !embedded.is_empty() {
        add_note(&mut rows[before], &format!("also embedded in the code of {embedded}"));
        rows[before].compiled_in = readers.embedded.into_iter().collect();
    }
    // A backend that claims Unused may have looked at the bytes.
    rows[before].compiled_in.extend(readers.unused);
}

/// Appends a note to a row.
fn add_note(row: &mut LedgerRow, note: &str) {
    row.note = Some(row.note.take().map_or(note.to_owned(), |before| format!("{before}; {note}")));
}

/// A row with the properties of the constant itself.
fn row(id: BaseId, base: &Base, named: &HashMap<(BaseId, &str), u64>) -> LedgerRow {
    let bytes = base.bytes.len() as u64;
    let names = base.names.iter().map(|name| named.get(&(id, name.as_str())).copied().unwrap_or(bytes));
    LedgerRow {
        id: id.0,
        names: base.names.clone(),
        transposed: base.transposed.clone(),
        dtype: base.dtype,
        shape: base.shape.clone(),
        bytes,
        model_bytes: names.sum(),
        digest: to_hex(&base.digest[..16]),
        readers: Vec::new(),
        owner: None,
        fate: Fate::Dropped,
        stored: None,
        compiled_in: Vec::new(),
        note: None,
    }
}

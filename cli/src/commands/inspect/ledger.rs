//! The ledger as a table.

use std::collections::BTreeSet;

use byoc_core::artifact::Artifact;
use byoc_core::artifact::manifest::{Fate, LedgerRow, Manifest};

use crate::report::{self, Bytes, Table, count, size};

/// How many of a row's names and readers are shown.
const SHOWN: usize = 2;

/// The table, the largest constants first and at most `limit` of them, and the sums over all.
pub(crate) fn text(artifact: &Artifact, limit: usize) -> String {
    let manifest = artifact.manifest();
    let mut rows: Vec<&LedgerRow> = manifest.ledger.iter().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.bytes), row.id));
    let headings = [">id", "names", "dtype", "shape", ">bytes", "?readers", "owner", "fate", "?section", "?note"];
    let mut table = Table::new(&headings);
    for row in rows.iter().take(limit) {
        table.row(cells(manifest, row));
    }
    let more = rows.len().saturating_sub(limit);
    let more = if more > 0 { format!("... and {more} more\n") } else { String::new() };
    let constants = first_rows(manifest).count();
    let names: usize = first_rows(manifest).map(|row| row.names.len()).sum();
    let bytes = Bytes::of(artifact);
    let counts = format!("{} under {}", count(constants, "constant"), count(names, "name"));
    let totals = format!("{counts}, {} stored\n{}{}\n", size(bytes.stored()), bytes.details(), bytes.sentence());
    format!("{}{more}\n{totals}", table.text())
}

/// One row for each constant: one that is kept in several forms has several.
fn first_rows(manifest: &Manifest) -> impl Iterator<Item = &LedgerRow> {
    let mut seen = BTreeSet::new();
    manifest.ledger.iter().filter(move |row| seen.insert(row.id))
}

fn cells(manifest: &Manifest, row: &LedgerRow) -> [String; 10] {
    let stored = row.stored.and_then(|stored| manifest.constants.get(stored));
    let section = stored.map(|stored| stored.place(&manifest.files));
    let layout = stored.and_then(|stored| stored.layout.as_ref()).map(|layout| format!("packed as {layout}"));
    let transposed =
        (!row.transposed.is_empty()).then(|| format!("transposed in the model: {}", row.transposed.join(", ")));
    // One element is kept of a constant whose elements are all equal.
    let one = row.dtype.element_bytes().is_some_and(|size| row.bytes == size as u64);
    let all = one && row.bytes.saturating_mul(row.names.len() as u64) < row.model_bytes;
    let splat = all.then(|| format!("one element for {} of the model", size(row.model_bytes)));
    let notes: Vec<_> = layout.into_iter().chain(splat).chain(transposed).chain(row.note.clone()).collect();
    [
        row.id.to_string(),
        listed(&row.names),
        row.dtype.to_string(),
        report::shape(&row.shape),
        size(row.bytes),
        listed(&row.readers),
        row.owner.clone().unwrap_or_else(|| "-".into()),
        fate(row.fate).to_owned(),
        section.unwrap_or_else(|| "-".into()),
        notes.join("; "),
    ]
}

/// The first of a list, and how many more there are; a dash where there are none.
fn listed(list: &[String]) -> String {
    if list.is_empty() { "-".into() } else { some(list) }
}

/// The first of a list, and how many more there are.
fn some(list: &[String]) -> String {
    let shown = list[..list.len().min(SHOWN)].join(", ");
    if list.len() > SHOWN { format!("{shown} and {} more", list.len() - SHOWN) } else { shown }
}

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Stored => "stored",
        Fate::Packed => "packed",
        Fate::Embedded => "embedded",
        Fate::Folded => "folded",
        Fate::Dropped => "dropped",
        Fate::Viewed => "viewed",
    }
}

#[cfg(test)]
mod tests {
    use super::some;

    #[test]
    fn long_lists_are_cut() {
        let list = |names: &[&str]| some(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a, b");
        assert_eq!(list(&["a", "b", "c", "d"]), "a, b and 2 more");
    }
}

//! The ledger as a table: what became of every constant.

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
    let mut table = Table::new(&["constant", "type", "shape", ">bytes", "fate", "owner", "section", "readers", "note"]);
    for row in rows.iter().take(limit) {
        table.row(cells(manifest, row));
    }
    let more = rows.len().saturating_sub(limit);
    let more = if more > 0 { format!("... and {more} more\n") } else { String::new() };
    let constants = first_rows(manifest).count();
    let names: usize = first_rows(manifest).map(|row| row.names.len()).sum();
    let copies: u64 = first_rows(manifest).map(|row| row.bytes * (row.names.len() as u64).saturating_sub(1)).sum();
    let copies = if copies > 0 { format!("; the model has {} of equal copies", size(copies)) } else { String::new() };
    let totals = format!("{} under {}{copies}", count(constants, "constant"), count(names, "name"));
    format!("{}{more}\n{totals}\n{}\n", table.text(), Bytes::of(artifact).sentence())
}

/// One row for each constant: one that is kept in several forms has several.
fn first_rows(manifest: &Manifest) -> impl Iterator<Item = &LedgerRow> {
    let mut seen = BTreeSet::new();
    manifest.ledger.iter().filter(move |row| seen.insert(row.id))
}

fn cells(manifest: &Manifest, row: &LedgerRow) -> [String; 9] {
    let stored = row.stored.and_then(|stored| manifest.constants.get(stored));
    let section = stored.map(|stored| stored.section.clone());
    let layout = stored.and_then(|stored| stored.layout.as_ref()).map(|layout| format!("packed as {layout}"));
    [
        if row.names.is_empty() { format!("#{}", row.id) } else { some(&row.names) },
        row.dtype.to_string(),
        report::shape(&row.shape),
        size(row.bytes),
        fate(row.fate).to_owned(),
        row.owner.clone().unwrap_or_else(|| "-".into()),
        section.unwrap_or_else(|| "-".into()),
        if row.readers.is_empty() { "-".into() } else { some(&row.readers) },
        layout.into_iter().chain(row.note.clone()).collect::<Vec<_>>().join("; "),
    ]
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

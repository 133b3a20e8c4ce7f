//! The ledger as a table.

use std::collections::BTreeSet;

use byoc_core::artifact::manifest::{Manifest, Stored};
use byoc_core::artifact::{Artifact, Fate, LedgerRow};
use byoc_core::diagnostic::Result;

use crate::report::{self, Bytes, Table, count, size};

/// How many of a row's names and readers are shown.
const SHOWN: usize = 2;

/// The table, the largest constants first, and the sums.
pub(crate) fn text(artifact: &Artifact) -> Result<String> {
    let rows = largest_first(artifact.ledger()?);
    Ok(format!("{}\n{}", table(artifact.manifest(), &rows), totals(artifact)?))
}

/// The two largest, the largest of those with several names, and the sums.
pub(crate) fn some(artifact: &Artifact) -> Result<String> {
    let rows = largest_first(artifact.ledger()?);
    let tied = rows.iter().skip(2).find(|row| row.names.len() > 1);
    let rows: Vec<_> = rows.iter().take(2).chain(tied).copied().collect();
    Ok(format!("{}{}", table(artifact.manifest(), &rows), totals(artifact)?))
}

fn largest_first(ledger: &[LedgerRow]) -> Vec<&LedgerRow> {
    let mut rows: Vec<&LedgerRow> = ledger.iter().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.bytes), row.id));
    rows
}

fn table(manifest: &Manifest, rows: &[&LedgerRow]) -> String {
    let headings =
        [">id", "names", "dtype", "shape", ">bytes", "?>stored", "?readers", "owner", "fate", "?section", "?note"];
    let mut table = Table::new(&headings);
    let mut seen = BTreeSet::new();
    rows.iter().for_each(|row| table.row(cells(manifest, row, &mut seen)));
    table.text()
}

fn totals(artifact: &Artifact) -> Result<String> {
    let ledger = artifact.ledger()?;
    let constants = first_rows(ledger).count();
    let names: usize = first_rows(ledger).map(|row| row.names.len()).sum();
    let bytes = Bytes::of(artifact)?;
    let counts = format!("{} under {}", count(constants, "constant"), count(names, "name"));
    Ok(format!("{counts}, {} stored\n{}{}\n", size(bytes.stored()), bytes.details(), bytes.sentence()))
}

/// One row for each constant: one that is kept in several forms has several.
fn first_rows(ledger: &[LedgerRow]) -> impl Iterator<Item = &LedgerRow> {
    let mut seen = BTreeSet::new();
    ledger.iter().filter(move |row| seen.insert(row.id))
}

/// `seen` has what the rows above have stored: it counts once.
fn cells(manifest: &Manifest, row: &LedgerRow, seen: &mut BTreeSet<usize>) -> [String; 11] {
    let stored = row.stored.and_then(|stored| manifest.constants.get(stored));
    let section = stored.map(|stored| stored.place(&manifest.files));
    let kept = row.stored.filter(|&index| seen.insert(index)).and(stored).and_then(stored_bytes);
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
        kept.map_or_else(|| "-".into(), size),
        listed(&row.readers),
        row.owner.clone().unwrap_or_else(|| "-".into()),
        fate(row.fate).to_owned(),
        section.unwrap_or_else(|| "-".into()),
        notes.join("; "),
    ]
}

/// The bytes of a constant in the form in which it is kept.
fn stored_bytes(stored: &Stored) -> Option<u64> {
    let elements = stored.shape.iter().try_fold(1u64, |all, &size| all.checked_mul(size as u64))?;
    elements.checked_mul(stored.dtype.element_bytes()? as u64)
}

/// The first of a list, and how many more there are; a dash where there are none.
fn listed(list: &[String]) -> String {
    if list.is_empty() { "-".into() } else { first_of(list) }
}

/// The first of a list, and how many more there are.
fn first_of(list: &[String]) -> String {
    let shown = list[..list.len().min(SHOWN)].join(", ");
    if list.len() > SHOWN { format!("{shown} and {} more", list.len() - SHOWN) } else { shown }
}

/// What became of a constant, in a word.
pub(crate) fn fate(fate: Fate) -> &'static str {
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
    use super::first_of;

    #[test]
    fn long_lists_are_cut() {
        let list = |names: &[&str]| first_of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a, b");
        assert_eq!(list(&["a", "b", "c", "d"]), "a, b and 2 more");
    }
}

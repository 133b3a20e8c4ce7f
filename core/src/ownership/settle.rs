//! Settles ownership: turns the claims of every region into the contents of the artifact, or an error.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::assemble::assemble;
use super::audit::{Findings, audit};
use super::external::{self, References};
use super::ledger_rows;
use super::storage::Storage;
use crate::artifact::{Contents, Ledger};
use crate::codegen::Generated;
use crate::diagnostic::{Diagnostic, Result};
use crate::plugin::BackendIdentity;

/// How to settle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettleOptions {
    /// Makes a constant that is both in code and stored a warning in place of an error.
    pub allow_duplicates: bool,
    /// The folder of the artifact, if it refers to constants in the model's files: paths are relative
    /// to it.
    pub refer_from: Option<PathBuf>,
}

/// Stage 6's result: every constant is stored once.
#[derive(Debug)]
pub struct Settled {
    contents: Contents,
    warnings: Vec<Diagnostic>,
}

/// Searches the code for copies of what is stored, and puts the artifact's contents together, with the ledger. `storage` is
/// that of `generated`; `backends` are those of the user's list, in its order.
pub(crate) fn settle(
    generated: &Generated,
    storage: &Storage,
    backends: &[BackendIdentity],
    options: &SettleOptions,
) -> Result<Settled> {
    let Findings { mut duplicates, notes } = audit(generated, backends, storage)?;
    if !options.allow_duplicates && !duplicates.is_empty() {
        let mut first = duplicates.swap_remove(0);
        if !duplicates.is_empty() {
            let _ = write!(first.message, " (and {} more such copies)", duplicates.len());
        }
        return Err(first);
    }
    let references = match &options.refer_from {
        Some(dir) => external::refer(storage, &generated.model.sources, dir)?,
        None => References::default(),
    };
    let ledger = ledger_rows::rows(generated, backends, storage, notes)?;
    let contents = assemble(generated, backends, storage, references, ledger)?;
    Ok(Settled { contents, warnings: duplicates })
}

impl Settled {
    /// Copies that were found and allowed.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The ledger.
    pub fn ledger(&self) -> Ledger {
        Ledger::of(&self.contents.manifest, &self.contents.ledger)
    }

    /// The contents to write, and the ledger.
    pub fn into_contents(self) -> (Contents, Ledger) {
        let ledger = self.ledger();
        (self.contents, ledger)
    }

    /// The text form: one line for each row of the ledger.
    pub fn print(&self) -> String {
        let mut text = String::new();
        let manifest = &self.contents.manifest;
        for row in &self.contents.ledger {
            let names = row.names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(" ");
            let fate = format!("{:?}", row.fate).to_lowercase();
            let stored = row.stored.map(|index| format!(" in {}", manifest.constants[index].place(&manifest.files)));
            let readers =
                if row.readers.is_empty() { String::new() } else { format!(" for {}", row.readers.join(", ")) };
            let note = row.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
            let _ = writeln!(
                text,
                "constant {} {names} {}{:?} {} B {fate}{}{readers}{note}",
                row.id,
                row.dtype,
                row.shape,
                row.bytes,
                stored.unwrap_or_default()
            );
        }
        text
    }
}

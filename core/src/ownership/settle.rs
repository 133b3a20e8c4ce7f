//! Settles who owns what: from the claims of every region to the contents of the artifact, or an error.

use std::fmt::Write as _;
use std::path::PathBuf;

use byoc_plugin_api::Options;

use super::assemble::assemble;
use super::audit::{Findings, audit};
use super::external::{self, References};
use super::homes::Homes;
use super::ledger::{self, Ledger};
use crate::artifact::Contents;
use crate::artifact::manifest::{Fate, LedgerRow};
use crate::codegen::Generated;
use crate::constants::BaseId;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin::Selected;

/// What the artifact says of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendIdentity {
    /// The name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// The version of its code format.
    pub code_version: u32,
    /// The plugin ABI it speaks.
    pub abi_version: u32,
    /// The kind of memory that its regions run in, if it is not the host's.
    pub domain: Option<String>,
    /// The options it was run with.
    pub options: Options,
    /// Whether it has other code for its regions.
    pub candidates: bool,
}

impl BackendIdentity {
    /// What a chosen backend says of itself.
    pub fn of(selected: &Selected) -> Self {
        let description = &selected.registered.description;
        BackendIdentity {
            name: description.name.clone(),
            version: description.version.clone(),
            code_version: description.code_version,
            abi_version: selected.registered.abi_version,
            domain: description.domain.clone(),
            options: selected.kept_options(),
            candidates: description.candidates,
        }
    }
}

/// How to settle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettleOptions {
    /// Turns a constant that is found in code and stored as well from an error into a warning.
    pub allow_duplicates: bool,
    /// The folder of the artifact, where it is to refer to constants in the model's files and not to hold them: the
    /// paths are seen from there.
    pub refer_from: Option<PathBuf>,
}

/// Every constant has one home. Stage 6's result.
#[derive(Debug)]
pub struct Settled {
    contents: Contents,
    warnings: Vec<Diagnostic>,
}

/// Gives every constant that somebody reads one home, searches the code for copies, and puts the artifact's contents
/// together. `backends` are those of the user's list, in its order.
pub fn settle(generated: Generated, backends: &[BackendIdentity], options: &SettleOptions) -> Result<Settled> {
    complete(&generated, backends)?;
    let homes = Homes::find(&generated)?;
    let Findings { mut duplicates, notes } = audit(&generated, backends, &homes)?;
    if !options.allow_duplicates && !duplicates.is_empty() {
        let mut first = duplicates.swap_remove(0);
        if !duplicates.is_empty() {
            let _ = write!(first.message, " (and {} more such copies)", duplicates.len());
        }
        return Err(first);
    }
    let references = match &options.refer_from {
        Some(folder) => external::refer(&homes, &generated.model.sources, folder)?,
        None => References::default(),
    };
    let mut contents = assemble(&generated, backends, &homes, references)?;
    contents.manifest.ledger = ledger::rows(&generated, backends, &homes);
    let mut settled = Settled { contents, warnings: duplicates };
    for (base, note) in notes {
        settled.row(base).into_iter().for_each(|row| ledger::add_note(row, &note));
    }
    Ok(settled)
}

/// Checks what the later steps take for granted: one claim for each constant, and a backend for each region.
fn complete(generated: &Generated, backends: &[BackendIdentity]) -> Result<()> {
    for region in &generated.regions {
        let (symbol, constants) = (&region.plan.region.symbol, region.plan.region.constants.len());
        if region.plan.constants.len() != constants || region.claims.len() != constants {
            let message = format!("region {symbol} has {constants} constants and {} claims", region.claims.len());
            return Err(Diagnostic::new(Code::BadClaim, message));
        }
        if region.plan.backend >= backends.len() {
            return Err(Diagnostic::new(Code::UnknownBackend, format!("region {symbol} has no backend")));
        }
    }
    Ok(())
}

impl Settled {
    fn row(&mut self, base: BaseId) -> Option<&mut LedgerRow> {
        let ledger = &mut self.contents.manifest.ledger;
        let place = ledger.partition_point(|row| row.id < base.0);
        ledger.get_mut(place).filter(|row| row.id == base.0)
    }

    /// Marks constants that were computed into others. Where nobody reads them, that is what became of them.
    pub fn mark_folded(&mut self, bases: impl IntoIterator<Item = BaseId>) {
        for base in bases {
            let Some(row) = self.row(base) else { continue };
            if row.fate == Fate::Dropped {
                row.fate = Fate::Folded;
            }
            row.compiled_in.push("other constants".into());
        }
    }

    /// Marks constants whose elements decide shapes.
    pub fn mark_shaping(&mut self, bases: impl IntoIterator<Item = BaseId>) {
        for base in bases {
            self.row(base).into_iter().for_each(|row| row.compiled_in.push("the shapes of the model".into()));
        }
    }

    /// Copies that were found and allowed.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// What became of every constant.
    pub fn ledger(&self) -> Ledger {
        Ledger::of(&self.contents.manifest)
    }

    /// What is to be written, and what became of every constant.
    pub fn into_contents(self) -> (Contents, Ledger) {
        let ledger = self.ledger();
        (self.contents, ledger)
    }

    /// The text form: one line for each row of the ledger.
    pub fn print(&self) -> String {
        let mut text = String::new();
        let manifest = &self.contents.manifest;
        for row in &manifest.ledger {
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

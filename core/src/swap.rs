//! Replaces weights in a compiled model: takes constants from new model files by name in place of those that the artifact
//! stores unchanged. Nothing is compiled; constants whose old bytes were compiled into something are refused.
//!
//! Only constants are compared. Attributes and operators of the new model are not looked at.

mod judge;
mod new_model;
mod replace;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use self::judge::{Judge, Refusal, Verdict};
use self::new_model::NewModel;
use crate::artifact::manifest::{Fate, LedgerRow};
use crate::artifact::{Artifact, Progress};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::overwrite::{self, Input};

/// The replaced constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Every constant that has other bytes now.
    pub replaced: Vec<Replaced>,
    /// How many of them became equal to another constant and were merged with it.
    pub merged: usize,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// A constant that has other bytes now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Its names.
    pub names: Vec<String>,
    /// How many bytes the file holds of it.
    pub bytes: u64,
}

/// Writes the artifact to `output` with the constants of `models`, which replace the files that it was compiled
/// from. Every constant that cannot be swapped is found before anything is written; the error names the first.
///
/// `output` may be none of the files that are read.
pub fn swap(artifact: &Path, models: &[PathBuf], output: &Path, progress: Progress<'_>) -> Result<Report> {
    let artifact = Artifact::open(artifact)?;
    if let Some(file) = artifact.manifest().files.first() {
        let message = format!("cannot swap constants of '{}': it refers to '{}'", artifact.path().display(), file.path);
        return Err(Diagnostic::new(Code::CannotSwap, message)
            .hint("Compile the new model; with --external-constants that copies no weight"));
    }
    let new = NewModel::import(models, &artifact)?;
    let inputs = [&[Input::new("the artifact", artifact.path())], &new.inputs[..]].concat();
    overwrite::check(&[output], &inputs)?;
    let (mut replaced, mut refused) = (Vec::new(), Vec::new());
    let constants = by_id(&artifact);
    let mut owners: HashMap<&str, usize> = HashMap::new();
    constants.values().flat_map(|rows| &rows[0].names).for_each(|name| *owners.entry(name).or_default() += 1);
    let judge = Judge { artifact: &artifact, new: &new, owners: &owners };
    for (&id, rows) in &constants {
        match judge.constant(rows) {
            Ok(Verdict::Same) => {}
            Ok(Verdict::Other(content)) => replaced.push((id, content)),
            Err(refusal) => refused.push(refusal),
        }
    }
    refused.extend(judge.unknown());
    if let Some(first) = refused.first() {
        return Err(error(first, refused.len() - 1));
    }
    let stored = |id: usize| constants[&id].iter().find(|row| row.fate == Fate::Stored);
    let report = replaced.iter().filter_map(|(id, content)| {
        Some(Replaced { names: stored(*id)?.names.clone(), bytes: content.bytes.len() as u64 })
    });
    let report = report.collect();
    let (contents, merged) = replace::contents(&artifact, &replaced, &new)?;
    overwrite::check(&[output], &inputs)?;
    Ok(Report { replaced: report, merged, file_bytes: contents.write(output, progress)? })
}

/// The rows of each constant of the ledger.
fn by_id(artifact: &Artifact) -> BTreeMap<usize, Vec<&LedgerRow>> {
    let mut constants: BTreeMap<usize, Vec<&LedgerRow>> = BTreeMap::new();
    artifact.manifest().ledger.iter().for_each(|row| constants.entry(row.id).or_default().push(row));
    constants
}

fn error(refusal: &Refusal, more: usize) -> Diagnostic {
    let more = if more > 0 { format!(" (and {more} more such constants)") } else { String::new() };
    let message = format!("cannot swap `{}`: {}{more}", refusal.name, refusal.reason);
    Diagnostic::new(Code::CannotSwap, message).hint(&refusal.hint)
}

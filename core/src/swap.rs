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
use crate::artifact::{Artifact, ArtifactFile, Contents, Fate, Joined, LedgerRow, Progress};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::overwrite::{self, Input};

/// The replaced constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Every constant that has other bytes now.
    pub replaced: Vec<Replaced>,
    /// How many of them became equal to another constant and were merged with it; the most of any variant.
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

/// Writes the artifact, all of its variants, to `output` with the constants of `models`, which replace the files that it was compiled
/// from. Every constant that cannot be swapped is found before anything is written; the error names the first.
///
/// `output` may be none of the files that are read.
pub fn swap(artifact: &Path, models: &[PathBuf], output: &Path, progress: Progress<'_>) -> Result<Report> {
    let file = ArtifactFile::open(artifact)?;
    let all = file.all()?;
    if let Some(other) = all.iter().find_map(|artifact| artifact.manifest().files.first()) {
        let message = format!("cannot swap constants of '{}': it refers to '{}'", artifact.display(), other.path);
        return Err(Diagnostic::new(Code::CannotSwap, message)
            .hint("Compile the new model; with --external-constants that copies no weight"));
    }
    let mut report = Report { replaced: Vec::new(), merged: 0, file_bytes: 0 };
    let (mut variants, mut inputs) = (Vec::new(), vec![Input::new("the artifact", artifact)]);
    for artifact in &all {
        let new = NewModel::import(models, artifact)?;
        inputs.extend(new.inputs.iter().cloned());
        overwrite::check(&[output], &inputs)?;
        let swapped = swapped(artifact, &new)?;
        report.merged = report.merged.max(swapped.merged);
        for replaced in swapped.replaced {
            // The same constant may have further names in another variant.
            let same = |known: &Replaced| known.names.iter().any(|name| replaced.names.contains(name));
            if !report.replaced.iter().any(same) {
                report.replaced.push(replaced);
            }
        }
        variants.push(swapped.contents);
    }
    overwrite::check(&[output], &inputs)?;
    report.file_bytes = match variants.pop() {
        Some(contents) if file.variants().is_empty() => contents.write(output, progress)?,
        last => {
            let variants = file.variants().iter().cloned().zip(variants.into_iter().chain(last)).collect();
            Joined::of(variants)?.write(output, progress)?
        }
    };
    Ok(report)
}

/// An artifact, or a variant of one, with other constants.
struct Swapped {
    contents: Contents,
    replaced: Vec<Replaced>,
    merged: usize,
}

fn swapped(artifact: &Artifact, new: &NewModel) -> Result<Swapped> {
    let (mut replaced, mut refused) = (Vec::new(), Vec::new());
    let constants = by_id(artifact)?;
    let mut owners: HashMap<&str, usize> = HashMap::new();
    constants.values().flat_map(|rows| &rows[0].names).for_each(|name| *owners.entry(name).or_default() += 1);
    let judge = Judge { artifact, new, owners: &owners };
    for (&id, rows) in &constants {
        match judge.constant(rows) {
            Ok(Verdict::Same) => {}
            Ok(Verdict::Other(content)) => replaced.push((id, content)),
            Err(refusal) => refused.push(refusal),
        }
    }
    refused.extend(judge.unknown());
    if let Some(first) = refused.first() {
        return Err(error(artifact, first, refused.len() - 1));
    }
    let stored = |id: usize| constants[&id].iter().find(|row| row.fate == Fate::Stored);
    let report = replaced.iter().filter_map(|(id, content)| {
        Some(Replaced { names: stored(*id)?.names.clone(), bytes: content.bytes.len() as u64 })
    });
    let report = report.collect();
    let (contents, merged) = replace::contents(artifact, &replaced, new)?;
    Ok(Swapped { contents, replaced: report, merged })
}

/// The rows of each constant of the ledger.
fn by_id(artifact: &Artifact) -> Result<BTreeMap<usize, Vec<&LedgerRow>>> {
    let mut constants: BTreeMap<usize, Vec<&LedgerRow>> = BTreeMap::new();
    artifact.ledger()?.iter().for_each(|row| constants.entry(row.id).or_default().push(row));
    Ok(constants)
}

fn error(artifact: &Artifact, refusal: &Refusal, more: usize) -> Diagnostic {
    let more = if more > 0 { format!(" (and {more} more such constants)") } else { String::new() };
    let variant = artifact.variant().map(|name| format!(" in variant '{name}'")).unwrap_or_default();
    let message = format!("cannot swap `{}`{variant}: {}{more}", refusal.name, refusal.reason);
    Diagnostic::new(Code::CannotSwap, message).hint(&refusal.hint)
}

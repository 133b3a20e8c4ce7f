//! Other code for the regions of an artifact, chosen by trying it on a device. Constants, claims and the ledger are as they
//! were: candidates for a region take the same constants.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;

use crate::artifact::manifest::Chosen;
use crate::artifact::{Artifact, Contents, Progress, Section, code_sections};
use crate::diagnostic::{Code, Diagnostic, Result, dir_of};
use crate::overwrite::{self, Input};

/// The code that was chosen for a region.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The code; none where the region keeps its own.
    pub code: Option<Bytes>,
    /// How it was chosen.
    pub chosen: Chosen,
}

/// Writes the artifact to `output` with other code for these regions, by their numbers; returns the size of the file.
pub fn rewrite(
    artifact: &Artifact,
    choices: &BTreeMap<usize, Choice>,
    output: &Path,
    progress: Progress<'_>,
) -> Result<u64> {
    check_output(artifact, output)?;
    contents(artifact, choices)?.write(output, progress)
}

fn contents(artifact: &Artifact, choices: &BTreeMap<usize, Choice>) -> Result<Contents> {
    let mut manifest = artifact.manifest().clone();
    for (&index, choice) in choices {
        if let Some(region) = manifest.regions.get_mut(index) {
            region.chosen = Some(choice.chosen.clone());
        }
    }
    // Kept sections keep their digests: a new one would vouch for a damaged section.
    let mut sections = code_sections(&mut manifest, |index, region| {
        match choices.get(&index).and_then(|choice| choice.code.clone()) {
            Some(code) => Ok((code, None)),
            None => Ok((artifact.section(&region.code)?, artifact.digest_of(&region.code))),
        }
    })?;
    for stored in manifest.constants.iter().filter(|stored| stored.external.is_none()) {
        let (bytes, digest) = (artifact.section(&stored.section)?, artifact.digest_of(&stored.section));
        sections.push(Section::of_stored(stored, bytes, digest));
    }
    Ok(Contents { manifest, sections })
}

/// Errors where `output` is the artifact, or a file that it refers to; and where a file there would lose the files that the
/// artifact refers to, for their paths are seen from its folder.
pub fn check_output(artifact: &Artifact, output: &Path) -> Result<()> {
    let mut inputs = artifact.constant_files(None);
    inputs.push(Input::new("the artifact", artifact.path()));
    overwrite::check(&[output], &inputs)?;
    let Some(first) = artifact.manifest().files.first() else { return Ok(()) };
    let place = |path: &Path| std::fs::canonicalize(dir_of(path)).ok();
    if place(artifact.path()) != place(output) {
        let message = format!("'{}' refers to '{}' from its folder", artifact.path().display(), first.path);
        return Err(Diagnostic::new(Code::Usage, message).hint("Write the output into the same folder"));
    }
    Ok(())
}

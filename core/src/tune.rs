//! Other code for the regions of an artifact, chosen by trying it on a device. Constants, claims and the ledger are as they
//! were: candidates for a region take the same constants.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;

use crate::artifact::manifest::Chosen;
use crate::artifact::{Artifact, ArtifactFile, Contents, Joined, Progress, Section, code_sections};
use crate::diagnostic::Result;

/// The code that was chosen for a region.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The code; none where the region keeps its own.
    pub code: Option<Bytes>,
    /// How it was chosen.
    pub chosen: Chosen,
}

/// Writes the artifact, which is in `file`, to `output` with other code for these regions, by their numbers; returns the size of the
/// file. Other variants of the file stay as they are.
pub fn rewrite(
    file: &ArtifactFile,
    artifact: &Artifact,
    choices: &BTreeMap<usize, Choice>,
    output: &Path,
    progress: Progress<'_>,
) -> Result<u64> {
    artifact.check_output(output)?;
    let tuned = contents(artifact, choices)?;
    if artifact.variant().is_none() {
        return tuned.write(output, progress);
    }
    let mut tuned = Some(tuned);
    let of = |(name, other): (&String, &Artifact)| {
        let own = tuned.take_if(|_| artifact.variant() == Some(name));
        Ok((name.clone(), own.map_or_else(|| other.contents(), Ok)?))
    };
    let all = file.all()?;
    let variants = file.variants().iter().zip(&all).map(of).collect::<Result<_>>()?;
    Joined::of(variants)?.write(output, progress)
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

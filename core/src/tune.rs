//! Other code for the regions of an artifact, chosen by trying it on a device. Constants, claims and the ledger are as they
//! were: candidates for a region take the same constants.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;

use crate::artifact::manifest::Chosen;
use crate::artifact::{Artifact, ArtifactFile, Contents, Joined, Progress};
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
    artifact.contents_with(manifest, &|index| choices.get(&index)?.code.clone())
}

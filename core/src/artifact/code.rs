//! Equal code is stored once: regions of one backend that have the same bytes refer to one section.

use std::collections::HashMap;

use bytes::Bytes;

use super::manifest::{Manifest, Region};
use super::{Section, code_section};
use crate::diagnostic::Result;

/// Code with its BLAKE3 digest, if known; a given digest is trusted.
pub(crate) type Code = (Bytes, Option<[u8; 32]>);

/// The sections of the regions' code. `code` gives that of a region; equal code is in the section of the first region
/// that has it, and every region refers to its section afterwards.
pub(crate) fn code_sections(
    manifest: &mut Manifest,
    mut code: impl FnMut(usize, &Region) -> Result<Code>,
) -> Result<Vec<Section>> {
    let mut sections: Vec<Section> = Vec::new();
    let mut names: HashMap<([u8; 32], String, u32), String> = HashMap::new();
    for (index, region) in manifest.regions.iter_mut().enumerate() {
        let (bytes, digest) = code(index, region)?;
        let digest = digest.unwrap_or_else(|| *blake3::hash(&bytes).as_bytes());
        let name = names.entry((digest, region.backend.clone(), region.code_version)).or_insert_with(|| {
            let name = code_section(&region.symbol);
            sections.push(Section { digest: Some(digest), ..Section::of_bytes(&name, bytes) });
            name
        });
        region.code.clone_from(name);
    }
    Ok(sections)
}

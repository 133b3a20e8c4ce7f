//! Artifacts taken apart and put together again with digests and offsets that fit, so that what is inside is tried and not
//! only the check of digests. The format is in `docs/artifact-format.md`.

use std::io::{Read, Write};

use byoc_core::artifact::digest_of;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde_json::{Map, Value, json};

use crate::{Raw, Rng, json};

/// The sections that are compressed JSON; those of variants have the name of one and a slash first.
const DOCUMENTS: [&str; 2] = ["graph", "ledger"];

/// What the names of code sections start with.
const CODE: &str = "code/";

/// What the names of sections start with that only fill gaps.
const PAD: &str = "__pad__/";

/// Where data starts at a multiple of this, and the largest alignment of a section.
const PAGE: usize = 4096;

/// Most bytes of a document that are looked at.
const MOST: u64 = 1 << 20;

struct Section {
    name: String,
    dtype: Value,
    shape: Value,
    start: usize,
    bytes: Vec<u8>,
}

/// An artifact in parts.
pub(crate) struct Parts {
    metadata: Map<String, Value>,
    sections: Vec<Section>,
}

impl Parts {
    /// The parts of a file; `None` if it is not an artifact.
    pub(crate) fn read(file: &[u8]) -> Option<Parts> {
        let (length, rest) = file.split_first_chunk()?;
        let (header, data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let mut header: Map<String, Value> = serde_json::from_slice(header).ok()?;
        let Some(Value::Object(mut metadata)) = header.remove("__metadata__") else { return None };
        metadata.retain(|key, _| !key.starts_with("b3:"));
        let section = |(name, tensor): (String, Value)| {
            let place = |index: usize| usize::try_from(tensor["data_offsets"][index].as_u64()?).ok();
            let (start, end) = (place(0)?, place(1)?);
            let bytes = data.get(start..end)?.to_vec();
            Some(Section { name, dtype: tensor["dtype"].clone(), shape: tensor["shape"].clone(), start, bytes })
        };
        let mut sections = header.into_iter().map(section).collect::<Option<Vec<_>>>()?;
        sections.retain(|section| !section.name.starts_with(PAD));
        sections.sort_by_key(|section| (section.start, section.bytes.len()));
        Some(Parts { metadata, sections })
    }

    /// The file: sections where they were or after that, at no smaller alignment, with their digests.
    pub(crate) fn write(&self) -> Vec<u8> {
        let (mut metadata, mut tensors, mut data, mut pads) = (self.metadata.clone(), Map::new(), Vec::new(), 0);
        for section in &self.sections {
            let alignment = 1 << section.start.trailing_zeros().min(PAGE.trailing_zeros());
            let start = data.len();
            data.resize(start.next_multiple_of(alignment), 0);
            if data.len() > start {
                let (name, length) = (format!("{PAD}{pads}"), data.len() - start);
                pads += 1;
                tensors.insert(name, json!({"dtype": "U8", "shape": [length], "data_offsets": [start, data.len()]}));
            }
            let start = data.len();
            data.extend_from_slice(&section.bytes);
            let (dtype, shape) = (&section.dtype, &section.shape);
            let tensor = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
            tensors.insert(section.name.clone(), tensor);
            metadata.insert(format!("b3:{}", section.name), digest_of(&section.bytes).into());
        }
        let mut header = Map::from_iter([("__metadata__".to_owned(), Value::Object(metadata))]);
        header.extend(tensors);
        let mut json = Value::Object(header).to_string().into_bytes();
        json.resize((8 + json.len()).next_multiple_of(PAGE) - 8, b' ');
        [&(json.len() as u64).to_le_bytes()[..], &json, &data].concat()
    }

    /// The bytes of a section.
    pub(crate) fn section(&self, name: &str) -> Option<&[u8]> {
        self.sections.iter().find(|section| section.name == name).map(|section| section.bytes.as_slice())
    }

    /// The names of the sections that hold code.
    pub(crate) fn codes(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|section| section.name.as_str()).filter(|name| name.starts_with(CODE))
    }

    /// A section of compressed JSON.
    fn document(&self, name: &str) -> Option<Value> {
        let mut text = Vec::new();
        ZlibDecoder::new(self.section(name)?).take(MOST).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Gives a section other bytes.
    fn put(&mut self, index: usize, bytes: Vec<u8>) {
        let section = &mut self.sections[index];
        if document(&section.name).is_some() || section.name.starts_with(CODE) {
            section.shape = json!([bytes.len()]);
            section.bytes = bytes;
        } else {
            let length = section.bytes.len();
            section.bytes = bytes;
            section.bytes.resize(length, 0);
        }
    }

    /// Changes one of the sections, or what the header says of it.
    fn mutate(&mut self, other: Option<&Parts>, rng: &mut Rng, raw: Raw<'_>) -> Option<()> {
        let index = if rng.bool() {
            let is_document = |at: &usize| document(&self.sections[*at].name).is_some();
            let documents: Vec<_> = (0..self.sections.len()).filter(is_document).collect();
            *documents.get(rng.usize(..documents.len().max(1)))?
        } else {
            rng.usize(..self.sections.len().max(1))
        };
        let name = self.sections.get(index)?.name.clone();
        let mut bytes = self.sections[index].bytes.clone();
        if let Some(kind) = document(&name) {
            let mut text = self.document(&name)?;
            json::mutate(&mut text, other.and_then(|other| other.document(kind)).as_ref(), rng, raw);
            bytes = compress(&serde_json::to_vec(&text).ok()?);
        } else if name.starts_with(CODE) {
            let donor = other.and_then(|other| other.section(other.codes().next()?));
            bytes = json::bytes(&bytes, donor, rng, raw)?;
        } else if rng.u8(..) < 32 {
            json::mutate(&mut self.sections[index].shape, None, rng, raw);
        } else {
            raw(&mut bytes);
        }
        self.put(index, bytes);
        Some(())
    }
}

/// Which of [`DOCUMENTS`] a section is; none where it is something else.
fn document(name: &str) -> Option<&'static str> {
    let kind = name.split_once('/').map_or(name, |(kind, _)| kind);
    DOCUMENTS.into_iter().find(|known| *known == kind)
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// An artifact with a part of it changed and digests that fit.
pub(crate) fn bytes(input: &[u8], other: Option<&[u8]>, rng: &mut Rng, raw: Raw<'_>) -> Option<Vec<u8>> {
    let mut parts = Parts::read(input)?;
    parts.mutate(other.and_then(Parts::read).as_ref(), rng, raw)?;
    Some(parts.write())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use byoc_core::artifact::ArtifactFile;

    use super::*;

    #[test]
    fn what_is_put_together_again_opens_with_digests_that_fit() {
        for file in crate::models::artifacts() {
            let parts = Parts::read(&file).expect("an artifact");
            let again = parts.write();
            let artifact = ArtifactFile::from_bytes(Path::new("again"), again.clone().into()).expect("opens");
            artifact.all().expect("all fit");
            artifact.verify_digests().expect("digests fit");
            assert_eq!(Parts::read(&again).map(|parts| parts.write()), Some(again));
        }
    }

    #[test]
    fn most_changed_artifacts_get_past_the_digests() {
        let files = crate::models::artifacts();
        let file = |seed| if seed % 2 == 0 { &files[0] } else { &files[files.len() - 1] };
        let damaged = |seed| {
            let changed = bytes(file(seed), None, &mut Rng::with_seed(seed), &mut |bytes| bytes.push(1)).expect("one");
            let opened = ArtifactFile::from_bytes(Path::new("changed"), changed.into()).and_then(|file| file.all());
            opened.is_err_and(|error| error.message.contains("digest"))
        };
        assert_eq!((0..200).filter(|&seed| damaged(seed)).count(), 0);
    }
}

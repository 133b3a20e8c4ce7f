//! Artifacts that are taken apart and put together again with digests that fit: what is changed in between is then the
//! only mistake in the file. Written after `docs/artifact-format.md` and not with core's own code, which refuses to
//! write mistakes.

use std::io::{Read, Write};

use byoc_core::artifact::digest_of;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde_json::{Map, Value, json};

/// The section of what the file holds.
pub const GRAPH: &str = "graph";

/// The section of the ledger.
pub const LEDGER: &str = "ledger";

/// What the names of sections of code start with.
pub const CODE: &str = "code/";

/// What the names of sections that fill gaps start with.
const PAD: &str = "__pad__/";

/// What the metadata key of a section's digest starts with.
const DIGEST: &str = "b3:";

/// Where the data may start, and the largest alignment of a section.
const PAGE: usize = 4096;

/// An artifact in pieces.
#[derive(Clone, Debug)]
pub struct Repacked {
    /// The header's metadata without the digests.
    pub metadata: Map<String, Value>,
    /// The sections in the order of the file, without padding.
    pub sections: Vec<Section>,
}

/// A section of a file.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Its element type, as the header has it.
    pub dtype: Value,
    /// Its shape, as the header has it.
    pub shape: Value,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The largest power of two up to a page that divides its offset.
    alignment: usize,
}

impl Repacked {
    /// Takes an artifact apart.
    ///
    /// # Panics
    ///
    /// When it is none.
    pub fn read(file: &[u8]) -> Repacked {
        let (header, data) = split(file);
        let header: Map<String, Value> = serde_json::from_slice(header).expect("a header");
        let mut metadata = header["__metadata__"].as_object().expect("metadata").clone();
        metadata.retain(|key, _| !key.starts_with(DIGEST));
        let offset = |entry: &Value, end: usize| entry["data_offsets"][end].as_u64().expect("an offset") as usize;
        let tensors = header.iter().filter(|(name, _)| !name.starts_with("__"));
        let mut sections: Vec<(usize, Section)> = tensors
            .map(|(name, entry)| {
                let (start, end) = (offset(entry, 0), offset(entry, 1));
                let alignment = 1 << (start | PAGE).trailing_zeros();
                let (dtype, shape) = (entry["dtype"].clone(), entry["shape"].clone());
                (start, Section { name: name.clone(), dtype, shape, bytes: data[start..end].to_vec(), alignment })
            })
            .collect();
        sections.sort_by_key(|(start, _)| *start);
        Repacked { metadata, sections: sections.into_iter().map(|(_, section)| section).collect() }
    }

    /// The file: padding, offsets, lengths of plain bytes and digests are those of what is there now.
    pub fn write(&self) -> Vec<u8> {
        let (mut data, mut entries, mut metadata) = (Vec::new(), Map::new(), Map::new());
        let mut entry = |name: &str, dtype: &Value, shape: Value, start: usize, end: usize| {
            entries.insert(name.to_owned(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] }));
        };
        let bytes = Value::from("U8");
        let mut pads = 0;
        for section in &self.sections {
            let start = data.len().next_multiple_of(section.alignment);
            if start > data.len() {
                let gap = start - data.len();
                entry(&format!("{PAD}{pads}"), &bytes, json!([gap]), data.len(), start);
                pads += 1;
            }
            data.resize(start, 0);
            data.extend(&section.bytes);
            let plain = [GRAPH, LEDGER].contains(&section.name.as_str()) || section.name.starts_with(CODE);
            let shape = if plain { json!([section.bytes.len()]) } else { section.shape.clone() };
            entry(&section.name, &section.dtype, shape, start, data.len());
            metadata.insert(format!("{DIGEST}{}", section.name), digest_of(&section.bytes).into());
        }
        metadata.extend(self.metadata.clone());
        let mut header = Map::from_iter([("__metadata__".to_owned(), Value::Object(metadata))]);
        header.extend(entries);
        join(&Value::Object(header), &data)
    }

    /// The section of that name.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn section_mut(&mut self, name: &str) -> &mut Section {
        self.sections.iter_mut().find(|section| section.name == name).expect("a section of that name")
    }

    /// What a section of compressed JSON says.
    ///
    /// # Panics
    ///
    /// When there is none of that name, or it is damaged.
    pub fn json(&self, name: &str) -> Value {
        let section = self.sections.iter().find(|section| section.name == name).expect("a section of that name");
        let mut text = Vec::new();
        ZlibDecoder::new(section.bytes.as_slice()).read_to_end(&mut text).expect("compressed");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Lets it say something else.
    ///
    /// # Panics
    ///
    /// When there is none of that name.
    pub fn set_json(&mut self, name: &str, document: &Value) {
        // The fastest level: tests write many of them.
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(document.to_string().as_bytes()).expect("memory can be written");
        self.section_mut(name).bytes = encoder.finish().expect("memory can be written");
    }
}

/// The header of a file as JSON, and the data behind it.
///
/// # Panics
///
/// When the file is too short.
pub fn split(file: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = file.split_first_chunk::<8>().expect("a length");
    rest.split_at(u64::from_le_bytes(*length) as usize)
}

/// A file of a header, which is padded as the format wants it, and of data.
pub fn join(header: &Value, data: &[u8]) -> Vec<u8> {
    let mut text = header.to_string().into_bytes();
    text.resize((8 + text.len()).next_multiple_of(PAGE) - 8, b' ');
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend(text);
    file.extend(data);
    file
}

#[cfg(test)]
mod tests {
    use byoc_core::artifact::Artifact;

    use super::*;
    use crate::{engine, onnx, places};

    /// Taken apart and put together, a file is the same; changed, it differs in what was changed only.
    #[test]
    fn only_the_change_is_a_lie() {
        let folder = places::temporary();
        let model = places::write(folder.path(), "model.onnx", onnx::small().finish());
        let path = folder.path().join("model.byoc");
        engine::compile(&model, &path, &engine::embedded(), &["json"]).expect("it compiles");
        let file = places::read(&path);
        let mut repacked = Repacked::read(&file);
        let open = |bytes: Vec<u8>| {
            let artifact = Artifact::from_bytes(&path, bytes.into()).expect("an artifact");
            artifact.verify_digests().expect("digests fit");
            artifact
        };
        let (before, same) = (open(file), open(repacked.write()));
        assert_eq!(before.manifest(), same.manifest());
        assert!(before.sections().eq(same.sections()));
        let mut ledger = repacked.json(LEDGER);
        ledger["constants"][0]["note"] = "another one".into();
        repacked.set_json(LEDGER, &ledger);
        let changed = open(repacked.write());
        assert_eq!(changed.ledger().expect("it fits")[0].note.as_deref(), Some("another one"));
        assert_eq!(changed.manifest(), before.manifest());
    }
}

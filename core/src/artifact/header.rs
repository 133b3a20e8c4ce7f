//! The safetensors header: an 8-byte length, then JSON that gives each tensor's
//! type, shape and byte range. Written and read here; the reader trusts nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::sync::Arc;

use byoc_plugin_api::DType;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use super::{DIGEST, MAX_ALIGNMENT, PAD};

/// Bytes of the length before the JSON.
const PREFIX: usize = 8;

/// Longest JSON that readers of the format take.
const LIMIT: u64 = 100_000_000;

/// The header's own key, which is not a tensor.
const METADATA: &str = "__metadata__";

/// A tensor of the file. Offsets count from the first byte of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) name: Arc<str>,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The text of its digest; the metadata has it.
    pub(super) digest: Option<String>,
}

/// What a header says. Tensors are in the order of the file and cover it without gap or overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// But for the digests of tensors.
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) tensors: Vec<Tensor>,
}

/// Bytes of a tensor, unless that is more than can be counted.
pub(super) fn byte_length(dtype: DType, shape: &[usize]) -> Option<u64> {
    let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
    dtype.bytes_for(elements).map(|bytes| bytes as u64)
}

/// How the header names a tensor of that type and shape: as it is where the format has the type and its elements fill bytes,
/// and otherwise as plain bytes.
pub(super) fn carrier(dtype: DType, shape: &[usize]) -> Option<(DType, Vec<usize>)> {
    let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
    match dtype.safetensors_name() {
        Some(_) if (elements % 8 * dtype.bits()).is_multiple_of(8) => Some((dtype, shape.to_vec())),
        _ => Some((DType::U8, vec![dtype.bytes_for(elements)?])),
    }
}

impl Tensor {
    /// Number of bytes.
    pub(super) fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it only fills a gap.
    pub(super) fn is_pad(&self) -> bool {
        self.name.starts_with(PAD)
    }
}

impl Header {
    /// The tensors by name.
    pub(super) fn by_name(&self) -> HashMap<&str, &Tensor> {
        self.tensors.iter().map(|tensor| (&*tensor.name, tensor)).collect()
    }

    /// The header as it is in the file, padded with spaces up to where the data starts. Headers that differ in the
    /// characters of a metadata value only have the same length.
    pub(super) fn encode(&self) -> Result<Vec<u8>, String> {
        let mut json = format!("{{{}:{{", quoted(METADATA));
        let own = self.metadata.iter().map(|(key, value)| (Cow::Borrowed(key.as_str()), value));
        let digests =
            self.tensors.iter().filter_map(|it| Some((format!("{DIGEST}{}", it.name).into(), it.digest.as_ref()?)));
        let metadata: BTreeMap<Cow<'_, str>, &String> = own.chain(digests).collect();
        for (index, (key, value)) in metadata.into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(json, "{comma}{}:{}", quoted(&key), quoted(value));
        }
        json.push('}');
        for Tensor { name, dtype, shape, start, end, .. } in &self.tensors {
            // Tensors have the types of `carrier`.
            let (name, dtype) = (quoted(name), dtype.safetensors_name().unwrap_or_default());
            let shape = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            let _ = write!(json, r#",{name}:{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{start},{end}]}}"#);
        }
        json.push('}');
        let length = (PREFIX + json.len()).next_multiple_of(MAX_ALIGNMENT as usize) - PREFIX;
        if length as u64 > LIMIT {
            return Err(format!("a header of {length} bytes is more than the {LIMIT} that the format allows"));
        }
        let mut bytes = (length as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(json.as_bytes());
        bytes.resize(PREFIX + length, b' ');
        Ok(bytes)
    }

    /// The header at the start of `file`, and where the data starts. The error says what is wrong.
    pub(super) fn decode(file: &[u8]) -> Result<(Header, usize), String> {
        let Some((prefix, rest)) = file.split_first_chunk::<PREFIX>() else {
            let count = file.len();
            return Err(format!("it ends after {count} {}", if count == 1 { "byte" } else { "bytes" }));
        };
        let length = u64::from_le_bytes(*prefix);
        if length > LIMIT {
            return Err(format!("its header claims {length} bytes, more than the {LIMIT} that the format allows"));
        }
        let Some((json, data)) = rest.split_at_checked(length as usize) else {
            return Err(format!("its header claims {length} bytes, and only {} follow", rest.len()));
        };
        let raw: RawHeader =
            serde_json::from_slice(json).map_err(|error| format!("its header is not valid: {error}"))?;
        let mut tensors = Vec::with_capacity(raw.tensors.len());
        let Metadata { mut digests, others: mut metadata } = raw.metadata;
        for (name, raw) in raw.tensors {
            let digest = if name.starts_with(PAD) { None } else { digests.remove(&name) };
            tensors.push(Tensor { digest, ..raw.check(name.into())? });
        }
        metadata.extend(digests.into_iter().map(|(name, digest)| (format!("{DIGEST}{name}"), digest)));
        tensors.sort_by_key(|tensor| (tensor.start, tensor.end));
        let mut end = 0;
        for tensor in &tensors {
            if tensor.start != end {
                let what = if tensor.start < end { "overlaps" } else { "leaves a gap after" };
                return Err(format!("section '{}': it starts at {}, which {what} {end}", tensor.name, tensor.start));
            }
            end = tensor.end;
        }
        if end != data.len() as u64 {
            return Err(format!("its sections hold {end} bytes, and the file has {}", data.len()));
        }
        Ok((Header { metadata, tensors }, PREFIX + length as usize))
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl RawTensor<'_> {
    fn check(self, name: Arc<str>) -> Result<Tensor, String> {
        let Some(dtype) = DType::from_safetensors_name(&self.dtype) else {
            return Err(format!("section '{name}': unknown element type '{}'", self.dtype));
        };
        let (start, end) = self.data_offsets;
        let length = end.checked_sub(start);
        if length.is_none() || length != byte_length(dtype, &self.shape) {
            let shape = self.shape;
            return Err(format!("section '{name}': {dtype}{shape:?} does not fill the bytes from {start} to {end}"));
        }
        Ok(Tensor { name, dtype, shape: self.shape, start, end, digest: None })
    }
}

/// The parsed JSON, with duplicate keys refused: readers differ in which of two they take.
struct RawHeader<'a> {
    metadata: Metadata<'a>,
    tensors: Vec<(Cow<'a, str>, RawTensor<'a>)>,
}

impl<'de> Deserialize<'de> for RawHeader<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = RawHeader<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a tensor under each key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader<'de>, A::Error> {
        let doubled = |key: &str| A::Error::custom(format!("doubled key '{key}'"));
        let (mut metadata, mut tensors) = (None, Vec::new());
        while let Some(Text(key)) = map.next_key()? {
            if key != METADATA {
                let tensor = map.next_value()?;
                tensors.push((key, tensor));
            } else if metadata.replace(map.next_value()?).is_some() {
                return Err(doubled(METADATA));
            }
        }
        let mut seen = HashSet::with_capacity(tensors.len());
        if let Some((key, _)) = tensors.iter().find(|(key, _)| !seen.insert(&**key)) {
            return Err(doubled(key));
        }
        Ok(RawHeader { metadata: metadata.unwrap_or_default(), tensors })
    }
}

/// The metadata: digests, by what they are of, and the rest.
#[derive(Default)]
struct Metadata<'a> {
    digests: HashMap<Cow<'a, str>, String>,
    others: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Metadata<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

/// A text that is part of the file where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut metadata = Metadata::default();
        while let Some((Text(key), value)) = map.next_entry::<Text<'de>, String>()? {
            let name = match &key {
                Cow::Borrowed(text) => text.strip_prefix(DIGEST).map(Cow::Borrowed),
                Cow::Owned(text) => text.strip_prefix(DIGEST).map(|name| Cow::Owned(name.to_owned())),
            };
            let doubled = |key: &str| Err(A::Error::custom(format!("doubled key '{key}'")));
            match name {
                Some(name) => {
                    if metadata.digests.insert(name, value).is_some() {
                        return doubled(&key);
                    }
                }
                None if metadata.others.contains_key(&*key) => return doubled(&key),
                None => drop(metadata.others.insert(key.into_owned(), value)),
            }
        }
        Ok(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(json: &str, data: usize) -> Vec<u8> {
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(json.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let metadata = [("producer", "a \"quoted\" one\n"), ("byoc_format", "1")];
        let tensor = |name: &str, dtype, shape: &[usize], start, end| Tensor {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            start,
            end,
            digest: (name == "const/0").then(|| "of it".to_owned()),
        };
        let header = Header {
            metadata: metadata.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            tensors: vec![
                tensor("empty", DType::F32, &[0, 3], 0, 0),
                tensor("const/0", DType::BF16, &[2, 3], 0, 12),
                tensor("scalar \u{1f980}", DType::I64, &[], 12, 20),
            ],
        };
        let mut bytes = header.encode().expect("encode");
        assert_eq!(bytes.len() % 4096, 0);
        let data = bytes.len();
        bytes.resize(data + 20, 0);
        assert_eq!(Header::decode(&bytes), Ok((header, data)));
    }

    #[test]
    fn types_that_the_format_has_not_are_bytes() {
        let cases: [(DType, &[usize], DType, &[usize]); 7] = [
            (DType::F32, &[2, 3], DType::F32, &[2, 3]),
            (DType::F8E4M3FN, &[3], DType::F8E4M3FN, &[3]),
            (DType::F8E5M2FNUZ, &[2, 3], DType::U8, &[6]),
            (DType::F4E2M1, &[3, 2], DType::F4E2M1, &[3, 2]),
            (DType::F4E2M1, &[3], DType::U8, &[2]),
            (DType::I4, &[2, 4], DType::U8, &[4]),
            (DType::U2, &[], DType::U8, &[1]),
        ];
        for (dtype, shape, named, as_shape) in cases {
            assert_eq!(carrier(dtype, shape), Some((named, as_shape.to_vec())), "{dtype}{shape:?}");
        }
        assert_eq!(carrier(DType::F32, &[usize::MAX, 2]), None);
    }

    /// The JSON, the bytes after it, and what is said.
    const FLAWS: [(&str, usize, &str); 16] = [
        ("", 0, "its header is not valid: EOF while parsing a value at line 1 column 0"),
        (
            "[]",
            0,
            "its header is not valid: invalid type: sequence, expected an object with a tensor under each key at line 1 column 0",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
            2,
            "its header is not valid: doubled key 'a' at line 1 column 105",
        ),
        (r#"{"__metadata__":{"a":"1","a":"2"}}"#, 0, "its header is not valid: doubled key 'a' at line 1 column 33"),
        (
            r#"{"__metadata__":{"b3:a":"1","b3:a":"2"}}"#,
            0,
            "its header is not valid: doubled key 'b3:a' at line 1 column 39",
        ),
        (
            r#"{"__metadata__":{"a":1}}"#,
            0,
            "its header is not valid: invalid type: integer `1`, expected a string at line 1 column 22",
        ),
        (
            r#"{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
            1,
            "its header is not valid: duplicate field `dtype` at line 1 column 26",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}"#,
            1,
            "its header is not valid: unknown field `x`, expected one of `dtype`, `shape`, `data_offsets` at line 1 column 55",
        ),
        (r#"{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}}"#, 1, "section 'a': unknown element type 'Q4'"),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#,
            4,
            "section 'a': f32[2] does not fill the bytes from 0 to 4",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
            8,
            "section 'a': f32[2] does not fill the bytes from 8 to 0",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[18446744073709551615,2],"data_offsets":[0,18446744073709551614]}}"#,
            4,
            "section 'a': u8[18446744073709551615, 2] does not fill the bytes from 0 to 18446744073709551614",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
            2,
            "section 'a': it starts at 1, which leaves a gap after 0",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
            3,
            "section 'b': it starts at 1, which overlaps 2",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
            2,
            "its sections hold 1 bytes, and the file has 2",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#,
            2,
            "its sections hold 3 bytes, and the file has 2",
        ),
    ];

    #[test]
    fn flaws_are_named() {
        let short: [(&[u8], &str); 3] = [
            (&[1, 2, 3], "it ends after 3 bytes"),
            (&[255; 9], "its header claims 18446744073709551615 bytes, more than the 100000000 that the format allows"),
            (&[9, 0, 0, 0, 0, 0, 0, 0, 1], "its header claims 9 bytes, and only 1 follow"),
        ];
        for (bytes, expected) in short {
            assert_eq!(Header::decode(bytes).expect_err(expected), expected);
        }
        for (json, data, expected) in FLAWS {
            assert_eq!(Header::decode(&file(json, data)).expect_err(expected), expected);
        }
    }
}

//! Metadata of a model file.

use std::collections::BTreeMap;
use std::path::Path;

use super::decode;
use crate::diagnostic::Result;
use crate::map;

/// Versions and origin of a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The version of the file format.
    pub ir_version: i64,
    /// The producer with its version; empty if not given.
    pub producer: String,
    /// The operator sets by domain; ONNX's own has the empty one.
    pub opsets: Vec<(String, i64)>,
    /// The metadata properties, by key.
    pub metadata: BTreeMap<String, String>,
}

/// Reads the metadata of the file at `path`.
pub fn file_info(path: &Path) -> Result<FileInfo> {
    let model = decode(path, map::map_file(path)?)?;
    let text = |bytes: Option<bytes::Bytes>| String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    let producer = [text(model.producer_name), text(model.producer_version)].join(" ").trim().to_owned();
    let opset = |import: super::proto::OperatorSetIdProto| match import.domain.unwrap_or_default() {
        // Both are names of ONNX's own domain.
        domain if domain == "ai.onnx" => (String::new(), import.version.unwrap_or(0)),
        domain => (domain, import.version.unwrap_or(0)),
    };
    let opsets = model.opset_import.into_iter().map(opset).collect();
    let metadata = model.metadata_props.into_iter().map(|entry| (text(entry.key), text(entry.value))).collect();
    Ok(FileInfo { ir_version: model.ir_version.unwrap_or(0), producer, opsets, metadata })
}

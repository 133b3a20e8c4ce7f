//! The ledger of an artifact: readers, owner and fate of every constant of the model, and which nodes its regions stand for. It is part of
//! the file, so `compile` and `inspect` show the same; in a section of its own, as no run needs it.

use byoc_plugin_api::DType;
use serde::{Deserialize, Serialize};

use super::LEDGER;
use super::manifest::Manifest;
use super::totals::Totals;

/// Readers, owner and fate of every constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The rows, in the order in which the model has the constants.
    pub rows: Vec<LedgerRow>,
    /// The sums.
    pub totals: Totals,
}

impl Ledger {
    /// The ledger of an artifact with these rows.
    pub fn of(manifest: &Manifest, rows: &[LedgerRow]) -> Ledger {
        Ledger { rows: rows.to_vec(), totals: Totals::of(manifest, rows) }
    }
}

/// A row of the ledger: one constant of the model. A constant that is stored in several forms has a row for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// The constant's number; rows of one constant share it.
    pub id: usize,
    /// Every name under which the model has it.
    pub names: Vec<String>,
    /// Those of the names under which the model has it transposed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transposed: Vec<String>,
    /// Element type of the original.
    pub dtype: DType,
    /// Shape of the original.
    pub shape: Vec<usize>,
    /// Bytes of the original: of one element where all are equal.
    pub bytes: u64,
    /// Bytes that the model has under all of the names together: each with bytes of its own, and with all elements.
    #[serde(default)]
    pub model_bytes: u64,
    /// The first 16 bytes of the BLAKE3 hash of the original's bytes, in hex: enough to know it by.
    pub digest: String,
    /// Its readers: symbols of regions, and `<entry>/<output>` for an output that is the constant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<String>,
    /// Owner of the bytes: `byoc`, or the backend that packed or embedded them; none if they are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its fate.
    pub fate: Fate,
    /// The stored constant that holds the bytes, an index into [`Manifest::constants`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<usize>,
    /// What else was compiled from these bytes, so that replacing them needs another compile: regions (by symbol)
    /// that embed them or only looked at them, constants computed from them, shapes that they decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compiled_in: Vec<String>,
    /// A remark, as a sentence without full stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How a constant ends up in the artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// The original bytes are in the file, or in one that it refers to.
    Stored,
    /// A backend's packed form is in the file.
    Packed,
    /// The bytes are inside a region's code.
    Embedded,
    /// It was computed into other constants while the model was compiled.
    Folded,
    /// It has no reader.
    Dropped,
    /// Its bytes are those of a stored constant that has a row of its own.
    Viewed,
}

/// An operator, for people to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// The name in the model.
    pub name: String,
    /// The operator, with its domain unless it is ONNX's own.
    pub op: String,
}

/// What the section of a ledger holds, as it is written or as it was read.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LedgerSection<R, N> {
    /// The rows.
    pub(super) constants: R,
    /// The nodes of each region of the graph, in its order.
    pub(super) nodes: N,
}

/// The section of a ledger: of that variant, or of a file without variants.
pub(super) fn ledger_section(variant: Option<&str>) -> String {
    match variant {
        Some(variant) => format!("{LEDGER}/{variant}"),
        None => LEDGER.to_owned(),
    }
}

//! The `graph` section: what the file holds and how it runs, as JSON. A reader ignores fields that it does not know;
//! fields are written in declaration order, so the same contents give the same bytes.

use std::collections::BTreeSet;

use byoc_plugin_api::{Allowance, ConstantId, DType, Dim, Options};
use serde::{Deserialize, Serialize};

mod control;
mod list;

pub use self::control::{Control, ControlKind};
pub use self::list::{ListOp, ListType};
use super::header::byte_length;
use crate::constants::View;

/// The whole section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format's version, at most [`crate::artifact::PLAIN_FORMAT`].
    pub format: u32,
    /// What wrote the file, such as `byoc 0.1.0`.
    pub producer: String,
    /// What a machine must have to run the file.
    pub requirements: Requirements,
    /// The callable main graphs, and the bodies of their control flow.
    pub entries: Vec<Entry>,
    /// The regions of all entries.
    pub regions: Vec<Region>,
    /// The stored constants; an index into this list is how everything else refers to one.
    pub constants: Vec<Stored>,
    /// Files beside the artifact that hold the bytes of constants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ConstantFile>,
}

impl Manifest {
    /// The names of the backends that the code of regions is for, each once.
    pub fn backends(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.regions.iter().map(|region| &region.backend).collect();
        names.into_iter().cloned().collect()
    }
}

/// A file that holds the bytes of constants in the artifact's place: a model, or the data beside one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstantFile {
    /// The path from the artifact's folder, with `/`; absolute only where there is no such path.
    pub path: String,
    /// Number of bytes.
    pub bytes: u64,
}

/// What a machine must have to run the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirements {
    /// The backends that generated code, in the order in which the user named them.
    pub backends: Vec<BackendRequirement>,
    /// Processor features on which packed constants or code depend, such as `avx2`; empty where nothing does.
    #[serde(default)]
    pub cpu_features: Vec<String>,
}

/// A backend that has to be there at load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendRequirement {
    /// The backend's name.
    pub name: String,
    /// Its version when it generated the code.
    pub version: String,
    /// The version of its code format; `load` is given code of this version only.
    pub code_version: u32,
    /// The plugin ABI it spoke.
    pub abi_version: u32,
}

/// One callable main graph, or a body of control flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name, unique in the file.
    pub name: String,
    /// Whether it is a body, which only control flow of entries before it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub body: bool,
    /// What the caller gives.
    pub inputs: Vec<Port>,
    /// What the caller gets.
    pub outputs: Vec<Port>,
    /// The tensors that pass between regions, the inputs and the outputs.
    pub values: Vec<ValueType>,
    /// Values that are constants: outputs of the graph that no region computes, and what control flow is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constants: Vec<ConstantValue>,
    /// The regions in an order in which they can run.
    pub calls: Vec<Call>,
    /// The control flow between them, in an order in which it can run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<Control>,
}

/// An input or an output of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The name in the model.
    pub name: String,
    /// Index into [`Entry::values`].
    pub value: usize,
}

/// Type and shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueType {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
    /// What it holds, if it is a sequence or an optional.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListType>,
}

/// A value of an entry that is a constant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstantValue {
    /// Index into [`Entry::values`].
    pub value: usize,
    /// The constant.
    #[serde(rename = "use")]
    pub used: ConstantUse,
}

/// A stored constant as one reader reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstantUse {
    /// Index into [`Manifest::constants`].
    pub constant: usize,
    /// How its elements are read. Row-major strides and an offset of 0 are left out of the file: most views are of whole
    /// constants, and small models have many small ones.
    #[serde(with = "written_view")]
    pub view: View,
}

/// One run of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Index into [`Manifest::regions`].
    pub region: usize,
    /// Indices into [`Entry::values`], in the order of [`Region::inputs`].
    pub inputs: Vec<usize>,
    /// Indices into [`Entry::values`], in the order of [`Region::outputs`].
    pub outputs: Vec<usize>,
}

/// The code of one region, and what it needs at load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// The region's name, `byoc_<entry>_<backend>_<n>`, unique in the file.
    pub symbol: String,
    /// The backend that generated the code, one of [`Requirements::backends`].
    pub backend: String,
    /// The backend's version when it did.
    pub backend_version: String,
    /// The version of its code format.
    pub code_version: u32,
    /// The plugin ABI it spoke.
    pub abi_version: u32,
    /// The kind of memory that it runs in, such as that of the device `cuda:0`; the host's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The backend's options when the region was compiled.
    #[serde(default)]
    pub options: Options,
    /// The section that holds the code. Regions of one backend that have the same code share it.
    pub code: String,
    /// How that code was chosen among several; absent where its backend has one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
    /// What its backend has told the user about the code, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How far its results may be off, where its backend computes with fewer bits than the model has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Allowance>,
    /// Whether values of the region are strings, so that it is lent the texts of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strings: bool,
    /// The constants of the region, by id.
    pub constants: Vec<Binding>,
    /// What `run` receives.
    pub inputs: Vec<ValueInfo>,
    /// What `run` computes.
    pub outputs: Vec<ValueInfo>,
}

/// How the code of a region was chosen among several that compute the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum Chosen {
    /// By its backend, which has not tried them.
    Table,
    /// By running all of them on a device.
    Tuned {
        /// What the device is.
        device: String,
        /// What the backend calls the code.
        candidate: String,
        /// How long it takes there.
        seconds: f64,
        /// How long the code took that was there before.
        before: f64,
    },
}

/// A constant of a region: the claim, and the bytes that are bound at load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The id by which the region knows it.
    pub id: ConstantId,
    /// The claim.
    pub claim: ClaimKind,
    /// The bytes; there for `Host` and `Packed`, absent for the others.
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    pub used: Option<ConstantUse>,
    /// The layout tag that `load` is given and checks; there for `Packed` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
}

/// A claim without its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "each variant is named after the claim of the plugin interface")]
pub enum ClaimKind {
    Host,
    Packed,
    Embedded,
    Unused,
}

/// A value with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueInfo {
    /// The name in the model, for messages.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
}

/// A constant whose bytes are in the file, or in one that it refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The section that holds the bytes, `const/<index>`. There is none of that name where `external` is set.
    pub section: String,
    /// Element type.
    pub dtype: DType,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// The layout tag, where the bytes are not the original but a backend's packed form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Alignment of the first byte that the readers ask for; 0 where the format's own is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub alignment: u64,
    /// Where the bytes are, if that is another file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
}

/// Bytes in another file, as many as the constant's type and shape say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// The file, an index into [`Manifest::files`].
    pub file: usize,
    /// The first byte.
    pub offset: u64,
    /// BLAKE3 of the bytes, in hex.
    pub digest: String,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The form of a view in the file.
mod written_view {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{View, is_default};

    #[derive(Serialize, Deserialize)]
    struct WrittenView {
        shape: Vec<usize>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        strides: Option<Vec<i64>>,
        #[serde(default, skip_serializing_if = "is_default")]
        offset: usize,
    }

    pub(super) fn serialize<S: Serializer>(view: &View, serializer: S) -> Result<S::Ok, S::Error> {
        let strides = (view.strides != row_major(&view.shape)).then(|| view.strides.clone());
        WrittenView { shape: view.shape.clone(), strides, offset: view.offset }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<View, D::Error> {
        let WrittenView { shape, strides, offset } = WrittenView::deserialize(deserializer)?;
        let strides = strides.unwrap_or_else(|| row_major(&shape));
        Ok(View { shape, strides, offset })
    }

    /// Row-major strides of a shape that may come from a damaged file, so the product is checked.
    fn row_major(shape: &[usize]) -> Vec<i64> {
        let mut strides = vec![1i64; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(i64::try_from(shape[axis].max(1)).unwrap_or(i64::MAX));
        }
        strides
    }
}

impl Stored {
    /// Number of bytes; `None` on overflow.
    pub fn bytes(&self) -> Option<u64> {
        byte_length(self.dtype, &self.shape)
    }

    /// Where the bytes are, for people to read: the section, or the other file and the first byte there.
    pub fn place(&self, files: &[ConstantFile]) -> String {
        let external = self.external.as_ref().and_then(|external| Some((external, files.get(external.file)?)));
        match external {
            Some((external, file)) => format!("{}@{}", file.path, external.offset),
            None => self.section.clone(),
        }
    }
}

//! Sequences and optionals in the `graph` section.

use byoc_plugin_api::{DType, Dim};
use serde::{Deserialize, Serialize};

/// What a value holds that is a sequence or an optional. The value itself is one `u64`: a handle, by which the runtime finds the
/// tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListType {
    /// Whether it may hold nothing at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Whether it is a sequence of tensors; otherwise it is one tensor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sequence: bool,
    /// Element type of the tensors.
    pub dtype: DType,
    /// Size of each dimension of the tensors, none where they may differ in it; absent where they may differ in the number of
    /// dimensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<Option<Dim>>>,
}

impl std::fmt::Display for ListType {
    /// As in the text form of a graph: `seq(f32[3,?])`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = |size: &Option<Dim>| size.as_ref().map_or_else(|| "?".into(), Dim::to_string);
        let sizes = self.shape.as_ref().map(|shape| shape.iter().map(size).collect::<Vec<_>>().join(","));
        let tensor = format!("{}{}", self.dtype, sizes.map_or_else(String::new, |sizes| format!("[{sizes}]")));
        match (self.optional, self.sequence) {
            (false, false) => f.write_str(&tensor),
            (true, false) => write!(f, "optional({tensor})"),
            (false, true) => write!(f, "seq({tensor})"),
            (true, true) => write!(f, "optional(seq({tensor}))"),
        }
    }
}

/// What is done with sequences and optionals, as ONNX has it. Inputs that the operator may leave out are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "does", rename_all = "snake_case")]
pub enum ListOp {
    /// `SequenceEmpty` and `SequenceConstruct`: a sequence of the inputs.
    Construct,
    /// `SequenceInsert`: a sequence with a tensor more, the second input, at a position or at the end.
    Insert,
    /// `SequenceErase`: a sequence without the tensor at a position or the last one.
    Erase,
    /// `SequenceAt`: the tensor at a position.
    At,
    /// `SequenceLength`: how many tensors there are.
    Length,
    /// `ConcatFromSequence`: the tensors along an axis.
    Concat {
        /// The axis.
        axis: i64,
        /// Whether it is a new one.
        new_axis: bool,
    },
    /// `SplitToSequence`: the parts of a tensor along an axis, of the sizes that the second input says or of 1.
    Split {
        /// The axis.
        axis: i64,
        /// Whether parts of 1 have the axis.
        keepdims: bool,
    },
    /// `Optional` and `Identity`: the input, or nothing.
    Wrap,
    /// `OptionalHasElement`: whether there is something.
    HasElement,
    /// `OptionalGetElement`: what there is.
    GetElement,
}

impl ListOp {
    /// How many inputs there may be at least and at most.
    pub(crate) fn inputs(&self) -> (usize, usize) {
        match self {
            ListOp::Construct => (0, usize::MAX),
            ListOp::Insert => (2, 3),
            ListOp::At => (2, 2),
            ListOp::Erase | ListOp::Split { .. } => (1, 2),
            ListOp::Wrap => (0, 1),
            ListOp::Length | ListOp::Concat { .. } | ListOp::HasElement | ListOp::GetElement => (1, 1),
        }
    }
}

//! Operators on sequences and optionals. The importer takes them out of the graph where the model fixes what is in a sequence:
//! no backend sees one.

use super::ANY;
use super::attributes::{self, AttributeDef, Default, Kind};

/// An operator on sequences or optionals.
#[derive(Clone, Debug)]
pub struct ListDef {
    /// The ONNX name.
    pub name: &'static str,
    /// The first operator-set version that has it.
    pub since: i64,
    /// Fewest and most inputs.
    pub inputs: (usize, usize),
    /// Its attributes.
    pub attributes: attributes::List,
}

const CONCAT: attributes::List = &[
    AttributeDef::new("axis", Kind::Int, Default::Required),
    AttributeDef::new("new_axis", Kind::Int, Default::Int(0)),
];
const EMPTY: attributes::List = &[AttributeDef::new("dtype", Kind::Int, Default::Int(1))];
const SPLIT: attributes::List =
    &[AttributeDef::new("axis", Kind::Int, Default::Int(0)), AttributeDef::new("keepdims", Kind::Int, Default::Int(1))];

/// Every one of them.
pub static LISTS: &[ListDef] = &[
    ListDef { name: "ConcatFromSequence", since: 11, inputs: (1, 1), attributes: CONCAT },
    // Its attribute is a type, which its input has as well.
    ListDef { name: "Optional", since: 15, inputs: (0, 1), attributes: &[] },
    ListDef { name: "OptionalGetElement", since: 15, inputs: (1, 1), attributes: &[] },
    ListDef { name: "OptionalHasElement", since: 15, inputs: (0, 1), attributes: &[] },
    ListDef { name: "SequenceAt", since: 11, inputs: (2, 2), attributes: &[] },
    ListDef { name: "SequenceConstruct", since: 11, inputs: (1, ANY), attributes: &[] },
    ListDef { name: "SequenceEmpty", since: 11, inputs: (0, 0), attributes: EMPTY },
    ListDef { name: "SequenceErase", since: 11, inputs: (1, 2), attributes: &[] },
    ListDef { name: "SequenceInsert", since: 11, inputs: (2, 3), attributes: &[] },
    ListDef { name: "SequenceLength", since: 11, inputs: (1, 1), attributes: &[] },
    ListDef { name: "SplitToSequence", since: 11, inputs: (1, 2), attributes: SPLIT },
];

/// The operator of that name, if it is one.
pub fn find(domain: &str, op: &str) -> Option<&'static ListDef> {
    matches!(domain, "" | "ai.onnx").then(|| LISTS.iter().find(|def| def.name == op)).flatten()
}

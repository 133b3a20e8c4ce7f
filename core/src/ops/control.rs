//! Operators that run graphs: core drives them itself, and no backend is asked about them.

use super::ANY;
use super::attributes::{self, Default, Kind};

/// A control-flow operator.
#[derive(Clone, Debug)]
pub struct ControlDef {
    /// The ONNX name.
    pub name: &'static str,
    /// The first operator-set version whose form is supported.
    pub since: i64,
    /// The attributes that hold graphs; every node has all of them.
    pub bodies: &'static [&'static str],
    /// Its other attributes.
    pub attributes: attributes::List,
    /// Fewest and most inputs.
    pub inputs: (usize, usize),
}

/// The attributes of `Scan` that do not hold a graph.
const SCAN: attributes::List = &[
    attributes::AttributeDef::new("num_scan_inputs", Kind::Int, Default::Required),
    attributes::AttributeDef::new("directions", Kind::Ints, Default::Absent).until(8),
    attributes::AttributeDef::new("scan_input_axes", Kind::Ints, Default::Absent).since(9),
    attributes::AttributeDef::new("scan_input_directions", Kind::Ints, Default::Absent).since(9),
    attributes::AttributeDef::new("scan_output_axes", Kind::Ints, Default::Absent).since(9),
    attributes::AttributeDef::new("scan_output_directions", Kind::Ints, Default::Absent).since(9),
];

/// Every one of them.
pub static CONTROL: &[ControlDef] = &[
    ControlDef { name: "If", since: 1, bodies: &["then_branch", "else_branch"], attributes: &[], inputs: (1, 1) },
    // The limit of iterations and the condition may be left out.
    ControlDef { name: "Loop", since: 1, bodies: &["body"], attributes: &[], inputs: (0, ANY) },
    ControlDef { name: "Scan", since: 8, bodies: &["body"], attributes: SCAN, inputs: (1, ANY) },
    // The first input is a sequence, the others are sequences of as many tensors, or tensors.
    ControlDef { name: "SequenceMap", since: 17, bodies: &["body"], attributes: &[], inputs: (1, ANY) },
];

/// The control-flow operator of that name, if it is one.
pub fn find(domain: &str, op: &str) -> Option<&'static ControlDef> {
    matches!(domain, "" | "ai.onnx").then(|| CONTROL.iter().find(|def| def.name == op)).flatten()
}

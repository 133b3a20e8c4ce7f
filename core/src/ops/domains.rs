//! The domains whose operators core knows, and the operators of them that it knows not to carry.

use super::{OPS, OpDef, ml, strings, training};

/// A domain: operators with versions of their own.
#[derive(Clone, Debug)]
pub struct Domain {
    /// The name; empty for ONNX's own.
    pub name: &'static str,
    /// The newest version of its operator set that this build knows.
    pub newest: i64,
    /// The operators, by name.
    pub operators: &'static [OpDef],
    /// Those that are not carried.
    pub refused: &'static [Reason],
}

/// Why an operator of a known domain is not carried.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The operator.
    pub name: &'static str,
    /// What is said of it.
    pub cause: &'static str,
    /// What a user can do.
    pub remedy: &'static str,
}

/// The newest operator set of ONNX's own domain that this build knows.
pub const NEWEST: i64 = 28;

/// Operators of ONNX's own domain that are not carried.
const REFUSED: &[Reason] = &[Reason {
    name: "ImageDecoder",
    cause: "reads the formats of image files, which byoc does not",
    remedy: "Decode images before the model, and give it the tensor of pixels",
}];

/// Every one of them.
pub static DOMAINS: &[Domain] = &[
    Domain { name: "", newest: NEWEST, operators: OPS, refused: REFUSED },
    Domain { name: ml::DOMAIN, newest: 5, operators: ml::OPS, refused: ml::REFUSED },
    Domain { name: strings::DOMAIN, newest: 1, operators: strings::OPS, refused: &[] },
    Domain { name: training::DOMAIN, newest: 1, operators: training::OPS, refused: &[] },
];

/// The domain of that name; both spellings of ONNX's own are one.
pub fn domain(name: &str) -> Option<&'static Domain> {
    let name = if name == "ai.onnx" { "" } else { name };
    DOMAINS.iter().find(|domain| domain.name == name)
}

/// The operators of all domains.
pub fn all() -> impl Iterator<Item = &'static OpDef> {
    DOMAINS.iter().flat_map(|domain| domain.operators)
}

/// Why an operator is not carried, where its domain is known.
pub fn reason(domain: &str, op: &str) -> Option<&'static Reason> {
    self::domain(domain)?.refused.iter().find(|reason| reason.name == op)
}

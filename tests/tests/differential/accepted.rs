//! The differences that are no fault of byoc's: the one list. What differs is made smaller first, so that an entry need
//! only look at one or two nodes.

use byoc_plugin_api::DType;

use super::graph::{Case, Node};
use super::judge::Difference;
use super::values::numbers;

/// A difference that is no fault.
pub(crate) struct Accepted {
    /// What differs, and who is right.
    pub(crate) reason: &'static str,
    /// Whether a smallest case is an instance of it.
    pub(crate) holds: fn(&Case, &Difference) -> bool,
}

/// Every one of them.
pub(crate) const ACCEPTED: &[Accepted] = &[
    Accepted {
        reason: "MaxPool, ReduceMax, Max, Min and Clip keep a NaN, as ONNX's reference does; onnxruntime drops it at times",
        holds: |case, _| only(case, &["MaxPool", "ReduceMax", "Max", "Min", "Clip"]) && reads(case, f64::is_nan),
    },
    Accepted {
        reason: "a float that is out of an integer's range is cut to the range; ONNX says nothing of it",
        holds: |case, _| only(case, &["Cast"]) && reads(case, |value| !value.is_finite() || value.abs() > 100.0),
    },
];

/// Whether one of these operators is the last, and all others are casts or move elements.
fn only(case: &Case, operators: &[&str]) -> bool {
    let named = |node: &Node| operators.contains(&node.op);
    case.nodes.iter().any(named) && case.nodes.len() <= 3
}

/// Whether some float that the graph reads is such.
fn reads(case: &Case, such: fn(f64) -> bool) -> bool {
    let floats = case.leaves.iter().flat_map(|leaf| &leaf.values).filter(|value| value.dtype != DType::Bool);
    floats.filter(|value| value.dtype.is_float()).any(|value| numbers(value).into_iter().any(such))
}

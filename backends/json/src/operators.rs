//! Operators that json brings beside those that core knows: widespread ones of onnxruntime's own domain.

mod dynamic_quantize_lstm;
mod matmul_nbits;

use byoc_plugin_api::{Dim, Error, Operator, OutputType, Region, Value};

/// The domain of onnxruntime's operators.
const MICROSOFT: &str = "com.microsoft";

/// The operators.
pub(crate) fn operators() -> Vec<Operator> {
    vec![dynamic_quantize_lstm::operator(), matmul_nbits::operator()]
}

/// The types of the outputs of a node of them.
pub(crate) fn infer(candidate: &Region) -> Result<Vec<OutputType>, Error> {
    let node = candidate.nodes.first().ok_or_else(|| Error::new("there is no node"))?;
    match node.op.as_str() {
        dynamic_quantize_lstm::NAME => dynamic_quantize_lstm::infer(candidate, node),
        _ => matmul_nbits::infer(candidate, node),
    }
}

fn text(value: &Value) -> String {
    let sizes: Vec<_> = value.shape.iter().map(Dim::to_string).collect();
    format!("{}[{}]", value.dtype, sizes.join(", "))
}

//! Which regions the backend supports, and why it refuses others.

use byoc_plugin_api::{DType, Pattern, Refusal, RefusalCode, Region};

pub(crate) fn patterns() -> Vec<Pattern> {
    vec![Pattern::new("add", "(Add ?x ?y)")]
}

/// Accepts f32 tensors that need no broadcasting.
pub(crate) fn check(candidate: &Region) -> Result<(), Refusal> {
    let node = &candidate.nodes[0];
    let operands: Vec<_> = node.inputs.iter().flatten().map(|&value| &candidate.values[value]).collect();
    if let Some(value) = operands.iter().find(|value| value.dtype != DType::F32) {
        return Err(Refusal::new(RefusalCode::Type, format!("'{}' is {}, only f32 is taken", value.name, value.dtype)));
    }
    if operands[0].shape != operands[1].shape {
        let message = format!("'{}' and '{}' differ in shape", operands[0].name, operands[1].name);
        return Err(Refusal::new(RefusalCode::Shape, message));
    }
    Ok(())
}

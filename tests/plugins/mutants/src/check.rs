//! What every backend asks of a candidate: element types, and constants where the kernels are made for them.

use byoc_plugin_api::{DType, Node, Refusal, RefusalCode, Region, Value};

const INDICES: &[DType] = &[DType::I64, DType::I32];

/// The types of an input that there is code for.
fn taken(op: &str, input: usize) -> &'static [DType] {
    match (op, input) {
        ("Where", 0) => &[DType::Bool],
        ("Gather" | "GatherElements" | "CumSum" | "Reshape" | "Expand" | "Tile" | "Squeeze" | "Unsqueeze", 1) => {
            INDICES
        }
        ("Split" | "Trilu", 1) | ("Slice", 1..) | ("Pad", 1 | 3) | ("Resize", 3) => INDICES,
        (op, 1) if op.starts_with("Reduce") => INDICES,
        _ => &[DType::F32],
    }
}

/// Inputs that must be constants, if they are there.
fn fixed(op: &str) -> &'static [usize] {
    match op {
        "Slice" => &[1, 2, 3, 4],
        "Pad" => &[1, 2, 3],
        "Resize" => &[1, 2, 3],
        "CumSum" | "Expand" | "Reshape" | "Split" | "Squeeze" | "Tile" | "Trilu" | "Unsqueeze" => &[1],
        _ if op.starts_with("Reduce") => &[1],
        _ => &[],
    }
}

/// Refuses element types without code.
pub(crate) fn types(region: &Region, node: &Node) -> Result<(), Refusal> {
    let refuse = |value: &Value| {
        let message = format!("'{}' is {}, which {} is not computed with", value.name, value.dtype, node.op);
        Err(Refusal::new(RefusalCode::Type, message))
    };
    for (index, value) in node.inputs.iter().enumerate() {
        let Some(value) = value.map(|value| &region.values[value]) else { continue };
        if !taken(&node.op, index).contains(&value.dtype) {
            return refuse(value);
        }
    }
    let result = if node.op.starts_with("Arg") { DType::I64 } else { DType::F32 };
    let mut outputs = node.outputs.iter().flatten().map(|&value| &region.values[value]);
    outputs.find(|value| value.dtype != result).map_or(Ok(()), refuse)
}

/// Refuses inputs that are no constants and must be.
pub(crate) fn constants(region: &Region, node: &Node) -> Result<(), Refusal> {
    let inputs = fixed(&node.op).iter().filter_map(|&index| node.input(index));
    match inputs.into_iter().find(|&value| region.constant(value).is_none()) {
        None => Ok(()),
        Some(value) => {
            let message = format!("'{}' must be a constant", region.values[value].name);
            Err(Refusal::new(RefusalCode::ConstantNeeded, message))
        }
    }
}

/// Number of dimensions of an input; 0 if it is absent.
pub(crate) fn rank(region: &Region, node: &Node, input: usize) -> usize {
    node.input(input).map_or(0, |value| region.values[value].shape.len())
}

/// Refuses any other number of dimensions of the first input.
pub(crate) fn ranks(region: &Region, node: &Node, taken: &[usize]) -> Result<(), Refusal> {
    let rank = rank(region, node, 0);
    if taken.contains(&rank) {
        return Ok(());
    }
    Err(Refusal::new(RefusalCode::Shape, format!("{} of {rank} dimensions has no kernel", node.op)))
}

/// Refuses a text attribute that is none of these.
pub(crate) fn text(node: &Node, name: &str, default: &str, taken: &[&str]) -> Result<(), Refusal> {
    let found = node.string(name, default);
    if taken.contains(&found) {
        return Ok(());
    }
    Err(Refusal::new(RefusalCode::Attribute, format!("{name} {found} of {} has no kernel", node.op)))
}

/// Refuses a node of which more than the first output is wanted.
pub(crate) fn one_output(node: &Node) -> Result<(), Refusal> {
    match node.outputs.iter().skip(1).flatten().next() {
        None => Ok(()),
        Some(_) => Err(Refusal::new(RefusalCode::Other, format!("only the first output of {} is computed", node.op))),
    }
}

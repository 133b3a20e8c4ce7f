//! What the backend takes, and why not.

use byoc_plugin_api::{DType, Node, Pattern, Refusal, RefusalCode, Region};

use crate::reference;

/// One pattern for each operator that has a reference kernel.
pub(crate) fn patterns() -> Vec<Pattern> {
    let pattern = |kernel: &reference::Kernel| {
        let (domain, op) = kernel.op.rsplit_once('.').unwrap_or(("", kernel.op));
        let name = if domain.is_empty() { op.to_owned() } else { format!("{domain}::{op}") };
        Pattern::new(op.to_lowercase(), format!("({name} ...)"))
    };
    reference::kernels().map(pattern).collect()
}

/// Accepts nodes whose operator and element types have a reference kernel: what no fast kernel takes, that one does.
pub(crate) fn check(candidate: &Region) -> Result<(), Refusal> {
    candidate.nodes.iter().try_for_each(|node| check_node(candidate, node))
}

fn check_node(candidate: &Region, node: &Node) -> Result<(), Refusal> {
    let op = reference::qualified(node);
    if !reference::knows(&op) {
        let domain = if node.domain.is_empty() { "ai.onnx." } else { "" };
        return Err(Refusal::new(RefusalCode::Other, format!("there is no kernel for {domain}{op}")));
    }
    let dtype = |value: &Option<usize>| value.map(|value| candidate.values[value].dtype);
    let types: Vec<Option<DType>> = node.inputs.iter().map(dtype).collect();
    if let Some(cause) = reference::refusal(node) {
        return Err(Refusal::new(RefusalCode::Other, cause));
    }
    reference::supports(&op, &types).map_err(|message| Refusal::new(RefusalCode::Type, message))
}

//! Nodes that core runs itself, as the artifact has them.

use super::Values;
use crate::artifact::manifest::{Control, ControlKind, ListOp};
use crate::codegen::Generated;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Graph, Node, ValueId};
use crate::partition::ControlPlan;

/// A node with a place for each value that it gives.
pub(super) fn of(generated: &Generated, plan: &ControlPlan, values: &mut Values<'_>) -> Result<Control> {
    let graphs = &generated.model.entries;
    let graph = &graphs[plan.entry];
    let node = &graph.nodes[plan.node];
    let kind = kind_of(graph, node).ok_or_else(|| {
        let message = format!("entry '{}': node '{}' is not control flow", graph.entry(), node.name);
        Diagnostic::new(Code::BadGraph, message)
    })?;
    let outputs = node.outputs.iter().map(|output| output.map(|id| values.number(id)).transpose());
    let mut outputs: Vec<_> = outputs.collect::<Result<_>>()?;
    if let Some(&body) = kind.bodies().first() {
        let condition = usize::from(matches!(kind, ControlKind::Loop { .. }));
        outputs.resize(graphs[body].outputs.len() - condition, None);
    }
    let inputs = values.numbers(&node.inputs.iter().copied().flatten().collect::<Vec<_>>())?;
    Ok(Control { name: node.name.clone(), before: plan.before, kind, inputs, outputs })
}

fn kind_of(graph: &Graph, node: &Node) -> Option<ControlKind> {
    let Some(bodies) = &node.bodies else { return list_op(node).map(ControlKind::List) };
    let own = node.inputs.len() - bodies.captured;
    Some(match (node.op.as_str(), bodies.graphs.as_slice()) {
        ("If", &[then_branch, else_branch]) => ControlKind::If { then_branch, else_branch },
        ("Loop", &[body]) => ControlKind::Loop { body, carried: own.saturating_sub(2) },
        ("Scan", &[body]) => {
            let ints = |name: &str| node.ints(name).map(<[i64]>::to_vec).unwrap_or_default();
            let scanned = usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or(0);
            ControlKind::Scan {
                body,
                carried: own.saturating_sub(scanned),
                scanned,
                input_axes: ints("scan_input_axes"),
                input_directions: ints("scan_input_directions"),
                output_axes: ints("scan_output_axes"),
                output_directions: ints("scan_output_directions"),
            }
        }
        ("SequenceMap", &[body]) => {
            let list = |id: &Option<ValueId>| id.is_some_and(|id| graph.value(id).list.is_some());
            ControlKind::SequenceMap { body, mapped: node.inputs[..own].iter().map(list).collect() }
        }
        _ => return None,
    })
}

fn list_op(node: &Node) -> Option<ListOp> {
    let flag = |name: &str, default: i64| node.int(name, default) != 0;
    Some(match node.op.as_str() {
        "SequenceEmpty" | "SequenceConstruct" => ListOp::Construct,
        "SequenceInsert" => ListOp::Insert,
        "SequenceErase" => ListOp::Erase,
        "SequenceAt" => ListOp::At,
        "SequenceLength" => ListOp::Length,
        "ConcatFromSequence" => ListOp::Concat { axis: node.int("axis", 0), new_axis: flag("new_axis", 0) },
        "SplitToSequence" => ListOp::Split { axis: node.int("axis", 0), keepdims: flag("keepdims", 1) },
        "Optional" | "Identity" => ListOp::Wrap,
        "OptionalHasElement" => ListOp::HasElement,
        "OptionalGetElement" => ListOp::GetElement,
        _ => return None,
    })
}

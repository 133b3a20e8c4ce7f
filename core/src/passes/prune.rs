//! Removes dead nodes, and no-ops such as `Identity`.

use std::collections::{HashMap, HashSet};

use crate::ir::{Graph, Model, ValueId};
use crate::ops::{self, NoOp};

/// Prunes every entry. The names of inputs and outputs stay.
pub(crate) fn prune(model: &mut Model) {
    for graph in &mut model.entries {
        bypass_identities(graph);
        remove_dead(graph);
    }
}

/// Lets readers of an identity's output read its input instead. An identity stays where it gives an output of the
/// graph its name and its input has a name to keep as well: as an input, a constant or another output.
fn bypass_identities(graph: &mut Graph) {
    let mut renamed: HashMap<ValueId, ValueId> = HashMap::new();
    let made: HashSet<ValueId> = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied()).collect();
    let mut kept = Vec::with_capacity(graph.nodes.len());
    for mut node in std::mem::take(&mut graph.nodes) {
        for input in node.inputs.iter_mut().flatten() {
            *input = *renamed.get(input).unwrap_or(input);
        }
        let (Some(input), Some(output)) = (node.input(0), node.output(0)) else {
            kept.push(node);
            continue;
        };
        let (before, after) = (&graph.value(input).ty, &graph.value(output).ty);
        let def = ops::find(&node.domain, &node.op);
        let idle = match (def, before, after) {
            // A reshape to another shape is a no-op for the bytes, yet its readers want the new shape.
            (Some(def), Some(before), Some(after)) => {
                def.no_op != NoOp::Never && before == after && def.is_no_op(&node, before, after)
            }
            _ => false,
        };
        let is_output = |value: &ValueId| graph.outputs.contains(value);
        if !idle {
            kept.push(node);
        } else if !is_output(&output) {
            renamed.insert(output, input);
        } else if made.contains(&input) && !is_output(&input) {
            // The input takes over the output's name and place.
            let name = graph.value(output).name.clone();
            graph.values[output.0].name = format!("{name}_bypassed");
            graph.values[input.0].name = name;
            graph.outputs.iter_mut().filter(|value| **value == output).for_each(|value| *value = input);
            renamed.insert(output, input);
        } else {
            kept.push(node);
        }
    }
    graph.nodes = kept;
}

fn remove_dead(graph: &mut Graph) {
    let mut wanted: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut kept = Vec::with_capacity(graph.nodes.len());
    for mut node in std::mem::take(&mut graph.nodes).into_iter().rev() {
        for output in node.outputs.iter_mut() {
            *output = output.filter(|output| wanted.contains(output));
        }
        if node.outputs.iter().any(Option::is_some) {
            wanted.extend(node.inputs.iter().flatten());
            kept.push(node);
        }
    }
    kept.reverse();
    graph.nodes = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::testing::graph;

    fn ops(graph: &Graph) -> Vec<String> {
        let name = |value: Option<ValueId>| value.map_or("-".into(), |id| graph.value(id).name.clone());
        let text = |node: &crate::ir::Node| format!("{} {}->{}", node.op, name(node.input(0)), name(node.output(0)));
        graph.nodes.iter().map(text).collect()
    }

    #[test]
    fn identities_and_dead_nodes_go_and_names_stay() {
        let mut pruned = graph(
            &["x"],
            &[
                ("Identity", vec!["x"], vec!["a"]),
                ("Relu", vec!["a"], vec!["b"]),
                ("Identity", vec!["b"], vec!["y"]),
                ("Exp", vec!["b"], vec!["dead"]),
                ("Identity", vec!["x"], vec!["z"]),
            ],
            &["y", "z"],
        );
        bypass_identities(&mut pruned);
        remove_dead(&mut pruned);
        assert_eq!(ops(&pruned), ["Relu x->y", "Identity x->z"]);
        let outputs: Vec<_> = pruned.outputs.iter().map(|&id| pruned.value(id).name.as_str()).collect();
        assert_eq!(outputs, ["y", "z"]);
    }
}

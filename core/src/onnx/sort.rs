//! Nodes in topological order. Nodes that are in one already stay where they are.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::bodies::captured;
use super::flatten::FlatNode;
use crate::diagnostic::{Code, Diagnostic, Result};

/// Sorts `nodes`. `given` says whether a value comes from outside of them; any other one must be a node's output.
pub(super) fn topological(nodes: Vec<FlatNode>, given: impl Fn(&str) -> bool) -> Result<Vec<FlatNode>> {
    let mut producer = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for output in node.outputs.iter().filter(|output| !output.is_empty()) {
            if given(output) || producer.insert(output.as_str(), index).is_some() {
                return Err(bad(format!("node '{}': value '{output}' is defined twice", node.name)));
            }
        }
    }
    let mut missing = vec![0; nodes.len()];
    let mut readers = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let read = node.inputs.iter().map(String::as_str).chain(captured(node));
        for input in read.filter(|input| !input.is_empty() && !given(input)) {
            let Some(&source) = producer.get(input) else {
                let own = node.inputs.iter().any(|name| name == input);
                let what =
                    if own { format!("its input '{input}'") } else { format!("'{input}', which its body reads") };
                return Err(bad(format!("node '{}': nothing defines {what}", node.name)));
            };
            missing[index] += 1;
            readers[source].push(index);
        }
    }
    let order = order(missing, &readers);
    if order.len() < nodes.len() {
        let name = on_cycle(&nodes, &producer, &order);
        return Err(bad(format!("node '{name}' is part of a cycle")));
    }
    let mut nodes: Vec<_> = nodes.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|index| nodes[index].take()).collect())
}

/// Kahn's algorithm; of the nodes that are ready, the first of the file comes first.
fn order(mut missing: Vec<usize>, readers: &[Vec<usize>]) -> Vec<usize> {
    let ready = |(index, &count): (usize, &usize)| (count == 0).then_some(Reverse(index));
    let mut heap: BinaryHeap<_> = missing.iter().enumerate().filter_map(ready).collect();
    let mut order = Vec::with_capacity(missing.len());
    while let Some(Reverse(index)) = heap.pop() {
        order.push(index);
        for &reader in &readers[index] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                heap.push(Reverse(reader));
            }
        }
    }
    order
}

/// The name of a node on a cycle. What is left over includes nodes behind the cycle, so this walks backwards, from one
/// leftover node to another that it waits for, until it meets one again.
fn on_cycle<'a>(nodes: &'a [FlatNode], producer: &HashMap<&str, usize>, order: &[usize]) -> &'a str {
    let mut left = vec![true; nodes.len()];
    order.iter().for_each(|&index| left[index] = false);
    let mut seen = vec![false; nodes.len()];
    let mut at = left.iter().position(|&left| left).unwrap_or(0);
    while !seen[at] {
        seen[at] = true;
        let read = nodes[at].inputs.iter().map(String::as_str).chain(captured(&nodes[at]));
        let mut sources = read.filter_map(|input| producer.get(input).copied());
        at = sources.find(|&source| left[source]).unwrap_or(at);
    }
    &nodes[at].name
}

fn bad(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadGraph, message)
}
